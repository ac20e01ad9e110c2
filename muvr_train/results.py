"""What an evaluation gives: plain rows that other programs can read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from muvr_train.benchmarks.expressions import UPPER_BOUND
from muvr_train.benchmarks.types import Partition
from muvr_train.metrics.ranks import TieGroups
from muvr_train.search.judged import JudgedScores


class Kept(NamedTuple):
    """Scores of a partition in a mode, for curves, pictures, tests between runs and score files.

    `groups` are the rankings of the rows and `pooled` that of all pairs, as the metrics made them: no sort twice.
    """

    partition: Partition
    mode: str
    judged: JudgedScores
    groups: TieGroups | None = None
    pooled: TieGroups | None = None


@dataclass
class Results:
    """Rows as in results.json (fractions, one per benchmark, mode and partition) and one line per query and mode.

    Attributes:
        benchmark: Its name.
        rows: `benchmark`, `mode`, `partition`, `metrics`, `counts`, and `intervals` where they were asked for
            (None where there can be none; `notes` say why).
        per_query: One line per judgement and mode.
        breakdowns: Parts of rows: like a row, with `group` (level, operator, sign, ...) and `name` in it.
        kept: The scores themselves, where `Protocol.keep_scores` asks for them.
        resampled: (mode, partition) -> metric -> its value in each of B bootstrap resamples.
        notes: Partitions that have no row in a mode, and why; the row `mean` is over the others.
    """

    benchmark: str
    rows: list[dict[str, object]] = field(default_factory=list)
    per_query: list[dict[str, object]] = field(default_factory=list)
    breakdowns: list[dict[str, object]] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)
    resampled: dict[tuple[str, str], dict[str, NDArray[np.float64]]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def metrics(self, mode: str, partition: str = "mean") -> dict[str, float]:
        """Give the metrics of one row."""
        for row in self.rows:
            if row["mode"] == mode and row["partition"] == partition:
                return row["metrics"]  # type: ignore[return-value]
        raise KeyError(f"no row {mode}/{partition}")

    @property
    def modes(self) -> tuple[str, ...]:
        """The modes that were evaluated, in order."""
        return tuple(dict.fromkeys(str(row["mode"]) for row in self.rows))

    def flat(self, prefix: str) -> dict[str, float]:
        """Name mAP, uAP and recall@k as trackers want them: `<prefix>/<benchmark>/<mode>/<partition>/<metric>`.

        An upper bound is no result and is left out.
        """
        return {
            f"{prefix}/{row['benchmark']}/{row['mode']}/{row['partition']}/{name}": value
            for row in self.rows
            if row["mode"] != UPPER_BOUND
            for name, value in row["metrics"].items()  # type: ignore[attr-defined]
            if name in ("mAP", "uAP") or name.startswith("recall@")
        }


@dataclass(frozen=True)
class CalibratedRow:
    """Results after calibration.

    Attributes:
        name: `<label> + <step> + <step>`.
        steps: name and settings of each step, in order.
        fitted_on: what they were fitted on, as plain facts.
        results: in the modes that the steps change.
    """

    name: str
    steps: list[dict[str, Any]]
    fitted_on: dict[str, Any]
    results: Results


@dataclass(frozen=True)
class RerankedRow:
    """Results after reranking the first videos of every query, or of a perfect reranker of them.

    Attributes:
        name: `<label> + rerank@20 (<answerer>)`, or `perfect reranker@20`.
        facts: plain; `settings`, and of a row with an answerer what `runner.rerank_run.reranked_rows` says.
        results: in the one mode that is reranked.
    """

    name: str
    facts: dict[str, Any]
    results: Results
