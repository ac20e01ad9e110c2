"""The base class of heads whose own layers read the text."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from muvr_train.errors import ConfigError
from muvr_train.models.functional import compact, fill_padding, full_precision, max_product, orthogonal_map
from muvr_train.models.fusion.base import part_present
from muvr_train.models.fusion.weighted import WeightedFusion
from muvr_train.types import EncodedQuery, QueryBatch, StoreDims, TextTokens, Tokens


@dataclass(frozen=True)
class Pair:
    """The video and the text of queries that have both, float32; everything else is 0 under a False mask.

    Attributes:
        both: which queries have a real frame and a real word, bool [Q].
        frames: unit vectors [Q, T, R, D].
        real: real frames, bool [Q, T].
        words: unit vectors W t [Q, L, D] in the space of the frames.
        said: real words, bool [Q, L].
    """

    both: Tensor
    frames: Tensor
    real: Tensor
    words: Tensor
    said: Tensor

    def pooled(self) -> tuple[Tensor, Tensor]:
        """The video and the text as one vector each: unit means [Q, D], 0 for queries without both."""
        return F.normalize(self.frames.sum(dim=(1, 2)), dim=-1), F.normalize(self.words.sum(dim=1), dim=-1)


class TextHead(WeightedFusion):
    """Layers that compare texts with frames, and the learned calibrated mean of the parts after them.

    `text_map` is W: it starts as the identity where the sizes agree, and as a fixed orthogonal map otherwise. Queries
    that lack a part are fused as by `WeightedFusion`.

    Args:
        dims: sizes of the feature store.

    Raises:
        ConfigError: the store has no texts.
    """

    def __init__(self, dims: StoreDims) -> None:
        super().__init__(dims)
        if dims.text_dim is None:
            raise ConfigError(
                f"fusion: {type(self).__name__} reads the texts of queries, but the feature store has none: choose "
                "fusion=mean or fusion=weighted, or a store with texts"
            )
        self.text_map = nn.Linear(dims.text_dim, dims.dim, bias=False)
        with torch.no_grad():
            self.text_map.weight.copy_(orthogonal_map(dims.dim, dims.text_dim))

    def words(self, text: TextTokens, said: Tensor) -> Tensor:
        """Unit vectors W t [Q, L, D], float32, 0 where `said` bool [Q, L] is False."""
        with full_precision(text.x):
            return F.normalize(self.text_map(text.x.float().masked_fill(~said[:, :, None], 0.0)), dim=-1)

    def pair(self, query: QueryBatch) -> Pair | None:
        """What early fusion reads; None where no query of the batch has both parts."""
        video, text = query.video, query.text
        if video is None or text is None:
            return None
        both = part_present(query, "video") & part_present(query, "text")
        both = both & video.mask.any(dim=1) & text.mask.any(dim=1)
        if not bool(both.any()):
            return None
        real, said = video.mask & both[:, None], text.mask & both[:, None]
        frames = video.x.float().masked_fill(~real[:, :, None, None], 0.0)
        return Pair(both, frames, real, self.words(text, said), said)


def unit_variance(x: Tensor) -> Tensor:
    """Unit vectors [..., D] times sqrt(D): entries of about 1, as layers like them."""
    return x * math.sqrt(x.shape[-1])


def unit_length(x: Tensor) -> Tensor:
    """The way back: what layers give, entries of about 1, over sqrt(D).

    Without it one step of AdamW would add to unit vectors what is as long as they are, whatever the learning rate of
    the other layers allows.
    """
    return x / math.sqrt(x.shape[-1])


def rewriting_bytes(q: EncodedQuery, dim: int, entries: int) -> int:
    """About what rewriting a query's frames keeps until the backward pass; 0 unless there are videos and texts.

    Args:
        q: queries.
        dim: size of the vectors, which exist in several forms: read, changed, normalised, indexed, their gradients.
        entries: that layers keep of each vector.
    """
    video = q.query.video
    return 0 if video is None or q.query.text is None else 4 * video.x[0, :, :, 0].numel() * (10 * dim + entries)


def check_hidden(hidden: int) -> None:
    """Raise ConfigError unless a layer has units."""
    if hidden < 1:
        raise ConfigError(f"fusion.hidden={hidden}: must be >= 1")


def zero_linear(before: int, after: int) -> nn.Linear:
    """A linear layer that starts at 0, so that what it adds is nothing at first."""
    layer = nn.Linear(before, after)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def own_cosines(pair: Pair) -> Tensor:
    """Largest cosine over words and regions of every query with each of its own frames: [Q, T]."""
    with full_precision(pair.frames):
        cosines = torch.einsum("qld,qtrd->qltr", pair.words, pair.frames).amax(dim=3)
        return cosines.masked_fill(~pair.said[:, :, None], float("-inf")).amax(dim=1).masked_fill(~pair.real, 0.0)


def frame_cosines(pair: Pair, video: Tokens) -> Tensor:
    """Largest cosine over words and regions of every query with each frame of database videos: [Q, N, T].

    Padded frames, and queries without both parts, get 0.
    """
    with full_precision(pair.words):
        frames = video.x.float().masked_fill(~video.mask[:, :, None, None], 0.0)
        best = max_product(fill_padding(pair.words, pair.said), frames.flatten(0, 1))
        return best.view(len(best), *video.mask.shape)


def aligned(video: Tokens, index: Tokens) -> Tokens:
    """Tokens whose frames stand where those of the network's own tokens stand (which may have moved over holes).

    Raises:
        ConfigError: the network's tokens are no frames.
    """
    if torch.equal(video.mask, index.mask):
        return video
    video = compact(video)
    if not torch.equal(video.mask, index.mask):
        raise ConfigError("fusion: this head works on the frames of database videos, but the model keeps no frames")
    return video


def changed(video: Tokens, change: Tensor, rows: Tensor) -> Tokens:
    """Tokens with `change` [Q, T, R, D] added to their vectors in some rows, bool [Q]."""
    return replace(video, x=torch.where(rows[:, None, None, None], video.x + change, video.x))
