"""Queries under tag expressions in training batches: relevance by hand, draws by number, leaks and holes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from muvr_train.benchmarks.expressions import Condition, Expression, Or, conditions_of
from muvr_train.benchmarks.holes import without_missing, without_untagged
from muvr_train.benchmarks.leakage import drop_leaks, find_leaks
from muvr_train.benchmarks.muvr import read_muvr
from muvr_train.benchmarks.muvr_filter import filter_rows
from muvr_train.benchmarks.splits import apply_splits
from muvr_train.benchmarks.types import Benchmark, Judgement, Partition, Query
from muvr_train.data.one_to_many import BatchPlan, OneToManyPlan
from muvr_train.data.tag_rows import tagged_rows
from muvr_train.demo.annotations import write_annotations
from muvr_train.demo.facts import facts_of
from muvr_train.demo.plan import make_plan
from tests.data.test_batches import make_benchmark
from tests.tagged import EXPRESSIONS, make_tagged

MATCHES = ("m0", "m1", "m2", "m3")
LISTS = {
    "+night": {"m0", "m1", "outside", "q", "gone"},  # outside the database, the query itself, and an ignored video
    "-crowd": {"m2", "unjudged", "easy"},  # a video that nobody judged for the plain query, and a non-match of it
    "OR +night +crowd": {"q"},  # nothing but the query itself
    "+fog": set(),
}


def small() -> Benchmark:
    """One topic of two queries, q and other (which has no expression); database in a fixed order."""
    queries = (
        Query("q", "p", "p/0", tags=("night", "crowd", "fog"), split="train"),
        Query("other", "p", "p/0", split="train"),
    )
    judged = (
        Judgement(
            "q",
            dict.fromkeys(MATCHES, "match"),
            frozenset({"hard", "easy"}),
            frozenset({"hard"}),
            ignored=frozenset({"gone"}),
        ),
        Judgement("other", {"m0": "match"}, frozenset({"easy"})),
    )
    filters = tuple(Judgement("q", dict.fromkeys(found, "match"), expression=text) for text, found in LISTS.items())
    topics = {video: frozenset({"p/0"}) for video in (*MATCHES, "unjudged")}
    database = (*MATCHES, "hard", "easy", "unjudged", "gone", "q", "far")
    return Benchmark("toy", (Partition("p", queries, judged, database, topics, filters=filters),))


def rows_of(plan: BatchPlan) -> dict[str, dict[str, int]]:
    """Relevance by the row's query and expression, and by video."""
    names = [
        f"{query.id} {expression or ''}".strip()
        for query, expression in zip(plan.queries, plan.expressions, strict=True)
    ]
    return {
        name: dict(zip(plan.database, map(int, row), strict=True))
        for name, row in zip(names, plan.relevance, strict=True)
    }


def test_relevance_of_a_query_under_an_expression_by_hand() -> None:
    plan = OneToManyPlan(small(), topics=1, queries_per_topic=2, positives=9, hard_negatives=9, tag_rows=9)(0)
    rows = rows_of(plan)
    assert set(rows) == {"q", "other", "q +night", "q -crowd"}, "expressions that no video meets are no rows"
    assert rows["q"] == {
        **dict.fromkeys(MATCHES, 1),
        "hard": 0,
        "easy": 0,
        "unjudged": -1,
        "q": -1,
        "other": -1,
    }
    assert rows["q +night"] == {
        "m0": 1,
        "m1": 1,
        "m2": 0,
        "m3": 0,
        "hard": 0,
        "easy": 0,
        "unjudged": -1,
        "q": -1,
        "other": -1,
    }
    assert rows["q -crowd"] == {
        "m0": 0,
        "m1": 0,
        "m2": 1,
        "m3": 0,
        "hard": 0,
        "easy": 1,
        "unjudged": 1,
        "q": -1,
        "other": -1,
    }
    assert rows["other"]["m1"] == -1
    at = [query.id for query in plan.queries].index("q")
    assert [str(found) for found in plan.expressions[at + 1 : at + 3]] in (["+night", "-crowd"], ["-crowd", "+night"])
    assert plan.expressions[at] is None


def test_only_matches_of_the_query_are_judged_by_their_tags() -> None:
    plan = OneToManyPlan(small(), topics=1, queries_per_topic=2, positives=9, hard_negatives=9, tag_rows=9)(0)
    assert plan.tag_relevance is not None
    rows = rows_of(replace(plan, relevance=plan.tag_relevance))
    unknown = dict.fromkeys(plan.database, -1)
    assert rows["q"] == rows["other"] == unknown, "a row without an expression has no tags"
    assert rows["q +night"] == {**unknown, "m0": 1, "m1": 1, "m2": 0, "m3": 0}
    assert rows["q -crowd"] == {**unknown, "m0": 0, "m1": 0, "m2": 1, "m3": 0, "easy": 1, "unjudged": 1}
    row = next(row for row in tagged_rows(small(), {"q": small().partitions[0].judgements[0]})["q"])
    assert [row.tag_relevance(video) for video in ("gone", "q", "far", "outside")] == [-1, -1, -1, 1]


