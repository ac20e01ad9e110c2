"""Models from configs and from checkpoints."""

from __future__ import annotations

import hashlib
import importlib
import inspect
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from omegaconf import DictConfig

from muvr_train.errors import ConfigError, DataError
from muvr_train.features.store import FeatureStore
from muvr_train.memory import parse_bytes
from muvr_train.models.base import SimilarityNetwork
from muvr_train.models.baselines import BASELINES
from muvr_train.models.fusion.base import FusionHead
from muvr_train.models.retriever import Retriever
from muvr_train.preflight.exported import weights_file
from muvr_train.processes import Group
from muvr_train.runner.classes import Node, build, plain
from muvr_train.runner.exported import read_weights
from muvr_train.types import StoreDims, Tokens
from muvr_train.whitening import Whitening

FIT_VIDEOS = 4096
"""Whitening is fitted on at most so many videos of the training split (drawn once, seeded)."""

MEAN = {"_target_": "muvr_train.models.fusion.mean.MeanFusion"}


@dataclass(frozen=True)
class Loaded:
    """A model from a checkpoint, its recipe (plain data) and the checkpoint's SHA-256."""

    model: Retriever
    recipe: dict[str, Any]
    digest: str


def build_retriever(
    model: DictConfig | dict[str, Any], fusion: DictConfig | dict[str, Any], dims: StoreDims
) -> Retriever:
    """Build an untrained model of the sizes that the store dictates.

    Raises:
        ConfigError: the class cannot be imported or refuses the settings.
    """
    with torch.random.fork_rng(devices=[]):  # a network of one seed starts with the same weights under every head
        head = build(fusion, "fusion", FusionHead, dims=dims)
    maps = getattr(head, "extra_maps", 0)
    if maps and not _takes(model, "extra_maps"):
        raise ConfigError(
            f"fusion {type(head).__name__} gives the network {maps} extra map(s), which model._target_="
            f"{plain(model).get('_target_')} cannot read: choose model=s2vs, or another fusion"
        )
    more = {"extra_maps": maps} if maps else {}
    network = build(model, "model", SimilarityNetwork, dim=dims.dim, regions=dims.regions, **more)
    for value, kind, group in ((network, SimilarityNetwork, "model"), (head, FusionHead, "fusion")):
        if not isinstance(value, kind):
            raise ConfigError(f"{group}._target_ gives a {type(value).__name__}; it must be a {kind.__name__}")
    return Retriever(network, head, dims)


def _takes(node: Node, argument: str) -> bool:
    """Whether the class that a config node names has an argument; what cannot be imported is left to `build`."""
    module, _, name = str(plain(node).get("_target_", "")).rpartition(".")
    try:
        return argument in inspect.signature(getattr(importlib.import_module(module), name)).parameters
    except (ImportError, AttributeError, ValueError):
        return True


PRODUCT_TYPES = {"32": None, "bf16": torch.bfloat16, "fp16": torch.float16}


def trial_model(cfg: DictConfig) -> Retriever:
    """Build the model of a config on made-up sizes, to find wrong settings before any data is touched."""
    return build_retriever(without_weights(cfg.model), cfg.fusion, StoreDims(regions=1, dim=64, text_dim=64))


def without_weights(model: Node) -> Node:
    """Settings of a network that reads no weights from a file."""
    return model if model.get("weights") is None else {**plain(model), "weights": None}


def limited(model: Retriever, cfg: DictConfig) -> Retriever:
    """Tell a model's network what `memory_budget` leaves it, and in which precision `scoring_precision` multiplies."""
    budget = cfg.get("memory_budget")
    model.network.memory_budget = None if budget is None else parse_bytes(budget)
    if model.text_part is not None:
        model.text_part.block_elements = model.network.products_at_once(model.text_part.block_elements)
    model.network.product_dtype = PRODUCT_TYPES[str(cfg.get("scoring_precision", 32))]
    return model


def check_recipe(recipe: dict[str, Any], path: Path) -> None:
    """Refuse a checkpoint whose recipe would call anything but a network and a head.

    Raises:
        DataError: a class path that is none of these, or one inside the settings.
    """
    for group, kind in (("model", SimilarityNetwork), ("fusion", FusionHead)):
        node = dict(recipe[group])
        target = node.pop("_target_", "")
        if "_target_" in repr(node):
            raise DataError(f"{path}: the checkpoint's {group} settings name further classes; such files are refused")
        module, _, name = target.rpartition(".")
        try:
            found = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError, ValueError) as error:
            raise DataError(
                f"{path}: its {group} is the class {target!r}, which cannot be imported here. Run this in the "
                "folder where its file lies, or give --config-dir DIR with DIR beside that file"
            ) from error
        if not (isinstance(found, type) and issubclass(found, kind)):
            raise DataError(f"{path}: its {group} is {target!r}, which is no {kind.__name__}; such files are refused")


