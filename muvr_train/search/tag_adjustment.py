"""What a fusion head makes of tag expressions, from the cosines of their tags."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from muvr_train.benchmarks.muvr_filter import FilterRow
from muvr_train.data.tags import load_tags
from muvr_train.features.store import FeatureStore
from muvr_train.models.fusion.base import FusionHead
from muvr_train.search.exhaustive import evaluating
from muvr_train.search.filter import Floats, TagPlaces

AT_ONCE = 2**22
"""Cosines that a head gets at a time."""


def adjustments(
    head: FusionHead,
    store: FeatureStore,
    rows: Sequence[FilterRow],
    places: Sequence[TagPlaces],
    cosines: Floats,
    device: torch.device,
) -> Floats:
    """What a head adds to the scores of queries for their tag expressions: float32 [R, N].

    Args:
        head: on the device.
        store: holds the vectors of the tags, which a head may look at.
        rows: [R].
        places: [R] where each row's tags stand among the cosines.
        cosines: [P, N] of tags and videos; see `ModelScores.mean_tag_scores`.
        device: where it is computed.
    """
    added = np.empty((len(rows), cosines.shape[1]), dtype=np.float32)
    most = max((len(row.pairs) for row in rows), default=1)
    step = max(1, AT_ONCE // max(1, most * cosines.shape[1]))
    with evaluating(head):
        for start in range(0, len(rows), step):
            part, where = rows[start : start + step], places[start : start + step]
            found = load_tags(store, [row.judgement.query for row in part], [row.expression for row in part])
            if found is None:
                raise ValueError("a tag expression without a condition")
            tags, block = found.to(device), np.zeros((*found.mask.shape, cosines.shape[1]), np.float32)
            for row, (one, place) in enumerate(zip(part, where, strict=True)):
                block[row, : len(one.pairs)] = cosines[[place[tag] for _, tag in one.pairs]]
            scores = head.tag_weight * head.tag_scores(torch.from_numpy(block).to(device), tags)
            added[start : start + step] = scores.float().cpu().numpy()
    return added
