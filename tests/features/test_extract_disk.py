"""A disk that is full in the middle of an extraction."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch import Tensor

from muvr_train.errors import DataError
from muvr_train.features.extract import ExtractSettings
from muvr_train.features.store import FeatureStore
from muvr_train.training.extraction import extract_folder
from tests.toy_encoder import Means, write_grey


class FillsTheDisk(Means):
    """After so many batches nothing can be written any more, as on a full disk."""

    def __init__(self, store: Path, batches: int) -> None:
        super().__init__(batch_size=3)
        self.store, self.left = store, batches

    def compute(self, x: Tensor) -> dict[str, Tensor]:
        self.left -= 1
        if self.left == 0:
            for number in range(20):
                for stream in ("video", "fine"):
                    (self.store / f"{stream}-{number:05d}.safetensors.tmp").symlink_to("/dev/full")
        return super().compute(x)


@pytest.mark.parametrize("save_every", [0.0, 60.0])
def test_the_message_names_the_folder_and_the_next_run_goes_on(tmp_path: Path, save_every: float) -> None:
    for name in "abcd":
        write_grey(tmp_path / "videos" / f"{name}.mp4", [10, 20, 30])
    out = tmp_path / "store"
    settings = ExtractSettings(workers=1, progress=False, save_every=save_every)
    with pytest.raises(DataError, match=rf"The folder {out} is full \(.*what was written before is kept"):
        extract_folder(tmp_path / "videos", FillsTheDisk(out, 3), out, settings=settings)
    for left in out.glob("*.tmp"):
        left.unlink()  # somebody makes room
    kept = FeatureStore(out).ids() if (out / "index.json").exists() else []
    assert kept == (["a"] if save_every == 0 else [])  # the end of b comes with the next batch
    report = extract_folder(tmp_path / "videos", Means(), out, settings=settings)
    assert report is not None
    assert report.ok
    assert len(report.new) == 4 - len(kept)
    assert sorted(FeatureStore(out).ids()) == sorted(FeatureStore(out).ids("fine")) == ["a", "b", "c", "d"]