def test_no_row_with_tags_is_no_judgement_of_tags() -> None:
    for rows in (0, 3):
        assert OneToManyPlan(make_benchmark(), topics=3, tag_rows=rows)(0).tag_relevance is None


def test_no_negative_of_a_loss_on_tags_meets_the_expression(tmp_path: Path) -> None:
    """Of the built-in corpus what each video shows is known, beside the annotation that training reads."""
    plan = make_plan("tiny")
    write_annotations(plan, tmp_path)
    facts = {f"{video.partition}/{video.id}": facts_of(video) for video in plan.videos}
    part = apply_splits(read_muvr(tmp_path, filters="beside"), "topic", [0.5, 0.1, 0.4]).select("train", "split")
    drawn = OneToManyPlan(part, topics=6, tag_rows=1, hard_negatives=1)
    negatives = wrong = 0
    for batch in map(drawn, range(20)):
        rows = zip(batch.queries, batch.expressions, batch.relevance, batch.tag_relevance, strict=True)  # type: ignore[arg-type]
        for query, expression, whole, of_tags in rows:
            if expression is None:
                continue
            tagged = next(row for row in drawn.tagged[query.id] if row.row.expression == expression)
            assert (of_tags == 1).any()
            assert (of_tags == 0).any() or not tagged.hard_negatives, "one is drawn where there is one"
            for video in (video for video, value in zip(batch.database, of_tags, strict=True) if value == 0):
                negatives += 1
                assert not meets(expression, facts[video]), (query.id, str(expression), video)
            wrong += sum(
                meets(expression, facts[v]) for v, value in zip(batch.database, whole, strict=True) if value == 0
            )
    assert negatives > 20
    assert wrong > 20, "videos of other topics that show it are negatives of the fused score only"


def meets(expression: Expression, facts: Mapping[str, bool | None]) -> bool:
    """Whether a video plainly shows what an expression asks for."""
    shown = [facts.get(condition.tag, False) is (condition.sign > 0) for condition in conditions_of(expression)]
    return any(shown) if isinstance(expression, Or) else all(shown)


def test_an_ignored_video_and_those_outside_the_database_are_never_drawn() -> None:
    plan = OneToManyPlan(small(), topics=1, queries_per_topic=2, positives=9, hard_negatives=9, tag_rows=9)
    assert not {"gone", "outside", "far"} & {video for n in range(20) for video in plan(n).database}
    row = next(row for row in plan.tagged["q"] if row.row.expression == Condition(1, "night"))
    assert (row.positives, row.hard_negatives) == (["m0", "m1"], ["m2", "m3"])
    assert row.relevance(1, "gone") == row.relevance(-1, "q") == -1
    assert row.relevance(0, "far") == 0


def test_numbers_of_rows_positives_and_negatives_hold() -> None:
    def count(tag_rows: int, positives: int, hard: int) -> tuple[int, int]:
        plan = OneToManyPlan(
            small(),
            topics=1,
            queries_per_topic=1,
            positives=positives,
            hard_negatives=hard,
            tag_rows=tag_rows,
            query_videos=False,
            seed=1,
        )
        batch = next(batch for batch in map(plan, range(9)) if batch.queries[0].id == "q")
        return len(batch.queries), len(batch.database)

    assert count(1, 1, 0)[0] == 2
    assert count(2, 1, 0)[0] == 3
    assert count(9, 1, 0)[0] == 3
    assert count(0, 1, 0) == (1, 1)
    assert count(1, 1, 0)[1] <= 2, "one positive of each row"


def test_without_tag_rows_batches_are_what_they_were() -> None:
    digest = hashlib.sha256()
    for seed in range(3):
        plan = OneToManyPlan(
            make_benchmark(), topics=3, queries_per_topic=2, positives=2, hard_negatives=2, tag_rows=0, seed=seed
        )
        for n in range(9):
            batch = plan(n)
            digest.update(repr(([query.id for query in batch.queries], batch.database)).encode())
            digest.update(batch.relevance.tobytes())
            assert set(batch.expressions) == {None}
    assert digest.hexdigest()[:16] == "86b06a64c40b3fa7"  # of the plan before it knew of tags


def test_tag_rows_leave_the_plain_draws_alone(tmp_path: Path) -> None:
    part = tagged_train(tmp_path)
    plans = [OneToManyPlan(part, topics=3, tag_rows=count, seed=5) for count in (0, 2, 2)]
    for n in range(6):
        plain, tagged, again = (plan(n) for plan in plans)
        first = [row for row, expression in enumerate(tagged.expressions) if expression is None]
        assert [tagged.queries[row].id for row in first] == [query.id for query in plain.queries]
        assert set(plain.database) <= set(tagged.database)
        places = [tagged.database.index(video) for video in plain.database]
        assert np.array_equal(tagged.relevance[np.ix_(first, places)], plain.relevance)
        assert (tagged.database, tagged.expressions) == (again.database, again.expressions)
        assert np.array_equal(tagged.relevance, again.relevance)
    assert any(len(plans[1](n).queries) > len(plans[0](n).queries) for n in range(6))


