"""L3-iMAC, and whitening that an encoder learns from a sample of frames."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from muvr_train.errors import ConfigError, DataError
from muvr_train.features.encoders.l3_imac import L3Imac, regional_maxima
from muvr_train.features.encoders.timm_encoder import TimmEncoder
from muvr_train.features.encoders.whitening import FITTED
from muvr_train.features.extract import ExtractSettings
from muvr_train.features.manifest import make_manifest
from muvr_train.features.writer import StoreWriter
from muvr_train.training.extraction import extract_folder
from tests.reference.encoders import l3_imac, pca_whitened
from tests.toy_encoder import write_grey


@pytest.fixture(scope="module")
def encoder() -> L3Imac:
    return L3Imac("resnet14t", False, batch_size=2)


@pytest.fixture
def frames() -> np.ndarray:
    small = np.random.default_rng(0).integers(0, 256, (3, 12, 16, 3), dtype=np.uint8)
    return np.kron(small, np.ones((1, 20, 20, 1), np.uint8))


def small_encoder(dim: int = 8, **settings: object) -> TimmEncoder:
    streams = {"video": {"grid": 2, "stages": [1]}}
    more = {"size": 64, "batch_size": 4, "whitening": {"dim": dim}, **settings}
    return TimmEncoder("test_resnet", False, streams, **more)  # type: ignore[arg-type]


def sample(count: int = 40) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [np.kron(rng.integers(0, 256, (count, 8, 8, 3), dtype=np.uint8), np.ones((1, 8, 8, 1), np.uint8))]


def test_l3_imac_equals_the_written_out_regions(encoder: L3Imac, frames: np.ndarray) -> None:
    (found,) = encoder.encode([frames])
    mean, std = (np.array(values, np.float32).reshape(3, 1, 1) for values in (encoder.mean, encoder.std))
    for frame, row in zip(frames, found["video"], strict=True):
        x = (encoder.preprocess(frame[None])[0].transpose(2, 0, 1) / np.float32(255) - mean) / std
        with torch.no_grad():
            stages = encoder.model.forward_intermediates(torch.from_numpy(x)[None], intermediates_only=True)[1:]
        np.testing.assert_allclose(row, l3_imac([stage[0].numpy() for stage in stages]), atol=1e-5)
    assert encoder.manifest()["pooling"] == "l3_imac"


def test_l3_imac_of_resnet50_has_3840_dimensions() -> None:
    with pytest.raises(ConfigError, match="have 3840 dimensions"):
        L3Imac("resnet50.tv_in1k", False, dim=2048)


def test_regional_maxima_by_hand() -> None:
    x = torch.arange(49.0).view(1, 1, 7, 7).repeat(1, 2, 1, 1)
    x[:, 1] = 48 - x[:, 1]
    found = regional_maxima(x)
    expected = np.array([(r * 7 + c + 16, 48 - (r * 7 + c)) for r in (0, 2, 4) for c in (0, 2, 4)], float)
    np.testing.assert_allclose(found[0], expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-6)
    with pytest.raises(ConfigError, match=r"56, 28, 14, 7.*8 x 8"):
        regional_maxima(torch.zeros(1, 2, 8, 8))


def test_maps_of_l3_imac_lie_in_the_space_of_its_regions(encoder: L3Imac, frames: np.ndarray) -> None:
    maps = encoder.encode_maps(encoder.prepare(frames))
    assert maps.shape == (3, 56, 56, encoder.shapes["video"][0])
    np.testing.assert_allclose(np.linalg.norm(maps, axis=-1), 1, atol=1e-5)


def test_whitening_is_learned_saved_and_found_again(tmp_path: Path) -> None:
    encoder, (frames,) = small_encoder(), sample()
    prepared = encoder.prepare(frames)
    raw = TimmEncoder("test_resnet", False, {"video": {"grid": 2, "stages": [1]}}, 64, batch_size=4)
    sampled = raw.encode([frames])[0]["video"].astype(np.float64)
    assert encoder.needs_fit
    assert not raw.needs_fit
    assert encoder.manifest() == {**raw.manifest(), "whitening": {"dim": 8}}
    assert encoder.fit_frames == 1000
    with pytest.raises(DataError, match="has not been learned"):
        encoder.encode([frames])
    encoder.fit(iter(torch.split(prepared, 7)))
    assert not encoder.needs_fit
    (found,) = encoder.encode([frames[:5]])
    assert found["video"].shape == (5, 4, 8)
    expected = pca_whitened(sampled.reshape(-1, sampled.shape[-1]), sampled[:5].reshape(20, -1), 8)
    signs = np.sign((found["video"].reshape(20, 8) * expected).sum(axis=0))
    np.testing.assert_allclose(found["video"].reshape(20, 8), expected * signs, atol=1e-4)
    encoder.save_fit(tmp_path / FITTED)
    other = small_encoder()
    other.load_fit(tmp_path / FITTED)
    assert not other.needs_fit
    assert other.manifest() == encoder.manifest()
    np.testing.assert_array_equal(other.encode([frames[:5]])[0]["video"], found["video"])
    assert other.manifest()["whitening_hash"].startswith("sha256:")
    maps = other.encode_maps(prepared[:2])
    assert maps.shape[-1] == 8
    np.testing.assert_allclose(np.linalg.norm(maps, axis=-1), 1, atol=1e-5)


def test_whitening_of_another_encoder_or_a_broken_file_is_refused(tmp_path: Path) -> None:
    encoder = small_encoder()
    with pytest.raises(DataError, match="has not been learned"):
        encoder.save_fit(tmp_path / FITTED)
    encoder.fit([encoder.prepare(sample()[0])])
    encoder.save_fit(tmp_path / FITTED)
    for other in (
        small_encoder(size=96),
        small_encoder(dim=7),
        small_encoder(fit="squash"),
        small_encoder(precision="bf16"),
    ):
        with pytest.raises(DataError, match="learned with another encoder"):
            other.load_fit(tmp_path / FITTED)
    whole = (tmp_path / FITTED).read_bytes()
    (tmp_path / "cut.safetensors").write_bytes(whole[: len(whole) // 2])
    for name in ("cut.safetensors", "none.safetensors"):
        with pytest.raises(DataError, match=name):
            small_encoder().load_fit(tmp_path / name)


def test_samples_that_teach_nothing() -> None:
    encoder = small_encoder(32)
    with pytest.raises(DataError, match="32 dimensions cannot be learned from 8 vectors"):
        encoder.fit([encoder.prepare(sample(2)[0])])
    with pytest.raises(DataError, match=r"from 80 vectors that vary in . directions"):
        encoder.fit([encoder.prepare(np.zeros((20, 64, 64, 3), np.uint8))])
    assert encoder.needs_fit
    with pytest.raises(DataError, match="at least 2"):
        encoder.fit([])


@pytest.mark.parametrize("whitening", [{}, {"dim": 0}, {"dim": 10**6}, {"dim": True}, {"dim": 4, "power": 1}], ids=str)
def test_whitening_settings_that_cannot_work(whitening: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=r"encoder\.whitening must be"):
        small_encoder(whitening=whitening)


def test_whitening_takes_one_stream_and_encoders_without_it_learn_nothing() -> None:
    two = {"video": {"grid": 2, "stages": [1]}, "whole": {"grid": 1}}
    with pytest.raises(ConfigError, match="one stream; it has video, whole"):
        TimmEncoder("test_resnet", False, two, 64, whitening={"dim": 4})
    plain = TimmEncoder("test_resnet", False, size=64)
    for call in (lambda: plain.fit([]), lambda: plain.load_fit(Path("x")), lambda: plain.save_fit(Path("x"))):
        with pytest.raises(ConfigError, match="learns nothing"):
            call()


def test_nothing_is_learned_for_a_store_that_is_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name in "ab":
        write_grey(tmp_path / "videos" / f"{name}.mp4", rng.integers(0, 255, 12).tolist(), 64)
    settings, out = ExtractSettings(workers=1, progress=False), tmp_path / "store"
    extract_folder(tmp_path / "videos", TimmEncoder("test_resnet", False, size=64), out, None, settings)
    before = {entry.name: entry.read_bytes() for entry in out.iterdir()}
    encoder = small_encoder()
    with pytest.raises(DataError, match="made differently"):
        extract_folder(tmp_path / "videos", encoder, out, None, settings)
    with (
        StoreWriter(tmp_path / "busy", make_manifest("x")),
        pytest.raises(DataError, match="Another process is writing"),
    ):
        extract_folder(tmp_path / "videos", encoder, tmp_path / "busy", None, settings)
    assert encoder.needs_fit
    assert {entry.name: entry.read_bytes() for entry in out.iterdir()} == before
    assert not (tmp_path / "busy" / FITTED).exists()
