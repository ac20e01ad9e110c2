"""Any open_clip model as a frame encoder, with its own preprocessing and its text tower."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from muvr_train.errors import ConfigError, DataError, shorten
from muvr_train.features.encoders.base import FrameEncoder
from muvr_train.features.encoders.clip_regions import region_embeddings
from muvr_train.features.encoders.pixels import PillowFrames
from muvr_train.features.encoders.streams import StreamSpec
from muvr_train.features.encoders.weights import weights_hash
from muvr_train.features.text_hash import check_texts

log = logging.getLogger(__name__)


class OpenClipEncoder(FrameEncoder):
    """An image-text model of open_clip: global image embeddings, or a grid of region embeddings in the same space.

    Args:
        architecture: a name that open_clip lists, for example "ViT-B-32".
        pretrained: a tag that open_clip lists for the architecture, or a weight file; null leaves
            random weights (seeded).
        streams: name -> {grid}; 1 is the model's image embedding, R > 1 are R x R regions of the last map, each
            projected as the embedding is. None: one global stream.
        batch_size: frames per forward pass.
        name: what stores call the encoder; default: the architecture.
        device: where the network runs.
        precision: "32", "bf16" or "fp16".
        compile: use torch.compile.

    Raises:
        ConfigError: unknown architecture or tag, a tag trained with another GELU than the architecture has.
        DataError: weights that cannot be had or do not fit completely.
    """

    def __init__(
        self,
        architecture: str,
        pretrained: str | None = None,
        streams: Mapping[str, Mapping[str, Any]] | None = None,
        batch_size: int = 32,
        name: str | None = None,
        device: torch.device | str = "cpu",
        precision: str = "32",
        compile: bool = False,  # noqa: A002
    ) -> None:
        self.architecture = architecture
        self.specs = StreamSpec.parse(streams)
        for stream, spec in self.specs.items():
            if spec.stages is not None:
                raise ConfigError(
                    f"streams.{stream}.stages: an open_clip encoder only has its last map; leave stages out"
                )
        model = _create(architecture, pretrained)
        self.pretrained = f"file:{Path(pretrained).name}" if pretrained and Path(pretrained).is_file() else pretrained
        self.weights_hash = weights_hash(model)
        self.preprocessing = {key: _plain(value) for key, value in model.visual.preprocess_cfg.items()}
        self.preprocess = PillowFrames.from_open_clip(self.preprocessing)
        self.size = min(self.preprocess.size)
        self.mean = tuple(self.preprocessing["mean"])
        self.std = tuple(self.preprocessing["std"])
        self._tokenizer: Any = None
        super().__init__(name or architecture, model, batch_size, device, precision, compile)
        self.try_settings(self.preprocess.size)

    @property
    def streams(self) -> tuple[str, ...]:
        """The names of the streams."""
        return tuple(self.specs)

    def compute(self, x: Tensor) -> dict[str, Tensor]:
        """Embeddings [n, R, D] per stream, not normalised."""
        grids = {spec.grid for spec in self.specs.values()}
        found = region_embeddings(self.model.visual, x, grids)
        return {name: found[spec.grid] for name, spec in self.specs.items()}

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Text embeddings [n, D] in the space of the image embeddings, not normalised.

        Texts over the context length are cut, the end token kept; how many is logged.

        Raises:
            DataError: no texts, an empty text, a tokenizer that cannot be had.
        """
        check_texts(texts)
        tokenizer = self._get_tokenizer()
        length = getattr(tokenizer, "context_length", None)
        if length and hasattr(tokenizer, "encode"):
            cut = sum(len(tokenizer.encode(text)) + 2 > length for text in texts)
            if cut:
                log.warning(
                    "%d of %d texts are longer than the %d tokens of %s and are cut", cut, len(texts), length, self.name
                )
        tokens = tokenizer(list(texts))
        with torch.inference_mode():
            parts = [self.model.encode_text(part.to(self.device)).float().cpu() for part in torch.split(tokens, 256)]
        return np.asarray(torch.cat(parts).numpy(), dtype=np.float32)

    def _get_tokenizer(self) -> Any:
        import open_clip

        if self._tokenizer is None:
            try:
                self._tokenizer = open_clip.get_tokenizer(self.architecture)
            except (OSError, RuntimeError, ImportError, ValueError) as error:
                raise DataError(f"the tokenizer of {self.architecture} cannot be had: {_first_line(error)}") from error
        return self._tokenizer

    def manifest(self) -> dict[str, Any]:
        """Plain data for `make_manifest`."""
        import open_clip

        config = open_clip.get_model_config(self.architecture) or {}
        return {
            "encoder": self.name,
            "architecture": f"open_clip/{self.architecture}",
            "pretrained": self.pretrained,
            "weights_hash": self.weights_hash,
            "preprocessing": self.preprocessing,
            "quick_gelu": bool(config.get("quick_gelu", False)),
            "features": {name: {"grid": spec.grid} for name, spec in self.specs.items()},
            "text_encoder": self.name,
            "text_aligned": True,
            **self.settings(),
        }


def _create(architecture: str, pretrained: str | None) -> Any:
    """Make the model and load all of its weights; random ones are seeded."""
    import open_clip

    config = open_clip.get_model_config(architecture)
    if config is None:
        near = [known for known in open_clip.list_models() if architecture.lower()[:6] in known.lower()]
        raise ConfigError(
            f"encoder.architecture={architecture}: open_clip has no such model; "
            f"it has {shorten(near or open_clip.list_models(), 12)}"
        )
    is_file = pretrained is not None and Path(pretrained).is_file()
    if pretrained and not is_file:
        _check_tag(architecture, pretrained, config)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        try:
            return open_clip.create_model(architecture, pretrained=pretrained or None)
        except (RuntimeError, OSError, ValueError, KeyError, EOFError, StopIteration, pickle.UnpicklingError) as error:
            if pretrained is None:
                raise
            if is_file:
                raise DataError(f"{pretrained}: does not fit {architecture} completely: {_misfit(error)}") from error
            raise DataError(
                f"the weights {pretrained} of {architecture} cannot be had ({_first_line(error)}); "
                "without network give encoder.pretrained=<weight file>"
            ) from error


def _check_tag(architecture: str, tag: str, config: Mapping[str, Any]) -> None:
    import open_clip

    known = open_clip.pretrained.list_pretrained_tags_by_model(architecture)
    settings = open_clip.get_pretrained_cfg(architecture, tag)
    if not settings:
        raise ConfigError(
            f"encoder.pretrained={tag}: neither a file nor a tag of {architecture}; "
            f"its tags: {', '.join(known) or 'none'}"
        )
    asked, ours = bool(settings.get("quick_gelu", False)), bool(config.get("quick_gelu", False))
    if asked != ours:
        other = f"{architecture}-quickgelu" if asked else architecture.removesuffix("-quickgelu")
        raise ConfigError(
            f"{architecture} with pretrained={tag}: the weights want {'Quick' if asked else 'plain '}GELU; "
            f"use encoder.architecture={other}"
        )


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


def _misfit(error: Exception) -> str:
    """What PyTorch says about keys that do not fit, shortened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return shorten([line[:200] for line in lines[1:] or lines], 3) or type(error).__name__


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, (tuple, list)) else value
