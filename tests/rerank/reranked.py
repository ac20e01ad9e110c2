"""evaluate.py rerank=... for tests: a user's folder with toy data, and what reranking must give by the slow twin."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from muvr_train.benchmarks.muvr import read_muvr
from muvr_train.rerank.answer_file import read_answers
from tests import in_process
from tests.reference import reranking as slow
from tests.reference.metrics import metrics_of_order
from tests.tagged import make_tagged

ROOT = Path(__file__).parents[2]

K = 5

OWN = """
import os
from pathlib import Path

from muvr_train.rerank.types import Answerer, AnswerError, Clip, Picture, Reply


class Mine(Answerer):
    name = "mine"

    def __init__(self, looks=False, failing=0, says="yes", kill_at=None, signal=9, concurrency=1):
        self.needs_visuals, self.failing, self.says = looks, failing, says
        self.kill_at, self.signal, self.concurrency, self.asked = kill_at, signal, concurrency, 0

    def identity(self):
        return {"name": "mine", "says": self.says}

    def answer(self, request):
        self.asked += 1
        if self.asked == self.kill_at:
            os.kill(os.getpid(), self.signal)
        with Path("asked.txt").open("a") as log:
            log.write(request.question.id + "\\n")
        if self.failing and self.asked % self.failing == 0:
            raise AnswerError("the server is busy")
        if self.says == "logprob":
            return Reply("?", tokens={"Yes": -0.1 * (self.asked % 7 + 1), " no": -1.0}, prompt_tokens=100)
        if not self.needs_visuals:
            return Reply(self.says, seconds=2.0, prompt_tokens=100, completion_tokens=1)
        frames = [part.pixels if isinstance(part, Picture) else part.frames[0] for part in request.parts
                  if not isinstance(part, str)]
        assert len(frames) == 2
        return Reply("Yes" if abs(frames[0].mean() - frames[1].mean()) < 10 else "No.")
"""
MINE = "_target_: mine.Mine\nlooks: false\nfailing: 0\nsays: 'yes'\nkill_at: null\nsignal: 9\nconcurrency: 1\n"


class Workplace:
    """A user's folder with toy data, an answerer of the user's own, and evaluate.py in this process or another."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.annotations, self.features = make_tagged(folder / "data")
        self.data = ("data=muvr", f"data.annotations={self.annotations}")
        self.model = ("model=frame_max", *self.data, f"data.features={self.features}")
        self.file = (*self.data, "scores=raw/scores_tv.npz")
        (folder / "mine.py").write_text(OWN)
        (folder / "own/answerer").mkdir(parents=True)
        (folder / "own/answerer/mine.yaml").write_text(MINE)
        self.cache = {name: os.environ[name] for name in ("MUVR_TRAIN_CACHE",) if name in os.environ}

    def evaluate(self, *arguments: str, quiet: bool = True) -> dict[str, float]:
        more = ("trainer=cpu", *(("benchmark.bootstrap=0", "benchmark.report=false") if quiet else ()))
        return in_process.evaluate(*arguments, *more, extra=self.folder / "own")

    def call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """As a process, with the usual cache: the built-in corpus need not be rendered again."""
        environment = {name: value for name, value in os.environ.items() if name != "MUVR_TRAIN_CACHE"} | self.cache
        return subprocess.run(
            [sys.executable, str(ROOT / "evaluate.py"), "--config-dir", "own", *arguments],
            cwd=self.folder,
            env={**environment, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def results(self, out: str) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.folder / out / "results.json").read_text())
        return content

    def lines(self, out: str, model: str, mode: str = "tv") -> dict[str, dict[str, str]]:
        with (self.folder / out / "per_query.csv").open(encoding="utf-8", newline="") as file:
            found = [line for line in csv.DictReader(file) if line["model"] == model and line["mode"] == mode]
        return {line["query"] + line.get("expression", ""): line for line in found}


def prepared(place: Workplace, patch: pytest.MonkeyPatch) -> None:
    patch.chdir(place.folder)
    patch.setenv("MUVR_TRAIN_CACHE", str(place.folder / "cache"))
    patch.setattr(sys, "path", list(sys.path))


def rerank(method: str, answerer: str, *more: str) -> tuple[str, ...]:
    return (f"rerank={method}", f"rerank.top_k={K}", f"answerer={answerer}", "rerank.decision=text", *more)


def metrics(rows: Iterable[dict[str, Any]], mode: str = "tv") -> dict[str, Any]:
    return {row["partition"]: row["metrics"] for row in rows if row["mode"] == mode}


def expected_rows(place: Workplace) -> dict[str, Any]:
    """The raw rows of mode tv; metrics of a score file differ from them by rounding at most."""
    return {name: pytest.approx(row, abs=1e-12) for name, row in metrics(place.results("raw")["rows"]).items()}


def answers_of(out: str) -> dict[tuple[str, str], str]:
    """(query, video) -> text, by the ids of the questions."""
    read = [(answer.question.split("|"), answer) for answer in read_answers(Path(out) / "answers.jsonl")]
    return {(query, video): answer.text for (query, video, _), answer in read if answer.answered}


def expected_precisions(place: Workplace, method: str, answers: dict[tuple[str, str], str]) -> dict[str, float]:
    """Average precisions from the saved scores, the annotation and what was answered, by the slow twin."""
    arrays, benchmark = dict(np.load("raw/scores_tv.npz")), read_muvr(place.annotations)
    found = {}
    for partition in benchmark.partitions:
        database = arrays[f"database_ids/{partition.name}"].tolist()
        for query, row in zip(
            arrays[f"query_ids/{partition.name}"].tolist(), arrays[f"scores/{partition.name}"].tolist(), strict=True
        ):
            scores = {video: None if video == query else score for video, score in zip(database, row, strict=True)}
            order = slow.ranking(scores)
            said = {video: answers[query, video] for video in order[:K] if (query, video) in answers}
            if method == "keep_drop":
                order = slow.dropped(order, K, said)
            else:
                order = slow.sorted_by(order, K, {video: float(word == "yes") for video, word in said.items()})
            positives = benchmark.judgement_by_query[query].positives
            labels = [int(video in positives) for video in order]
            found[query] = metrics_of_order(labels, len(positives), ())["AP"]
    return found


def positives_of(place: Workplace, query: str) -> Iterable[str]:
    return read_muvr(place.annotations).judgement_by_query[query].positives
