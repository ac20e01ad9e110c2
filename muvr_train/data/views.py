"""Training views of videos: planned one by one, read from the store all at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from muvr_train.data.augment import Clip, FeatureAugment, View
from muvr_train.features.store import FeatureStore
from muvr_train.types import Tokens


def plan_views(
    store: FeatureStore,
    ids: Sequence[str],
    augment: FeatureAugment,
    pool: Sequence[str],
    chances: Sequence[np.random.Generator],
    stored_views: bool = True,
) -> list[View]:
    """Plan a view of each video: a random stored view of it, then edits in feature space.

    Args:
        store: says which stored views and how many frames there are.
        ids: the videos.
        augment: the edits.
        pool: ids of the videos that others are mixed with and introduced by.
        chances: one generator for each video.
        stored_views: whether to draw from the streams `view1` ... too.
    """

    def donor(chance: np.random.Generator) -> tuple[Clip, int]:
        video = pool[int(chance.integers(len(pool)))]
        return ("video", video), store.length(video)

    views = []
    for video, chance in zip(ids, chances, strict=True):
        streams = ["video", *(store.views(video) if stored_views else ())]
        stream = streams[int(chance.integers(len(streams)))]
        views.append(augment((stream, video), store.length(video, stream), chance, donor))
    return views


def load_views(store: FeatureStore, views: Sequence[View]) -> Tokens:
    """Read a batch of views by one gather, and edit its values: [B, T, R, D], on the store's device.

    Where a view is mixed with another video, the frames of that one are read as a further row of the batch.
    """
    if not views:
        return store.tokens([])
    mixed = [row for row, view in enumerate(views) if view.mixed is not None]
    clips: dict[Clip, int] = {}
    clip = np.full((len(views) + len(mixed), max(map(len, views))), -1)
    frame = np.zeros_like(clip)
    for row, view in enumerate(views):
        places = np.array([clips.setdefault(named, len(clips)) for named in view.clips])
        clip[row, : len(view)], frame[row, : len(view)] = places[view.clip], view.frame
    for row, source in enumerate(mixed, start=len(views)):
        view = views[source]
        clip[row, : len(view)], frame[row, : len(view)] = clips[view.clips[view.donor]], view.mixed
    tokens = store.gather(list(clips), clip, frame)
    others = dict(zip(mixed, tokens.x[len(views) :], strict=True))
    for row, view in enumerate(views):
        if row in others or view.blurs:
            view.change(tokens.x[row, : len(view)], others[row][: len(view)] if row in others else None)
    return tokens[: len(views)]
