"""Modes tv+tag and tv+region of an evaluation: right scores, right rows, what is missing, beside unchanged others."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from muvr_train.benchmarks.expressions import UPPER_BOUND, Or, conditions_of
from muvr_train.benchmarks.muvr import read_muvr
from muvr_train.benchmarks.muvr_filter import filter_rows
from muvr_train.benchmarks.types import Benchmark
from muvr_train.data.batch import load_queries
from muvr_train.errors import ConfigError, DataError
from muvr_train.evaluation import Protocol, evaluate
from muvr_train.features.import_muvr import import_muvr
from muvr_train.features.store import FeatureStore, tag_key
from muvr_train.features.writer import StoreWriter
from muvr_train.models.chamfer import Chamfer
from muvr_train.models.frame_max import FrameMax
from muvr_train.models.fusion.base import FusionHead
from muvr_train.models.fusion.mean import MeanFusion
from muvr_train.models.fusion.weighted import WeightedFusion
from muvr_train.models.retriever import Retriever
from muvr_train.reports.write import write_results
from muvr_train.results import Results
from muvr_train.search.exhaustive import encoded_blocks
from muvr_train.search.filter_scores import TagSettings, score_filters
from muvr_train.search.learned_tags import score_beside
from muvr_train.search.planning import QuerySizes
from muvr_train.search.sources import ModelScores, supported_modes
from muvr_train.search.texts import served_modes
from tests.parts import MARKED, make_parts
from tests.tagged import EXPRESSIONS
from tests.toy import DIM, FRAMES

World = tuple[Path, FeatureStore]
ALL = ("v", "t", "tv", "tv+tag", "tv+region")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_parts(tmp_path_factory.mktemp("parts"))


@pytest.fixture(scope="module")
def benchmark(world: World) -> Benchmark:
    return read_muvr(world[0], filters="beside").select("all", "full")


def model_of(store: FeatureStore, head: type[FusionHead] = MeanFusion, network: Any = FrameMax) -> Retriever:
    dims = store.dims
    return Retriever(network(dims.dim, dims.regions), head(dims), dims)


def trained(store: FeatureStore, network: Any = FrameMax) -> Retriever:
    """A learned head with other weights than at first."""
    model = model_of(store, WeightedFusion, network)
    with torch.no_grad():
        model.head.tag_weight.fill_(0.7)
        model.head.tag_threshold.fill_(0.2)
    return model


def precisions(results: Results, mode: str) -> dict[tuple[str, str], float]:
    rows = (row for row in results.per_query if row["mode"] == mode)
    return {(str(row["query"]), str(row.get("expression"))): float(row["AP"]) for row in rows}  # type: ignore[arg-type]


def scores_of(results: Results, mode: str, partition: str) -> Any:
    return next(kept.judged for kept in results.kept if (kept.mode, kept.partition.name) == (mode, partition))


def test_modes_of_a_store_and_of_a_benchmark(world: World, benchmark: Benchmark) -> None:
    source = ModelScores(model_of(world[1]), world[1])
    assert source.modes == supported_modes(source.model, world[1]) == ALL
    assert served_modes(source, benchmark) == ALL
    assert served_modes(source, read_muvr(world[0])) == ("v", "t", "tv", "tv+region"), "no expressions were read"
    assert served_modes(source, read_muvr(world[0], filters=True)) == ("v", "t", "tv", "tv+region")
    dance = replace(benchmark, partitions=(benchmark["dance"],))
    assert served_modes(source, dance) == ("v", "t", "tv", "tv+tag"), "no query of it has a region"
    unknown = replace(benchmark["dance"], queries=tuple(replace(q, tags=()) for q in benchmark["dance"].queries))
    strange = replace(unknown, filters=tuple(replace(row, expression="+fog") for row in unknown.filters))
    assert served_modes(source, replace(benchmark, partitions=(strange,))) == ("v", "t", "tv")


def test_untrained_tags_are_the_official_row(world: World, benchmark: Benchmark) -> None:
    official = evaluate(model_of(world[1]), world[1], read_muvr(world[0], filters=True).select("all", "full"))
    ours = evaluate(model_of(world[1]), world[1], benchmark)
    wanted, found = precisions(official, "tag_0.3"), precisions(ours, "tv+tag")
    assert len(wanted) == 2 * 9 * 4
    assert max(abs(found[key] - value) for key, value in wanted.items()) <= 1e-6
    assert {text for _, text in found} == set(EXPRESSIONS)


@pytest.mark.parametrize("ks", [(1, 5, 10)])
def test_official_data(shared: Path, tmp_path: Path, ks: tuple[int, ...]) -> None:
    import_muvr(shared / "golden/muvr_small/features/toyclip", tmp_path / "store")
    store, annotations = FeatureStore(tmp_path / "store"), shared / "golden/muvr_small/annotations"
    protocol = Protocol(on_missing="official", ks=ks, tags=TagSettings((0.3,), logic=False, upper_bound=False))
    official = evaluate(model_of(store), store, read_muvr(annotations, filters=True).select("all", "full"), protocol)
    plain = evaluate(model_of(store), store, read_muvr(annotations).select("all", "full"), protocol)
    ours = evaluate(model_of(store), store, read_muvr(annotations, filters="beside").select("all", "full"), protocol)
    wanted, found = precisions(official, "tag_0.3"), precisions(ours, "tv+tag")
    assert len(wanted) == 226
    assert max(abs(found[key] - value) for key, value in wanted.items()) <= 1e-6
    assert [row for row in ours.rows if row["mode"] != "tv+tag"] == plain.rows, "the other rows are what they were"
    assert [row for row in ours.per_query if row["mode"] != "tv+tag"] == plain.per_query
    assert plain.modes == ("v", "t", "tv")


def test_scores_by_hand_of_a_head_that_has_learned(world: World, benchmark: Benchmark) -> None:
    store, model = world[1], trained(world[1])
    news = benchmark["news"]
    source = ModelScores(model, store)
    base = source.score(news, ["tv"])["tv"]
    found = score_beside(source, news, base)
    assert found is not None
    frames = [store.array(video)[:, 0].astype(np.float64) for video in base.database]
    for row, scores in zip(filter_rows(news), found.judged.scores, strict=True):
        query = row.judgement.query
        values = []
        for condition in conditions_of(row.expression):
            tag = store.array(tag_key(query, condition.tag), "tags")[0, 0].astype(np.float64)
            cosines = [(video @ tag / np.linalg.norm(video, axis=1) / np.linalg.norm(tag)).max() for video in frames]
            values.append(condition.sign * (np.array(cosines) - 0.2))
        together = np.max(values, axis=0) if isinstance(row.expression, Or) else np.sum(values, axis=0)
        expected = base.scores[base.queries.index(query)] + 0.7 * together
        np.testing.assert_allclose(scores, expected, atol=1e-5)


@pytest.mark.parametrize("network", [FrameMax, Chamfer])
def test_both_modes_equal_the_model_asked_directly(world: World, benchmark: Benchmark, network: Any) -> None:
    store, model, news = world[1], trained(world[1], network).eval(), benchmark["news"]
    results = ModelScores(model, store).score(news, ALL[:3] + ALL[4:])
    rows = filter_rows(news)
    queries = {query.id: query for query in news.queries}
    ((places, block),) = encoded_blocks(
        model, store, news.database, [np.arange(len(news.database))], torch.device("cpu")
    )
    assert len(places) == len(news.database)
    with torch.inference_mode():
        batch = load_queries(
            store, [queries[row.judgement.query] for row in rows], expressions=[row.expression for row in rows]
        )
        asked = model.score_modes(model.encode_query(batch), block, ["tv+tag", "tv"])
        marked = [queries[name] for name in MARKED]
        regions = load_queries(store, marked, regions=True)
        focused = model.score_modes(model.encode_query(regions), block, ["tv+region", "tv"])
    tagged = score_beside(ModelScores(model, store), news, results["tv"])
    assert tagged is not None
    np.testing.assert_allclose(tagged.judged.scores, asked["tv+tag"].numpy(), atol=1e-5)
    assert results["tv+region"].queries == MARKED
    np.testing.assert_allclose(results["tv+region"].scores, focused["tv+region"].numpy(), atol=1e-5)
    np.testing.assert_allclose(results["tv"].take(MARKED).scores, focused["tv"].numpy(), atol=1e-5)
    assert np.abs(results["tv+region"].scores - results["tv"].take(MARKED).scores).max() > 0.05


def test_tags_of_several_tokens_are_scored_as_they_are_trained(
    world: World, benchmark: Benchmark, tmp_path: Path
) -> None:
    """The row tv+tag takes the mean of a tag's tokens, as training does; the official rows its best token."""
    store = with_two_tokens(world[1], tmp_path / "store")
    model, news = trained(store).eval(), benchmark["news"]
    source, rows = ModelScores(model, store), filter_rows(news)
    pairs = list(dict.fromkeys(pair for row in rows for pair in row.pairs))
    best, mean = source.tag_scores(news, pairs), source.mean_tag_scores(news, pairs)
    frames = [store.array(video)[:, 0].astype(np.float64) for video in news.database]
    frames = [video / np.linalg.norm(video, axis=1, keepdims=True) for video in frames]
    for pair, of_best, of_mean in zip(pairs, best, mean, strict=True):
        tokens = store.array(tag_key(*pair), "tags")[:, 0].astype(np.float64)
        together = tokens.mean(axis=0) / np.linalg.norm(tokens.mean(axis=0))
        units = tokens / np.linalg.norm(tokens, axis=1, keepdims=True)
        np.testing.assert_allclose(of_best, [(video @ units.T).max() for video in frames], atol=1e-5)
        np.testing.assert_allclose(of_mean, [(video @ together).max() for video in frames], atol=1e-5)
    assert np.abs(best - mean).max() > 0.05

    queries = {query.id: query for query in news.queries}
    asked = [queries[row.judgement.query] for row in rows]
    ((_, block),) = encoded_blocks(model, store, news.database, [np.arange(len(news.database))], torch.device("cpu"))
    with torch.inference_mode():
        batch = load_queries(store, asked, expressions=[row.expression for row in rows])
        wanted = model.score_modes(model.encode_query(batch), block, ["tv+tag"])["tv+tag"].numpy()
    beside = score_beside(source, news, source.score(news, ["tv"])["tv"])
    assert beside is not None
    np.testing.assert_allclose(beside.judged.scores, wanted, atol=1e-5)
    tags = read_muvr(world[0], filters=True).select("all", "full")
    found = {expanded.mode: expanded.judged for expanded in score_filters(source, tags["news"], ["tv"], TagSettings())}
    np.testing.assert_allclose(found["tv+tag"].scores, wanted, atol=1e-5)
    base = source.score(news, ["tv"])["tv"]
    row = next(
        number for number, judgement in enumerate(found["tag_0.3"].judgements) if judgement.expression == "+night"
    )
    query = found["tag_0.3"].queries[row]
    added = 0.3 * best[pairs.index((query, "night"))]
    np.testing.assert_allclose(found["tag_0.3"].scores[row], base.take([query]).scores[0] + added, atol=1e-5)


