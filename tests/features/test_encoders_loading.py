"""Weight files of open_clip models: loaded completely, with their own preprocessing and GELU, or refused."""

from __future__ import annotations

import json
import logging
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import open_clip
import pytest
import torch
from safetensors.torch import save_file

from muvr_train.errors import ConfigError, DataError
from muvr_train.features.encoders.clip_loading import _without_notes, create_clip
from muvr_train.features.encoders.open_clip_encoder import OpenClipEncoder
from muvr_train.features.encoders.timm_encoder import TimmEncoder
from tests.features.tiny_clip import VISION, add_tiny_models
from tests.reference.encoders import clip_frames


@pytest.fixture(scope="module", autouse=True)
def tiny_models(tmp_path_factory: pytest.TempPathFactory) -> None:
    add_tiny_models(tmp_path_factory.mktemp("clip_configs"))


def weights_of(name: str, seed: int = 5) -> dict[str, torch.Tensor]:
    torch.manual_seed(seed)
    return {key: value.contiguous() for key, value in open_clip.create_model(name).state_dict().items()}


@pytest.mark.parametrize("name", [*VISION, "tiny-vit-quickgelu"])
@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
def test_all_towers_load_from_files_and_equal_the_plain_way(tmp_path: Path, name: str, suffix: str) -> None:
    path, weights = tmp_path / f"weights{suffix}", weights_of(name)
    if suffix == ".pt":
        torch.save({"state_dict": {f"module.{key}": value for key, value in weights.items()}, "epoch": 1}, path)
    else:
        save_file(weights, path)
    frames = np.random.default_rng(0).integers(0, 256, (2, 50, 70, 3), dtype=np.uint8)
    encoder = OpenClipEncoder(name, str(path), batch_size=2)
    model = open_clip.create_model(name, str(path)).eval()
    np.testing.assert_allclose(encoder.encode([frames])[0]["video"][:, 0], clip_frames(model, frames), atol=1e-5)
    assert encoder.manifest()["pretrained"] == f"file:weights{suffix}"
    assert encoder.manifest()["quick_gelu"] == name.endswith("quickgelu")


def test_the_old_layout_of_text_towers_loads_as_open_clip_loads_it(tmp_path: Path) -> None:
    weights = weights_of("tiny-eva")
    old = {key.removeprefix("text."): value for key, value in weights.items()}
    old["logit_scale"] = old["logit_scale"].reshape(1)
    torch.save({**old, "context_length": torch.tensor(16)}, tmp_path / "old.pt")
    loaded = create_clip("tiny-eva", str(tmp_path / "old.pt")).state_dict()
    assert all(torch.equal(loaded[key], value) for key, value in weights.items())


@pytest.mark.parametrize(
    ("file", "architecture"),
    [("tiny-vit-large", "tiny-vit"), ("tiny-vit", "tiny-vit-large"), ("tiny-rn", "tiny-vit"), ("tiny-eva", "tiny-vit")],
)
def test_files_of_another_architecture_are_refused(tmp_path: Path, file: str, architecture: str) -> None:
    """Also one that differs in picture size alone, whose positions open_clip itself would resize without a word."""
    torch.save(weights_of(file), tmp_path / "other.pt")
    with pytest.raises(DataError, match=f"other.pt .as {architecture}.: (fits only in part|1 weights have another)"):
        OpenClipEncoder(architecture, str(tmp_path / "other.pt"))


class Evil:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return (print, ("this must not run",))


