"""What a ranking by chance reaches: how far from it a result is shows only beside this."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean

from muvr_train.benchmarks.types import Judgement

NOTABLE = 0.1
"""Share of matching pairs from which on it is told."""


@dataclass(frozen=True)
class Chance:
    """The level of chance of counted queries that have matches.

    Attributes:
        matches: Pairs of a query and a listed database video that match.
        pairs: All of them.
        mean_precision: Expected mAP of a random order, 0 to 1.
        best_first: Recall@1 of a perfect ranking, 0 to 1: the mean of 1 / matches.
    """

    matches: int
    pairs: int
    mean_precision: float
    best_first: float

    @property
    def share(self) -> float:
        """Share of the pairs that match."""
        return self.matches / self.pairs

    @property
    def text(self) -> str:
        """As a sentence, in percent."""
        pooled = expected_precision(self.matches, self.pairs)
        return (
            f"{self.matches} of {self.pairs} pairs of a query and a database video match ({100 * self.share:.1f} %); a "
            f"random ranking would reach a mAP of {100 * self.mean_precision:.1f} and a uAP of "
            f"{100 * pooled:.1f}, and recall@1 is at most {100 * self.best_first:.1f}"
        )


def chance_of(judgements: Sequence[Judgement]) -> Chance | None:
    """The level of chance; None where no counted query has a match."""
    sizes = [(len(one.positives), len(one.listed)) for one in judgements if one.counted and one.positives]
    if not sizes:
        return None
    precisions = [expected_precision(*size) for size in sizes]
    matches, pairs = (sum(column) for column in zip(*sizes, strict=True))
    return Chance(matches, pairs, mean(precisions), mean(1 / count for count, _ in sizes))


def expected_precision(positives: int, listed: int) -> float:
    """Average precision of a random order of `listed` videos, of which `positives` (at least 1) match, on average.

    A match stands at place k with probability R/N, and each place before it holds one with (R - 1)/(N - 1); the sum
    over k is (H + (N - H)(R - 1)/(N - 1)) / N, with H = 1 + 1/2 + ... + 1/N.

    >>> expected_precision(1, 2)
    0.75
    """
    harmonic = sum(1 / place for place in range(1, listed + 1))
    before = (positives - 1) / (listed - 1) if listed > 1 else 0.0
    return (harmonic + (listed - harmonic) * before) / listed
