"""The command line against the local server: exit codes, counts, and what a second call asks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.rerank.local_server import Asked, LocalServer, at_random
from tests.rerank.question_runs import evaluate as run_here

ROOT = Path(__file__).parents[2]
PAIRS = ("benchmark=muvr_qa", "benchmark.limit=20", "benchmark.frames=2", "benchmark.report=false")
"""20 questions about the built-in corpus's own videos."""


@pytest.fixture(autouse=True)
def without_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("OPENAI_"):
            monkeypatch.delenv(name)


def typed(server: LocalServer, out: Path, *settings: str) -> list[str]:
    """As a user types it, with short pauses between tries."""
    fixed = ["answerer=openai", "answerer.model=tiny", f"answerer.base_url={server.url}", "answerer.back_off=0.001"]
    return [*fixed, f"out={out}", *settings]


def command(server: LocalServer, out: Path, *settings: str) -> list[str]:
    return [sys.executable, "evaluate.py", *typed(server, out, *settings)]


def environment() -> dict[str, str]:
    rest = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
    return {**rest, "OMP_NUM_THREADS": "1"}


def evaluate(server: LocalServer, out: Path, *settings: str) -> subprocess.CompletedProcess[str]:
    """Run evaluate.py on the questions about pairs."""
    words = command(server, out, *PAIRS, *settings)
    return subprocess.run(words, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False)


def evaluate_here(server: LocalServer, out: Path, *settings: str) -> None:
    """The same in this process."""
    run_here(*typed(server, out, *PAIRS, *settings))


def answered(server: LocalServer) -> Counter[str]:
    """How often each request was answered, by all that it shows."""
    return Counter(json.dumps(asked.content) for asked in server.asked if asked.answered)


def counts(out: Path) -> dict[str, int]:
    return dict(json.loads((out / "results.json").read_text(encoding="utf-8"))["meta"]["counts"])


def yes_to_warm(asked: Asked) -> str:
    """An answer that only depends on the pixels."""
    target = asked.shown[-2]
    assert not isinstance(target, str)
    return "**Yes**" if target[..., 0].mean() > target[..., 2].mean() else "no."


def test_random_failures_leave_no_trace_in_a_run(tmp_path: Path) -> None:
    with LocalServer(
        yes_to_warm, at_random(0.1, 7, ("500", "429", "drop", "truncate", "malformed")), gather=3
    ) as server:
        run = evaluate(server, tmp_path / "a", "answerer.concurrency=3")
    assert run.returncode == 0, run.stderr
    assert counts(tmp_path / "a") == {"questions": 20, "answered": 20, "failed": 0, "invalid": 0, "from_file": 0}
    assert set(answered(server).values()) == {1}
    assert answered(server).total() == 20 < len(server.asked)
    assert server.most == 3
    with LocalServer(yes_to_warm) as other:
        evaluate_here(other, tmp_path / "b", "answerer.concurrency=1", "answerer.retries=0")
    assert answered(other) == answered(server)
    assert (tmp_path / "a/per_question.csv").read_bytes() == (tmp_path / "b/per_question.csv").read_bytes()


def test_failures_beyond_the_retries_are_counted_said_and_asked_again(tmp_path: Path) -> None:
    out = tmp_path / "qa"
    lost: set[str] = set()

    def fault(asked: Asked) -> str | None:
        name = json.dumps(asked.content)
        if len(lost) < 2:
            lost.add(name)
        return "503" if name in lost else None

    with LocalServer(lambda _: "Yes", fault) as server:
        run = evaluate(server, out, "answerer.retries=1")
        assert run.returncode == 1
        assert "2 of 20 questions failed" in run.stderr
        assert "HTTP 503: so it is (2 tries)" in " ".join(run.stderr.split())
        assert counts(out) == {"questions": 20, "answered": 18, "failed": 2, "invalid": 0, "from_file": 0}
        assert len(server.asked) == 18 + 2 * 2
        evaluate_here(server, out, "answerer.retries=0", "allow_failures=true")
        assert len(server.asked) == 22 + 2
    with LocalServer(lambda _: "Yes") as other:
        evaluate_here(other, out)
        assert set(answered(other)) == lost
        assert counts(out) == {"questions": 20, "answered": 20, "failed": 0, "invalid": 0, "from_file": 18}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "code", "says"),
    [
        (("answerer.model=tinny",), 2, "did you mean 'tiny'?"),
        (
            ("answerer.base_url=http://127.0.0.1:9/v1",),
            1,
            "answerer.base_url=http://127.0.0.1:9/v1/: no server answers",
        ),
        (("benchmark.decision=logprob",), 1, "no log-probabilities"),
    ],
)
def test_what_cannot_work_ends_before_most_is_asked(
    tmp_path: Path, settings: tuple[str, ...], code: int, says: str
) -> None:
    unknown = {"tinny": "404"}
    with LocalServer(lambda _: "Yes", lambda asked: unknown.get(asked.body["model"])) as server:
        run = evaluate(server, tmp_path / "qa", *settings)
    assert run.returncode == code, run.stderr
    assert says in " ".join(run.stderr.split())
    assert len(server.asked) <= 15  # of 20: 8 without log-probabilities, and 7 more under way


@pytest.mark.slow
def test_a_killed_run_goes_on_with_the_same_options_and_scores(tmp_path: Path) -> None:
    settings = ("benchmark=iv_bench", "benchmark.frames=2", "benchmark.report=false", "answerer.concurrency=2")
    started: list[subprocess.Popen[bytes]] = []

    def letter(asked: Asked) -> str:
        if started and len(server.asked) == 9:
            started.pop().kill()  # in the middle of a request
        return "ABCDEFGHIJ"[len(asked.text) % 10]

    def run(out: Path) -> int:
        return subprocess.run(
            command(server, out, *settings), cwd=ROOT, env=environment(), capture_output=True, check=False
        ).returncode

    with LocalServer(letter) as server:
        killed = subprocess.Popen(
            command(server, tmp_path / "a", *settings),
            cwd=ROOT,
            env=environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        started.append(killed)
        assert killed.wait() == -9
        kept = (tmp_path / "a/answers.jsonl").read_bytes().count(b"\n")
        assert 6 <= kept <= 9
        server.asked.clear()
        assert run(tmp_path / "a") == 0
        resumed = answered(server)
        assert run(tmp_path / "b") == 0
    assert set(resumed.values()) == {1}
    whole = (tmp_path / "b/answers.jsonl").read_bytes().count(b"\n")
    assert resumed.total() == whole - kept
    for name in ("per_question.csv", "questions.jsonl"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    rows = [
        [
            (row["partition"], row["metrics"])
            for row in json.loads((tmp_path / out / "results.json").read_text())["rows"]
        ]
        for out in "ab"
    ]
    assert rows[0] == rows[1]
