"""Scores of MUVR-QA (arXiv 2510.21406): accuracy over questions, the Reranking Score over pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from muvr_train.benchmarks.muvr_files import PARTITIONS
from muvr_train.benchmarks.muvr_qa import TAGGED_ROWS, UNTAGGED_ROWS, WHOLE
from muvr_train.errors import DataError
from muvr_train.rerank.scoring import Scored, clustered_error, counts_of, rates_of, scored, timing_of
from muvr_train.rerank.types import Answer, Place, Question

BENCHMARK = "muvr_qa"
WORTH: Mapping[tuple[bool, bool], int] = {(True, False): 1, (True, True): 0, (False, False): -1, (False, True): -2}
"""(yes to the true target, yes to the false one) -> what a pair adds to the Reranking Score."""
NAMES: Mapping[tuple[bool, bool], str] = {
    (True, False): "yes_no",
    (True, True): "yes_yes",
    (False, False): "no_no",
    (False, True): "no_yes",
}


@dataclass(frozen=True)
class _Pair:
    true: Scored
    false: Scored

    @property
    def outcome(self) -> tuple[bool, bool]:
        """Whether either is taken as a yes; an answer that says nothing is taken as the wrong one."""
        return self.true.right, not self.false.right

    @property
    def invalid(self) -> bool:
        return self.true.said is None or self.false.said is None


def score_qa(
    questions: Sequence[Question], verdicts: Mapping[Place, str | None], answers: Mapping[Place, Answer]
) -> list[dict[str, Any]]:
    """Rows of results.json: for every setting all, tagged, untagged, and each partition that has questions.

    Metrics, as fractions:
        accuracy: right answers / questions.
        reranking_score: mean over pairs of +1 for (yes, no) to (true, false), 0 for (yes, yes), -1 for (no, no) and -2
            for (no, yes): 2 * true_positive_rate - false_positive_rate - 1, in [-2, 1].
        accuracy_se, reranking_score_se: standard errors over pairs, whose two answers are not independent:
            s / sqrt(pairs), with s the standard deviation (n - 1) of what each pair adds; None for a single pair.
        yes_no, yes_yes, no_no, no_yes: shares of pairs by the answers to (true, false).
        invalid_pairs: share of pairs with an answer that says nothing. Such an answer counts as the wrong one, so as a
            no to the true target and a yes to the false one, never as a guess.
        true_positive_rate, false_positive_rate: yes to true targets, yes to false ones.
        answered_rate, parse_rate: see `scoring.rates_of`.

    Args:
        questions: with partition, tag and pair in `about`; both questions of every pair.
        verdicts: (id, setting) -> yes or no, None where the answer is invalid or failed; what is absent is failed.
        answers: (id, setting) -> answer.

    Raises:
        DataError: a pair is not one true and one false question.
    """
    rows = []
    for setting, items in scored(questions, verdicts, answers).items():
        pairs = _pairs(items)
        for name, kept in _parts(pairs).items():
            rows.append({"benchmark": BENCHMARK, "mode": setting, "partition": name, **_row(kept)})
    return rows


def _pairs(items: Sequence[Scored]) -> list[_Pair]:
    found: dict[str, dict[str, list[Scored]]] = {}
    for item in items:
        found.setdefault(item.question.about["pair"], {"yes": [], "no": []})[item.question.truth].append(item)
    for name, pair in found.items():
        if len(pair["yes"]) != 1 or len(pair["no"]) != 1:
            raise DataError(
                f"pair {name} has {len(pair['yes'])} true and {len(pair['no'])} false questions, not 1 and 1"
            )
    return [_Pair(pair["yes"][0], pair["no"][0]) for pair in found.values()]


def _parts(pairs: Sequence[_Pair]) -> dict[str, list[_Pair]]:
    parts: dict[str, list[_Pair]] = {WHOLE: list(pairs), TAGGED_ROWS: [], UNTAGGED_ROWS: []}
    names = {str(pair.true.question.about["partition"]) for pair in pairs}
    parts |= {name: [] for name in (*PARTITIONS, *sorted(names - set(PARTITIONS)))}
    for pair in pairs:
        about = pair.true.question.about
        parts[TAGGED_ROWS if about["tag"] else UNTAGGED_ROWS].append(pair)
        parts[str(about["partition"])].append(pair)
    return {name: kept for name, kept in parts.items() if kept}


def _row(pairs: Sequence[_Pair]) -> dict[str, Any]:
    items = [item for pair in pairs for item in (pair.true, pair.false)]
    outcomes = [pair.outcome for pair in pairs]
    worth = [float(WORTH[outcome]) for outcome in outcomes]
    metrics: dict[str, float | None] = {
        "accuracy": sum(item.right for item in items) / len(items),
        "accuracy_se": clustered_error([float(pair.true.right), float(pair.false.right)] for pair in pairs),
        "reranking_score": sum(worth) / len(pairs),
        "reranking_score_se": clustered_error([value] for value in worth),
        **{name: outcomes.count(outcome) / len(pairs) for outcome, name in NAMES.items()},
        "invalid_pairs": sum(pair.invalid for pair in pairs) / len(pairs),
        "true_positive_rate": sum(yes for yes, _ in outcomes) / len(pairs),
        "false_positive_rate": sum(yes for _, yes in outcomes) / len(pairs),
        **rates_of(items),
    }
    return {"metrics": metrics, "counts": {**counts_of(items), "pairs": len(pairs)}, "timing": timing_of(items)}
