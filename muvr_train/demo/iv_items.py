"""What can be asked about a video of the built-in corpus and an image, with answers that its plan tells."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, islice
from random import Random

from PIL import Image

from muvr_train.demo.draw import draw_video
from muvr_train.demo.plan_base import phrase_place
from muvr_train.demo.plan_parts import make_rng
from muvr_train.demo.scenario import Plan, Scene, Video
from muvr_train.demo.spec import FPS, FRAME_SIZE, SCENES, TIMES

VIDEOS = 10
DISTRACTORS = 9
PLACES = ("first from the left", "second from the left", "second from the right", "first from the right")
WHOLE, CLIP = "Whole Video", "Video Clip"
Still = tuple[str, int]
"""Id of a video and the number of its frame."""


@dataclass(frozen=True)
class Part:
    """A stretch of a video that shows one place."""

    scene: Scene
    first: int
    frames: int

    @property
    def middle(self) -> int:
        """The number of its middle frame in the video."""
        return self.first + self.frames // 2

    @property
    def name(self) -> str:
        """Where it is: `at the beach at noon`."""
        return phrase_place(self.scene)


@dataclass(frozen=True)
class Item:
    """One question in the making; the fields are those of the released file, `stills` are what its image shows."""

    video: str
    number: int
    task: str
    question: str
    answer: str
    distractors: tuple[str, ...]
    stills: tuple[Still, ...]
    granularity: str = WHOLE
    location: str = "Whole video"

    @property
    def image(self) -> str:
        """The name of its image file."""
        return f"{self.video}_{self.number}_image.png"

    def entry(self) -> Mapping[str, object]:
        """Its entry in the file."""
        return {
            "data_id": self.number,
            "image_name": self.image,
            "question": self.question,
            "question_type": self.task,
            "granularity": self.granularity,
            "answer": self.answer,
            "answer_location": self.location,
            "distractors": list(self.distractors),
        }


def iv_items(plan: Plan) -> list[Item]:
    """Two questions about each of ten videos, each of the tasks four times; the same for every plan."""
    parts = {video.id: list(parts_of(video)) for video in plan.videos}
    clear = [video.id for video in plan.videos if len({part.name for part in parts[video.id]}) >= 2]
    clear = [name for name in clear if len({part.name for part in parts[name]}) == len(parts[name])]
    chosen = make_rng(plan.seed, "IV-Bench").sample(clear, VIDEOS)
    tasks = list(TASKS)
    return [
        TASKS[task](make_rng(plan.seed, video, task), number, video, parts)
        for place, video in enumerate(chosen)
        for number, task in enumerate((tasks[place % len(tasks)], tasks[(place + 2) % len(tasks)]))
    ]


def parts_of(video: Video) -> Iterator[Part]:
    """The stretches of a video that show places; none for a video with pictures in pictures."""
    if any(shot.look.inset_scene is not None for shot in video.shots):
        return
    first = 0
    for shot in video.shots:
        if shot.scene is not None:
            yield Part(shot.scene, first, shot.frames)
        first += shot.frames


def draw_image(item: Item, plan: Plan) -> Image.Image:
    """The image of a question: its stills side by side."""
    videos = {video.id: video for video in plan.videos}
    width, height = FRAME_SIZE
    image = Image.new("RGB", (width * len(item.stills), height))
    for place, (name, frame) in enumerate(item.stills):
        image.paste(next(islice(draw_video(videos[name]), frame, None)), (width * place, 0))
    return image


Parts = Mapping[str, list[Part]]


def _existence(rng: Random, number: int, video: str, parts: Parts) -> Item:
    return _four_stills(rng, number, video, parts, "Existence", "Which contents in the image appear in the video?")


def _reverse_existence(rng: Random, number: int, video: str, parts: Parts) -> Item:
    question = "Which contents in the image do not appear in the video?"
    return _four_stills(rng, number, video, parts, "Reverse Existence", question)


def _four_stills(rng: Random, number: int, video: str, parts: Parts, task: str, question: str) -> Item:
    """Stills of this video and of others side by side; the others show places that this one does not."""
    own, shown = parts[video], {part.name for part in parts[video]}
    others = [(name, part) for name, found in parts.items() for part in found if part.name not in shown]
    here = rng.sample(own, rng.randint(1, min(3, len(own))))
    stills = [(True, (video, part.middle)) for part in here]
    stills += [(False, (name, part.middle)) for name, part in rng.sample(others, len(PLACES) - len(here))]
    rng.shuffle(stills)
    wanted = task == "Existence"
    answer = ", ".join(place for place, (is_here, _) in zip(PLACES, stills, strict=True) if is_here == wanted)
    subsets = [", ".join(chosen) for size in range(1, len(PLACES)) for chosen in combinations(PLACES, size)]
    return _item(rng, number, video, task, question, answer, subsets, tuple(still for _, still in stills))


def _keyframe(rng: Random, number: int, video: str, parts: Parts) -> Item:
    frame = rng.choice(parts[video]).middle
    length = parts[video][-1].first + parts[video][-1].frames
    times = [f"{_clock(second)}-{_clock(second + 1)}" for second in range(length // FPS)]
    answer = times[frame // FPS]
    question = "When is the picture of the image shown in the video?"
    stills = ((video, frame),)
    return _item(rng, number, video, "Keyframe extraction", question, answer, times, stills, CLIP, answer)


def _counting(rng: Random, number: int, video: str, parts: Parts) -> Item:
    question = "How many other places does the video show besides the one in the image?"
    answer = str(len(parts[video]) - 1)
    stills = ((video, rng.choice(parts[video]).middle),)
    return _item(rng, number, video, "Counting", question, answer, [str(count) for count in range(10)], stills)


def _temporal(rng: Random, number: int, video: str, parts: Parts) -> Item:
    place = rng.randrange(len(parts[video]) - 1)
    part, then = parts[video][place : place + 2]
    question = "Which place does the video show right after the one in the image?"
    names = [phrase_place(Scene(kind, time, 0)) for kind in SCENES for time in TIMES]
    known = [other.name for other in parts[video] if other.name != then.name]
    rest = [name for name in names if name not in known]
    rng.shuffle(rest)
    stills = ((video, part.middle),)
    location = f"{_clock(then.first // FPS)}-{_clock(-(-(then.first + then.frames) // FPS))}"
    options = known + [name for name in rest if name != then.name][: DISTRACTORS - len(known)]
    return _item(rng, number, video, "Temporal Reasoning", question, then.name, options, stills, CLIP, location)


TASKS: Mapping[str, Callable[[Random, int, str, Parts], Item]] = {
    "Existence": _existence,
    "Keyframe extraction": _keyframe,
    "Counting": _counting,
    "Reverse Existence": _reverse_existence,
    "Temporal Reasoning": _temporal,
}


def _item(
    rng: Random,
    number: int,
    video: str,
    task: str,
    question: str,
    answer: str,
    options: list[str],
    stills: tuple[Still, ...],
    granularity: str = WHOLE,
    location: str = "Whole video",
) -> Item:
    """Put it together; the distractors are a choice among the options, in any order."""
    wrong = [option for option in options if option != answer]
    chosen = tuple(rng.sample(wrong, min(DISTRACTORS, len(wrong))))
    return Item(video, number, task, question, answer, chosen, stills, granularity, location)


def _clock(second: int) -> str:
    return f"{second // 60:02d}:{second % 60:02d}"
