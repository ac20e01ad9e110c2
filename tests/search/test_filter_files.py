"""MUVR-Filter from score files: own rows come back, plain ones are repeated, and fusions align both."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from muvr_train.benchmarks.muvr import read_muvr
from muvr_train.benchmarks.types import Benchmark
from muvr_train.errors import DataError
from muvr_train.evaluation import Protocol, evaluate, evaluate_scores
from muvr_train.features.import_muvr import import_muvr
from muvr_train.features.store import FeatureStore
from muvr_train.models.frame_max import FrameMax
from muvr_train.models.fusion.mean import MeanFusion
from muvr_train.models.retriever import Retriever
from muvr_train.reports.save_scores import save_scores
from muvr_train.results import Results
from muvr_train.search.file_scores import FileScores
from muvr_train.search.score_files import ScoreBlock, ScoreFile, read_scores
from muvr_train.search.score_fusion import FusedScores
from tests.tagged import EXPRESSIONS, make_tagged

KEEP = Protocol(ks=(1, 5), keep_scores=True)


class World:
    """A model's results on MUVR-Base and MUVR-Filter of the toy data, with their score files."""

    def __init__(self, folder: Path) -> None:
        annotations, features = make_tagged(folder)
        import_muvr(features, folder / "store")
        store = FeatureStore(folder / "store")
        model = Retriever(FrameMax(store.dims.dim, store.dims.regions), MeanFusion(store.dims), store.dims)
        self.base = read_muvr(annotations)
        self.filter = read_muvr(annotations, filters=True)
        self.results = {
            "base": evaluate(model, store, self.base, KEEP),
            "filter": evaluate(model, store, self.filter, KEEP),
        }
        for name, results in self.results.items():
            (folder / name).mkdir()
            save_scores(folder / name, results)
        self.folder = folder

    def file(self, name: str) -> FileScores:
        return FileScores(read_scores(self.folder / name))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("world"))


def assert_same(found: Results, mode: str, expected: Results, was: str) -> None:
    rows = [row["partition"] for row in expected.rows if row["mode"] == was]
    assert rows
    for partition in map(str, rows):
        assert found.metrics(mode, partition) == pytest.approx(expected.metrics(was, partition), abs=1e-12)


def test_only_rows_whose_scores_are_kept_are_written(world: World) -> None:
    names = sorted(path.relative_to(world.folder).as_posix() for path in world.folder.glob("*/scores_*.npz"))
    assert names == ["base/scores_t.npz", "base/scores_tv.npz", "base/scores_v.npz", "filter/scores_tag_0.3.npz"]


def test_rows_of_expressions_come_back(world: World) -> None:
    results = evaluate_scores(world.file("filter/scores_tag_0.3.npz"), world.filter, KEEP)
    assert_same(results, "tag_0.3", world.results["filter"], "tag_0.3")
    assert results.modes == ("tag_0.3",)
    was = [row["counts"] for row in world.results["filter"].rows if row["mode"] == "tag_0.3"]
    for found, before in zip(results.rows, was, strict=True):
        counts: Any = found["counts"]
        assert {name: counts[name] for name in ("queries", "expressions", "queries_without_expressions")} == {
            name: before[name]  # type: ignore[index]
            for name in ("queries", "expressions", "queries_without_expressions")
        }
        assert counts["missing_queries"] == 0


def test_rows_of_queries_ignore_the_tags(world: World) -> None:
    results = evaluate_scores(world.file("base/scores_tv.npz"), world.filter, KEEP)
    assert results.modes == ("tag_0.0", "logic_0.0")
    for mode in results.modes:
        assert_same(results, mode, world.results["filter"], mode)
    assert {kept.mode for kept in results.kept} == {"tag_0.0", "logic_0.0"}


def test_a_file_fused_with_itself(world: World) -> None:
    own, plain = world.file("filter/scores_tag_0.3.npz"), world.file("base/scores_tv.npz")
    for method in ("mean", "z_mean", "reciprocal_rank"):
        results = evaluate_scores(FusedScores([own, own], method), world.filter, KEEP)
        assert_same(results, "tag_0.3", world.results["filter"], "tag_0.3")
        results = evaluate_scores(FusedScores([plain, plain], method), world.filter, KEEP)
        assert_same(results, "tag_0.0", world.results["filter"], "tag_0.0")


def test_expressions_fused_with_plain_queries(world: World) -> None:
    own, plain = world.file("filter/scores_tag_0.3.npz"), world.file("base/scores_tv.npz")
    fused = FusedScores([own, plain], "mean")
    for partition in world.filter.partitions:
        ((mode, judged),) = fused.filter_scores(partition)
        assert mode == "tag_0.3+tv"
        ((_, tagged),) = own.filter_scores(partition)
        matrix = plain.score(partition, plain.modes)["tv"]
        base = matrix.scores[[matrix.queries.index(query) for query in judged.queries]]
        expected = np.where(judged.relevance < 0, 0, (tagged.scores.astype(float) + base) / 2)
        np.testing.assert_allclose(judged.scores, expected)
        assert judged.judgements == tagged.judgements


def test_rows_of_expressions_are_none_of_queries(world: World) -> None:
    with pytest.raises(DataError, match="benchmark=muvr_filter"):
        evaluate_scores(world.file("filter/scores_tag_0.3.npz"), world.base, Protocol(on_missing="official"))


def test_a_missing_expression_is_named(world: World) -> None:
    file = world.file("filter/scores_tag_0.3.npz")
    block = file.file.blocks["news"]
    assert block.expressions is not None
    keep = [place for place, text in enumerate(block.expressions) if text != EXPRESSIONS[0]]
    cut = ScoreBlock(
        tuple(block.queries[place] for place in keep),
        block.database,
        block.scores[keep],
        tuple(block.expressions[place] for place in keep),
    )
    news = replace(world.filter, partitions=world.filter.partitions[:1])
    source = FileScores(ScoreFile(Path("cut.npz"), "m", {"news": cut}))
    with pytest.raises(DataError, match=rf"9 queries without a row: news/t0q0 '\{EXPRESSIONS[0]}'"):
        evaluate_scores(source, news)
    results = evaluate_scores(source, news, Protocol(on_missing="official"))
    counts: Any = results.rows[0]["counts"]
    assert counts["expressions"] == len(keep)
    assert (counts["missing_expressions"], counts["expressions_left_out"]) == (9, 18)  # AND and OR of 9 queries
    assert counts["queries_without_expressions"] == 1  # of 10, as before
    none = ScoreBlock(block.queries, block.database, block.scores, tuple(f"{text} x" for text in block.expressions))
    source = FileScores(ScoreFile(Path("none.npz"), "m", {"news": none}))
    with pytest.raises(DataError, match="no query with features has a tag expression that is evaluated"):
        evaluate_scores(source, news, Protocol(on_missing="official"))


def test_a_score_that_is_no_number_names_the_expression(world: World) -> None:
    file = world.file("filter/scores_tag_0.3.npz")
    news: Benchmark = replace(world.filter, partitions=world.filter.partitions[:1])
    block = file.file.blocks["news"]
    scores = block.scores.copy()
    scores[0, 1] = np.nan
    broken = ScoreBlock(block.queries, block.database, scores, block.expressions)
    with pytest.raises(DataError, match=rf"b.npz: 1 scores .* with '\{EXPRESSIONS[0]}' against .* {block.database[1]}"):
        evaluate_scores(FileScores(ScoreFile(Path("b.npz"), "m", {"": broken})), news)
