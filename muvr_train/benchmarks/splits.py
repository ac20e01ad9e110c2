"""Train, validation and test queries, cut between search topics and never through one."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from muvr_train.benchmarks.types import SPLITS, Benchmark
from muvr_train.errors import ConfigError, DataError, shorten
from muvr_train.names import hint, nearest_names

SplitSource = Literal["topic", "annotation"]
DEFAULT_FRACTIONS = (0.6, 0.2, 0.2)
SCARCE_ORDER = ("train", "test", "val")
"""Who is served first where there are fewer topics than splits, and where remainders are equal."""


def apply_splits(
    benchmark: Benchmark,
    split_source: SplitSource | None = "topic",
    fractions: Sequence[float] = DEFAULT_FRACTIONS,
) -> Benchmark:
    """Give every query a split: by search topic, or the annotation's own (`benchmark.split_source` in a config).

    Without a source it is the annotation's own where that gives every query one, and else by search topic.

    Raises:
        ConfigError: unknown source or impossible fractions.
        DataError: the annotation's own split is asked for and a query has none.
    """
    if split_source is None:
        split_source = "annotation" if all(query.annotated_split for query in benchmark.queries) else "topic"
    if split_source == "topic":
        return split_by_topic(benchmark, fractions)
    if split_source == "annotation":
        return split_by_annotation(benchmark)
    raise ConfigError(f"benchmark.split_source={split_source}: use topic or annotation")


def split_by_topic(benchmark: Benchmark, fractions: Sequence[float] = DEFAULT_FRACTIONS) -> Benchmark:
    """Split by search topic, separately in each partition; depends on the topics' names and on nothing else."""
    return _with_splits(benchmark, "topic", assign_splits(benchmark.topics, fractions), by_topic=True)


def split_by_annotation(benchmark: Benchmark) -> Benchmark:
    """Use the annotation's own split, which may put queries of one topic on both sides (see `leakage.find_leaks`).

    Raises:
        DataError: a query has no split, or one that is not train, val or test.
    """
    wrong = [
        f"{query.id} ({query.annotated_split})" for query in benchmark.queries if query.annotated_split not in SPLITS
    ]
    if wrong:
        raise DataError(
            f"split_source=annotation: the annotation gives no split train, val or test to {shorten(wrong)}; "
            "use split_source=topic"
        )
    own = {query.id: str(query.annotated_split) for query in benchmark.queries}
    return _with_splits(benchmark, "annotation", own, by_topic=False)


def split_by_fold(benchmark: Benchmark, folds: int, fold: int) -> Benchmark:
    """Split for cross-fitting: over all folds every search topic is in test once, in val once, and else in train.

    Args:
        benchmark: its topics are dealt out separately in each partition.
        folds: how many, at least 3.
        fold: 0 to folds - 1; its topics are test, those of the next one val.
    """
    splits = assign_folds(benchmark.topics, folds, fold)
    return _with_splits(benchmark, f"topic, fold {fold} of {folds}", splits, by_topic=True)


def refuse_unknown_partitions(benchmark: Benchmark, names: Sequence[str] | None) -> None:
    """Raise if a benchmark lacks a partition that `data.train_partitions` names.

    Raises:
        ConfigError: it and the nearest that is there.
    """
    have = [partition.name for partition in benchmark.partitions]
    for name in names or ():
        if name not in have:
            near = hint(nearest_names(name, have))
            raise ConfigError(
                f"data.train_partitions: the annotation has no partition {name!r}{near}; it has {', '.join(have)}"
            )


def keep_partitions(benchmark: Benchmark, names: Sequence[str] | None) -> Benchmark:
    """Keep only some partitions, in the benchmark's order; None keeps all.

    Raises:
        DataError: none is left.
    """
    if names is None:
        return benchmark
    kept = tuple(partition for partition in benchmark.partitions if partition.name in names)
    if not kept:
        have = ", ".join(partition.name for partition in benchmark.partitions)
        raise DataError(f"data.train_partitions={list(names)} leaves no training query; there are some in {have}")
    return replace(benchmark, partitions=kept)


