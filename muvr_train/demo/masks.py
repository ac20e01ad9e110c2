"""Masks of what queries mean: the place of a region topic, the object of an instance topic."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from muvr_train.demo.draw_mask import Mask, mask_actor, mask_place
from muvr_train.demo.plan_base import HARD
from muvr_train.demo.scenario import Plan, Scene, Shot, Topic, Video

MASKED = ("region", "instance")
OBJECT = "object:"


def write_masks(plan: Plan, folder: Path) -> None:
    """Write the masks of the queries of `MASKED` to `<folder>/<partition>/<query>.json`: `{"<frame>": RLE of COCO}`."""
    by_number = {video.number: video for video in plan.videos}
    for topic in (topic for topic in plan.topics if topic.partition in MASKED):
        target = folder / topic.partition
        target.mkdir(parents=True, exist_ok=True)
        for video in (by_number[number] for number in topic.members["query"]):
            codes = {str(frame): encode_rle(mask) for frame, mask in query_masks(video, topic, by_number).items()}
            part = target / f".{video.id}.{os.getpid()}.part"
            part.write_text(json.dumps(codes, separators=(",", ":")), encoding="utf-8")
            part.replace(target / f"{video.id}.json")


def query_masks(video: Video, topic: Topic, by_number: Mapping[int, Video]) -> dict[int, Mask]:
    """Draw the masks (bool [height, width]) of a query's frames; frames without anything to mark have none."""
    place = shared_place(topic, by_number) if topic.partition == "region" else None
    masks: dict[int, Mask] = {}
    first = 0
    for shot in video.shots:
        actor = next((n for n, actor in enumerate(shot.actors) if actor.kind.startswith(OBJECT)), None)
        for index in range(shot.frames):
            mask = _mask(shot, index, actor, place)
            if mask is not None and mask.any():
                masks[first + index] = mask
        first += shot.frames
    return masks


def _mask(shot: Shot, index: int, actor: int | None, place: Scene | None) -> Mask | None:
    if actor is not None:
        return mask_actor(shot, index, actor)
    return mask_place(shot, index) if place is not None and shot.scene == place else None


def shared_place(topic: Topic, by_number: Mapping[int, Video]) -> Scene:
    """The one scene that every match of a topic shows."""
    matches = [by_number[number] for role, ids in topic.members.items() if role != HARD for number in ids]
    (place,) = set.intersection(*({shot.scene for shot in video.shots if shot.scene} for video in matches))
    return place


def encode_rle(mask: Mask) -> dict[str, list[int]]:
    """Encode a mask as COCO's run-length code: column by column, pixels outside and inside in turn, outside first."""
    pixels = mask.T.ravel()
    edges = np.flatnonzero(np.diff(pixels)) + 1
    counts = np.diff([0, *edges, pixels.size]).tolist()
    return {"size": list(mask.shape), "counts": [0, *counts] if pixels[0] else counts}
