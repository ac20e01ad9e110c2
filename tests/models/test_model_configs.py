"""The YAML files of this room build what they name, and their keys are exactly the constructors' arguments."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import get_class, instantiate

from muvr_train.losses.base import Loss
from muvr_train.losses.composite import CompositeLoss
from muvr_train.models.base import SimilarityNetwork
from muvr_train.models.fusion.base import FusionHead
from muvr_train.types import StoreDims

CONFIGS = Path(__file__).parents[2] / "configs"
FROM_STORE = {"self", "dim", "regions", "dims", "extra_maps"}  # the last one from the fusion head


def build(group: str, name: str, overrides: tuple[str, ...] = (), **from_store: object) -> tuple[object, object]:
    with initialize_config_dir(str(CONFIGS), version_base=None):
        cfg = compose(overrides=[f"+{group}={name}", *overrides])[group]
    return cfg, instantiate(cfg, **from_store)


def arguments(target: str) -> set[str]:
    return set(inspect.signature(get_class(target).__init__).parameters) - FROM_STORE


@pytest.mark.parametrize("name", [path.stem for path in sorted((CONFIGS / "model").glob("*.yaml"))])
def test_models(name):
    cfg, model = build("model", name, dim=16, regions=2)
    assert isinstance(model, SimilarityNetwork)
    assert set(cfg) - {"_target_"} == arguments(cfg._target_)


@pytest.mark.parametrize("name", ["mean", "weighted"])
def test_fusion(name):
    cfg, head = build("fusion", name, dims=StoreDims(regions=1, dim=8, text_dim=8))
    assert isinstance(head, FusionHead)
    assert set(cfg) - {"_target_"} <= arguments(cfg._target_)


@pytest.mark.parametrize("name", ["s2vs", "infonce"])
def test_losses(name):
    cfg, loss = build("loss", name)
    assert isinstance(loss, CompositeLoss)
    assert set(loss.weights) == set(cfg.weights) == set(cfg.losses)
    for part in cfg.losses.values():
        assert set(part) - {"_target_"} == arguments(part._target_)


def test_loss_parts_survive_yaml():
    """`on` is a boolean word in YAML 1.1; it must stay a key here, also in overrides."""
    _, loss = build("loss", "s2vs", ("loss.losses.infonce_fused.on=video", "loss.losses.infonce_text=null"))
    parts = {name: part.on for name, part in loss.losses.items() if isinstance(part, Loss)}
    assert parts["infonce_fused"] == parts["hard_negative"] == "video"
    assert "infonce_text" not in parts
    assert loss.needs == {"range_excess", "self"}