def _with_splits(benchmark: Benchmark, source: str, splits: Mapping[str, str], *, by_topic: bool) -> Benchmark:
    partitions = tuple(
        replace(
            partition,
            queries=tuple(
                replace(query, split=splits[query.topic if by_topic else query.id]) for query in partition.queries
            ),
        )
        for partition in benchmark.partitions
    )
    return replace(benchmark, partitions=partitions, protocol={**benchmark.protocol, "split_source": source})


def assign_splits(topic_names: Iterable[str], fractions: Sequence[float] = DEFAULT_FRACTIONS) -> dict[str, str]:
    """Topic -> train, val or test.

    Topics are grouped by what stands before the first "/" of their name (the partition). Within a group they are put
    in the order of the SHA-256 of their full names and cut at the fractions, rounded by largest remainder. Where a
    group has a topic for each, no split with a fraction above 0 stays empty; where it has two, they are train and test.

    Args:
        topic_names: Full names, `<partition>/<topic>`; order and repetition do not matter.
        fractions: Of train, val and test; not negative, sum 1.

    Raises:
        ConfigError: impossible fractions.

    >>> assign_splits(["news/1", "news/2", "news/3"])
    {'news/1': 'train', 'news/3': 'val', 'news/2': 'test'}
    """
    if len(fractions) != 3 or min(fractions) < 0 or not math.isclose(sum(fractions), 1.0, abs_tol=1e-6):
        raise ConfigError(
            f"split fractions must be three numbers >= 0 (train, val, test) with sum 1, got {list(fractions)}"
        )
    splits: dict[str, str] = {}
    for names in _groups(topic_names).values():
        sizes = split_sizes(len(names), fractions)
        order = [split for split, size in zip(SPLITS, sizes, strict=True) for _ in range(size)]
        splits.update(zip(names, order, strict=True))
    return splits


def assign_folds(topic_names: Iterable[str], folds: int, fold: int) -> dict[str, str]:
    """Topic -> train, val or test: each group's topics, in the order of `assign_splits`, are dealt out like cards.

    >>> assign_folds(["a/1", "a/2", "a/3", "a/4"], 3, 0)
    {'a/2': 'test', 'a/3': 'val', 'a/1': 'train', 'a/4': 'test'}
    """
    parts = {fold % folds: "test", (fold + 1) % folds: "val"}
    return {
        name: parts.get(place % folds, "train")
        for names in _groups(topic_names).values()
        for place, name in enumerate(names)
    }


def _groups(topic_names: Iterable[str]) -> dict[str, list[str]]:
    """Topics by what stands before their first "/", in the order of the SHA-256 of their full names."""
    groups: dict[str, set[str]] = {}
    for name in topic_names:
        groups.setdefault(name.split("/", 1)[0], set()).add(name)
    return {
        group: sorted(groups[group], key=lambda name: (hashlib.sha256(name.encode()).hexdigest(), name))
        for group in sorted(groups)
    }


def split_sizes(count: int, fractions: Sequence[float]) -> tuple[int, int, int]:
    """How many of `count` topics go to train, val and test.

    >>> split_sizes(20, (0.5, 0.1, 0.4))
    (10, 2, 8)
    >>> split_sizes(3, (0.8, 0.1, 0.1))
    (1, 1, 1)
    """
    exact = {split: round(count * fraction, 6) for split, fraction in zip(SPLITS, fractions, strict=True)}
    sizes = {split: math.floor(value) for split, value in exact.items()}
    by_remainder = sorted(SCARCE_ORDER, key=lambda split: sizes[split] - exact[split])
    for split in by_remainder[: count - sum(sizes.values())]:
        sizes[split] += 1
    for split in SCARCE_ORDER:
        richest = max(SPLITS, key=lambda name: sizes[name])
        if exact[split] > 0 and sizes[split] == 0 and sizes[richest] > 1:
            sizes[richest] -= 1
            sizes[split] += 1
    return sizes["train"], sizes["val"], sizes["test"]
