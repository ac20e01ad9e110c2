"""Precision, compilation, batches, and maps of places."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from muvr_train.errors import ConfigError
from muvr_train.features.encoders.base import FrameEncoder
from muvr_train.features.encoders.open_clip_encoder import OpenClipEncoder
from muvr_train.features.encoders.places import places
from muvr_train.features.encoders.timm_encoder import TimmEncoder
from tests.features.tiny_clip import VISION, add_tiny_models

TIMM = ("test_resnet", "test_vit", "test_vit2", "test_vit3", "test_convnext", "test_efficientnet", "test_mambaout")


@pytest.fixture(scope="module", autouse=True)
def tiny_models(tmp_path_factory: pytest.TempPathFactory) -> None:
    add_tiny_models(tmp_path_factory.mktemp("clip_configs"))


def make(name: str, **settings: Any) -> FrameEncoder:
    return OpenClipEncoder(name, **settings) if name in VISION else TimmEncoder(name, False, **settings)


def pictures(count: int = 5) -> np.ndarray:
    small = np.random.default_rng(0).integers(0, 256, (count, 9, 12, 3), dtype=np.uint8)
    return np.kron(small, np.ones((1, 20, 20, 1), np.uint8))


@pytest.mark.parametrize(
    "name", ["tiny-vit", "tiny-rn", "tiny-siglip-tower", "tiny-eva", "test_resnet", "test_convnext"]
)
def test_features_do_not_depend_on_the_batch(name: str) -> None:
    frames = pictures(7)
    whole = make(name, batch_size=7).encode([frames])[0]["video"]
    for size in (1, 3):
        parts = make(name, batch_size=size).encode([frames[:2], frames[2:]])
        np.testing.assert_allclose(np.concatenate([part["video"] for part in parts]), whole, atol=1e-5)


@pytest.mark.parametrize("name", ["tiny-vit", "test_resnet"])
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_shorter_precisions_are_close_float32_and_in_the_manifest(name: str, precision: str) -> None:
    full, short = make(name), make(name, precision=precision)
    (one,), (other,) = full.encode([pictures()]), short.encode([pictures()])
    assert other["video"].dtype == np.float32
    assert np.abs(one["video"] - other["video"]).max() > 0
    x, y = (torch.from_numpy(part["video"][:, 0]) for part in (one, other))
    assert F.cosine_similarity(x, y).min() > 0.999
    assert short.manifest() == {**full.manifest(), "precision": precision}
    assert make(name, precision=32).manifest() == full.manifest()


def test_impossible_precisions() -> None:
    with pytest.raises(ConfigError, match="precision=64 is not possible: choose from 32, bf16, fp16"):
        make("test_resnet", precision="64")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tiny-vit", "test_resnet"])
def test_compiled_networks_give_the_same_and_are_compiled_once(name: str) -> None:
    frames = pictures(5)
    plain, compiled = make(name, batch_size=4), make(name, batch_size=4, compile=True)
    torch._dynamo.reset()
    counters = torch._dynamo.utils.counters
    counters.clear()
    np.testing.assert_allclose(
        compiled.encode([frames])[0]["video"], plain.encode([frames])[0]["video"], atol=1e-4, rtol=1e-4
    )
    made = counters["stats"]["unique_graphs"]
    assert made >= 1
    compiled.encode([frames[:1], frames[1:3]])
    assert counters["stats"]["unique_graphs"] == made
    assert compiled.manifest() == plain.manifest()


def test_what_cannot_be_compiled_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without a compiler: nothing runs uncompiled in silence."""
    torch._dynamo.reset()
    monkeypatch.setenv("CXX", "no-such-compiler")
    # torch's own patch: monkeypatch deletes what such modules keep outside their __dict__ (pytest >= 9.1)
    without = torch._inductor.config.patch({"cpp.cxx": (None, "no-such-compiler"), "fx_graph_cache": False})
    with without, pytest.raises(ConfigError, match="compile=true: test_resnet cannot be compiled here"):
        make("test_resnet", batch_size=2, compile=True).encode([pictures(2)])


@pytest.mark.parametrize("name", [*VISION, *TIMM])
def test_maps_lie_in_the_space_of_the_global_feature(name: str) -> None:
    """Also where maps lie channels-last, heads pool by attention, or tokens of other kinds come first."""
    encoder = make(name)
    prepared = encoder.prepare(pictures(2))
    maps = encoder.encode_maps(prepared)
    assert maps.dtype == np.float32
    assert maps.ndim == 4
    assert maps.shape[0] == 2
    assert maps.shape[1] == maps.shape[2] > 1
    assert maps.shape[3] == encoder.shapes["video"][0]
    assert np.ptp(maps, axis=(1, 2)).max() > 1e-4
    again = encoder.encode_maps(prepared[1:])
    np.testing.assert_allclose(again, maps[1:], atol=1e-5)


def test_the_mean_of_all_places_is_the_averaged_feature() -> None:
    for name in ("test_resnet", "test_efficientnet"):
        encoder = make(name)
        prepared = encoder.prepare(pictures(2))
        (features,) = encoder.encode_prepared([prepared])
        np.testing.assert_allclose(encoder.encode_maps(prepared).mean((1, 2)), features["video"][:, 0], atol=1e-5)


def test_places_of_clip_are_its_finest_regions() -> None:
    for name, edge in (("tiny-vit", 2), ("tiny-eva", 4), ("tiny-siglip-tower", 10), ("tiny-rn", 2)):
        encoder = make(name, streams={"video": {"grid": edge}})
        prepared = encoder.prepare(pictures(2))
        (features,) = encoder.encode_prepared([prepared])
        maps = encoder.encode_maps(prepared)
        np.testing.assert_allclose(maps.reshape(2, edge * edge, -1), features["video"], atol=1e-5)


def test_places_of_several_stages_by_hand() -> None:
    encoder = TimmEncoder("test_resnet", False, {"video": {"grid": 2, "stages": [3, 1]}}, 64)
    prepared = encoder.prepare(pictures(1))
    maps = encoder.encode_maps(prepared)
    mean, std = (torch.tensor(values).view(1, 3, 1, 1) for values in (encoder.mean, encoder.std))
    with torch.no_grad():
        stages = encoder.model.forward_intermediates((prepared / 255 - mean) / std, intermediates_only=True)
        coarse = F.interpolate(stages[3], stages[1].shape[2:], mode="bilinear", align_corners=False)
        expected = torch.cat([F.normalize(coarse, dim=1), F.normalize(stages[1], dim=1)], dim=1)
    np.testing.assert_allclose(maps[0], expected[0].permute(1, 2, 0), atol=1e-5)


def test_no_maps() -> None:
    encoder = make("test_resnet")
    with pytest.raises(ConfigError, match="has no stream 'fine'; it has video"):
        encoder.encode_maps(encoder.prepare(pictures(1)), "fine")
    with pytest.raises(ConfigError, match="no square map"):
        places(encoder.model, torch.zeros(1, 7, 4), lambda x: x)


def test_networks_lie_channels_last() -> None:
    for name in ("tiny-rn", "test_resnet"):
        weights = [
            w for w in make(name).model.state_dict().values() if w.ndim == 4 and w.shape[1] > 1 and w.shape[2] > 1
        ]
        assert weights
        assert all(w.is_contiguous(memory_format=torch.channels_last) for w in weights)
