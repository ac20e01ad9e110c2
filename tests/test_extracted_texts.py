"""Folders that are extracted into the cache, with an encoder that learns and texts of another one."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
import pytest
from omegaconf import OmegaConf

from muvr_train.features.store import FeatureStore
from muvr_train.features.text_hash import HashTextEncoder
from muvr_train.runner.extracted import extracted


def write_noise(path: Path, rng: np.random.Generator) -> None:
    with av.open(str(path), "w") as container:
        stream = container.add_stream("h264", rate=10)
        stream.width, stream.height, stream.pix_fmt = 64, 64, "yuv420p"
        for _ in range(15):
            coarse = rng.integers(0, 255, (4, 4, 3), np.uint8).repeat(16, 0).repeat(16, 1)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(coarse)))
        container.mux(stream.encode())


def test_a_whitened_encoder_with_texts_of_another_opens_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUVR_TRAIN_CACHE", str(tmp_path / "cache"))
    (tmp_path / "videos").mkdir()
    rng = np.random.default_rng(0)
    for number in range(4):
        write_noise(tmp_path / "videos" / f"{number}.mp4", rng)
    encoder = {"_target_": "muvr_train.features.encoders.timm_encoder.TimmEncoder", "architecture": "test_resnet"}
    encoder |= {"pretrained": False, "size": 64, "whitening": {"dim": 4}}
    cfg = OmegaConf.create({"encoder": {**encoder, "_convert_": "all"}, "on_missing": "error"})
    first, second = (extracted(cfg, tmp_path / "videos", "cpu", {"q": "a text"}, HashTextEncoder(64)) for _ in range(2))
    assert first == second
    assert FeatureStore(second).shape() == (1, 4)
    assert FeatureStore(second).ids("text") == ["q"]