def with_two_tokens(store: FeatureStore, path: Path) -> FeatureStore:
    """The store with a second token in every tag."""
    rng = np.random.default_rng(3)
    with StoreWriter(path, {"encoder": "x", "text_aligned": True}, "float32") as writer:
        for stream in store.streams:
            for name in store.ids(stream):
                values = np.asarray(store.array(name, stream), np.float32)
                if stream == "tags":
                    values = np.concatenate([values, rng.standard_normal(values.shape, dtype=np.float32)])
                writer.add(name, values, stream=stream)
    return FeatureStore(path)


def test_a_region_takes_the_place_of_the_frames(world: World, benchmark: Benchmark) -> None:
    store, news = world[1], benchmark["news"]
    scores = ModelScores(model_of(store), store).score(news, ["t", "tv+region"])
    inside = store.array("news/t2q0", "region")[:, 0]
    inside = inside / np.linalg.norm(inside, axis=1, keepdims=True)
    text = dict(zip(scores["t"].queries, scores["t"].scores, strict=True))["news/t2q0"]
    for column, video in enumerate(news.database):
        frames = store.array(video)[:, 0]
        best = (inside @ (frames / np.linalg.norm(frames, axis=1, keepdims=True)).T).max()
        expected = (best + text[column]) / 2
        assert scores["tv+region"].scores[MARKED.index("news/t2q0"), column] == pytest.approx(expected, abs=1e-6)


