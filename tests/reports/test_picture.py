"""The picture of similarity maps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from torch import Tensor

from muvr_train.benchmarks.types import Benchmark, Judgement, Partition, Query
from muvr_train.features.manifest import make_manifest
from muvr_train.features.store import FeatureStore
from muvr_train.features.writer import StoreWriter
from muvr_train.models.frame_max import FrameMax
from muvr_train.models.fusion.mean import MeanFusion
from muvr_train.models.retriever import Retriever
from muvr_train.reports.picture import save_similarity_picture
from muvr_train.types import Tokens

NAMES = ("news", "dance")
LOWEST = (68, 1, 84)
"""What viridis begins with."""


class Scaled(FrameMax):
    """Its maps are those of the frames, times a number."""

    factor = 0.0

    def similarity_map(self, q: Tokens, n: Tokens) -> Tensor:
        return self.factor * super().similarity_map(q, n)


@pytest.mark.parametrize("factor", [0.0, 1e-6])
def test_panels_of_a_row_share_their_colours(tmp_path: Path, factor: float) -> None:
    """Maps that are 0 everywhere, as before training, are all drawn as 0; small ones that are not are told apart."""
    rng = np.random.default_rng(0)
    with StoreWriter(tmp_path / "store", make_manifest("toy"), "float32") as writer:
        for part in NAMES:
            for kind in "qv":
                writer.add(f"{part}/{kind}", rng.random((3, 1, 8)).astype(np.float32))
    store = FeatureStore(tmp_path / "store")
    parts = [
        Partition(
            part,
            (Query(f"{part}/q", part, f"{part}/t"),),
            (Judgement(f"{part}/q", {f"{part}/v": "copy"}, frozenset()),),
            (f"{part}/v",),
        )
        for part in NAMES
    ]
    network = Scaled(8)
    network.factor = factor
    model = Retriever(network, MeanFusion(store.dims), store.dims)
    path = save_similarity_picture(tmp_path / "map.png", model, store, Benchmark("toy", tuple(parts)))
    assert path is not None
    with Image.open(path) as image:
        pixels = np.asarray(image.convert("RGB")).astype(int)
    below = pixels[len(pixels) // 2 :]
    share = float((np.abs(below - LOWEST).max(axis=2) <= 2).mean())
    assert (share > 0.4) == (factor == 0)
