"""Slow twin of muvr_train.metrics: plain loops over one ordered list, ties by trying every order."""

from __future__ import annotations

import itertools
import math


def metrics_of_order(labels, n_positive, ks):
    """Metrics of one ranking: `labels` are 1 / 0, best first."""
    values = {"AP": 0.0, "MRR": 0.0, "nDCG": 0.0}
    hits = 0
    for rank, label in enumerate(labels, start=1):
        if label:
            hits += 1
            values["AP"] += hits / rank
            values["nDCG"] += 1 / math.log2(rank + 1)
            if hits == 1:
                values["MRR"] = 1 / rank
    ideal = sum(1 / math.log2(rank + 1) for rank in range(1, n_positive + 1))
    values["AP"] /= max(n_positive, 1)
    values["nDCG"] /= ideal or 1
    values["R-precision"] = sum(labels[:n_positive]) / max(n_positive, 1)
    for k in ks:
        found = sum(labels[:k])
        values[f"recall@{k}"] = found / max(n_positive, 1)
        values[f"precision@{k}"] = found / k
        values[f"hit@{k}"] = float(found > 0)
    return values


def orders(scores, relevance):
    """Every order of the judged labels that sorts the scores, as equally likely lists."""
    judged = [(score, label) for score, label in zip(scores, relevance, strict=True) if label >= 0]
    groups = []
    for score in sorted({score for score, _ in judged}, reverse=True):
        labels = [label for other, label in judged if other == score]
        size, positives = len(labels), sum(labels)
        groups.append(
            [
                [int(place in chosen) for place in range(size)]
                for chosen in itertools.combinations(range(size), positives)
            ]
        )
    for choice in itertools.product(*groups):
        yield [label for group in choice for label in group]


def metrics(scores, relevance, n_positive, ks, ties):
    """Metrics of one query under a tie policy."""
    every = [metrics_of_order(labels, n_positive, ks) for labels in orders(scores, relevance)]
    names = every[0]
    if ties == "average":
        return {name: sum(values[name] for values in every) / len(every) for name in names}
    pick = max if ties == "optimistic" else min
    return {name: pick(values[name] for values in every) for name in names}


def pooled_average_precision(scores, relevance, n_positive, ties):
    """The average precision of one ranking of all pairs [Q, N]; within a tie, by the expected precision at each place.

    Every order of a large tie cannot be tried, so the expectation is taken place by place: a place is positive with
    probability r / m, and then the other positives of the tie are spread evenly over its other places.
    """
    pairs = [
        (score, label)
        for row, labels in zip(scores, relevance, strict=True)
        for score, label in zip(row, labels, strict=True)
        if label >= 0
    ]
    total, rank, found = 0.0, 0, 0
    for score in sorted({score for score, _ in pairs}, reverse=True):
        labels = sorted((label for other, label in pairs if other == score), reverse=ties == "optimistic")
        size, positives = len(labels), sum(labels)
        for place in range(size):
            if ties == "average" and positives:
                others = place * (positives - 1) / (size - 1) if size > 1 else 0
                total += positives / size * (found + 1 + others) / (rank + place + 1)
            elif labels[place] and ties != "average":
                total += (found + sum(labels[: place + 1])) / (rank + place + 1)
        rank, found = rank + size, found + positives
    return total / max(n_positive, 1)


def tied_pairs(scores, relevance):
    """Pairs of a positive and a non-positive with one score."""
    items = list(zip(scores, relevance, strict=True))
    return sum(a == b for (a, x), (b, y) in itertools.product(items, items) if x == 1 and y == 0)
