"""Is one run better than another on the same queries? Paired tests over search topics."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from muvr_train.metrics.ranks import Floats

DRAWS = 10_000
EXACT = 13
"""With at most so many topics that differ all 2^T sign patterns are tried (8,192), with more `DRAWS` random ones."""


def sign_flip_p(contributions: NDArray[np.float64], draws: int = DRAWS, seed: int = 0) -> float:
    """Two-sided p value of the paired permutation test: would the sum be as large if the runs' names were swapped?

    If two runs are equally good, swapping them within a topic is as likely as not: it flips the topic's sign. The p
    value is the share of sign patterns whose sum is at least as far from 0 as the observed one (Fisher, The Design of
    Experiments, 1935, section 21; Smucker, Allan and Carterette, CIKM 2007). With random patterns the observed one
    counts as one of them: (1 + hits) / (1 + draws), never 0.

    Args:
        contributions: [T], what each topic adds to the difference of the two runs.
        draws: random patterns where there are too many topics for all of them.
        seed: of the random patterns.

    Returns:
        A value in (0, 1]; 1 where no topic differs.

    >>> sign_flip_p(np.array([0.1, 0.2, 0.4]))
    0.25
    """
    values = contributions[contributions != 0]
    if not len(values):
        return 1.0
    reach = abs(values.sum()) - 1e-12 * np.abs(values).sum()
    if len(values) <= EXACT:
        signs = np.array(list(itertools.product((1.0, -1.0), repeat=len(values))))
        return float((np.abs(signs @ values) >= reach).mean())
    rng = np.random.default_rng(seed)
    hits = 0
    for start in range(0, draws, 1000):
        signs = rng.integers(0, 2, (min(1000, draws - start), len(values))) * 2.0 - 1.0
        hits += int((np.abs(signs @ values) >= reach).sum())
    return (1 + hits) / (1 + draws)


def effect_size(differences: Floats) -> float | None:
    """Cohen's d_z: the mean of paired differences in units of their standard deviation (n - 1).

    By convention 0.2 is small, 0.5 medium and 0.8 large (Cohen, Statistical Power Analysis, 1988, section 2.3).

    Args:
        differences: [T], one per topic.

    Returns:
        None with fewer than two topics, or where all differences are the same but not 0; 0 where all are 0.

    >>> round(effect_size(np.array([1.0, 2.0, 3.0])), 12)
    2.0
    """
    if len(differences) < 2:
        return None
    mean, spread = float(differences.mean()), float(differences.std(ddof=1))
    if spread <= 1e-12 * abs(mean):
        return None if mean else 0.0
    return mean / spread


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p values for having made several tests, by the step-down method of Holm (1979).

    Args:
        p_values: of one family of tests.

    Returns:
        Adjusted values in the same order, at most 1: those below 0.05 are significant at 5 % for the whole family.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values, kind="stable")
    adjusted, highest = [0.0] * len(p_values), 0.0
    for place, index in enumerate(order.tolist()):
        highest = max(highest, min(1.0, (len(p_values) - place) * p_values[index]))
        adjusted[index] = highest
    return adjusted
