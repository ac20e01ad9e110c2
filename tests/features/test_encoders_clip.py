"""open_clip encoders: the real loading code with a tiny model of the real architecture and local weight files."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import open_clip
import pytest
import torch
from PIL import Image

from muvr_train.errors import ConfigError, DataError
from muvr_train.features.encoders.open_clip_encoder import OpenClipEncoder
from tests.features.tiny_clip import VISION, add_tiny_models


@pytest.fixture(scope="module", autouse=True)
def tiny_models(tmp_path_factory: pytest.TempPathFactory) -> None:
    add_tiny_models(tmp_path_factory.mktemp("clip_configs"))


@pytest.fixture
def frames() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.integers(0, 256, (3, 40, 60, 3), dtype=np.uint8), rng.integers(0, 256, (2, 33, 31, 3), dtype=np.uint8)]


def saved(tmp_path: Path, change: Callable[[dict[str, torch.Tensor]], Any] = lambda weights: weights) -> Path:
    torch.manual_seed(5)
    weights = open_clip.create_model("tiny-vit").state_dict()
    torch.save(change(dict(weights)), tmp_path / "weights.pt")
    return tmp_path / "weights.pt"


def test_embeddings_equal_the_plain_way(tmp_path: Path, frames: list[np.ndarray]) -> None:
    path = saved(tmp_path)
    found = OpenClipEncoder("tiny-vit", str(path), batch_size=2).encode(frames)
    model, _, transform = open_clip.create_model_and_transforms("tiny-vit", pretrained=str(path))
    model.eval()
    for video, features in zip(frames, found, strict=True):
        for frame, row in zip(video, features["video"], strict=True):
            with torch.no_grad():
                expected = model.encode_image(transform(Image.fromarray(frame))[None])[0]
            assert row.shape == (1, 32)
            np.testing.assert_allclose(row[0], expected, atol=1e-5)


@pytest.mark.parametrize("name", list(VISION))
def test_global_feature_is_the_same_beside_regions(name: str, frames: list[np.ndarray]) -> None:
    alone = OpenClipEncoder(name).encode(frames)
    both = OpenClipEncoder(name, streams={"video": {"grid": 2}, "whole": {"grid": 1}}).encode(frames)
    for one, other in zip(alone, both, strict=True):
        np.testing.assert_allclose(one["video"], other["whole"], atol=1e-5)
        assert other["video"].shape == (len(one["video"]), 4, one["video"].shape[-1])
        assert np.ptp(other["video"], axis=1).max() > 1e-4  # the regions differ


def test_one_region_of_a_one_patch_picture_sees_the_patch() -> None:
    """Attention pooling over one location equals its value and output maps (the resnet tower's projection)."""
    encoder = OpenClipEncoder("tiny-rn", streams={"video": {"grid": 2}})
    visual = encoder.model.visual
    x = torch.rand(1, 3, 64, 64)
    with torch.no_grad():
        last = visual.layer4(visual.layer3(visual.layer2(visual.layer1(visual.stem(x)))))  # [1, C, 2, 2]
        found = encoder.compute(x)["video"][0]
        expected = visual.attnpool.c_proj(visual.attnpool.v_proj(last[0].flatten(1).T))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


def test_a_grid_finer_than_the_map_is_refused() -> None:
    with pytest.raises(ConfigError, match="2 x 2 cannot give 3 x 3"):
        OpenClipEncoder("tiny-vit", streams={"video": {"grid": 3}})


def test_random_weights_are_the_same_every_time_and_the_hash_tells_weights_apart(tmp_path: Path) -> None:
    one, two = OpenClipEncoder("tiny-vit").manifest(), OpenClipEncoder("tiny-vit").manifest()
    assert one == two
    assert one["pretrained"] is None
    assert one["text_aligned"] is True
    assert one["preprocessing"]["size"] == [32, 32]
    assert one["preprocessing"]["interpolation"] == "bicubic"
    loaded = OpenClipEncoder("tiny-vit", str(saved(tmp_path))).manifest()
    assert loaded["pretrained"] == "file:weights.pt"
    assert loaded["weights_hash"] != one["weights_hash"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda weights: {k: v for k, v in weights.items() if k != "visual.proj"}, "visual.proj"),
        (
            lambda weights: {f"other.{k}": v for k, v in weights.items()},
            r"as tiny-vit\): none of its .* weights fits.*another architecture",
        ),
        (lambda weights: {**weights, "visual.extra": torch.zeros(2)}, "visual.extra"),
        (lambda weights: {**weights, "visual.proj": torch.zeros(32, 64)}, r"another shape \(visual.proj is \(32, 64\)"),
        (lambda weights: {**weights, "token_embedding.weight": torch.zeros(49408, 8)}, "token_embedding"),
        (lambda _: {}, "holds no weights"),
    ],
    ids=["one missing", "none fits", "one too many", "other shape", "other width", "empty"],
)
def test_weights_that_fit_in_part_are_refused(tmp_path: Path, change: Any, message: str) -> None:
    path = saved(tmp_path, change)
    with pytest.raises(DataError, match=message) as error:
        OpenClipEncoder("tiny-vit", str(path))
    assert str(path) in str(error.value)


def test_a_file_that_is_no_weight_file(tmp_path: Path) -> None:
    path = tmp_path / "weights.pt"
    path.write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(DataError, match=r"weights\.pt"):
        OpenClipEncoder("tiny-vit", str(path))


def test_names_and_tags_that_do_not_exist() -> None:
    with pytest.raises(ConfigError, match=r"ViT-B-33.*ViT-B-32"):
        OpenClipEncoder("ViT-B-33")
    with pytest.raises(ConfigError, match=r"neither a file nor a tag of ViT-B-32.*openai"):
        OpenClipEncoder("ViT-B-32", "laion3b")
    with pytest.raises(ConfigError, match=r"use encoder\.architecture=ViT-B-32-quickgelu"):
        OpenClipEncoder("ViT-B-32", "openai")
    with pytest.raises(ConfigError, match="stages"):
        OpenClipEncoder("tiny-vit", streams={"video": {"stages": [1]}})


def test_texts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = saved(tmp_path)
    encoder = OpenClipEncoder("tiny-vit", str(path))
    model = open_clip.create_model("tiny-vit", pretrained=str(path)).eval()
    tokenizer = open_clip.get_tokenizer("tiny-vit")
    texts = ["a red cat", "Ein Hund läuft"]
    with torch.no_grad():
        expected = model.encode_text(tokenizer(texts))
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        found = encoder.encode_texts(texts)
        assert not caplog.records
        encoder.encode_texts([*texts, "word " * 40])
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert "1 of 3 texts are longer than the 16 tokens" in caplog.text
    for bad in ([], ["a", "  "], "bare"):
        with pytest.raises(DataError):
            encoder.encode_texts(bad)
