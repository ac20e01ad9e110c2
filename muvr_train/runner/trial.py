"""A model's first scores, on made-up videos and texts, so that parts that do not go together end a run early."""

from __future__ import annotations

import logging

import torch

from muvr_train.errors import ConfigError
from muvr_train.models.asking import NetworkError
from muvr_train.models.retriever import Retriever
from muvr_train.types import QueryBatch, TextTokens, Tokens

COUNT, FRAMES, WORDS = 3, 16, 2

log = logging.getLogger(__name__)


def try_scoring(model: Retriever) -> None:
    """Score made-up videos as training would; whitening is fitted to them.

    What a user's own network raises, and errors other than a ConfigError, are only warned of: the sizes are made up.

    Raises:
        ConfigError: the head and the network do not go together.
    """
    if getattr(model.network, "compiled", False):
        return  # compiling for these sizes takes longer than opening the data
    dims, present = model.dims, dict.fromkeys(("video", "text"), torch.ones(COUNT, dtype=torch.bool))
    with torch.random.fork_rng(devices=[]):
        videos, texts = _videos(model, COUNT, FRAMES), torch.randn(COUNT, WORDS, dims.text_dim or 1)
        text = TextTokens(texts, torch.ones(COUNT, WORDS, dtype=torch.bool))
        queries = QueryBatch(tuple(map(str, range(COUNT))), videos, text, present)
        try:
            if model.needs_fit:
                model.fit([_videos(model, 2, dims.dim)])
            model.training_scores(*model.encode_batch(queries, videos))
        except Exception as error:
            if isinstance(error, ConfigError) and not isinstance(error, NetworkError):
                raise
            log.warning("the model could not score made-up videos: %s: %s", type(error).__name__, error)


def _videos(model: Retriever, count: int, frames: int) -> Tokens:
    x = torch.randn(count, frames, model.dims.regions, model.dims.dim)
    return Tokens(x, torch.ones(count, frames, dtype=torch.bool))
