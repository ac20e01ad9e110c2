"""Selection, relevance, topics, splits, leakage and published rows."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muvr_train.benchmarks.leakage import HeldOut, drop_leaks, find_leaks, upload_of
from muvr_train.benchmarks.muvr import read_muvr
from muvr_train.benchmarks.published import is_whole_muvr, published_rows
from muvr_train.benchmarks.splits import apply_splits, assign_splits, split_by_topic, split_sizes
from muvr_train.benchmarks.topics import search_topics
from muvr_train.benchmarks.types import Benchmark, Judgement, Partition, Query
from muvr_train.errors import ConfigError, DataError


def benchmark(rows, splits=None, database=()):
    """Rows {query: (topic, positives, negatives)} in one partition p, everything named without it."""
    key = "p/{}".format
    queries = tuple(
        Query(key(name), "p", key(topic), split=None if splits is None else splits[name])
        for name, (topic, _, _) in rows.items()
    )
    judgements = tuple(
        Judgement(key(name), {key(video): "match" for video in found}, frozenset(key(video) for video in other))
        for name, (_, found, other) in rows.items()
    )
    topics = {}
    for topic, found, _ in rows.values():
        for video in found:
            topics[key(video)] = topics.get(key(video), frozenset()) | {key(topic)}
    listed = dict.fromkeys(video for row in judgements for video in sorted(row.listed))
    return Benchmark("b", (Partition("p", queries, judgements, (*listed, *map(key, database)), topics),))


def test_relevance_for_training():
    bench = benchmark(
        {"q1": ("t1", ["a", "b"], ["d"]), "q2": ("t1", ["c"], ["a"]), "q3": ("t2", ["e", "q3"], [])}, database=["z"]
    )
    expected = {"a": 1, "b": 1, "d": 0, "c": -1, "e": 0, "z": 0, "q1": -1, "q2": -1, "q3": 0}
    assert {video: bench.relevance("p/q1", f"p/{video}") for video in expected} == expected
    assert bench.relevance("p/q2", "p/a") == 0  # of the same topic, but listed
    assert bench.relevance("p/q3", "p/q3") == -1  # its own positive
    part = bench.partitions[0]
    ignoring = replace(
        bench, partitions=(replace(part, judgements=(replace(part.judgements[0], ignored=frozenset({"p/z"})),)),)
    )
    assert ignoring.relevance("p/q1", "p/z") == -1
    with pytest.raises(KeyError):
        bench.relevance("p/nobody", "p/a")


def test_select_split_and_gallery():
    rows = {"q1": ("t1", ["a"], ["x"]), "q2": ("t2", ["b"], ["x", "q1"])}
    bench = benchmark(rows, {"q1": "train", "q2": "test"}, database=["z"])
    test = bench.select("test")
    assert test.partitions[0].query_ids == ("p/q2",)
    assert [row.query for row in test.judgements] == ["p/q2"]
    assert set(test.partitions[0].database) == {"p/b", "p/x", "p/q1"}
    assert test.protocol == {"split": "test", "gallery": "split"}
    assert bench.select("test", "full").partitions[0].database == bench.partitions[0].database
    assert bench.select("all", "full").partitions == bench.partitions
    assert bench.video_ids == ("p/q1", "p/q2", "p/a", "p/x", "p/b", "p/z")
    with pytest.raises(DataError, match="no partition has a query in split val"):
        bench.select("val")
    with pytest.raises(DataError, match="queries without a split: p/q1, p/q2"):
        benchmark(rows).select("test")
    with pytest.raises(ConfigError, match="split=dev"):
        bench.select("dev")
    with pytest.raises(ConfigError, match="gallery=half"):
        bench.select("test", "half")
    with pytest.raises(ConfigError, match="no partition 'news'; it has p"):
        bench["news"]


def test_select_leaves_out_a_partition_without_queries_and_says_so():
    bench = benchmark({"q1": ("t1", ["a"], [])}, {"q1": "train"})
    other = replace(bench.partitions[0], name="o", queries=(Query("o/q", "o", "o/t", split="test"),), judgements=())
    chosen = replace(bench, partitions=(*bench.partitions, other)).select("train")
    assert [part.name for part in chosen.partitions] == ["p"]
    assert chosen.warnings == ("o: no query in split train; the partition is left out",)


def test_topics_are_given_or_connected():
    given_topics = {"p/a": None, "p/b": None, "p/c": None, "p/d": "7", "p/e": "8", "p/f": None}
    positives = {"p/a": ["p/x"], "p/b": ["p/y", "p/x"], "p/c": ["p/b"], "p/d": ["p/z"], "p/e": ["p/z"], "p/f": ["p/w"]}
    expected = {"p/a": "p/a", "p/b": "p/a", "p/c": "p/a", "p/d": "p/7", "p/e": "p/8", "p/f": "p/f"}
    assert search_topics("p", given_topics, positives) == expected
    turned = dict(reversed(given_topics.items()))
    assert search_topics("p", turned, {key: value[::-1] for key, value in reversed(positives.items())}) == expected
    assert search_topics("p", {"p/a": None, "p/b": "7"}, {"p/a": ["p/x"], "p/b": ["p/x"]}) == {
        "p/a": "p/7",
        "p/b": "p/7",
    }


@pytest.mark.parametrize(
    ("count", "fractions", "sizes"),
    [
        (20, (0.5, 0.1, 0.4), (10, 2, 8)),
        (10, (0.6, 0.2, 0.2), (6, 2, 2)),
        (4, (0.6, 0.2, 0.2), (2, 1, 1)),
        (3, (0.98, 0.01, 0.01), (1, 1, 1)),
        (2, (0.6, 0.2, 0.2), (1, 0, 1)),
        (1, (0.6, 0.2, 0.2), (1, 0, 0)),
        (7, (1, 0, 0), (7, 0, 0)),
        (0, (0.6, 0.2, 0.2), (0, 0, 0)),
    ],
)
def test_split_sizes(count, fractions, sizes):
    assert split_sizes(count, fractions) == sizes


@given(st.integers(0, 60), st.integers(0, 20), st.integers(0, 20))
def test_split_sizes_hold_in_general(count, val, test):
    fractions = ((40 - val - test) / 40, val / 40, test / 40)
    sizes = split_sizes(count, fractions)
    assert sum(sizes) == count
    assert min(sizes) >= 0
    wanted = [fraction > 0 for fraction in fractions]
    if count >= 3:
        assert [size > 0 for size, want in zip(sizes, wanted, strict=True) if want].count(False) == 0
    assert all(abs(size - count * fraction) < 2 for size, fraction in zip(sizes, fractions, strict=True))


def test_assignment_depends_on_names_only():
    names = [f"{part}/{number}" for part in ("news", "dance") for number in range(20)]
    splits = assign_splits(names, (0.5, 0.1, 0.4))
    mixed = names * 2
    random.Random(1).shuffle(mixed)
    assert assign_splits(mixed, (0.5, 0.1, 0.4)) == splits
    alone = assign_splits([name for name in names if name.startswith("news")], (0.5, 0.1, 0.4))
    assert alone == {name: split for name, split in splits.items() if name.startswith("news")}
    for part in ("news", "dance"):
        counts = [
            [splits[name] for name in names if name.startswith(part)].count(split) for split in ("train", "val", "test")
        ]
        assert counts == [10, 2, 8]
    assert [splits[f"news/{i}"] for i in range(20)] != [splits[f"dance/{i}"] for i in range(20)]
    for wrong in ((0.5, 0.5), (0.5, 0.5, 0.5), (-0.2, 0.6, 0.6), (float("nan"), 0.5, 0.5)):
        with pytest.raises(ConfigError, match="fractions"):
            assign_splits(names, wrong)


def test_topic_split_keeps_topics_whole_and_ignores_file_order(shared):
    whole = split_by_topic(read_muvr(shared / "golden" / "muvr_small" / "annotations"))
    topics = {}
    for query in whole.queries:
        topics.setdefault(query.topic, set()).add(query.split)
    assert all(len(splits) == 1 for splits in topics.values())
    assert not find_leaks(whole)
    for part in whole.partitions:
        assert {query.split for query in part.queries} == {"train", "val", "test"}
        turned = replace(part, queries=part.queries[::-1])
        again = split_by_topic(replace(whole, partitions=(turned,)))
        assert {query.id: query.split for query in again.queries} == {query.id: query.split for query in part.queries}
    assert whole.protocol["split_source"] == "topic"


def test_annotation_split_is_taken_as_it_is_and_leaks(shared):
    whole = apply_splits(read_muvr(shared / "golden" / "muvr_small" / "annotations"), "annotation")
    assert all(query.split == query.annotated_split for query in whole.queries)
    report = find_leaks(whole)
    assert report
    clean = drop_leaks(whole, report)
    assert not find_leaks(clean)
    assert {query.id for query in whole.queries} - {query.id for query in clean.queries} == set(report.dropped_queries)
    with pytest.raises(DataError, match=r"no split train, val or test to p/q1 \(None\)"):
        apply_splits(benchmark({"q1": ("t", ["a"], [])}), "annotation")
    with pytest.raises(ConfigError, match="split_source=random"):
        apply_splits(whole, "random")


def test_upload_ids():
    assert upload_of("news/BV1_x_00.02.00-00.03.27") == "BV1_x"
    assert upload_of("BV1_00.02.00-00.03.27_crop") == "BV1"
    assert upload_of("news/BV1_2") == "BV1_2"


CUT_A, CUT_B = "u_00.00.00-00.01.00", "u_00.05.00-00.06.00"


@pytest.mark.parametrize(
    ("train", "held", "digests", "kind"),
    [
        ("a", "a", None, "same video"),
        (CUT_A, CUT_B, None, "cuts of one upload"),
        ("u", CUT_B, None, "cuts of one upload"),
        ("a", "b", {"p/a": "1", "p/b": "1"}, "equal features"),
        (CUT_A, CUT_B, {f"p/{CUT_A}": "1", f"p/{CUT_B}": "1"}, "equal features"),
        ("a", "b", {"p/a": "1", "p/b": "2"}, None),
        ("a", "b", None, None),
    ],
)
def test_kinds_of_leaks_and_what_is_dropped(train, held, digests, kind):
    rows = {"q1": ("t1", [train, "c"], ["x"]), "q2": ("t1", [train], ["h"]), "q3": ("t2", [held, "h"], ["x", "y"])}
    bench = benchmark(rows, {"q1": "train", "q2": "train", "q3": "test"})
    report = find_leaks(bench, digests)
    assert [(leak.kind, leak.query, leak.video, leak.held_video) for leak in report.leaks] == (
        [] if kind is None else [(kind, f"p/q{i}", f"p/{train}", f"p/{held}") for i in (1, 2)]
    )
    assert (report.shared_distractors, report.matching_distractors) == (1, 1)
    assert report.compared_features == (digests is not None)
    clean = drop_leaks(bench, report)
    if kind is None:
        assert clean.partitions == bench.partitions
        assert report.lines()[0].startswith("no leakage")
        return
    assert report.dropped_queries == ("p/q2",)
    assert report.dropped_positives == (("p/q1", f"p/{train}"),)
    assert kind in report.lines()[0]
    assert [query.id for query in clean.queries] == ["p/q1", "p/q3"]
    assert clean.judgement_by_query["p/q1"].positives == {"p/c": "match"}
    assert clean.relevance("p/q1", f"p/{train}") == -1
    assert not find_leaks(clean, digests)
    assert clean.select("test") == bench.select("test")


@pytest.mark.parametrize(
    ("distractor", "positive", "digests", "matching"),
    [
        ("a", "a", {}, 1),
        (CUT_A, CUT_B, {}, 1),
        ("a", "b", {"p/a": "1", "p/b": "1"}, 1),
        ("a", "b", {"p/a": "1", "p/b": "2"}, 0),
        ("a", "b", {"p/b": "2"}, 0),
    ],
)
def test_distractors_are_compared_as_matches_are(distractor, positive, digests, matching):
    rows = {"q1": ("t1", ["c"], [distractor, "x"]), "q2": ("t2", [positive], ["x", distractor])}
    report = find_leaks(benchmark(rows, {"q1": "train", "q2": "test"}), digests)
    assert not report.leaks
    assert (report.shared_distractors, report.matching_distractors) == (2 - matching, matching)


def test_matches_of_tag_expressions_are_held_out_too():
    bench = benchmark({"q1": ("t1", ["a"], []), "q2": ("t2", ["b"], [])}, {"q1": "train", "q2": "test"})
    filtered = replace(bench.partitions[0], filters=(Judgement("p/q2", {"p/f": "match"}, expression="+x"),))
    held_out, names = HeldOut(replace(bench, partitions=(filtered,))), ("q1", "q2", "a", "b", "f")
    assert [video for video in names if held_out.match(f"p/{video}", None)] == ["q2", "b", "f"]
    whole = HeldOut(bench, splits=None)
    assert [video for video in names if whole.match(f"o/{video}", None)] == ["q1", "q2", "a", "b"]


def test_a_query_that_leaks_itself_goes():
    rows = {"q1": ("t1", ["a"], []), "q2": ("t2", ["q1"], []), "q3": ("t3", ["b"], [])}
    report = find_leaks(benchmark(rows, {"q1": "train", "q2": "val", "q3": "train"}))
    assert [(leak.video, leak.held_query, leak.held_split) for leak in report.leaks] == [("p/q1", "p/q2", "val")]
    assert report.dropped_queries == ("p/q1",)


def test_one_id_in_two_partitions_is_one_upload_unless_features_differ():
    first = benchmark({"q1": ("t1", ["a"], [])}, {"q1": "train"})
    held = Query("o/q9", "o", "o/t", split="test")
    other = Partition("o", (held,), (Judgement("o/q9", {"o/a": "match"}),), ("o/a",))
    both = replace(first, partitions=(*first.partitions, other))
    assert [leak.kind for leak in find_leaks(both).leaks] == ["same video"]
    assert [leak.kind for leak in find_leaks(both, {"p/a": "1"}).leaks] == ["same video"]
    assert not find_leaks(both, {"p/a": "1", "o/a": "2"})


def test_leaks_need_splits():
    with pytest.raises(DataError, match="queries without a split: p/q1"):
        find_leaks(benchmark({"q1": ("t1", ["a"], [])}))


@pytest.mark.parametrize(
    ("name", "partitions", "queries", "whole"),
    [
        ("muvr_base", "news others instance region dance", 1050, True),
        ("muvr_filter", "dance region news others instance", 1050, True),
        ("muvr_base", "news others instance region dance", 840, True),
        ("muvr_base", "news others instance region dance", 1260, True),
        ("muvr_base", "news others instance region dance", 835, False),
        ("muvr_base", "news others instance region dance", 1265, False),
        ("muvr_base", "news others instance region", 1048, False),
        ("muvr_base", "news others instance region dance more", 1050, False),
        ("table", "news others instance region dance", 1050, False),
    ],
)
def test_published_rows_stand_beside_the_whole_of_muvr_only(name, partitions, queries, whole):
    names = partitions.split()
    parts = (
        Partition(part, tuple(Query(f"{part}/{i}", part, f"{part}/t") for i in range(queries // len(names))), (), ())
        for part in names
    )
    assert is_whole_muvr(Benchmark(name, tuple(parts))) is whole


def test_published_rows():
    rows = {(row.system, row.mode, row.partition): row.metrics for row in published_rows("muvr_base")}
    assert rows["EVA-CLIP", "tv", "mean"]["mAP"] == 0.58
    assert rows["S2VS on CLIP RN50x4", "v", "mean"] == {"mAP": 0.472, "uAP": 0.366}
    for system, mode in (
        ("EVA-CLIP", "tv"),
        ("InternVideo2", "tv"),
        ("CLIP RN50x4", "tv"),
        ("CoVR", "tv"),
        ("S2VS on CLIP RN50x4", "v"),
    ):
        parts = [rows[system, mode, part]["mAP"] for part in ("news", "others", "instance", "region", "dance")]
        assert sum(parts) / 5 == pytest.approx(rows[system, mode, "mean"]["mAP"], abs=6e-4)
    assert {row.mode for row in published_rows("muvr_base", "v", "mean")} == {"v", "any"}
    assert published_rows("muvr_base", split="test") == ()
    assert published_rows("other") == ()


def test_published_rows_of_questions():
    qa = {row.system: row.metrics for row in published_rows("muvr_qa", "images_6f", "all")}
    assert qa["GPT-4o, 6 frames"] == {"accuracy": 0.65, "reranking_score": 0.19}
    assert qa["coin flip"] == {"accuracy": 0.5, "reranking_score": -0.5}
    assert len(qa) == 5
    iv = {(row.system, row.partition): row for row in published_rows("iv_bench")}
    assert iv["human", "overall"].metrics == {"accuracy": 0.888}
    best = [iv["Qwen2.5-VL-72B", part].metrics["accuracy"] for part in ("overall", "perception", "reasoning")]
    assert best == [0.289, 0.337, 0.219]
    assert iv["chance", "overall"].metrics == {"accuracy": 0.103}
    assert "1,686" in iv["human", "overall"].source
    assert published_rows("iv_bench", "after_32f", "perception") == (iv["Qwen2.5-VL-72B", "perception"],)
