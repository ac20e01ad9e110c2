"""Preprocessing: Pillow's way against open_clip's own transform, and objects that travel to other processes."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import open_clip
import pytest
import torch
from PIL import Image

from muvr_train.errors import ConfigError
from muvr_train.features.encoders.open_clip_encoder import OpenClipEncoder
from muvr_train.features.encoders.pixels import FitFrames, PillowFrames
from muvr_train.features.encoders.timm_encoder import TimmEncoder
from tests.features.tiny_clip import add_tiny_models

SHAPES = [(40, 60), (60, 40), (33, 31), (32, 32), (32, 57), (17, 32), (100, 7), (1, 1), (3, 200), (90, 120)]


def pictures(height: int, width: int, count: int = 2) -> np.ndarray:
    return np.random.default_rng(height * 1000 + width).integers(0, 256, (count, height, width, 3), dtype=np.uint8)


@pytest.mark.parametrize("size", [32, (32, 32), (24, 40), (41, 23)], ids=str)
@pytest.mark.parametrize("interpolation", ["bicubic", "bilinear"])
@pytest.mark.parametrize("mode", ["shortest", "longest", "squash"])
def test_pixels_equal_open_clips_own_transform(mode: str, interpolation: str, size: Any) -> None:
    cfg = open_clip.transform.PreprocessCfg(size, interpolation=interpolation, resize_mode=mode, fill_color=9)
    transform = open_clip.transform.image_transform_v2(cfg, is_train=False)
    mine = PillowFrames.from_open_clip(vars(cfg))
    mean, std = (np.array(values, np.float64) for values in (cfg.mean, cfg.std))
    for shape in SHAPES:
        frames = pictures(*shape)
        if mode == "longest" and min(shape) * 25 < max(shape):
            continue  # open_clip itself fails where the short edge rounds to nothing
        expected = torch.stack([transform(Image.fromarray(frame)) for frame in frames]).permute(0, 2, 3, 1).numpy()
        np.testing.assert_allclose((mine(frames) / 255 - mean) / std, expected, atol=1e-6, err_msg=str(shape))


@pytest.mark.parametrize("make", [PillowFrames((16, 24)), FitFrames(16, "crop", 0.9), FitFrames(16, "squash")])
def test_preprocessing_travels_and_takes_any_number_of_frames(make: Any) -> None:
    again = pickle.loads(pickle.dumps(make))
    frames = pictures(30, 50, 3)
    np.testing.assert_array_equal(again(frames), make(frames))
    assert make(frames).dtype == np.uint8
    assert make(frames[:0]).shape == (0, *make(frames).shape[1:])
    np.testing.assert_array_equal(np.concatenate([make(frames[:1]), make(frames[1:])]), make(frames))


def test_every_tag_of_open_clip_has_a_preprocessing_that_we_know() -> None:
    for architecture, tag in open_clip.list_pretrained():
        settings = open_clip.get_pretrained_cfg(architecture, tag)
        assert settings["interpolation"] in ("bicubic", "bilinear"), (architecture, tag)
        PillowFrames((8, 8), settings["resize_mode"])
    with pytest.raises(ConfigError, match="stretch"):
        PillowFrames((8, 8), "stretch")


@pytest.mark.parametrize("name", ["timm", "open_clip"])
def test_prepared_frames_are_bytes_without_the_network(name: str, tmp_path: Path) -> None:
    add_tiny_models(tmp_path)
    encoder = TimmEncoder("resnet10t", False, size=64) if name == "timm" else OpenClipEncoder("tiny-rn")
    assert len(pickle.dumps(encoder.preprocess)) < 1000
    frames = pictures(40, 60, 2)
    prepared = encoder.prepare(frames)
    assert prepared.dtype == torch.uint8
    assert prepared.is_contiguous(memory_format=torch.channels_last)
    np.testing.assert_array_equal(prepared.permute(0, 2, 3, 1).numpy(), encoder.preprocess(frames))
    (found,) = encoder.encode([frames])
    batch = torch.from_numpy(encoder.preprocess(frames)).permute(0, 3, 1, 2)
    np.testing.assert_allclose(encoder.forward_batch(batch)["video"].numpy(), found["video"], atol=1e-6)
