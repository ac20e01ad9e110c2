"""Reading from several worker processes, forked and spawned."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from muvr_train.features.manifest import make_manifest
from muvr_train.features.store import FeatureStore
from muvr_train.features.writer import StoreWriter


class Videos(Dataset):  # type: ignore[type-arg]
    def __init__(self, store: FeatureStore) -> None:
        self.store = store
        self.names = store.ids()

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, row: int) -> torch.Tensor:
        return self.store.tensors([self.names[row]])[0]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_read_what_the_parent_reads(tmp_path: Path, method: str) -> None:
    expected = np.random.default_rng(0).standard_normal((40, 3, 2, 4)).astype("f2")
    with StoreWriter(tmp_path / "s", make_manifest("e"), shard_mib=0.001) as writer:
        for n, array in enumerate(expected):
            writer.add(f"v{n}", array)
    store = FeatureStore(tmp_path / "s")
    store.tokens(store.ids())  # opened in the parent before the workers start
    loader = DataLoader(Videos(store), batch_size=4, num_workers=2, multiprocessing_context=method)
    assert torch.equal(torch.cat(list(loader)), torch.from_numpy(expected).float())