def test_rows_of_the_base_with_tags_and_regions_beside(
    world: World, benchmark: Benchmark, caplog: pytest.LogCaptureFixture
) -> None:
    results = evaluate(trained(world[1]), world[1], benchmark, Protocol(keep_scores=True, details=True, bootstrap=100))
    assert results.modes == ALL
    rows = {(row["mode"], row["partition"]): row for row in results.rows}
    assert ("tv+region", "dance") not in rows
    assert "dance: left out of mode tv+region, because no scored query has features of a marked region" in results.notes
    assert "left out" not in caplog.text, "nobody asked for it by name"
    counts: Any = {key: row["counts"] for key, row in rows.items()}
    assert counts["tv+region", "news"]["queries"] == 5
    assert counts["tv+region", "news"]["queries_without_region"] == 5
    assert counts["tv+region", "mean"]["partitions"] == 1
    assert counts["tv", "news"]["queries_without_text"] == 0
    assert counts["tv+tag", "mean"]["expressions"] == 2 * 9 * len(EXPRESSIONS)
    assert counts["tv+tag", "news"]["queries_without_expressions"] == 1
    assert counts["tv+tag", "news"]["missing_queries"] == 0
    metrics: Any = {key: row["metrics"] for key, row in rows.items()}
    assert "uAP" not in metrics["tv+tag", "mean"]
    assert {"mAP", "recall@1", "recall@10"} <= set(metrics["tv+tag", "mean"])
    assert "uAP" in metrics["tv+region", "mean"]
    assert rows["tv+tag", "news"]["intervals"]["mAP"]  # type: ignore[index]
    assert {part["mode"] for part in results.breakdowns if part["group"] == "operator"} == {"tv+tag"}
    assert "tv+tag" not in {part["mode"] for part in results.breakdowns if part["group"] == "level"}
    assert {kept.mode for kept in results.kept} == set(ALL)
    assert "val/muvr_base/tv+tag/mean/mAP" in results.flat("val")


