"""Scores of IV-Bench (arXiv 2504.15415): accuracy over all questions, by group, task and granularity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from muvr_train.benchmarks.iv_bench import GRANULARITIES, GROUPS, TASKS
from muvr_train.rerank.scoring import (
    Scored,
    clustered_error,
    counts_of,
    rates_of,
    right_choices,
    scored,
    timing_of,
)
from muvr_train.rerank.types import Answer, Place, Question

BENCHMARK = "iv_bench"
OVERALL = "overall"


def score_iv(
    questions: Sequence[Question], verdicts: Mapping[Place, str | None], answers: Mapping[Place, Answer]
) -> list[dict[str, Any]]:
    """Rows of results.json: for every setting overall, perception, reasoning, the tasks, and `granularity: ...`.

    Where questions have a category, a row `category: ...` for each, by name.

    Metrics, as fractions:
        accuracy: right answers / questions; an answer that is invalid, failed or absent is wrong.
        accuracy_se: its standard error, clustered by video: the questions about one video share its frames, so that
            they are not independent (`scoring.clustered_error`); None for a single video.
        chance: what picking an option at random scores: mean of right options / options.
        answered_rate, parse_rate: see `scoring.rates_of`.

    Args:
        questions: with group, task, granularity and video in `about`.
        verdicts: (id, setting) -> letter, None where the answer is invalid or failed; what is absent is failed.
        answers: (id, setting) -> answer.
    """
    rows = []
    for setting, items in scored(questions, verdicts, answers).items():
        for name, kept in _parts(items).items():
            rows.append({"benchmark": BENCHMARK, "mode": setting, "partition": name, **_row(kept)})
    return rows


def _parts(items: Sequence[Scored]) -> dict[str, list[Scored]]:
    """Questions by the name of the row; rows without any are left out."""
    present = {item.question.about["granularity"] for item in items}
    granularities = (*GRANULARITIES, *sorted(present - set(GRANULARITIES)))
    parts: dict[str, list[Scored]] = {OVERALL: list(items)}
    parts |= {name: [] for name in (*GROUPS, *TASKS, *map(_granularity, granularities))}
    for item in items:
        about = item.question.about
        for name in (about["group"], about["task"], _granularity(about["granularity"])):
            parts[name].append(item)
    for category in sorted({item.question.about["category"] for item in items if "category" in item.question.about}):
        parts[f"category: {category}"] = [item for item in items if item.question.about.get("category") == category]
    return {name: kept for name, kept in parts.items() if kept}


def _granularity(name: str) -> str:
    return f"granularity: {name}"


def _row(items: Sequence[Scored]) -> dict[str, Any]:
    videos: dict[str, list[float]] = {}
    for item in items:
        videos.setdefault(item.question.about["video"], []).append(float(item.right))
    chances = [len(right_choices(item.question)) / len(item.question.choices) for item in items]
    metrics: dict[str, float | None] = {
        "accuracy": sum(item.right for item in items) / len(items),
        "accuracy_se": clustered_error(videos.values()),
        "chance": sum(chances) / len(chances),
        **rates_of(items),
    }
    return {"metrics": metrics, "counts": {**counts_of(items), "videos": len(videos)}, "timing": timing_of(items)}
