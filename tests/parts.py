"""The toy data set with tags and marked regions: annotations, and a store with streams "tags" and "region"."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from muvr_train.features.import_muvr import import_muvr
from muvr_train.features.store import FeatureStore
from muvr_train.features.writer import StoreWriter
from tests.tagged import make_tagged
from tests.toy import DIM, PARTITIONS, TOPICS

MARKED = tuple(f"{PARTITIONS[0]}/t{topic}q0" for topic in range(TOPICS))
"""The queries with a region: the first of each topic of the first partition."""


def make_parts(root: Path, region_dim: int = DIM) -> tuple[Path, FeatureStore]:
    """Give the folder of annotations and the store."""
    annotations, features = make_tagged(root)
    import_muvr(features, root / "store")
    add_regions(root / "store", region_dim)
    return annotations, FeatureStore(root / "store")


def add_regions(store: Path, dim: int = DIM) -> None:
    """Add regions of 2 to 8 frames to an imported store (its videos have 6)."""
    rng = np.random.default_rng(7)
    with StoreWriter(store, FeatureStore(store).manifest, None) as writer:
        for number, query in enumerate(MARKED):
            writer.add(query, rng.standard_normal((2 + 2 * (number % 4), 1, dim), dtype=np.float32), stream="region")