def test_plain_rows_are_bit_equal_with_and_without(world: World, benchmark: Benchmark) -> None:
    store = world[1]
    plain = evaluate(trained(store), store, read_muvr(world[0]).select("all", "full"), Protocol(modes=("v", "t", "tv")))
    full = evaluate(trained(store), store, benchmark)
    assert [row for row in full.rows if "+" not in str(row["mode"])] == plain.rows
    assert [row for row in full.per_query if "+" not in str(row["mode"])] == plain.per_query


def test_a_mode_alone(world: World, benchmark: Benchmark) -> None:
    full = evaluate(trained(world[1]), world[1], benchmark)
    for mode in ("tv+tag", "tv+region"):
        alone = evaluate(trained(world[1]), world[1], benchmark, Protocol(modes=(mode,)))
        assert alone.rows == [row for row in full.rows if row["mode"] == mode]


def test_the_learned_row_stands_beside_the_official_ones(world: World) -> None:
    store, tags = world[1], read_muvr(world[0], filters=True).select("all", "full")
    results = evaluate(trained(store), store, tags)
    assert results.modes == ("tag_0.0", "tag_0.3", "logic_0.0", "logic_0.3", "tv+tag", UPPER_BOUND)
    beside = read_muvr(world[0], filters="beside").select("all", "full")
    assert precisions(results, "tv+tag") == precisions(evaluate(trained(store), store, beside), "tv+tag")
    assert "tv+tag" not in evaluate(model_of(store), store, tags).modes, "0.3 is nothing learned"
    assert "tv+tag" not in evaluate(trained(store), store, tags, Protocol(modes=("v",))).modes
    official = evaluate(model_of(store, WeightedFusion), store, tags)
    wanted, found = precisions(official, "tag_0.3"), precisions(official, "tv+tag")
    assert max(abs(found[key] - value) for key, value in wanted.items()) <= 1e-6, "at first it is the official weight"


def without(store: FeatureStore, path: Path, gone: set[tuple[str, str]]) -> FeatureStore:
    """The store without some (stream, key)."""
    with StoreWriter(path, {"encoder": "x", "text_aligned": True}, "float32") as writer:
        for stream in store.streams:
            for name in store.ids(stream):
                if not {(stream, name), (stream, "")} & gone:
                    writer.add(name, store.array(name, stream), stream=stream)
    return FeatureStore(path)


def test_tags_without_vectors(world: World, benchmark: Benchmark, tmp_path: Path) -> None:
    poor = without(world[1], tmp_path / "poor", {("tags", tag_key("news/t0q0", "night"))})
    results = evaluate(model_of(poor), poor, benchmark)
    counts: Any = next(row["counts"] for row in results.rows if (row["mode"], row["partition"]) == ("tv+tag", "news"))
    assert counts["expressions_without_tag_vectors"] == 4
    assert counts["expressions"] == 9 * len(EXPRESSIONS) - 4
    named = Protocol(modes=("tv", "tv+tag"))
    with pytest.raises(DataError, match=r"1 tags of queries without a vector: news/t0q0 'night'"):
        evaluate(model_of(poor), poor, benchmark, named)
    official = evaluate(model_of(poor), poor, benchmark, replace(named, on_missing="official"))
    assert official.metrics("tv+tag") == results.metrics("tv+tag")


