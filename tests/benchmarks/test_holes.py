"""What is left to train on where features are missing."""

from __future__ import annotations

from muvr_train.benchmarks.holes import without_missing
from muvr_train.benchmarks.types import Benchmark, Judgement, Partition, Query


def test_missing_videos_leave_every_list() -> None:
    queries = (Query("p/q", "p", "p/0"), Query("p/lost", "p", "p/0"))
    rows = (
        Judgement("p/q", {"p/a": "copy", "p/gone": "event"}, frozenset({"p/n", "p/gone2"}), frozenset({"p/gone2"})),
        Judgement("p/lost", {"p/a": "copy"}),
    )
    benchmark = Benchmark("toy", (Partition("p", queries, rows, ("p/a", "p/gone", "p/n", "p/gone2")),))
    gone = {"p/lost", "p/gone", "p/gone2"}
    smaller, missing = without_missing(benchmark, lambda video: video not in gone)
    assert missing == 3
    (part,) = smaller.partitions
    assert part.query_ids == ("p/q",)
    assert part.database == ("p/a", "p/n")
    (row,) = part.judgements
    assert row.positives == {"p/a": "copy"}
    assert row.negatives == {"p/n"}
    assert row.hard_negatives == frozenset()


def test_nothing_missing_changes_nothing() -> None:
    benchmark = Benchmark("toy", (Partition("p", (), (), ("p/a",)),))
    assert without_missing(benchmark, lambda _: True) == (benchmark, 0)
