"""What a final evaluation adds: intervals, the noise check, levels, and the columns of what was missed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from muvr_train.benchmarks.types import Benchmark, Judgement, Partition, Query
from muvr_train.errors import DataError
from muvr_train.evaluation import Protocol, evaluate_scores
from muvr_train.metrics.bootstrap import draw_topics
from muvr_train.metrics.noise import noisy_map
from muvr_train.reports.write import write_results
from muvr_train.results import CalibratedRow, Results
from muvr_train.search.judged import judge
from muvr_train.search.scores import ScoreMatrix
from tests.matrix_scores import MatrixScores
from tests.reference import bootstrap as slow

FULL = Protocol(ks=(1, 5), bootstrap=100, noise=0.1, details=True, keep_scores=True)


def partition(name: str, topics: int = 4, queries: int = 2, level: str = "copy") -> Partition:
    """Every topic has `queries` queries and 3 matches, one of them of another level."""
    asked, rows, videos = [], [], []
    for topic in range(topics):
        matches = [f"{name}/m{topic}{i}" for i in range(3)]
        videos += matches
        for i in range(queries):
            query = Query(f"{name}/q{topic}{i}", name, f"{name}/t{topic}")
            asked.append(query)
            rows.append(Judgement(query.id, {matches[0]: "event", matches[1]: level, matches[2]: level}))
    return Partition(name, tuple(asked), tuple(rows), (*videos, *(f"{name}/d{i}" for i in range(20))))


def random_scores(benchmark: Benchmark, seed: int = 0) -> MatrixScores:
    videos = [video for part in benchmark.partitions for video in part.database]
    source = MatrixScores.random([query.id for query in benchmark.queries], videos, seed)
    scores = source.matrix.scores
    for row, query in enumerate(source.matrix.queries):
        matches = benchmark.judgement_by_query[query].positives
        scores[row] += [0.4 * (video in matches) for video in source.matrix.database]
    return source


@pytest.fixture(scope="module")
def benchmark() -> Benchmark:
    return Benchmark("toy", (partition("news"), partition("dance", topics=3, queries=1)))


@pytest.fixture(scope="module")
def results(benchmark: Benchmark) -> Results:
    return evaluate_scores(random_scores(benchmark), benchmark, FULL)


def test_training_asks_for_nothing_of_it(benchmark: Benchmark) -> None:
    plain = evaluate_scores(random_scores(benchmark), benchmark, Protocol(ks=(1, 5)))
    assert plain.breakdowns == []
    assert plain.resampled == {}
    assert not any("intervals" in row for row in plain.rows)
    assert not any("top_false" in line for line in plain.per_query)


def test_the_metrics_themselves_stay(benchmark: Benchmark, results: Results) -> None:
    plain = evaluate_scores(random_scores(benchmark), benchmark, Protocol(ks=(1, 5)))
    assert [row["metrics"] for row in plain.rows] == [row["metrics"] for row in results.rows]


def test_intervals_are_percentiles_of_really_drawn_queries(benchmark: Benchmark, results: Results) -> None:
    drawn = []
    for kept in results.kept:
        judged = kept.judged
        topics = {query.id: query.topic for query in kept.partition.queries}
        draws = draw_topics([topics[query] for query in judged.queries], 100)
        row: dict[str, Any] = next(row for row in results.rows if row["partition"] == kept.partition.name)
        pooled = slow.uap(judged.scores, judged.relevance, judged.n_positive, draws, "average")
        assert row["intervals"]["uAP"] == pytest.approx(np.percentile(pooled, [2.5, 97.5]), abs=1e-12)
        assert row["intervals"]["uAP"][0] < row["metrics"]["uAP"] < row["intervals"]["uAP"][1]
        assert list(row["intervals"]) == ["mAP", "recall@1", "recall@5", "uAP"]
        drawn.append(pooled)
    mean: dict[str, Any] = results.rows[-1]
    expected = np.percentile(np.mean(drawn, axis=0), [2.5, 97.5])
    assert mean["intervals"]["uAP"] == pytest.approx(expected, abs=1e-12)


def test_one_topic_has_no_interval_and_says_so() -> None:
    benchmark = Benchmark("toy", (partition("news"), partition("dance", topics=1)))
    results = evaluate_scores(random_scores(benchmark), benchmark, FULL)
    rows: dict[Any, Any] = {row["partition"]: row for row in results.rows}
    assert rows["news"]["intervals"]["mAP"][0] < rows["news"]["intervals"]["mAP"][1]
    assert "notes" not in rows["news"]
    for name, reason in (("dance", "only one search topic"), ("mean", "a partition has none")):
        assert set(rows[name]["intervals"].values()) == {None}
        assert reason in rows[name]["notes"][0]


def test_resamples_that_say_nothing_are_counted() -> None:
    first = partition("news", topics=3, queries=1)
    none = Judgement("news/q00", {}, counted=False)
    benchmark = Benchmark("toy", (replace(first, judgements=(none, *first.judgements[1:])), partition("dance")))
    results = evaluate_scores(random_scores(benchmark), benchmark, FULL)
    lost = int((draw_topics(["news/t0", "news/t1", "news/t2"], 100).weights[0] == 3).sum())
    assert lost > 0
    rows: dict[Any, Any] = {row["partition"]: row for row in results.rows}
    for name in ("news", "mean"):
        for metric in ("mAP", "uAP"):
            expected = f"interval of {metric}: {lost} of 100 resamples have no counted query or no match; left out"
            assert expected in rows[name]["notes"]
            assert np.isfinite(rows[name]["intervals"][metric]).all()
    assert "notes" not in rows["dance"]
    undefined = [np.isnan(results.resampled["v", "news"][metric]) for metric in ("mAP", "recall@1", "uAP")]
    assert [part.sum() for part in undefined] == [lost] * 3


def test_without_any_match_uap_has_no_interval() -> None:
    first = partition("news", topics=3, queries=1)
    benchmark = Benchmark("toy", (replace(first, judgements=tuple(Judgement(q, {}) for q in first.query_ids)),))
    results = evaluate_scores(random_scores(benchmark), benchmark, FULL)
    row: dict[str, Any] = results.rows[0]
    assert row["intervals"]["mAP"] == [0.0, 0.0]
    assert row["intervals"]["uAP"] is None


def test_one_query_in_a_partition() -> None:
    benchmark = Benchmark("toy", (partition("news", topics=1, queries=1),))
    results = evaluate_scores(random_scores(benchmark), benchmark, FULL)
    assert results.rows[0]["intervals"] == dict.fromkeys(["mAP", "recall@1", "recall@5", "uAP"])
    assert {part["name"] for part in results.breakdowns} == {"copy", "event", "noise_remove", "noise_add"}


def test_partitions_that_ask_the_same_queries_are_resampled_together() -> None:
    first = partition("news")
    other = replace(first, name="hard", database=first.database[:-5])
    same = Benchmark("toy", (first, other))
    results = evaluate_scores(random_scores(Benchmark("toy", (first,))), same, FULL)
    one, two = (results.resampled["v", name]["mAP"] for name in ("news", "hard"))
    assert np.corrcoef(one, two)[0, 1] > 0.9


def test_the_mean_is_over_the_averaged_partitions_only(benchmark: Benchmark) -> None:
    chosen = replace(benchmark, averaged=("news",))
    results = evaluate_scores(random_scores(benchmark), chosen, FULL)
    rows: dict[Any, Any] = {row["partition"]: row for row in results.rows}
    assert rows["mean"]["intervals"] == rows["news"]["intervals"]
    means = {part["name"]: part for part in results.breakdowns if part["partition"] == "mean"}
    assert means["event"]["counts"]["partitions"] == 1  # type: ignore[index]


def test_levels(benchmark: Benchmark, results: Results) -> None:
    parts: dict[Any, Any] = {(part["partition"], part["name"]): part for part in results.breakdowns}
    news = benchmark.partitions[0]
    kept = results.kept[0].judged
    events = {row.query: {v for v, level in row.positives.items() if level == "event"} for row in news.judgements}
    values = []
    for row, query in enumerate(kept.queries):
        keep = [c for c, v in enumerate(kept.database) if kept.relevance[row, c] != 1 or v in events[query]]
        order = sorted(keep, key=lambda column: -kept.scores[row, column])
        place = [kept.database[column] in events[query] for column in order].index(True)
        values.append(1 / (place + 1))
    assert parts["news", "event"]["metrics"]["mAP"] == pytest.approx(np.mean(values), abs=1e-12)
    assert parts["news", "copy"]["counts"]["positives"] == 16
    mean = (parts["news", "copy"]["metrics"]["uAP"] + parts["dance", "copy"]["metrics"]["uAP"]) / 2
    assert parts["mean", "copy"]["metrics"]["uAP"] == pytest.approx(mean)
    assert {part["group"] for part in results.breakdowns} == {"level", "noise"}


def test_levels_divide_by_all_annotated_positives_where_the_rows_do() -> None:
    query = Query("q", "p", "t")
    positives = {"q": "E", "a": "E", "b": "E", "gone": "E", "c": "S", "absent": "S", "lost": "V"}
    ranked = frozenset({"q", "a", "b", "c", "x"})
    asked = Judgement("q", positives, ranked=ranked)
    part = Partition("p", (query,), (asked,), ("a", "b", "c", "q", "x", "gone"), divisor="annotated")
    source = MatrixScores.of({"q": {"q": 0.9, "x": 0.8, "a": 0.7, "c": 0.6}})  # b and gone were not scored
    results = evaluate_scores(source, Benchmark("toy", (part,)), FULL)
    parts: dict[Any, Any] = {part["name"]: part for part in results.breakdowns if part["partition"] == "p"}
    assert parts["E"]["counts"]["positives"] == 4
    assert parts["S"]["counts"]["positives"] == 2
    assert parts["E"]["metrics"]["mAP"] == pytest.approx((1 + 2 / 3) / 4)
    assert parts["S"]["metrics"]["mAP"] == pytest.approx((1 / 2) / 2)  # after x: those of other levels are left out
    assert (parts["V"]["counts"]["positives"], parts["V"]["metrics"]["mAP"]) == (1, 0.0)
    unranked = replace(part, judgements=(Judgement("q", positives),))
    results = evaluate_scores(source, Benchmark("toy", (unranked,)), FULL)
    parts = {part["name"]: part for part in results.breakdowns if part["partition"] == "p"}
    assert parts["E"]["counts"]["positives"] == 3  # without the query's own video, which is not ranked


def test_noise_is_reported_for_both_kinds(results: Results) -> None:
    parts: dict[Any, Any] = {(part["partition"], part["name"]): part for part in results.breakdowns}
    for kind in ("noise_remove", "noise_add"):
        news = parts["news", kind]
        assert news["counts"] == {"positives": 24, "changed_pairs": 2}
        assert news["metrics"]["mAP"] == pytest.approx(np.mean(news["repeats"]))
        assert news["metrics"]["mAP_std"] == pytest.approx(np.std(news["repeats"], ddof=1))
        both = [np.array(parts[name, kind]["repeats"]) for name in ("news", "dance")]
        assert parts["mean", kind]["repeats"] == pytest.approx(np.mean(both, axis=0))
        assert parts["mean", kind]["counts"] == {"positives": 33, "changed_pairs": 3, "partitions": 2}


def test_the_noise_check_has_the_average_precision_of_the_rows(benchmark: Benchmark) -> None:
    news = replace(benchmark.partitions[0], trapezoids=True)
    results = evaluate_scores(random_scores(benchmark), Benchmark("toy", (news,)), FULL)
    judged = results.kept[0].judged
    expected = noisy_map(judged.scores, judged.relevance, judged.n_positive, "noise_add", 0.1, trapezoids=True)
    added = next(part for part in results.breakdowns if part["name"] == "noise_add")
    assert added["repeats"] == pytest.approx(expected, abs=1e-12)


def test_columns_of_every_query(benchmark: Benchmark, results: Results) -> None:
    line = results.per_query[0]
    judged = results.kept[0].judged
    best = json.loads(str(line["top_false"]))
    others = sorted(judged.scores[0, judged.relevance[0] == 0], reverse=True)
    assert [score for _, score in best] == pytest.approx(others[:5])
    assert len(results.per_query) == 8 + 3
    missed = [line for line in results.per_query if line["first_missed"]]
    assert missed
    for line in missed:
        assert line["first_missed"] in benchmark.judgement_by_query[str(line["query"])].positives
        assert line["first_missed_rank"] > line["positives"]  # type: ignore[operator]
    for line in results.per_query:
        assert (line["first_missed"] == "") == (line["R-precision"] == 1)


def test_a_match_without_features_is_missed_without_a_rank(benchmark: Benchmark) -> None:
    source = random_scores(benchmark)
    for row, query in enumerate(source.matrix.queries):
        matches = benchmark.judgement_by_query[query].positives
        source.matrix.scores[row] += [10 * (video in matches) for video in source.matrix.database]
    left = [video for video in source.matrix.database if video != "news/m01"]
    source = MatrixScores(source.matrix.take(database=left))
    results = evaluate_scores(source, benchmark, replace(FULL, on_missing="official"))
    line = results.per_query[0]
    assert (line["first_missed"], line["first_missed_rank"]) == ("news/m01", "")
    assert results.per_query[5]["first_missed"] == ""


def test_a_score_that_is_no_number_names_query_and_video(benchmark: Benchmark) -> None:
    source = random_scores(benchmark)
    source.matrix.scores[1, 2] = np.nan
    with pytest.raises(DataError, match="query news/q01 against video news/m02"):
        evaluate_scores(source, benchmark, FULL)


def test_queries_without_positives() -> None:
    first = partition("news")
    empty = Judgement("news/q00", {}), Judgement("news/q01", {}, counted=False)
    benchmark = Benchmark("toy", (replace(first, judgements=(*empty, *first.judgements[2:])),))
    results = evaluate_scores(random_scores(benchmark), benchmark, FULL)
    row: dict[str, Any] = results.rows[0]
    assert row["counts"]["counted_queries"] == 7
    assert row["intervals"]["mAP"][0] < row["metrics"]["mAP"]
    assert results.per_query[0]["first_missed"] == ""
    parts: dict[Any, Any] = {(part["partition"], part["name"]): part for part in results.breakdowns}
    assert parts["news", "event"]["counts"]["counted_queries"] == 6


def test_everything_is_written_and_json_has_no_nan(benchmark: Benchmark, results: Results, tmp_path: Path) -> None:
    path = write_results(tmp_path, results, {"model": "own"}, {"other": results})
    text = path.read_text(encoding="utf-8")
    assert "NaN" not in text
    content = json.loads(text)
    assert content["rows"][0]["intervals"]["mAP"] == results.rows[0]["intervals"]["mAP"]  # type: ignore[index]
    assert len(content["breakdowns"]) == len(results.breakdowns) == 4 + 4 + 4
    with np.load(tmp_path / "resampled.npz") as archive:
        keys = [tuple(json.loads(text)) for text in archive["rows"].tolist()]
        assert keys == [(name, "v", part) for name in ("own", "other") for part in ("news", "dance")]
        np.testing.assert_array_equal(archive["uAP"][1], results.resampled["v", "dance"]["uAP"])
    plain = evaluate_scores(random_scores(benchmark), benchmark, Protocol(ks=(1, 5)))
    write_results(tmp_path, plain, {"model": "own"})
    assert not (tmp_path / "resampled.npz").exists()


def test_notes_of_results_join_those_of_the_benchmark(results: Results, tmp_path: Path) -> None:
    own, other = replace(results, notes=["dance: left out"]), replace(results, notes=["news: left out"])
    path = write_results(tmp_path, own, {"model": "own", "notes": ["how to read"]}, {"other": other})
    meta = json.loads(path.read_text(encoding="utf-8"))["meta"]
    assert meta["notes"] == ["how to read", "dance: left out", "other: news: left out"]
    path = write_results(tmp_path, results, {"model": "own"})
    assert json.loads(path.read_text(encoding="utf-8"))["meta"]["notes"] == []


def test_two_models_of_one_name_are_refused_before_anything_is_written(results: Results, tmp_path: Path) -> None:
    for more in ({"baselines": {"own": results}}, {"calibrated": [CalibratedRow("own", [], {}, results)]}):
        with pytest.raises(DataError, match=r"two models .* 'own'"):
            write_results(tmp_path / "x", results, {"model": "own"}, **more)  # type: ignore[arg-type]
    assert not (tmp_path / "x").exists()


def test_judged_scores_are_not_changed(benchmark: Benchmark, results: Results) -> None:
    news = benchmark.partitions[0]
    matrix: ScoreMatrix = random_scores(benchmark).matrix
    fresh = judge(news, matrix.take(news.query_ids, news.database))
    np.testing.assert_array_equal(results.kept[0].judged.relevance, fresh.relevance)
    np.testing.assert_array_equal(results.kept[0].judged.scores, fresh.scores)
