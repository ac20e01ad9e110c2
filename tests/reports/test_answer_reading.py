"""What cards and pages say about readings and about reranking."""

from __future__ import annotations

import math
from typing import Any

import pytest

from muvr_train.reports.answer_figures import headline_tiles, setting_tables
from muvr_train.reports.answer_files import definitions_of
from muvr_train.reports.answer_reading import Reading, masses
from muvr_train.reports.rerank_parts import gained_of
from tests.reports.answered import iv_question, qa_question, said

QA, IV = qa_question("q", "t", "yes"), iv_question(0)
LOGPROB = Reading("logprob")


def logs(**shares: float) -> dict[str, float]:
    return {token: math.log(share) for token, share in shares.items()}


def test_mass_of_each_choice() -> None:
    assert masses(logs(Yes=0.3, yes=0.3, No=0.2, The=0.1), ("yes", "no")) == pytest.approx({"yes": 0.6, "no": 0.2})
    assert masses({"(B": math.log(0.5), "a": -0.1, "K": -0.1}, ("A", "B", "C")) == pytest.approx({"B": 0.5})
    assert masses(None, ("A", "B")) == {}


def test_shares_stand_only_where_the_first_token_decides() -> None:
    answer = said(QA, "Yes", tokens=logs(Yes=0.6, No=0.2))
    assert LOGPROB.shares(answer, QA) == "p(yes | yes or no) 75 %, all choices together 80 % of the first token"
    assert Reading().shares(answer, QA) == ""
    letter = said(IV, "B", tokens=logs(A=0.1, B=0.3))
    assert LOGPROB.shares(letter, IV) == "p(B | any letter) 75 %, all choices together 40 % of the first token"


@pytest.mark.parametrize(
    ("tokens", "why"),
    [
        (None, "without log-probabilities"),
        (logs(The=0.9), "none of the likeliest first tokens is a choice"),
        (logs(yes=0.4, no=0.4), "equally likely"),
        (logs(yes=0.01, no=0.02), "have only 3 % of"),
    ],
)
def test_why_log_probabilities_decide_nothing(tokens: dict[str, float] | None, why: str) -> None:
    assert why in LOGPROB.why_invalid(said(QA, "Hm", tokens=tokens), QA)


def row(mode: str, partition: str, accuracy: float) -> dict[str, Any]:
    counts = {"questions": 1686, "failed": 3, "invalid": 1200}
    return {"mode": mode, "partition": partition, "metrics": {"accuracy": accuracy}, "counts": counts}


def test_tiles_and_settings_side_by_side() -> None:
    rows = [row(mode, part, share) for mode, share in (("a", 0.25), ("b", 0.5)) for part in ("all", "news")]
    tile = next(headline_tiles(rows))
    assert tile["value"] == "25.0\u00a0%"
    assert "3\u00a0failed, 1,200\u00a0invalid" in tile["what"]
    (table,) = setting_tables(rows)
    assert table.columns == ("a", "b")
    assert [[cell.text for cell in line.cells] for line in table.rows] == [["25.0", "50.0"]] * 2
    assert setting_tables(rows[:2]) == []


def test_only_what_stands_there_is_defined() -> None:
    known = definitions_of([row("after_32f", "overall", 0.5)])
    assert set(known) == {"accuracy", "counts.failed", "counts.invalid", "mode after_<n>f"}


def test_gains_as_tables() -> None:
    gain = {"before": 0.2, "after": 0.25, "difference": 0.05, "interval": [0.01, 0.09], "perfect": 0.5}
    gains = [{**gain, "partition": part, "metric": name} for part in ("news", "mean") for name in ("mAP", "recall@50")]
    cost = dict.fromkeys(
        ("pairs_per_query", "seconds_per_query", "prompt_tokens_per_query", "completion_tokens_per_query")
    )
    counts = dict.fromkeys(("calls", "from_file", "failed", "invalid"), 1500)
    facts = {"mode": "tv", "gains": gains, "counts": counts, "cost": cost, "cost_per": "query"}
    found = gained_of("r", facts, [{"partition": "news", "counts": {"database": 20}}])
    (line,) = found.short.rows
    assert line.names == ("mAP",)
    assert [cell.text for cell in line.cells] == ["20.0", "25.0", "+5.0", "50.0"]
    assert line.cells[2].interval == "+1.0 to +9.0"
    assert found.whole is not None
    assert [line.names for line in found.whole.rows] == [("news", "mAP"), ("mean", "mAP")]
    assert ("calls", "1,500") in found.costs
