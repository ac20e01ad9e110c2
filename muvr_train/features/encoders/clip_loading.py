"""Open_clip models with all of their weights, their own preprocessing and the right GELU, or an error."""

from __future__ import annotations

import json
import logging
import pickle
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from muvr_train.errors import ConfigError, DataError, shorten
from muvr_train.features.encoders.running import first_line
from muvr_train.features.encoders.weights import load_checked, read_weights
from muvr_train.names import nearest_names

log = logging.getLogger(__name__)
SIDECAR = "open_clip_config.json"
"""Beside a weight file, as the Hugging Face hub stores it: {model_cfg, preprocess_cfg}."""


def create_clip(architecture: str, pretrained: str | None, tag: str | None = None) -> Any:
    """Make a model; random weights are seeded.

    A weight file's preprocessing is that of the configuration beside it (open_clip_config.json), else of `tag`, else
    what all tags of the architecture have in common.

    Args:
        architecture: a name that open_clip lists.
        pretrained: a tag, a weight file, or None for random weights.
        tag: where `pretrained` is a file or None: the tag whose preprocessing and GELU they have.

    Raises:
        ConfigError: unknown architecture or tag, a tag trained with another GELU than the architecture has, a file
            whose preprocessing is not known.
        DataError: weights that cannot be had, do not fit completely, or belong to another architecture.
    """
    import open_clip

    config = open_clip.get_model_config(architecture)
    if config is None:
        known = open_clip.list_models()
        near = nearest_names(architecture, known, 8, least=0.5)
        raise ConfigError(
            f"encoder.architecture={architecture}: open_clip has no such model; "
            f"{'near' if near else 'it has'}: {shorten(near or known, 12)}"
        )
    is_file = pretrained is not None and Path(pretrained).is_file()
    if pretrained and not is_file:
        _check_tag(architecture, pretrained, config)
        return _create(architecture, pretrained)
    if tag:
        _check_tag(architecture, tag, config)
    beside = _beside(Path(pretrained), architecture, config) if pretrained else {}
    model = _create(architecture, None, preprocessing_of_file(architecture, tag, beside) if pretrained or tag else {})
    if pretrained:
        _load_file(model, Path(pretrained), architecture)
    else:
        log.warning("encoder %s has random weights: pretrained is null", architecture)
    return model


def _create(architecture: str, tag: str | None, preprocessing: Mapping[str, Any] | None = None) -> Any:
    import open_clip

    with torch.random.fork_rng(devices=[]), _without_notes():
        torch.manual_seed(0)
        try:
            return open_clip.create_model(
                architecture, tag, pretrained_text=False, force_preprocess_cfg=dict(preprocessing or {})
            )
        except (RuntimeError, OSError, ValueError, KeyError, EOFError, ImportError, pickle.UnpicklingError) as error:
            if tag is None:
                raise DataError(f"{architecture} cannot be made: {first_line(error)}") from error
            raise DataError(
                f"the weights {tag} of {architecture} cannot be had ({first_line(error)}); "
                "without network give encoder.pretrained=<weight file>"
            ) from error


@contextmanager
def _without_notes() -> Iterator[None]:
    """Silence open_clip, which says that weights are random where they are loaded a moment later.

    The hub's library prints its notes itself; they do not go to the log as well.
    """

    def ours(record: logging.LogRecord) -> bool:
        return record.levelno >= logging.ERROR or "open_clip" not in Path(record.pathname).parts

    root = logging.getLogger()
    hub = logging.getLogger("huggingface_hub")
    propagate, hub.propagate = hub.propagate, not hub.handlers
    root.addFilter(ours)
    try:
        yield
    finally:
        root.removeFilter(ours)
        hub.propagate = propagate


