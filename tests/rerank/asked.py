"""Small questions and answerers for tests."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from muvr_train.errors import DataError
from muvr_train.rerank.types import Answerer, AnswerError, Clip, Question, Reply, Request, Visual


def clip_visual(name: str, value: int = 0, frames: int = 2, missing: bool = False) -> Visual:
    """A video of one colour; `missing` cannot be read."""

    def load() -> Clip:
        return Clip(tuple(np.full((4, 6, 3), value, np.uint8) for _ in range(frames)))

    def key() -> str:
        if missing:
            raise DataError(f"{name}.mp4: there is no such file")
        return f"{name}-{value}-{frames}"

    return Visual("video", name, key, load)


def question(name: str, setting: str = "images_2f", text: str = "Does it match?", **more: Any) -> Question:
    """A yes/no question about one video."""
    visual = more.pop("visual", None) or clip_visual(name)
    return Question(name, setting, (visual, text), ("yes", "no"), "yes", **more)


class Recorder(Answerer):
    """Says yes, remembers whom it was asked about, and how many were asked at once; fails for ids in `failing`."""

    name = "recorder"

    def __init__(self, concurrency: int = 1, failing: tuple[str, ...] = (), needs_visuals: bool = True) -> None:
        self.concurrency = concurrency
        self.failing = set(failing)
        self.needs_visuals = needs_visuals
        self.asked: list[str] = []
        self.requests: list[Request] = []
        self.most = 0
        self._now = 0
        self._lock = threading.Lock()

    def identity(self) -> Mapping[str, Any]:
        """The same of all classes that are derived from it."""
        return {"name": self.name}

    def answer(self, request: Request) -> Reply:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
            self.asked.append(request.question.id)
            self.requests.append(request)
        try:
            return self.reply(request)
        finally:
            with self._lock:
                self._now -= 1

    def reply(self, request: Request) -> Reply:
        if request.question.id in self.failing:
            raise AnswerError(f"server says no to {request.question.id}")
        return Reply(f"Yes, {request.question.id}.")


def texts(path: Path) -> list[str]:
    """The lines of a file."""
    return path.read_text(encoding="utf-8").splitlines()


def plain(answers: Mapping[tuple[str, str], Any]) -> dict[tuple[str, str], tuple[str, str]]:
    """What was answered, without times."""
    return {place: (answer.status, answer.text or answer.reason) for place, answer in answers.items()}
