"""Slow, obvious twins of the losses on rows and pairs: loops in float64 whose results autograd can follow."""

from __future__ import annotations

from torch import Tensor


def split(row: Tensor, judged: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """The scores of a row's matches, and of those that are none."""
    pairs = list(zip(row.double(), judged.tolist(), strict=True))
    return [s for s, r in pairs if r == 1], [s for s, r in pairs if r == 0]


def mean(values: list[Tensor]) -> Tensor:
    return sum(values[1:], values[0]) / len(values)


def softplus(x: Tensor) -> Tensor:
    return (1 + x.exp()).log() if float(x.detach()) < 30 else x + (-x).exp()


def sigmoid(scores: Tensor, relevance: Tensor, scale: float, bias: float) -> Tensor:
    rows = []
    for row, judged in zip(scores.double(), relevance.tolist(), strict=True):
        costs = [
            r * softplus(-(scale * s + bias)) + (1 - r) * softplus(scale * s + bias)
            for s, r in zip(row, judged, strict=True)
            if r >= 0
        ]
        if costs:
            rows.append(mean(costs) * len(costs))
    return mean(rows)


def smooth_ap(scores: Tensor, relevance: Tensor, temperature: float) -> Tensor:
    rows = []
    for row, judged in zip(scores, relevance, strict=True):
        own, other = split(row, judged)
        if not own or not other:
            continue
        precisions = []
        for i, s in enumerate(own):
            better = sum(1 / (1 + ((s - t) / temperature).exp()) for j, t in enumerate(own) if j != i)
            worse = sum(1 / (1 + ((s - t) / temperature).exp()) for t in other)
            precisions.append((1 + better) / (1 + better + worse))
        rows.append(1 - mean(precisions))
    return mean(rows)


def circle(scores: Tensor, relevance: Tensor, scale: float, margin: float) -> Tensor:
    rows = []
    for row, judged in zip(scores, relevance, strict=True):
        own, other = split(row, judged)
        if not own or not other:
            continue
        pull = sum((-scale * max(0.0, 1 + margin - float(s.detach())) * (s - (1 - margin))).exp() for s in own)
        push = sum((scale * max(0.0, float(s.detach()) + margin) * (s - margin)).exp() for s in other)
        rows.append((1 + pull * push).log())
    return mean(rows)


def calibration(scores: Tensor, relevance: Tensor, high: float, low: float, temperature: float | None) -> Tensor:
    def h(x: Tensor) -> Tensor:
        return x.clamp(min=0) if temperature is None else temperature * softplus(x / temperature)

    rows = []
    for row, judged in zip(scores, relevance, strict=True):
        own, other = split(row, judged)
        terms = [mean([h(high - s) for s in own])] if own else []
        terms += [mean([h(s - low) for s in other])] if other else []
        if terms:
            rows.append(mean(terms) * len(terms))
    return mean(rows)


def distillation(
    scores: Tensor, relevance: Tensor, teacher: Tensor, heat: float, teacher_heat: float, kl: float, mse: float
) -> Tensor:
    rows = []
    for row, judged, wanted in zip(scores.double(), relevance.tolist(), teacher.double(), strict=True):
        columns = [j for j, r in enumerate(judged) if r >= 0]
        if not columns:
            continue
        p = [(wanted[j] / teacher_heat).exp() for j in columns]
        q = [(row[j] / heat).exp() for j in columns]
        p, q = [x / sum(p) for x in p], [x / sum(q) for x in q]
        divergence = sum(a * (a / b).log() for a, b in zip(p, q, strict=True))
        rows.append(kl * divergence + mse * mean([(row[j] - wanted[j]) ** 2 for j in columns]))
    return mean(rows)


def soft_infonce(scores: Tensor, relevance: Tensor, temperature: float, positives: str, epsilon: float) -> Tensor:
    rows = []
    for row, judged in zip(scores.double(), relevance.double().tolist(), strict=True):
        e = [(s / temperature).exp() for s in row]
        own = [j for j, r in enumerate(judged) if r > 0]
        if not own:
            continue
        total = sum(judged[j] for j in own)
        other = sum(e[j] for j, r in enumerate(judged) if r == 0)
        everything = other + sum(e[j] for j in own) + epsilon
        if positives == "in":
            weighted = sum(judged[j] * e[j] for j in own) / total
            rows.append(-(weighted / everything).log() * min(1.0, total))
            continue
        below = {j: e[j] + other + epsilon if positives == "each" else everything for j in own}
        rows.append(sum(-judged[j] * (e[j] / below[j]).log() for j in own) / max(1.0, total))
    return mean(rows)
