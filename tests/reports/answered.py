"""Made-up questions, pictures and answers for pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from muvr_train.errors import DataError
from muvr_train.rerank.types import Answer, Clip, Picture, Question, Visual

LETTERS = ("A", "B", "C")


def visual(kind: Any, name: str, frames: int = 1, load: Callable[[], Picture | Clip] | None = None) -> Visual:
    """A grey image, or as many grey frames."""

    def grey() -> Picture | Clip:
        frame = np.full((54, 96, 3), 90, np.uint8)
        return Picture(frame) if kind == "image" else Clip((frame,) * frames, tuple(map(float, range(frames))))

    return Visual(kind, name, lambda: f"{kind} {name} {frames}", load or grey)


def broken(kind: Any, name: str, reason: str) -> Visual:
    """One that cannot be decoded."""

    def load() -> Picture | Clip:
        raise DataError(reason)

    return visual(kind, name, load=load)


def qa_question(query: str, target: str, truth: str, tag: str = "+night", shown: Visual | None = None) -> Question:
    """One half of a pair."""
    about = {
        "benchmark": "muvr_qa",
        "partition": "news",
        "query": query,
        "target": target,
        "tag": tag,
        "pair": query + tag,
    }
    parts = ("This is the query.", visual("image", query), "Frames:", shown or visual("video", target, 6), "Same?")
    return Question(f"news/{query}/{target}/{tag}", "images_6f", parts, ("yes", "no"), truth, about=about)


def rerank_question(query: str, video: str, truth: str) -> Question:
    """One of the videos that are reranked for a query."""
    about = {"benchmark": "rerank", "partition": "news", "query": query, "target": video, "expression": ""}
    parts = ("Query:", visual("image", query), "Video:", visual("video", video, 6), "Same?")
    return Question(f"{query}|{video}|", "images_6f", parts, ("yes", "no"), truth, about=about)


def iv_question(number: int, truth: str = "B", setting: str = "after_32f", **about: Any) -> Question:
    """A question with three options."""
    options = dict(zip(LETTERS, ("one", "two", "three"), strict=True))
    facts = {"task": "Counting", "group": "reasoning", "options": options, "question": "How many?"}
    parts = (
        visual("video", f"v{number}", 32),
        visual("image", f"v{number}.png"),
        "How many?\nA. one\nB. two\nC. three",
    )
    return Question(f"v{number}/0", setting, parts, LETTERS, truth, about={**facts, **about})


def said(question: Question, text: str, **more: Any) -> Answer:
    """An answer to it."""
    return Answer(question.id, question.setting, "key", "answered", text, **more)


def failure(question: Question, reason: str) -> Answer:
    """A failure at it."""
    return Answer(question.id, question.setting, "key", "failed", reason=reason)


def by_key(answers: list[Answer]) -> Mapping[tuple[str, str], Answer]:
    """Answers as a page takes them."""
    return {(answer.question, answer.setting): answer for answer in answers}
