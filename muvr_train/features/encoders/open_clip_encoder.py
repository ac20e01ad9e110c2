"""Any open_clip model as a frame encoder, with its own preprocessing and its text tower."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from muvr_train.errors import ConfigError
from muvr_train.features.encoders.base import FrameEncoder
from muvr_train.features.encoders.clip_loading import create_clip
from muvr_train.features.encoders.clip_regions import place_embeddings, region_embeddings
from muvr_train.features.encoders.clip_texts import TextTokenizer, check_text_windows
from muvr_train.features.encoders.pixels import PillowFrames
from muvr_train.features.encoders.streams import StreamSpec
from muvr_train.features.encoders.weights import weights_hash
from muvr_train.features.text_hash import check_texts

log = logging.getLogger(__name__)
TEXTS = 256  # token rows per forward pass of the text tower


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
        dim: the width that the embedding must have; null: any.
        tag: where `pretrained` is a file, the tag whose preprocessing and GELU its weights have; needed where the
            architecture's tags differ in that.
        text_windows: what happens to texts over the context length: "cut" keeps the beginning and the end token, "mean"
            splits the text into as few windows of nearly equal length as hold all of it, each with start and end token,
            and averages their L2-normalised embeddings with equal weight.

    Attributes:
        texts_cut: how many texts `encode_texts` has cut so far.

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
        dim: int | Mapping[str, int] | None = None,
        tag: str | None = None,
        text_windows: str = "cut",
    ) -> None:
        self.architecture = architecture
        self.specs = StreamSpec.parse(streams)
        for stream, spec in self.specs.items():
            if spec.stages is not None:
                raise ConfigError(
                    f"streams.{stream}.stages: an open_clip encoder only has its last map; leave stages out"
                )
        self.text_windows = check_text_windows(text_windows)
        self.texts_cut = 0
        model = create_clip(architecture, pretrained, tag)
        self.pretrained = f"file:{Path(pretrained).name}" if pretrained and Path(pretrained).is_file() else pretrained
        self.weights_hash = weights_hash(model)
        self.preprocessing = {key: _plain(value) for key, value in model.visual.preprocess_cfg.items()}
        self.preprocess = pixels = PillowFrames.from_open_clip(self.preprocessing)
        self.size = min(pixels.size)
        self.mean, self.std = tuple(self.preprocessing["mean"]), tuple(self.preprocessing["std"])
        self._tokenizer: TextTokenizer | None = None
        super().__init__(name or architecture, model, batch_size, device, precision, compile)
        self.check_settings(pixels.size, dim)

    @property
    def streams(self) -> tuple[str, ...]:
        """The names of the streams."""
        return tuple(self.specs)

    def compute(self, x: Tensor) -> dict[str, Tensor]:
        """Embeddings [n, R, D] per stream, not normalised."""
        grids = {spec.grid for spec in self.specs.values()}
        found = region_embeddings(self.model.visual, x, grids)
        return {name: found[spec.grid] for name, spec in self.specs.items()}

    def compute_maps(self, x: Tensor, stream: str) -> Tensor:  # noqa: ARG002 (they all are in one space)
        """Embeddings [n, H, W, D] of all places of the last map."""
        return place_embeddings(self.model.visual, x)

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Text embeddings [n, D] in the space of the image embeddings.

        They are not normalised; with text_windows "mean" each is a mean of unit vectors. The first texts that are cut
        are logged, all are counted in `texts_cut`.

        Raises:
            DataError: no texts, an empty text, a tokenizer that cannot be had.
        """
        check_texts(texts)
        if self._tokenizer is None:
            self._tokenizer = TextTokenizer(self.architecture)
        if self.text_windows == "mean":
            windows = [self._tokenizer.split(text) for text in texts]
            parts = torch.split(F.normalize(self._embed(torch.cat(windows)), dim=-1), [len(rows) for rows in windows])
            return np.stack([part.mean(dim=0).numpy() for part in parts])
        tokens, cut = self._tokenizer.cut(texts)
        if cut and not self.texts_cut:
            log.warning(
                "%d of %d texts are longer than the %d tokens of %s and are cut; text_windows=mean reads them whole",
                cut,
                len(texts),
                self._tokenizer.length,
                self.name,
            )
        self.texts_cut += cut
        return np.asarray(self._embed(tokens).numpy(), dtype=np.float32)

    def _embed(self, tokens: Tensor) -> Tensor:
        with torch.inference_mode():
            parts = [self.model.encode_text(rows.to(self.device)).float().cpu() for rows in torch.split(tokens, TEXTS)]
        return torch.cat(parts)

    def manifest(self) -> dict[str, Any]:
        """Plain data for `make_manifest`."""
        import open_clip

        config = open_clip.get_model_config(self.architecture) or {}
        windows = {} if self.text_windows == "cut" else {"text_windows": self.text_windows}
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
            "text_context_length": config.get("text_cfg", {}).get("context_length", 77),
            **windows,
            **self.settings(),
        }


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, (tuple, list)) else value
