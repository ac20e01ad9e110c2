"""Slow, obvious twins of the losses: loops over rows and pairs, float64, straight from the formulas."""

from __future__ import annotations

import math

from torch import Tensor


def infonce(scores: Tensor, relevance: Tensor, temperature: float, positives: str, epsilon: float = 0.0) -> float:
    rows = []
    for row, judged in zip(scores.double().tolist(), relevance.tolist(), strict=True):
        own = [math.exp(s / temperature) for s, r in zip(row, judged, strict=True) if r == 1]
        other = [math.exp(s / temperature) for s, r in zip(row, judged, strict=True) if r == 0]
        if not own:
            continue
        everything = sum(own) + sum(other) + epsilon
        if positives == "each":
            rows.append(sum(-math.log(e / (e + sum(other) + epsilon)) for e in own) / len(own))
        elif positives == "out":
            rows.append(sum(-math.log(e / everything) for e in own) / len(own))
        else:
            rows.append(-math.log(sum(own) / len(own) / everything))
    return sum(rows) / len(rows)


def hard_negative(scores: Tensor, relevance: Tensor, floor: float = 1e-3) -> float:
    rows = []
    for row, judged in zip(scores.double().tolist(), relevance.tolist(), strict=True):
        other = [s for s, r in zip(row, judged, strict=True) if r == 0]
        if other:
            rows.append(-math.log(max(1 - max(other), floor)))
    return sum(rows) / len(rows)