@pytest.mark.parametrize("kind", ["timm", "open_clip"])
@pytest.mark.parametrize("damage", ["cut", "cut safetensors", "pickle", "evil", "empty"])
def test_broken_files_and_pickles_are_refused(
    tmp_path: Path, kind: str, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / ("weights.safetensors" if "safetensors" in damage else "weights.pt")
    weights = {"conv1.weight": torch.zeros(64, 64)}
    if damage == "cut":
        torch.save(weights, path)
    elif damage == "cut safetensors":
        save_file(weights, path)
    elif damage == "pickle":
        path.write_bytes(pickle.dumps({"conv1.weight": np.zeros(3)}))
    elif damage == "evil":
        torch.save({"state_dict": Evil()}, path)
    if damage.startswith("cut"):
        path.write_bytes(path.read_bytes()[:-2000])
    elif damage == "empty":
        path.write_bytes(b"")
    with pytest.raises(DataError, match=f"{path.name}: is not a readable weight file"):
        TimmEncoder("resnet10t", str(path)) if kind == "timm" else OpenClipEncoder("tiny-vit", str(path))
    assert "must not run" not in capsys.readouterr().out


def test_a_file_takes_the_preprocessing_of_its_tag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.save(weights_of("tiny-vit"), tmp_path / "w.pt")
    siglip = {"mean": (0.5,) * 3, "std": (0.5,) * 3, "interpolation": "bilinear", "resize_mode": "squash"}
    tags = {"webli": siglip, "same": dict(siglip)}
    monkeypatch.setitem(open_clip.pretrained._PRETRAINED, "tiny-vit", tags)
    made = OpenClipEncoder("tiny-vit", str(tmp_path / "w.pt")).manifest()["preprocessing"]
    assert made["resize_mode"] == "squash"
    assert made["mean"] == [0.5, 0.5, 0.5]
    assert made["size"] == [32, 32]
    tags["other"] = {**siglip, "resize_mode": "shortest"}
    with pytest.raises(ConfigError, match=r"differ in preprocessing.*encoder\.tag=.*webli, same, other"):
        OpenClipEncoder("tiny-vit", str(tmp_path / "w.pt"))
    other = OpenClipEncoder("tiny-vit", str(tmp_path / "w.pt"), tag="other")
    assert other.manifest()["preprocessing"] == {**made, "resize_mode": "shortest"}
    tags["quick"] = {**siglip, "quick_gelu": True}
    with pytest.raises(ConfigError, match=r"weights want QuickGELU; use encoder.architecture=tiny-vit-quickgelu"):
        OpenClipEncoder("tiny-vit", str(tmp_path / "w.pt"), tag="quick")
    with pytest.raises(ConfigError, match=r"tag of tiny-vit; its tags: webli"):
        OpenClipEncoder("tiny-vit", str(tmp_path / "w.pt"), tag="nothing")


def test_the_configuration_beside_a_file_is_heeded(tmp_path: Path) -> None:
    torch.save(weights_of("tiny-vit"), tmp_path / "w.pt")
    beside = tmp_path / "open_clip_config.json"
    config = open_clip.get_model_config("tiny-vit")
    preprocessing = {"mean": [0, 0, 0], "std": [1, 1, 1], "interpolation": "bilinear", "resize_mode": "longest"}
    beside.write_text(json.dumps({"model_cfg": config, "preprocess_cfg": preprocessing}))
    made = OpenClipEncoder("tiny-vit", str(tmp_path / "w.pt"))
    assert made.preprocessing == {**preprocessing, "size": [32, 32], "mode": "RGB", "fill_color": 0}
    beside.write_text(json.dumps({"model_cfg": {**config, "quick_gelu": True}}))
    with pytest.raises(
        ConfigError, match=r"says QuickGELU.*has plain GELU; use encoder.architecture=tiny-vit-quickgelu"
    ):
        OpenClipEncoder("tiny-vit", str(tmp_path / "w.pt"))
    beside.write_text(json.dumps({"model_cfg": {**config, "embed_dim": 512}}))
    with pytest.raises(ConfigError, match=r"embed_dim 512.*has 32"):
        OpenClipEncoder("tiny-vit", str(tmp_path / "w.pt"))
    beside.write_text("[1")
    with pytest.raises(DataError, match=r"open_clip_config\.json: is not a configuration"):
        OpenClipEncoder("tiny-vit", str(tmp_path / "w.pt"))


def test_wrong_width_and_unknown_tags_of_timm() -> None:
    with pytest.raises(ConfigError, match=r"dim=512: the features of tiny-vit \(stream video\) have 32"):
        OpenClipEncoder("tiny-vit", dim=512)
    assert OpenClipEncoder("tiny-vit", dim=32).shapes == {"video": (32, 1)}
    streams = {"a": {"grid": 1}, "b": {"grid": 2, "stages": [1]}}
    assert TimmEncoder("resnet10t", False, streams, 64, dim={"a": 512, "b": 64}).shapes == {"a": (512, 1), "b": (64, 4)}
    with pytest.raises(ConfigError, match=r"dim=65.*stream b\) have 64"):
        TimmEncoder("resnet10t", False, streams, 64, dim={"b": 65})
    with pytest.raises(ConfigError, match=r"resnet50 has no weights 'a9_in1k'; its tags: .*a1_in1k"):
        TimmEncoder("resnet50.a9_in1k", False)
    with pytest.raises(ConfigError, match="cannot encode pictures of 96 x 96"):
        TimmEncoder("vit_tiny_patch16_224", False, size=96)
    with pytest.raises(ConfigError, match=r"near: .*resnet50"):
        TimmEncoder("resnt50", False)


def test_an_architecture_whose_tag_does_not_tell_its_gelu_is_not_sent_in_circles() -> None:
    from muvr_train.features.encoders.clip_loading import _check_tag

    name = "roberta-ViT-B-32"
    _check_tag(name, "laion2b_s12b_b32k", open_clip.get_model_config(name))


def test_what_the_hubs_library_prints_is_not_logged_as_well(caplog: pytest.LogCaptureFixture) -> None:
    hub = logging.getLogger("huggingface_hub")
    assert hub.handlers, "it prints"
    before = hub.propagate
    with _without_notes():
        logging.getLogger("huggingface_hub.utils").warning("Retrying in 1s")
    assert "Retrying" not in caplog.text
    assert hub.propagate == before
