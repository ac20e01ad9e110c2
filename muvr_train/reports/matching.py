"""Are two runs about the same thing? Only then their differences mean something."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from muvr_train.benchmarks.expressions import UPPER_BOUND
from muvr_train.errors import ConfigError, DataError, shorten
from muvr_train.reports.runs import NEEDED, Key, Run

SAME = {
    "split": "benchmark.split",
    "gallery": "benchmark.gallery",
    "trained_queries_among_them": "benchmark.split, on queries that neither was trained on",
    "folds": "benchmark.folds",
}
"""Facts of `protocol`, and what sets them. One that a run does not have (None) is not compared."""
NO_METRIC = (*NEEDED, "expression", "top_false", "first_missed", "first_missed_rank")


@dataclass(frozen=True)
class Block:
    """The same queries of one mode and partition in K runs.

    Attributes:
        mode: v, t, tv, ...
        partition: its name.
        keys: [R] the queries.
        topics: [R] search topics of the queries.
        counted: bool [R].
        values: [K, R] the metric.
        whole: the queries are all that any of the runs has.
    """

    mode: str
    partition: str
    keys: tuple[Key, ...]
    topics: tuple[str, ...]
    counted: NDArray[np.bool_]
    values: NDArray[np.float64]
    whole: bool


def common_blocks(runs: Sequence[Run], metric: str, mode: str | None, common: bool) -> list[Block]:
    """Put the runs' queries side by side.

    Args:
        runs: two or more.
        metric: a per-query metric, `mAP` for the column AP.
        mode: one mode; None for all that every run has but the upper bound by labels, which is no result.
        common: compare the queries that all runs have, where the runs do not have the same.

    Returns:
        By mode, then partition, in the order of the first run.

    Raises:
        ConfigError: an unknown metric or mode.
        DataError: benchmark, split, gallery, queries or judgements differ.
    """
    first = runs[0]
    for other in runs[1:]:
        _check_protocol(first, other, common)
    blocks = []
    for chosen in _modes(runs, mode):
        names = [{partition for known, partition in run.lines if known == chosen} for run in runs]
        if not common:
            _check_same(runs, names, f"partitions of mode {chosen}")
        for partition in [name for known, name in first.lines if known == chosen]:
            if all(partition in known for known in names):
                blocks.append(_block(runs, metric, chosen, partition, common))
    if not blocks:
        raise DataError(f"{_names(runs)} have no partition in common")
    return blocks


def _modes(runs: Sequence[Run], mode: str | None) -> list[str]:
    shared = [name for name in runs[0].modes if name != UPPER_BOUND and all(name in run.modes for run in runs)]
    if mode is not None:
        for run in runs:
            if mode not in run.modes:
                raise ConfigError(f"--mode {mode}: {run.name} has {', '.join(run.modes)}")
        return [mode]
    if not shared:
        raise DataError("no mode in common: " + "; ".join(f"{run.name} has {', '.join(run.modes)}" for run in runs))
    return shared


def _check_protocol(first: Run, other: Run, common: bool) -> None:
    if first.benchmark != other.benchmark:
        raise DataError(f"different benchmarks: {_both(first, first.benchmark, other, other.benchmark)}")
    facts, others = first.meta.get("protocol", {}), other.meta.get("protocol", {})
    pairs = {name: (facts.get(name), others.get(name), setting) for name, setting in SAME.items()}
    pairs["ties"] = (first.meta.get("ties"), other.meta.get("ties"), "benchmark.ties")
    for name, (mine, theirs, setting) in pairs.items():
        if mine != theirs and None not in (mine, theirs) and not (common and name == "split"):
            raise DataError(
                f"different {name}: {_both(first, mine, other, theirs)}. Evaluate both with the same {setting}"
            )
    mine, theirs = first.meta.get("galleries", {}), other.meta.get("galleries", {})
    for partition in mine:
        if mine[partition] != theirs.get(partition, mine[partition]):
            raise DataError(
                f"different database videos in partition {partition} of {first.name} and {other.name}: the same ranks "
                "mean different things. Evaluate both on the same annotation, split and gallery"
            )


def _block(runs: Sequence[Run], metric: str, mode: str, partition: str, common: bool) -> Block:
    tables = [run.lines[mode, partition] for run in runs]
    where = f"queries of mode {mode}, partition {partition}"
    if not common:
        _check_same(runs, [{_shown(key) for key in table} for table in tables], where)
    keys = [key for key in tables[0] if all(key in table for table in tables)]
    if not keys:
        raise DataError(f"{_names(runs)} have no {where} in common")
    _check_sizes(runs, mode, partition)
    for run, table in zip(runs[1:], tables[1:], strict=True):
        for key in keys:
            for name in ("positives", "topic", "counted"):
                mine, theirs = tables[0][key][name], table[key][name]
                if mine != theirs:
                    raise DataError(
                        f"query {_shown(key)} of partition {partition} is judged differently: {name} is "
                        f"{_both(runs[0], mine, run, theirs)}. Evaluate both on the same annotation and gallery"
                    )
    return Block(
        mode,
        partition,
        tuple(keys),
        tuple(tables[0][key]["topic"] for key in keys),
        np.array([tables[0][key]["counted"] == "True" for key in keys]),
        np.array([_column(run, table, keys, metric) for run, table in zip(runs, tables, strict=True)]),
        all(len(table) == len(keys) for table in tables),
    )


def _column(run: Run, table: Mapping[Key, Mapping[str, str]], keys: Sequence[Key], metric: str) -> list[float]:
    name = "AP" if metric == "mAP" else metric
    line = table[keys[0]]
    if name not in line:
        have = ["mAP" if known == "AP" else known for known in line if known not in NO_METRIC]
        raise ConfigError(f"--metric {metric}: {run.name} has {', '.join(have)}, and uAP")
    try:
        return [float(table[key][name]) for key in keys]
    except ValueError as error:
        raise DataError(f"{run.path / 'per_query.csv'}: column {name}: {error}") from error


def _check_sizes(runs: Sequence[Run], mode: str, partition: str) -> None:
    sizes = []
    for run in runs:
        counts = run.rows.get((mode, partition), {}).get("counts", {})
        sizes.append(counts.get("database", 0) + counts.get("missing_database", 0))
    for run, size in zip(runs, sizes, strict=True):
        if size != sizes[0]:
            raise DataError(
                f"different galleries in partition {partition}: {_both(runs[0], sizes[0], run, size)} videos. Evaluate "
                "both with the same benchmark.split and benchmark.gallery"
            )


def _check_same(runs: Sequence[Run], sets: Sequence[set[str]], what: str) -> None:
    for run, other in zip(runs[1:], sets[1:], strict=True):
        if other != sets[0]:
            lines = [f"{runs[0].name} and {run.name} do not have the same {what}."]
            for name, lone in ((runs[0].name, sets[0] - other), (run.name, other - sets[0])):
                if lone:
                    lines.append(f"Only in {name}: {len(lone)}: {shorten(sorted(lone), 5)}.")
            raise DataError("\n".join([*lines, "Pass --common to compare what both have."]))


def _both(first: Run, mine: object, other: Run, theirs: object) -> str:
    return f"{mine} in {first.name}, {theirs} in {other.name}"


def _names(runs: Sequence[Run]) -> str:
    return ", ".join(run.name for run in runs)


def _shown(key: Key) -> str:
    return key[0] if not key[1] else f"{key[0]} with {key[1]}"
