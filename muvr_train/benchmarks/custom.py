"""A benchmark that a function of the user's own reads."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from muvr_train.benchmarks.types import Benchmark
from muvr_train.errors import ConfigError, DataError, shorten


def read_custom(reader: Mapping[str, Any], annotations: Path, name: str) -> Benchmark:
    """Read a benchmark with `reader`.

    Args:
        reader: `_target_`, the dotted name of a function, and its keyword arguments.
        annotations: its first argument, a file or folder.
        name: what the benchmark must be called.

    Raises:
        ConfigError: there is no such function, or it gives something else.
        DataError: see `check_benchmark`; the function may raise it too.
    """
    target, settings = str(reader["_target_"]), {key: value for key, value in reader.items() if key != "_target_"}
    module, _, function = target.rpartition(".")
    try:
        read = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"benchmark.reader._target_={target} cannot be imported: {error}") from error
    benchmark = read(annotations, **settings)
    if not isinstance(benchmark, Benchmark):
        raise ConfigError(f"benchmark.reader: {target} gives a {type(benchmark).__name__}; it must give a Benchmark")
    if benchmark.name != name:
        raise ConfigError(
            f"benchmark.reader: {target} calls its benchmark {benchmark.name!r}, but benchmark.name is {name!r}, by "
            "which results are named: make them the same"
        )
    check_benchmark(benchmark)
    return benchmark


def check_benchmark(benchmark: Benchmark) -> None:
    """Check what no reader may get wrong.

    Raises:
        DataError: ids or names that occur twice, a query without judgement or a judgement without query, a query of
            another partition, or no match at all.
    """
    faults = _twice("partitions", [part.name for part in benchmark.partitions])
    faults += _twice("queries", [query.id for query in benchmark.queries])
    for part in benchmark.partitions:
        judged, asked = {row.query for row in part.judgements}, set(part.query_ids)
        faults += _twice(f"database videos of {part.name}", list(part.database))
        faults += _some(f"queries of {part.name} without a judgement", asked - judged)
        faults += _some(f"judgements of {part.name} for queries that it does not have", judged - asked)
        strays = {query.id for query in part.queries if query.partition != part.name}
        faults += _some(f"queries of {part.name} that say they are of another partition", strays)
    if not any(row.positives for row in benchmark.judgements):
        faults.append("no query has a match, so nothing can be found")
    if faults:
        raise DataError(f"the reader of benchmark={benchmark.name} made a benchmark with faults: " + "; ".join(faults))


def _twice(what: str, names: list[str]) -> list[str]:
    return _some(f"{what} that occur twice", {name for name, count in Counter(names).items() if count > 1})


def _some(what: str, names: set[str]) -> list[str]:
    return [f"{len(names)} {what} ({shorten(sorted(names), 5)})"] if names else []
