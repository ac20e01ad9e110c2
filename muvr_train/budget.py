"""Whether a memory budget is enough for all that an evaluation scores, known before anything is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from muvr_train.agreement import in_step
from muvr_train.benchmarks.muvr_filter import filter_rows
from muvr_train.benchmarks.types import Benchmark, Partition
from muvr_train.judging import plain_modes
from muvr_train.search.exhaustive import Demand, small_budget
from muvr_train.search.filter_scores import base_mode, pairs_of, readings
from muvr_train.search.partitions import joint
from muvr_train.search.shares import demand
from muvr_train.search.sources import TAGGED, ModelScores, ScoreSource

Demands = Iterable[tuple[str, Demand]]
"""What scorings hold, each by the partition that is scored."""


def refuse_small_budget(source: ScoreSource, found: Demands) -> None:
    """Raise before anything is scored unless a model's budget is enough for all of it.

    Args:
        source: of the scores; one that is no model's needs no budget, and nothing is looked up.
        found: what it will be asked for.

    Raises:
        ConfigError: names the partition that needs most, and a budget that is enough for every one.
    """
    if not isinstance(source, ModelScores) or source.memory_budget is None:
        return
    budget = source.memory_budget

    def check() -> None:
        name, most = max(found, key=lambda one: one[1].enough(budget), default=("", Demand(0, 0)))
        if (needed := most.enough(budget)) > budget:
            raise small_budget(budget, most.reason(budget), needed, f" for {name}")

    in_step(source.group, check)


def mining_demands(source: ModelScores, benchmark: Benchmark, mode: str) -> Iterator[tuple[str, Demand]]:
    """What mining in a mode holds."""
    for partition in benchmark.partitions:
        if source.known_queries(partition):
            work = source.work(partition, (mode,))
            yield f"mining in partition {partition.name}", demand(work, source.model, source.store)


def demands(source: ScoreSource, benchmark: Benchmark, modes: Sequence[str]) -> Iterator[tuple[str, Demand]]:
    """What an evaluation holds; nothing is said of a source that is no model's."""
    if not isinstance(source, ModelScores):
        return
    known = [partition for partition in benchmark.partitions if source.known_queries(partition)]
    asked = (base_mode(modes),) if benchmark.has_filters else plain_modes(source, modes)
    whole = [(one, [one]) for one in known] if benchmark.has_filters else joint(source, known)
    for joined, group in whole:
        names = ", ".join(partition.name for partition in group)
        yield f"partition {names}", demand(source.work(joined, asked), source.model, source.store)
    if benchmark.has_filters or TAGGED in modes:
        for partition in known:
            if pairs := _pairs(source, partition, benchmark.has_filters):
                work, _ = source.tag_work(partition, pairs)
                yield f"the tags of partition {partition.name}", demand(work, source.model, source.store)


def _pairs(source: ModelScores, partition: Partition, as_official: bool) -> list[tuple[str, str]]:
    """Queries and tags that are scored."""
    known = frozenset(source.known_queries(partition))
    official, able = readings(source, [row for row in filter_rows(partition) if row.judgement.query in known])
    return [pair for pair in pairs_of((*official, *able) if as_official else able) if source.has_tag(*pair)]
