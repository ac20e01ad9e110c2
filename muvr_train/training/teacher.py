"""A frozen model whose scores another one learns."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from muvr_train.errors import ConfigError
from muvr_train.models.retriever import Retriever
from muvr_train.types import QueryBatch, Tokens

SCORES = {"teacher": "fused", "teacher/video": "video", "teacher/text": "text"}
"""Extras of losses that a teacher can give, and the names of its scores."""


def read_from_teacher(needs: Iterable[str]) -> list[str]:
    """Those of the extras that losses need that only a teacher gives."""
    return sorted(name for name in needs if name.partition("/")[0] == "teacher")


class Teacher:
    """Scores training batches in eval mode and without gradient.

    It is no module, so that no checkpoint, optimiser or process group sees its weights.

    Args:
        model: on the device of the batches; it is frozen.
        wanted: the extras that are asked for, see `SCORES`.

    Raises:
        ConfigError: it can never give one of them.
    """

    def __init__(self, model: Retriever, wanted: Iterable[str]) -> None:
        self.model, self.wanted = model.eval().requires_grad_(False), list(wanted)
        have = [name for name in SCORES if name != "teacher/text" or model.text_part is not None]
        if absent := sorted(set(self.wanted) - set(have)):
            raise ConfigError(f"a loss needs {absent[0]}, which the teacher does not give; it gives {', '.join(have)}")

    @torch.no_grad()
    def score(self, queries: QueryBatch, database: Tokens, fine: Tokens | None) -> dict[str, Tensor]:
        """Scores float32 [Q, N] of queries against database videos, by the names of the extras.

        Rows of queries that lack a part hold -inf in its scores, as pairs of a blank video do, which losses leave out.
        """
        scores, extras = self.model.training_scores(*self.model.encode_batch(queries, database, fine))
        result = {}
        for extra in self.wanted:
            name = SCORES[extra]
            if name not in scores:  # no query of the batch has the part
                result[extra] = torch.full_like(scores["fused"], float("-inf"))
                continue
            present = extras.get(f"present/{name}")
            result[extra] = (
                scores[name] if present is None else scores[name].masked_fill(~present[:, None], float("-inf"))
            )
        return result
