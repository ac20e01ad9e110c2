"""Heads of the user's own that fail, or give what nobody can use, while scores are made."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from muvr_train.errors import ConfigError, DataError
from muvr_train.models.frame_max import FrameMax
from muvr_train.models.fusion.base import FusionHead
from muvr_train.models.retriever import Retriever
from muvr_train.types import QueryBatch, StoreDims, Tags, TextTokens, Tokens
from tests.models.faults import DoesAsTold

DIMS = StoreDims(regions=1, dim=8, text_dim=8)


class Faulty(DoesAsTold, FusionHead):
    """Does at one hook what it is told."""

    def __init__(self, at: str, result: Any) -> None:
        super().__init__(DIMS)
        self.at, self.result = at, result

    def prepare(self, query: QueryBatch) -> QueryBatch:
        return self.told("prepare", super().prepare(query))

    def compare(self, *given: Any) -> dict[str, Tensor]:
        return self.told("compare", super().compare(*given))

    def combine(self, *given: Any) -> Tensor:
        return self.told("combine", super().combine(*given))

    def tag_scores(self, *given: Any) -> Tensor:
        return self.told("tag_scores", super().tag_scores(*given))


def score(head: FusionHead) -> Tensor:
    torch.manual_seed(0)
    yes = torch.ones(2, dtype=torch.bool)
    video = Tokens(torch.randn(2, 4, 1, 8), torch.ones(2, 4, dtype=torch.bool))
    tags = Tags(torch.randn(2, 1, 8), yes[:, None], yes[:, None].float(), ~yes[:, None])
    text = TextTokens(torch.randn(2, 1, 8), yes[:, None])
    queries = QueryBatch(("a", "b"), video, text, {"video": yes, "text": yes, "tags": yes}, tags=tags)
    model = Retriever(FrameMax(8, 1), head, DIMS)
    database = Tokens(torch.randn(3, 4, 1, 8), torch.ones(3, 4, dtype=torch.bool))
    return model.score(model.encode_query(queries), model.encode_database(database))


FAULTS = [
    ("combine", lambda x: x[0], r"Faulty: combine must give scores \[Q, N\], here \[2, 3\], and gave a tensor \[3\]"),
    ("combine", lambda _: None, r"Faulty: combine .* gave a NoneType"),
    ("tag_scores", lambda x: x[:, :1], r"Faulty: tag_scores .* gave a tensor \[2, 1\]"),
    ("compare", lambda _: {}, r"Faulty: compare must give part scores by name, and gave no part"),
    ("compare", lambda x: x["video"], r"Faulty: compare must give part scores by name, and gave a Tensor"),
    ("compare", lambda x: {**x, "text": x["text"].T}, r"compare, for 'text', must give .* gave a tensor \[3, 2\]"),
    ("prepare", lambda x: x.video, r"Faulty: prepare must give a QueryBatch, and gave a Tokens"),
    ("prepare", lambda x: replace(x, ids=("b", "a")), r"Faulty: prepare must give the same queries"),
]


@pytest.mark.parametrize(("at", "result", "message"), FAULTS)
def test_what_a_hook_gives_is_checked(at: str, result: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        score(Faulty(at, result))


@pytest.mark.parametrize("at", ["prepare", "compare", "combine", "tag_scores"])
def test_what_a_hook_raises_is_named_with_its_place(at: str) -> None:
    with pytest.raises(ConfigError, match=rf"head Faulty fails in {at}: .*faults.py, line \d+: ValueError: no") as e:
        score(Faulty(at, ValueError("no")))
    assert isinstance(e.value.__cause__, ValueError)


def test_our_own_errors_and_lack_of_memory_stay_what_they_are() -> None:
    for error in (DataError("x"), torch.OutOfMemoryError("x")):
        with pytest.raises(type(error)):
            score(Faulty("combine", error))


def test_a_sound_head_scores_as_the_mean_does() -> None:
    assert torch.equal(score(Faulty("nowhere", None)), score(FusionHead(DIMS)))
