"""The toy data set with tags and marked regions: annotations, and a store with streams "tags" and "region"."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from muvr_train.features.import_muvr import import_muvr
from muvr_train.features.store import FeatureStore
from muvr_train.features.writer import StoreWriter
from tests.tagged import make_tagged
from tests.toy import DIM, PARTITIONS, QUERIES, TOPICS


def region_queries(partition: str) -> list[str]:
    """Queries with a region: the first of each topic of partition news."""
    return [f"{partition}/t{topic}q0" for topic in range(TOPICS)] if partition == PARTITIONS[0] else []


def make_parts(root: Path, region_dim: int = DIM) -> tuple[Path, FeatureStore]:
    """Give the folder of annotations and the store. A region is 3 frames, one of them its topic's vector."""
    annotations, features = make_tagged(root)
    import_muvr(features, root / "plain")
    plain, rng = FeatureStore(root / "plain"), np.random.default_rng(7)
    with StoreWriter(root / "store", dict(plain.manifest), dtype="float32") as writer:
        for stream in plain.streams:
            for name in plain.ids(stream):
                writer.add(name, plain.array(name, stream), stream=stream)
        for partition in PARTITIONS:
            for query in region_queries(partition):
                writer.add(query, rng.standard_normal((3, 1, region_dim), dtype=np.float32), stream="region")
    assert QUERIES == 2
    return annotations, FeatureStore(root / "store")
