"""evaluate.py with tiny local models on the built-in corpus's own videos: every figure follows from the answers."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import pytest

from muvr_train.errors import ConfigError, DataError
from muvr_train.rerank.answer_file import read_answers
from muvr_train.rerank.parsing import LEAST_MASS
from tests.rerank.question_runs import evaluate, start
from tests.rerank.tiny_mllm import build


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def masses(tokens: Any, choices: list[str]) -> dict[str, float]:
    """Probability of the first token, by what it spells; `a` and `i` are words."""
    bare = [(text.strip(" .,?"), math.exp(value)) for text, value in tokens.items()]
    spelt = [(text, value) for text, value in bare if text not in ("a", "i")]
    return {choice: sum(value for text, value in spelt if text.casefold() == choice.casefold()) for choice in choices}


def decisive(folder: Path, choices: str) -> Path:
    """Make the choices of a tiny model so likely or unlikely that most answers say one."""
    from safetensors.torch import load_file, save_file
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    texts = [tokenizer.decode([index]).strip().casefold() for index in range(len(tokenizer))]
    weights = load_file(folder / "model.safetensors")
    head = next((name for name in weights if name.endswith("lm_head.weight")), None)
    head = head or next(name for name in weights if name.endswith("embed_tokens.weight"))
    weights[head][[index for index, text in enumerate(texts) if text in choices.casefold().split()]] *= 3
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    return folder


def rows_of(out: Path) -> list[dict[str, str]]:
    with (out / "per_question.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def results_of(out: Path) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    results = json.loads((out / "results.json").read_text(encoding="utf-8"))
    return {row["partition"]: row for row in results["rows"]}, results["meta"]


def test_twenty_questions_of_muvr_qa(tmp_path: Path) -> None:
    model, out = decisive(build("qwen2_5_vl", tmp_path / "tiny-模型"), "yes no"), tmp_path / "out"
    settings = ["benchmark=muvr_qa", "answerer=transformers", f"answerer.model={model}", f"out={out}"]
    settings += ["benchmark.decision=logprob", "benchmark.frames=3", "benchmark.resolution=64", "answerer.max_tokens=2"]
    evaluate(*settings, "benchmark.report=false")
    answers = {answer.question: answer for answer in read_answers(out / "answers.jsonl")}
    rows = rows_of(out)
    assert len(answers) == len(rows) == 20
    assert {answer.answerer for answer in answers.values()} == {"tiny-模型"}
    assert len({str(answer.tokens) for answer in answers.values()}) == 20  # every question shows something else
    right = {("yes", True): 0, ("yes", False): 0, ("no", True): 0, ("no", False): 0}
    for row in rows:
        mass = masses(answers[row["question"]].tokens, ["yes", "no"])
        said = max(mass, key=lambda choice: mass[choice]) if sum(mass.values()) >= LEAST_MASS else ""
        assert (row["verdict"], row["right"]) == (said, str(int(said == row["truth"])))
        right[row["truth"], said == row["truth"]] += 1
    assert {row["verdict"] for row in rows} & {"yes", "no"}
    found, meta = results_of(out)
    hits, alarms = right["yes", True] / 10, right["no", False] / 10
    assert found["all"]["metrics"]["accuracy"] == pytest.approx((hits + 1 - alarms) / 2)
    assert found["all"]["metrics"]["reranking_score"] == pytest.approx(2 * hits - alarms - 1)
    assert found["all"]["counts"] | {"questions": 20, "answered": 20, "failed": 0} == found["all"]["counts"]
    assert meta["answerer"]["clip_as"] == "frames"
    kept, scores = (out / "answers.jsonl").read_bytes(), (out / "per_question.csv").read_bytes()
    evaluate(*settings, "benchmark.report=false")
    assert (out / "answers.jsonl").read_bytes() == kept
    assert (out / "per_question.csv").read_bytes() == scores


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        (["answerer.model=no/such/folder"], DataError, "answerer.model=no/such/folder: no such folder"),
        (["answerer.model=m", "answerer.clip_as=gif"], ConfigError, "answerer.clip_as=gif"),
        (["answerer.model=m", "answerer.max_pixels=0"], ConfigError, "answerer.max_pixels must be a whole number"),
    ],
)
def test_mistakes_are_told_before_questions(settings: list[str], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        evaluate("benchmark=muvr_qa", "answerer=transformers", "out=out", *settings)
    assert not Path("out/answers.jsonl").exists()


@pytest.mark.slow
def test_twenty_questions_of_iv_bench(tmp_path: Path) -> None:
    model, out = decisive(build("smolvlm", tmp_path / "tiny"), "a b c d e f g h i j"), tmp_path / "out"
    settings = ["benchmark=iv_bench", "answerer=transformers", f"answerer.model={model}", f"out={out}"]
    evaluate(*settings, "benchmark.decision=logprob", "benchmark.frames=8", "benchmark.report=false")
    answers = {answer.question: answer for answer in read_answers(out / "answers.jsonl")}
    rows = rows_of(out)
    assert len(answers) == len(rows) == 20
    for row in rows:
        answer = answers[row["question"]]
        assert answer.choices is not None
        mass = masses(answer.tokens, list(answer.choices))
        likeliest = max(mass, key=lambda letter: mass[letter])
        assert row["verdict"] == (likeliest if sum(mass.values()) >= LEAST_MASS else "")
    found, _ = results_of(out)
    right = sum(row["verdict"] == row["truth"] for row in rows)
    assert found["overall"]["metrics"]["accuracy"] == pytest.approx(right / 20)
    assert found["overall"]["counts"] | {"questions": 20} == found["overall"]["counts"]


@pytest.mark.slow
def test_twenty_questions_of_muvr_qa_as_users_ask_them(tmp_path: Path) -> None:
    model, out = build("qwen2_vl", tmp_path / "tiny"), tmp_path / "out"
    settings = ["benchmark=muvr_qa", "answerer=transformers", f"answerer.model={model}", f"out={out}"]
    done = start(tmp_path, *settings, "answerer.clip_as=video")
    assert done.returncode == 0, done.stderr
    found, _ = results_of(out)
    assert found["all"]["counts"] | {"questions": 20, "answered": 20, "failed": 0} == found["all"]["counts"]
    assert (out / "report.html").is_file()