def _check_tag(architecture: str, tag: str, config: Mapping[str, Any]) -> None:
    """Refuse a tag that open_clip does not list, or one whose weights want another GELU."""
    import open_clip

    settings = open_clip.get_pretrained_cfg(architecture, tag)
    if not settings:
        known = open_clip.pretrained.list_pretrained_tags_by_model(architecture)
        raise ConfigError(
            f"encoder.pretrained={tag}: neither a file nor a tag of {architecture}; "
            f"its tags: {', '.join(known) or 'none'}"
        )
    asked, ours = bool(settings.get("quick_gelu", False)), bool(config.get("quick_gelu", False))
    other = f"{architecture}-quickgelu" if asked else architecture.removesuffix("-quickgelu")
    if asked != ours and other != architecture and other in open_clip.list_models():
        raise ConfigError(
            f"{architecture} with pretrained={tag}: the weights want {'Quick' if asked else 'plain '}GELU; "
            f"use encoder.architecture={other}"
        )


def _beside(path: Path, architecture: str, config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Read the preprocessing beside a weight file, if there is any, and refuse another GELU or embedding size."""
    sidecar = path.with_name(SIDECAR)
    if not sidecar.is_file():
        return {}
    try:
        content = json.loads(sidecar.read_text(encoding="utf-8"))
        theirs, preprocessing = dict(content.get("model_cfg") or {}), dict(content.get("preprocess_cfg") or {})
    except (ValueError, AttributeError, TypeError) as error:
        raise DataError(f"{sidecar}: is not a configuration of open_clip ({first_line(error)})") from error
    if theirs and bool(theirs.get("quick_gelu", False)) != bool(config.get("quick_gelu", False)):
        kinds = {True: "QuickGELU", False: "plain GELU"}
        quick = bool(theirs.get("quick_gelu", False))
        other = f"{architecture}-quickgelu" if quick else architecture.removesuffix("-quickgelu")
        raise ConfigError(
            f"{path}: {SIDECAR} beside it says {kinds[quick]}, encoder.architecture={architecture} has "
            f"{kinds[not quick]}; use encoder.architecture={other}"
        )
    if theirs.get("embed_dim", config.get("embed_dim")) != config.get("embed_dim"):
        raise ConfigError(
            f"{path}: {SIDECAR} beside it says embed_dim {theirs['embed_dim']}, encoder.architecture={architecture} "
            f"has {config.get('embed_dim')}; is it another architecture?"
        )
    return preprocessing


def preprocessing_of_file(architecture: str, tag: str | None, beside: Mapping[str, Any]) -> Mapping[str, Any]:
    """Give mean, std, interpolation and resize mode of a weight file; nothing where open_clip knows no weights.

    Args:
        architecture: a name that open_clip lists.
        tag: the tag whose weights they are, if known.
        beside: what the configuration beside the file says.

    Raises:
        ConfigError: no tag is given and the architecture's tags differ.
    """
    import open_clip

    if beside:
        return {name: value for name, value in beside.items() if name != "size"}
    names = ("mean", "std", "interpolation", "resize_mode")
    tags = [tag] if tag else open_clip.pretrained.list_pretrained_tags_by_model(architecture)
    found: list[dict[str, Any]] = []
    for name in tags:
        settings = open_clip.get_pretrained_cfg(architecture, name)
        entry = {key: settings[key] for key in names if settings.get(key) is not None}
        found += [entry] if entry not in found else []
    if len(found) > 1:
        raise ConfigError(
            f"encoder.architecture={architecture}: its weights differ in preprocessing, so a weight file needs "
            f"encoder.tag=<which it is>: {', '.join(tags)}"
        )
    return found[0] if found else {}


def _load_file(model: Any, path: Path, architecture: str) -> None:
    """Load a file whose names may be those of an older layout; nothing is resized or filled in."""
    from open_clip.convert import convert_state_dict
    from open_clip.model import convert_to_custom_text_state_dict

    weights: dict[str, Tensor] = dict(convert_state_dict(model, read_weights(path)))
    if "positional_embedding" in weights and not hasattr(model, "positional_embedding"):
        weights = convert_to_custom_text_state_dict(weights)
    own = model.state_dict()
    for name in ("input_resolution", "context_length", "vocab_size", "text.transformer.embeddings.position_ids"):
        if name not in own:
            weights.pop(name, None)
    for name in ("logit_scale", "logit_bias"):  # one number, with or without a dimension
        if name in weights and name in own and weights[name].numel() == own[name].numel():
            weights[name] = weights[name].reshape(own[name].shape)
    load_checked(model, weights, f"{path} (as {architecture})")