def tagged_train(root: Path) -> Benchmark:
    whole = apply_splits(read_muvr(make_tagged(root)[0], filters="beside"))
    return whole.select("train", "split")


def test_every_row_of_the_tagged_toy_follows_its_list(tmp_path: Path) -> None:
    part = tagged_train(tmp_path)
    rows = [row for one in part.partitions for row in filter_rows(one)]
    lists = {(row.judgement.query, str(row.expression)): row.judgement.positives for row in rows}
    plan = OneToManyPlan(part, topics=4, positives=2, hard_negatives=2, tag_rows=2)
    seen = {
        (query.id, str(expression))
        for batch in map(plan, range(20))
        for query, expression in zip(batch.queries, batch.expressions, strict=True)
    }
    last = {query for query, text in seen if text == "-high-rise buildings"}
    assert last <= {"news/t0q0", "dance/t0q0"}, "of the other queries it lists nothing"
    assert {"+night", "-crowd", "AND +night -crowd"} <= {text for _, text in seen}
    negatives = 0
    for n in range(10):
        batch = plan(n)
        for query, expression, row in zip(batch.queries, batch.expressions, batch.relevance, strict=True):
            if expression is None:
                continue
            found = lists[query.id, str(expression)]
            own = part.judgement_by_query[query.id].positives
            assert {v for v, r in zip(batch.database, row, strict=True) if r == 1} == set(
                batch.database
            ) & found.keys() - {query.id}
            rest = [r for v, r in zip(batch.database, row, strict=True) if v in own and v not in found]
            assert set(rest) <= {0}
            negatives += len(rest)
    assert negatives > 0


def test_leaks_through_an_expression_are_dropped() -> None:
    held = Query("held", "p", "p/1", split="test")
    part = small().partitions[0]
    rows = (*part.judgements, Judgement("held", {"easy": "match"}))
    benchmark = Benchmark("toy", (replace(part, queries=(*part.queries, held), judgements=rows),))
    report = find_leaks(benchmark)
    assert [(leak.query, leak.video) for leak in report.leaks] == [("q", "easy")]
    (cut,) = drop_leaks(benchmark, report).partitions
    row = next(row for row in cut.filters if row.expression == "-crowd")
    assert set(row.positives) == {"m2", "unjudged"}
    assert "easy" in row.ignored
    assert all("easy" in one.ignored for one in cut.judgements if one.query == "q")
    gone = Benchmark(
        "toy",
        (
            replace(
                part, queries=(*part.queries, held), judgements=(*part.judgements, Judgement("held", {"q": "match"}))
            ),
        ),
    )
    (cut,) = drop_leaks(gone, find_leaks(gone)).partitions
    assert not cut.filters, "the query leaks itself, and its expressions go with it"


def test_holes_take_expressions_along() -> None:
    smaller, missing = without_missing(small(), lambda video: video not in ("m0", "other"))
    assert missing == 2
    row = smaller.partitions[0].filters[0]
    assert set(row.positives) == LISTS["+night"] - {"m0"}
    smaller, _ = without_missing(small(), lambda video: video != "q")
    assert smaller.partitions[0].filters == ()


def test_expressions_without_vectors_are_left_out_and_counted() -> None:
    kept, lost = without_untagged(small(), lambda query, tag: (query, tag) != ("q", "crowd"))
    assert ([row.expression for row in kept.partitions[0].filters], lost) == (["+night", "+fog"], 2)
    assert without_untagged(small(), lambda *_: True)[1] == 0


def test_no_expression_at_all_is_no_row() -> None:
    plan = OneToManyPlan(make_benchmark(), topics=3, tag_rows=3)
    assert set(plan(0).expressions) == {None}


@pytest.mark.parametrize("beside", [True, False])
def test_reading_expressions_beside_the_base(beside: bool, tmp_path: Path) -> None:
    annotations = make_tagged(tmp_path)[0]
    benchmark = read_muvr(annotations, filters="beside" if beside else True)
    assert benchmark.name == ("muvr_base" if beside else "muvr_filter")
    assert benchmark.has_filters is not beside
    assert len(benchmark["news"].filters) == 9 * len(EXPRESSIONS)
    assert benchmark.select("all", "full").filters_beside is beside


def test_what_cannot_be_read_is_skipped_beside_the_base(tmp_path: Path) -> None:
    annotations = make_tagged(tmp_path, ("+night", "night", "OR +night +crowd"))[0]
    benchmark = read_muvr(annotations, filters="beside")
    assert [row.expression for row in benchmark["news"].filters[:3]] == ["+night", "OR +night +crowd", "+night"]
    assert [line for line in benchmark.warnings if "cannot be read (skipped) (9): query news/t0q0" in line]
    assert read_muvr(annotations).partitions[0].filters == ()
    trees = OneToManyPlan(apply_splits(benchmark).select("train", "split"), tag_rows=1).tagged.values()
    assert {type(row.row.expression) for rows in trees for row in rows} == {Condition, Or}