def share_state(model: Retriever, group: Group) -> None:
    """Give all processes the first one's weights and buffers: what each has fitted for itself differs by rounding."""
    if group.size > 1:
        state = {name: value.cpu() for name, value in model.state_dict().items()} if group.is_first else None
        model.load_state_dict(group.broadcast(state))


def fit_model(model: Retriever, store: FeatureStore, train_videos: Sequence[str], seed: int = 0) -> None:
    """Fit what a model learns before training (whitening), on videos of the training split only."""
    if model.needs_fit:
        model.fit(training_tokens(store, train_videos, seed))


def training_tokens(store: FeatureStore, videos: Sequence[str], seed: int, block: int = 64) -> Iterator[Tokens]:
    """Give the features of at most `FIT_VIDEOS` videos in blocks."""
    held = sorted(video for video in set(videos) if store.has(video))
    if not held:
        raise DataError(f"no video of the training split has features in {store.path}: the whitening cannot be fitted")
    if len(held) > FIT_VIDEOS:
        chosen = np.random.default_rng(seed).choice(len(held), FIT_VIDEOS, replace=False)
        held = [held[i] for i in sorted(chosen)]
    for start in range(0, len(held), block):
        yield store.tokens(held[start : start + block])


def baseline_models(
    store: FeatureStore, train_videos: Sequence[str], names: Sequence[str] | None = None
) -> dict[str, Retriever]:
    """Build the untrained models that a trained one is compared with, whitened on the same training split."""
    models: dict[str, Retriever] = {}
    whitenings: list[Whitening | None] = []
    for name in names or BASELINES:
        if store.dims.regions == 1 and name.startswith("chamfer") and "global" not in name:
            continue
        if store.dims.regions == 1 and name == "frame_max global whitened":
            continue
        models[name] = build_retriever(BASELINES[name], MEAN, store.dims)
        own, fitted = models[name].network.whitening, next((w for w in whitenings if w is not None), None)
        if own is not None and fitted is not None:
            own.load_state_dict(fitted.state_dict())  # the same vectors, whatever is done with them afterwards
        fit_model(models[name], store, train_videos)
        whitenings.append(own)
    return models


def recipe_of(
    cfg: DictConfig, dims: StoreDims, store: FeatureStore, trained_queries: Collection[str]
) -> dict[str, Any]:
    """Collect what a checkpoint needs to be built again and evaluated fairly, as plain data."""
    return {
        "model": plain(cfg.model),
        "fusion": plain(cfg.fusion),
        "dims": asdict(dims),
        "encoder": store.manifest.get("encoder"),
        "data": plain(cfg.data),
        "benchmark": plain(cfg.benchmark),
        "seed": cfg.seed,
        "trained_queries": sorted(trained_queries),
    }


def load_checkpoint(path: Path, store: FeatureStore, key: str = "ckpt_path") -> Loaded:
    """Build the model of a checkpoint or an exported model and load its weights (no code of a file is run).

    A store without texts does for a checkpoint that was trained with them: it is scored on video queries. `key` is the
    setting that names it, for messages.

    Raises:
        DataError: no such file, no checkpoint of this package, or features of another size than it was trained on.
    """
    path = weights_file(path)
    recipe, weights = read_weights(path, key)
    dims, have = StoreDims(**recipe["dims"]), store.dims
    without_texts = have.text_dim is None and (have.regions, have.dim) == (dims.regions, dims.dim)
    if dims != have and not without_texts:
        raise DataError(
            f"{path} was trained on features of another size than {store.path} holds: checkpoint {dims}; store {have}. "
            "Give the store it was trained on (data.features=...) or train on this one"
        )
    check_recipe(recipe, path)
    model = build_retriever(without_weights(recipe["model"]), recipe["fusion"], dims)
    try:
        model.load_state_dict(weights, strict=True)
    except RuntimeError as error:
        raise DataError(f"{path}: the weights do not fit the model that the checkpoint describes: {error}") from error
    return Loaded(model.eval(), recipe, hashlib.sha256(path.read_bytes()).hexdigest())
