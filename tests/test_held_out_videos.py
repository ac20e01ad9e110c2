"""What a run may learn from holds nothing of what it is tested on, whatever it is called."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from muvr_train import cli
from muvr_train.preflight.compose import Composer
from muvr_train.runner.data import Data, open_data
from tests.toy import make_toy


def opened(folder: Path, *more: str) -> Data:
    argv = ["data=muvr", f"data.annotations={folder}/annotations", f"data.features={folder}/features", *more]
    return open_data(Composer(cli.config_dir(), "train").compose(argv))


def test_a_distractor_with_the_features_of_a_test_match_is_not_learned_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUVR_TRAIN_CACHE", str(tmp_path / "cache"))
    make_toy(tmp_path)
    before = opened(tmp_path)
    assert {"news/d0", "news/d1"} <= set(before.train_videos)
    match = next(video for row in before.part("test").judgements for video in row.positives if video[:5] == "news/")
    shutil.copy(tmp_path / "features" / f"{match}.npy", tmp_path / "features/news/d0.npy")
    after = opened(tmp_path)
    assert set(before.train_videos) - set(after.train_videos) == {"news/d0"}
    assert "training distractors that are or match a held-out query: 1" in after.leakage
