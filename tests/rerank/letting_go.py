"""Asks one question about two frames, and prints how many frames are alive when the request reaches the server.

A program of its own: whatever else ran in a process of tests may hold on to frames of threads and calls.

    python -m tests.rerank.letting_go FOLDER CONCURRENCY
"""

from __future__ import annotations

import sys
import weakref
from pathlib import Path
from typing import Any

import numpy as np

from muvr_train.rerank.answer_file import AnswerFile
from muvr_train.rerank.answerers.openai_server import OpenAIServer
from muvr_train.rerank.asking import ask
from muvr_train.rerank.types import Clip, Question, Visual
from tests.rerank.local_server import COLOURS, LocalServer


def main(folder: Path, concurrency: int) -> None:
    """Print `<frames loaded> <frames alive at each request>`."""
    held: list[weakref.ref[Any]] = []

    def load() -> Clip:
        frames = tuple(np.full((16, 16, 3), COLOURS["red"], np.uint8) for _ in range(2))
        held.extend(weakref.ref(frame) for frame in frames)
        return Clip(frames)

    question = Question("q", "images_2f", (Visual("video", "v", lambda: "v", load), "Well?"), tuple(COLOURS), "red")
    alive: list[int] = []
    with LocalServer(fault=lambda _: alive.append(sum(frame() is not None for frame in held))) as server:
        answerer = OpenAIServer("tiny", server.url, concurrency=concurrency)
        with AnswerFile(folder / "answers.jsonl") as file:
            ask(answerer, [question], file)
        answerer.close()
    sys.stdout.write(f"{len(held)} {alive}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
