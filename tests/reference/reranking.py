"""Slow twin of muvr_train.rerank.reranking: works on lists of videos, best first, and never on scores."""

from __future__ import annotations


def ranking(scores):
    """Ranked videos of {video: score or None for one that is not ranked}, best first, equal ones by id."""
    return sorted((video for video, score in scores.items() if score is not None), key=lambda v: (-scores[v], v))


def dropped(order, k, answers):
    """The order after keep/drop; `answers` gives "yes", "no" or nothing for videos of the first k."""
    out = [video for video in order[:k] if answers.get(video) == "no"]
    return [video for video in order if video not in out] + out


def sorted_by(order, k, probability):
    """The order after sorting the first k by {video: probability}; those without one keep their rank."""
    top = order[:k]
    better = sorted((video for video in top if video in probability), key=lambda v: (-probability[v], top.index(v)))
    waiting = iter(better)
    return [next(waiting) if video in probability else video for video in top] + order[k:]
