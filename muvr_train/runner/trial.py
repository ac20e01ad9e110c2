"""A model's first scores and losses, on made-up videos and texts: what does not go together ends a run early."""

from __future__ import annotations

import logging

import torch
from torch import Tensor

from muvr_train.errors import ConfigError
from muvr_train.losses.composite import CompositeLoss, LossError
from muvr_train.models.asking import NetworkError
from muvr_train.models.base import EXTRAS
from muvr_train.models.retriever import Retriever
from muvr_train.own_code import is_own
from muvr_train.training.teacher import read_from_teacher
from muvr_train.types import QueryBatch, TextTokens, Tokens

COUNT, FRAMES, WORDS = 3, 16, 2
REPEATED = 20
"""How often the made-up queries and videos stand in the batch that losses get."""
OF_SIZES = (RuntimeError, IndexError, ValueError, AssertionError)
"""What other sizes of batches may raise."""
Made = tuple[dict[str, Tensor], dict[str, Tensor]]
"""Scores and extras, see `Retriever.training_scores`."""

log = logging.getLogger(__name__)


def try_scoring(model: Retriever, wanted: frozenset[str] = frozenset()) -> Made | None:
    """Score made-up videos as training would; whitening is fitted to them.

    What a user's own network raises, and errors other than a ConfigError, are only warned of: the sizes are made up.

    Returns:
        The scores, and the extras that are wanted and that the model has; None where nothing could be scored.

    Raises:
        ConfigError: the head and the network do not go together.
    """
    if getattr(model.network, "compiled", False):
        return None  # compiling for these sizes takes longer than opening the data
    dims, present = model.dims, dict.fromkeys(("video", "text"), torch.ones(COUNT, dtype=torch.bool))
    with torch.random.fork_rng(devices=[]):
        videos, texts = _videos(model, COUNT, FRAMES), torch.randn(COUNT, WORDS, dims.text_dim or 1)
        text = TextTokens(texts, torch.ones(COUNT, WORDS, dtype=torch.bool))
        queries = QueryBatch(tuple(map(str, range(COUNT))), videos, text, present)
        try:
            if model.needs_fit:
                model.fit([_videos(model, 2, dims.dim)])
            return model.training_scores(*model.encode_batch(queries, videos), wanted)
        except Exception as error:
            if isinstance(error, ConfigError) and not isinstance(error, NetworkError):
                raise
            log.warning("the model could not score made-up videos: %s: %s", type(error).__name__, error)
            return None


def try_losses(loss: CompositeLoss, model: Retriever, made: Made | None) -> None:
    """Compute the losses on made-up scores, as training would.

    Where nothing was scored, the scores are drawn, if the head has the parts of every head of this package. An error
    in a user's own loss that may come from the sizes is only warned of.

    Raises:
        ConfigError: a loss is on scores that there are not, needs what the model does not give, or fails.
    """
    if made is None:
        if is_own(type(model.head)):
            return
        made = dict.fromkeys(("fused", "video", "text"), torch.zeros(COUNT, COUNT)), {}
        made[1].update({name: torch.zeros(COUNT) if name == "self" else torch.zeros(COUNT, COUNT) for name in EXTRAS})
    scores, extras = ({name: _repeated(value) for name, value in part.items()} for part in made)
    for name in read_from_teacher(loss.needs):
        extras[name] = scores["fused"].detach()
    relevance = _repeated(torch.eye(COUNT).roll(1, dims=1)).fill_diagonal_(-1)
    try:
        with torch.random.fork_rng(devices=[]):
            loss(scores, relevance, extras)
    except LossError as error:
        if not isinstance(error.__cause__, OF_SIZES):
            raise
        log.warning("%s (on made-up scores)", error)


def _repeated(value: Tensor) -> Tensor:
    """Rows [3], and columns where they are videos, as often as in a batch of some size."""
    return value.repeat(REPEATED, *[REPEATED] * (value.ndim - 1))


def _videos(model: Retriever, count: int, frames: int) -> Tokens:
    x = torch.randn(count, frames, model.dims.regions, model.dims.dim)
    return Tokens(x, torch.ones(count, frames, dtype=torch.bool))
