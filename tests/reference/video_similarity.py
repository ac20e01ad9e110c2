"""Slow twins of the video-similarity benchmarks: raw annotations and dictionaries of scores, one loop after the other.

`scores` is {query: {video: score}} of the videos that were found; there are no ties.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

Scores = Mapping[str, Mapping[str, float]]
LABELS = {"DSVR": "ND DS", "CSVR": "ND DS CS", "ISVR": "ND DS CS IS"}


def ranking(scores: Mapping[str, float]) -> list[str]:
    return sorted(scores, key=lambda video: -scores[video])


def precision_sum(ranked: Sequence[Any], matches: Collection[Any]) -> float:
    """The sum of the precision at each match."""
    total, hits = 0.0, 0
    for rank, item in enumerate(ranked, start=1):
        if item in matches:
            hits += 1
            total += hits / rank
    return total


def trapezoids(ranked: Sequence[Any], matches: Collection[Any]) -> float:
    """The sum of the mean precision just before and at each match."""
    total, hits = 0.0, 0
    for before, item in enumerate(ranked):
        if item in matches:
            precision_before = hits / before if before else 1.0
            hits += 1
            total += (precision_before + hits / (before + 1)) / 2
    return total


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def micro(pairs: Mapping[tuple[str, str], float], matches: Collection[tuple[str, str]], number: int) -> float:
    """Average precision of all pairs of queries and videos in one ranking."""
    return precision_sum(sorted(pairs, key=lambda pair: -pairs[pair]), matches) / number


def fivr(
    annotation: Mapping[str, Mapping[str, Sequence[str]]], scores: Scores, database: Collection[str], task: str
) -> tuple[float, float]:
    """MAP and uAP of a task; `database` are the videos that were found (without easy ones, if it is a hard task)."""
    precisions: list[float] = []
    pairs: dict[tuple[str, str], float] = {}
    right: set[tuple[str, str]] = set()
    for query, row in scores.items():
        matches = {video for label in LABELS[task].split() for video in annotation[query].get(label, [])}
        matches = {video for video in matches if video in database and video != query}
        kept = {video: score for video, score in row.items() if video in database and video != query}
        if matches:
            precisions.append(precision_sum(ranking(kept), matches) / len(matches))
        pairs.update({(query, video): score for video, score in kept.items()})
        right.update((query, video) for video in matches)
    return mean(precisions), micro(pairs, right, len(right))


def evve(events: Mapping[str, tuple[set[str], set[str], set[str]]], scores: Scores) -> dict[str, tuple[float, float]]:
    """MAP and uAP of each event with a match and of `all`; `mean` is the mean of the events."""
    results: dict[str, tuple[float, float]] = {}
    groups = {**{event: [event] for event in events}, "all": list(events)}
    for name, group in groups.items():
        precisions: list[float] = []
        pairs: dict[tuple[str, str], float] = {}
        right: set[tuple[str, str]] = set()
        for event in group:
            queries, positive, neutral = events[event]
            for query in queries & scores.keys():
                kept = {v: s for v, s in scores[query].items() if v in positive or v not in neutral}
                matches = positive & kept.keys()
                if matches:
                    precisions.append(trapezoids(ranking(kept), matches) / len(matches))
                pairs.update({(query, video): score for video, score in kept.items()})
                right.update((query, video) for video in matches)
        if precisions:
            results[name] = mean(precisions), micro(pairs, right, len(right))
    of_events = [pair for name, pair in results.items() if name != "all"]
    return {**results, "mean": (mean([pair[0] for pair in of_events]), mean([pair[1] for pair in of_events]))}


def cc_web_video(dataset: Mapping[str, Any], scores: Scores, whole: bool, clean: bool) -> float:
    """MAP of a setting."""
    precisions: list[float] = []
    for query, labels, excluded in zip(dataset["queries"], dataset["ground_truth"], dataset["excluded"], strict=True):
        if query not in scores:
            continue
        left_out = excluded if clean else set()
        matches = {number for number, label in labels.items() if label in list("ESLMV") and number not in left_out}
        ranked = [dataset["index"][video] for video in ranking(scores[query])]
        ranked = [number for number in ranked if (whole or number in labels) and number not in left_out]
        precisions.append(precision_sum(ranked, matches) / len(matches))
    return mean(precisions)