def test_modes_that_cannot_be_served(world: World, benchmark: Benchmark, tmp_path: Path) -> None:
    poor = without(world[1], tmp_path / "poor", {("tags", ""), ("region", "")})
    assert evaluate(model_of(poor), poor, benchmark).modes == ("v", "t", "tv")
    for mode, needed in (("tv+tag", "texts and vectors of tags"), ("tv+region", "features of marked regions")):
        with pytest.raises(ConfigError, match=rf"mode {mode.replace('+', '.')} needs {needed}"):
            evaluate(model_of(poor), poor, benchmark, Protocol(modes=(mode,)))
    silent = replace(benchmark, partitions=tuple(replace(part, filters=()) for part in benchmark.partitions))
    with pytest.raises(
        DataError, match=r"no partition is left in mode tv\+tag: .*no scored query has a tag expression"
    ):
        evaluate(model_of(world[1]), world[1], silent, Protocol(modes=("tv", "tv+tag")))
    dance = replace(benchmark, partitions=(benchmark["dance"],))
    with pytest.raises(DataError, match=r"no partition is left in mode tv\+region"):
        evaluate(model_of(world[1]), world[1], dance, Protocol(modes=("tv+region",)))


def test_regions_without_texts(world: World, benchmark: Benchmark, tmp_path: Path) -> None:
    mute = without(world[1], tmp_path / "mute", {("text", ""), ("tags", "")})
    results = evaluate(model_of(mute), mute, benchmark)
    assert results.modes == ("v", "tv+region")


def test_a_marked_region_without_features_is_an_error(world: World, benchmark: Benchmark) -> None:
    news = benchmark["news"]
    masked = replace(news, queries=tuple(replace(query, mask="m.png") for query in news.queries))
    whole = replace(benchmark, partitions=(masked,))
    with pytest.raises(DataError, match=r"5 queries without features of their marked region: news/t0q1"):
        evaluate(model_of(world[1]), world[1], whole)
    results = evaluate(model_of(world[1]), world[1], whole, Protocol(on_missing="official"))
    assert results.modes == ALL


def test_a_broken_tag_weight_is_an_error(world: World, benchmark: Benchmark) -> None:
    model = trained(world[1])
    with torch.no_grad():
        model.head.tag_weight.fill_(float("nan"))
    with pytest.raises(DataError, match="scores of tags are not finite"):
        evaluate(model, world[1], benchmark)


def test_memory_counts_regions(world: World, benchmark: Benchmark) -> None:
    queries = benchmark["news"].queries
    video, text = 4 * 10 * FRAMES * DIM, 4 * 10 * DIM
    region, focused = 4 * 10 * 8 * DIM, 4 * 10 * 8 * DIM
    sizes = QuerySizes.of(world[1], queries, regions=True)
    assert sizes.held(world[1]) == 3 * (video + text + region + focused)
    assert sizes.held(world[1], rewritten=2) == sizes.held(world[1]) + 2 * 2 * focused
    assert QuerySizes.of(world[1], queries).held(world[1]) == 3 * (video + text)
    tight = Protocol(memory_budget=150_000)
    whole = evaluate(trained(world[1]), world[1], benchmark)
    assert evaluate(trained(world[1]), world[1], benchmark, tight).rows == whole.rows


def test_adjustments_in_pieces_are_the_same(
    world: World, benchmark: Benchmark, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = evaluate(trained(world[1]), world[1], benchmark, Protocol(modes=("tv+tag",)))
    monkeypatch.setattr("muvr_train.search.tag_adjustment.AT_ONCE", 100)
    assert evaluate(trained(world[1]), world[1], benchmark, Protocol(modes=("tv+tag",))).rows == whole.rows


def test_the_table_of_queries_has_a_column_of_expressions(world: World, benchmark: Benchmark, tmp_path: Path) -> None:
    results = evaluate(trained(world[1]), world[1], benchmark)
    write_results(tmp_path, results, {"model": "m"}, {"other": evaluate(model_of(world[1]), world[1], benchmark)})
    with (tmp_path / "per_query.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 2 * len(results.per_query)
    for line in lines:
        assert (line["expression"] in EXPRESSIONS) == (line["mode"] == "tv+tag")
