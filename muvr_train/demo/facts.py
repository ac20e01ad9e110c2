"""What a video shows, by the words that tags have for it, as far as the plan decides it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from muvr_train.demo.draw_dancer import clothes_of
from muvr_train.demo.draw_mask import mask_actor
from muvr_train.demo.scenario import Shot, Video
from muvr_train.demo.spec import FRAMES

SPRITE_TAGS = ("ball", "balloon", "boat", "bus", "car")
CLOTHES_TAGS = ("black", "blue", "orange", "red", "white")
"""Kinds and colours that frame features tell well: a linear probe finds them in held-out videos (AUC over 0.8)."""
CLOSE, WASHED_OUT = 1.35, 0.65
"""From this zoom on a view is close; up to this saturation colours are washed out."""

LEAST_FRAMES = 8
LEAST_SAMPLES, LEAST_PIXELS = 2, 48
SAMPLED = range(2, FRAMES, 4)
"""The frames that 15 uniform samples take: what is on none of them is in no feature."""

Facts = Mapping[str, bool | None]
"""Tag -> True, or None where it is neither plainly to be seen nor plainly absent. A tag that is not there is false."""


def facts_of(video: Video) -> Facts:
    """Tell which tags are true of a video.

    A tag is true of what lasts for `LEAST_FRAMES` frames, and of sprites that show `LEAST_PIXELS` pixels on
    `LEAST_SAMPLES` of the frames in `SAMPLED`; it is false of what no frame has.
    """
    frames: Counter[str] = Counter()
    for shot in video.shots:
        frames.update(dict.fromkeys(_of_shot(shot), shot.frames))
    facts: dict[str, bool | None] = {tag: True if count >= LEAST_FRAMES else None for tag, count in frames.items()}
    facts |= _sprites(video)
    return facts | {tag: None for tag in _partly(video) if not facts.get(tag)}


def _of_shot(shot: Shot) -> Iterator[str]:
    """What every frame of a shot has, sprites aside."""
    if shot.scene is None:
        yield "title card"
        return
    yield from (shot.scene.kind, shot.scene.time)
    look, camera = shot.look, shot.camera
    yield from (kind for kind in ("caption", "logo") if look.overlay in (kind, "both"))
    edits = {"picture in picture": look.inset_scene, "blurred": look.blur, "tilted": camera.turn}
    yield from (tag for tag, edit in edits.items() if edit)
    if camera.zoom >= CLOSE:
        yield "close view"
    if look.saturation <= WASHED_OUT:
        yield "washed out"
    if len(shot.actors) >= 3:
        yield "three things"
    colours = {colour for actor in shot.actors if actor.kind == "dancer" for colour in clothes_of(actor.style)}
    yield from (f"{colour} clothes" for colour in CLOTHES_TAGS if colour in colours)


def _sprites(video: Video) -> dict[str, bool | None]:
    samples: Counter[str] = Counter()
    first = 0
    for shot in video.shots:
        for number, actor in enumerate(shot.actors):
            if actor.kind in SPRITE_TAGS:
                samples[actor.kind] += 0
                for index in (frame - first for frame in SAMPLED if first <= frame < first + shot.frames):
                    if samples[actor.kind] < LEAST_SAMPLES:
                        samples[actor.kind] += bool(mask_actor(shot, index, number).sum() >= LEAST_PIXELS)
        first += shot.frames
    return {kind: True if count >= LEAST_SAMPLES else None for kind, count in samples.items()}


def _partly(video: Video) -> Iterator[str]:
    """What a place shows by itself: boats lie in every harbour, and another place lies around a picture in picture."""
    for shot in video.shots:
        around = shot.look.inset_scene
        if around is not None:
            yield from (around.kind, around.time)
        if any(scene is not None and scene.kind == "harbour" for scene in (shot.scene, around)):
            yield "boat"
