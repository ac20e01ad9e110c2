"""An answerer that asks the local server without waiting between tries."""

from __future__ import annotations

from typing import Any

import numpy as np

from muvr_train.rerank.answerers.openai_server import OpenAIServer
from muvr_train.rerank.types import Part, Question, Reply, Request
from tests.rerank.local_server import COLOURS, LocalServer


def plain(name: str) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.full((24, 32, 3), COLOURS[name], np.uint8)


def request(*parts: Part, logprobs: bool = False, max_tokens: int = 16) -> Request:
    question = Question("q1", "images_1f", (), ("yes", "no"), "yes", max_tokens)
    return Request(parts or ("Does it match?",), question, logprobs)


class Asking:
    """An answerer whose pauses are written down instead of waited for."""

    def __init__(self, server: LocalServer, **settings: Any) -> None:
        self.answerer = OpenAIServer("tiny", server.url, **settings)
        self.pauses: list[float] = []
        self.answerer.sleep = self.pauses.append  # type: ignore[assignment]

    def __enter__(self) -> Asking:
        return self

    def __exit__(self, *error: object) -> None:
        self.answerer.close()

    def ask(self, *parts: Part, **more: Any) -> Reply:
        return self.answerer.answer(request(*parts, **more))


def failing(*faults: str | None) -> Any:
    """One fault after another, then none."""
    left = list(faults)
    return lambda _: left.pop(0) if left else None
