"""MUVR-Filter end to end against the official program's numbers, and points 19 to 22 of its semantics one by one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from muvr_train.benchmarks.expressions import UPPER_BOUND
from muvr_train.benchmarks.muvr import read_muvr
from muvr_train.benchmarks.splits import apply_splits
from muvr_train.benchmarks.types import Benchmark
from muvr_train.errors import ConfigError, DataError
from muvr_train.evaluation import Protocol, evaluate, evaluate_scores
from muvr_train.features.import_muvr import import_muvr
from muvr_train.features.store import FeatureStore
from muvr_train.metrics.functional import average_precision
from muvr_train.models.frame_max import FrameMax
from muvr_train.models.fusion.mean import MeanFusion
from muvr_train.models.retriever import Retriever
from muvr_train.results import Results
from muvr_train.search.filter_scores import TagSettings
from muvr_train.search.sources import ModelScores
from tests.tagged import EXPRESSIONS, TAGS, make_tagged, write_query

MODES = ("tag_0.0", "tag_0.3", "tag_1.0", "tag_10", "tag_100")
ALL = TagSettings((0.0, 0.3, 1.0, 10, 100), logic=False, upper_bound=False)
OFFICIAL = Protocol(on_missing="official", ks=(200, 500, 1000, 2000), tags=ALL)
NAMES = {"R-Precision": "R-precision"}


@pytest.fixture(scope="module")
def folder(shared: Path) -> Path:
    return shared / "golden/muvr_small"


@pytest.fixture(scope="module")
def golden(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "golden.json").read_text())
    return content


@pytest.fixture(scope="module")
def store(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    out = tmp_path_factory.mktemp("stores") / "toyclip"
    import_muvr(folder / "features/toyclip", out)
    return FeatureStore(out)


@pytest.fixture(scope="module")
def benchmark(folder: Path) -> Benchmark:
    return read_muvr(folder / "annotations", filters=True).select("all", "full")


def untrained(store: FeatureStore) -> Retriever:
    dims = store.dims
    return Retriever(FrameMax(dims.dim, dims.regions), MeanFusion(dims), dims)


@pytest.fixture(scope="module")
def whole(store: FeatureStore, benchmark: Benchmark) -> Results:
    return evaluate(untrained(store), store, benchmark, replace(OFFICIAL, tags=TagSettings(ALL.modes)))


def compare(results: Results, expected: dict[str, Any], modes: tuple[str, ...], ks: str) -> int:
    """Compare every metric but uAP, which is 0 officially and absent here; give how many were compared."""
    compared = 0
    for mode in modes:
        for partition, metrics in expected[mode][ks].items():
            ours = results.metrics(mode, partition)
            assert "uAP" not in ours
            assert metrics["uAP"] == 0
            for name, value in metrics.items():
                if name != "uAP":
                    assert ours[NAMES.get(name, name)] == pytest.approx(value, abs=1e-9), (mode, partition, name)
                    compared += 1
    return compared


def test_every_official_number(whole: Results, golden: dict[str, Any]) -> None:
    assert compare(whole, golden["toyclip"], MODES, "per_topic") == 5 * 5 * 15
    for mode in MODES:
        for name, value in golden["toyclip"][mode]["average"].items():
            if name != "uAP":
                assert whole.metrics(mode)[name] == pytest.approx(value, abs=1e-9)


def test_small_cut_offs(store: FeatureStore, benchmark: Benchmark, golden: dict[str, Any]) -> None:
    results = evaluate(untrained(store), store, benchmark, replace(OFFICIAL, ks=(1, 5, 10, 50, 100)))
    assert compare(results, golden["toyclip"], MODES, "per_topic_small_k") == 5 * 5 * 18


def test_average_precision_of_every_expression(whole: Results, golden: dict[str, Any]) -> None:
    for mode in MODES:
        rows = {(row["query"], row["expression"]): row["AP"] for row in whole.per_query if row["mode"] == mode}
        official = {
            (f"{partition}/{query}", text): value
            for partition, queries in golden["toyclip"][mode]["average_precision"].items()
            for query, texts in queries.items()
            for text, value in texts.items()
        }
        assert rows.keys() == official.keys()
        assert max(abs(rows[key] - official[key]) for key in rows) <= 1e-9  # type: ignore[operator]


def test_the_annotations_own_test_split(store: FeatureStore, folder: Path, golden: dict[str, Any]) -> None:
    split = apply_splits(read_muvr(folder / "annotations", filters=True), "annotation").select("test", "split")
    results = evaluate(untrained(store), store, split, replace(OFFICIAL, tags=replace(ALL, modes=(0.3,))))
    assert compare(results, golden["toyclip_split_test"], ("tag_0.3",), "per_topic") == 5 * 15


def test_tokens_of_a_querying_transformer(folder: Path, golden: dict[str, Any], tmp_path: Path) -> None:
    import_muvr(folder / "features/tokens32", tmp_path / "store")
    tokens = FeatureStore(tmp_path / "store")
    dance = read_muvr(folder / "annotations", partitions=["dance"], filters=True).select("all", "full")
    results = evaluate(untrained(tokens), tokens, dance, OFFICIAL)
    assert compare(results, golden["tokens32"], MODES, "per_topic") == 5 * 15


def test_tag_scores_are_the_official_similarities(store: FeatureStore, benchmark: Benchmark, folder: Path) -> None:
    official = np.load(folder / "scores.npz")
    for name in ("others", "dance"):
        source = ModelScores(untrained(store), store, True)
        pairs = [(f"{name}/{query}", str(tag)) for query, tag in official[f"{name}/tag_pairs"]]
        scores = source.tag_scores(benchmark[name], pairs)
        database = source.score(benchmark[name], ["tv"])["tv"].database
        place = {video.split("/")[-1]: column for column, video in enumerate(database)}
        columns = [place[video] for video in official[f"{name}/targets"]]
        np.testing.assert_allclose(scores[:, columns], official[f"{name}/tag"], atol=1e-6)


def test_point_19_means_are_over_pairs_and_empty_lists_count(whole: Results) -> None:
    rows = [row for row in whole.per_query if row["mode"] == "tag_0.3" and row["partition"] == "others"]
    assert len(rows) == 40
    assert whole.metrics("tag_0.3", "others")["mAP"] == pytest.approx(np.mean([row["AP"] for row in rows]), abs=1e-12)
    empty = [row for row in rows if row["positives"] == 0]
    assert [(row["expression"], row["AP"], row["counted"]) for row in empty] == [("+4:3 frame", 0.0, True)]
    counts = next(row["counts"] for row in whole.rows if (row["mode"], row["partition"]) == ("tag_0.3", "others"))
    expected = {"expressions": 40, "queries": 9, "missing_queries": 1, "queries_without_expressions": 2}
    assert {name: counts[name] for name in expected} == expected  # type: ignore[index]


def test_point_20_words_are_left_out_of_official_rows_and_counted(whole: Results) -> None:
    texts = {row["mode"]: set() for row in whole.per_query}  # type: ignore[var-annotated]
    for row in whole.per_query:
        texts[row["mode"]].add(str(row["expression"]).split(" ")[0] in ("AND", "OR"))
    assert all(texts[mode] == {False} for mode in MODES)
    assert texts["logic_0.3"] == texts[UPPER_BOUND] == {True, False}
    counts = {row["mode"]: row["counts"] for row in whole.rows if row["partition"] == "mean"}
    assert counts["tag_0.3"]["expressions"] == 226  # type: ignore[index]
    assert counts["tag_0.3"]["expressions_left_out"] == 98  # type: ignore[index]
    assert counts["logic_0.3"]["expressions"] == 324  # type: ignore[index]


def test_logic_equals_official_where_there_is_no_word(whole: Results) -> None:
    for mode in ("0.0", "0.3", "1.0"):
        official = {(r["query"], r["expression"]): r["AP"] for r in whole.per_query if r["mode"] == f"tag_{mode}"}
        logic = {(r["query"], r["expression"]): r["AP"] for r in whole.per_query if r["mode"] == f"logic_{mode}"}
        assert max(abs(logic[key] - value) for key, value in official.items()) < 1e-6  # type: ignore[operator]


def test_the_upper_bound_is_above_everything(whole: Results) -> None:
    bound = {(r["query"], r["expression"]): r["AP"] for r in whole.per_query if r["mode"] == UPPER_BOUND}
    for row in whole.per_query:
        assert bound[row["query"], row["expression"]] >= row["AP"] - 1e-9  # type: ignore[operator]
    assert whole.metrics(UPPER_BOUND)["mAP"] > whole.metrics("logic_0.3")["mAP"] + 0.01


def test_the_upper_bound_is_above_a_top_k_of_large_official_scores(make: Make) -> None:
    """Negative tags push the top K below all others, which centred scores never do."""
    benchmark, store = make()
    settings = Protocol(tags=TagSettings((0.3, 3, 1000)), ks=(1,))
    results = evaluate(untrained(store), store, benchmark, settings)
    bound = {(r["query"], r["expression"]): r["AP"] for r in results.per_query if r["mode"] == UPPER_BOUND}
    assert {"tag_0.3", "tag_3", "tag_1000", "logic_3"} <= set(results.modes)
    for row in results.per_query:
        assert bound[row["query"], row["expression"]] >= row["AP"] - 1e-9  # type: ignore[operator]


def test_breakdowns_by_operator_and_sign(whole: Results) -> None:
    for partition in ("dance", "mean"):
        found = {
            (part["group"], part["name"]): part
            for part in whole.breakdowns
            if part["mode"] == "logic_0.3" and part["partition"] == partition
        }
        operators = [name for group, name in found if group == "operator"]
        assert sorted(operators) == ["AND", "OR", "compound", "single"]
        assert sorted(name for group, name in found if group == "sign") == ["+", "-", "mixed"]
    rows = [r for r in whole.per_query if r["mode"] == "logic_0.3" and r["partition"] == "dance"]
    ors = [row["AP"] for row in rows if str(row["expression"]).startswith("OR")]
    part = next(
        part
        for part in whole.breakdowns
        if (part["mode"], part["partition"], part["name"]) == ("logic_0.3", "dance", "OR")
    )
    assert part["metrics"]["mAP"] == pytest.approx(np.mean(ors), abs=1e-12)  # type: ignore[index, arg-type]
    assert part["counts"] == {"expressions": 10}


def test_scores_are_kept_of_the_first_mode_only(store: FeatureStore, benchmark: Benchmark) -> None:
    protocol = replace(OFFICIAL, keep_scores=True, tags=TagSettings((0.3, 10)))
    kept = evaluate(untrained(store), store, replace(benchmark, partitions=(benchmark["dance"],)), protocol).kept
    assert [(part.mode, part.judged.scores.shape) for part in kept] == [("tag_0.3", (48, 298))]


Make = Callable[..., tuple[Benchmark, FeatureStore]]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """The tagged toy data, after `change` was called with the folder of features of a partition."""

    def made(change: Callable[[Path], None] | None = None) -> tuple[Benchmark, FeatureStore]:
        annotations, features = make_tagged(tmp_path)
        if change is not None:
            change(features / "news")
        import_muvr(features, tmp_path / "store")
        benchmark = read_muvr(annotations, filters=True).select("all", "full")
        return benchmark, FeatureStore(tmp_path / "store")

    return made


def vectors(*tags: str) -> dict[str, np.ndarray]:
    return {tag: np.ones((1, 16), dtype=np.float32) for tag in tags}


def test_the_toy_is_evaluated_without_a_fault(make: Make) -> None:
    benchmark, store = make()
    results = evaluate(untrained(store), store, benchmark)
    assert results.modes == ("tag_0.0", "tag_0.3", "logic_0.0", "logic_0.3", UPPER_BOUND)
    texts = {row["expression"] for row in results.per_query if row["mode"] == "tag_0.3"}
    assert texts == {text for text in EXPRESSIONS if text[0] in "+-"}
    first = next(row for row in results.per_query if row["query"] == "news/t0q0" and row["expression"] == "+night")
    assert first["positives"] == 5, "4 matches and a distractor; the query itself is not in the database"


@pytest.mark.parametrize("on_missing", ["error", "official"])
def test_point_22_a_tag_without_a_vector_is_an_error(on_missing: str, make: Make) -> None:
    def change(news: Path) -> None:
        write_query(news, "t1q0", np.ones((1, 16), dtype=np.float32), vectors(*TAGS[1:]))

    benchmark, store = make(change)
    with pytest.raises(DataError, match=r"news/t1q0 'night'") as caught:
        evaluate(untrained(store), store, benchmark, Protocol(on_missing=on_missing))
    assert "crowd" not in str(caught.value)


def test_point_22_tags_of_words_only_are_not_needed_officially(make: Make) -> None:
    def change(news: Path) -> None:
        annotation = news.parents[1] / "annotations/news/query_tag_lists.json"
        content = json.loads(annotation.read_text())
        content[1]["tag_lists"] = {
            text: lists for text, lists in content[1]["tag_lists"].items() if text[0] not in "+-"
        }
        annotation.write_text(json.dumps(content))
        write_query(news, "t0q1", np.ones((1, 16), dtype=np.float32), {})

    benchmark, store = make(change)
    with pytest.raises(DataError, match=r"2 tags of queries without a vector: news/t0q1 'night', news/t0q1 'crowd'"):
        evaluate(untrained(store), store, benchmark)
    results = evaluate(untrained(store), store, benchmark, replace(OFFICIAL, tags=TagSettings((0.3,))))
    counts = {row["mode"]: row["counts"] for row in results.rows if row["partition"] == "news"}
    assert counts["logic_0.3"]["expressions_without_tag_vectors"] == 2  # type: ignore[index]
    assert counts["logic_0.3"]["expressions"] == 8 * len(EXPRESSIONS)  # type: ignore[index]


def test_point_22_queries_without_an_entry_or_features_are_left_out(make: Make) -> None:
    benchmark, store = make(lambda news: (news / "t2q1.npy").unlink())
    with pytest.raises(DataError, match="1 videos without features: news/t2q1"):
        evaluate(untrained(store), store, benchmark)
    results = evaluate(untrained(store), store, benchmark, OFFICIAL)
    counts = next(row["counts"] for row in results.rows if (row["mode"], row["partition"]) == ("tag_0.3", "news"))
    expected = {"queries": 8, "missing_queries": 1, "queries_without_expressions": 1, "expressions": 8 * 4}
    assert {name: counts[name] for name in expected} == expected  # type: ignore[index]


def test_official_rows_follow_the_official_cuts_where_these_have_vectors(make: Make) -> None:
    text = "-high -rise buildings"

    def precision(results: Results, mode: str) -> float:
        rows = (r for r in results.per_query if (r["query"], r["expression"], r["mode"]) == ("news/t1q0", text, mode))
        return float(next(rows)["AP"])  # type: ignore[arg-type]

    def change(news: Path) -> None:
        rng = np.random.default_rng(5)
        tags = {tag: rng.standard_normal((1, 16)).astype(np.float32) for tag in (*TAGS, "high", "rise buildings")}
        write_query(news, "t1q0", np.ones((1, 16), dtype=np.float32), tags)
        annotation = news.parents[1] / "annotations/news/query_tag_lists.json"
        content = json.loads(annotation.read_text())
        content[2]["tag_lists"][text] = content[2]["tag_lists"]["+night"]
        annotation.write_text(json.dumps(content))

    benchmark, store = make(change)
    source = ModelScores(untrained(store), store)
    results = evaluate(untrained(store), store, benchmark, Protocol(tags=TagSettings((1.0,), upper_bound=False)))
    base = source.score(benchmark["news"], ["tv"])["tv"]
    cuts = source.tag_scores(benchmark["news"], [("news/t1q0", tag) for tag in ("high", "rise buildings")])
    whole = source.tag_scores(benchmark["news"], [("news/t1q0", "high-rise buildings")])
    row = next(r for r in benchmark["news"].filters if (r.query, r.expression) == ("news/t1q0", text))
    relevance = np.array([video in row.positives for video in base.database]).astype(np.int8)
    own = base.scores[base.queries.index("news/t1q0")]
    expected = [
        average_precision(own - tags.sum(axis=0), relevance, len(row.positives) or None) for tags in (cuts, whole)
    ]
    assert precision(results, "tag_1.0") == pytest.approx(expected[0], abs=1e-9)
    assert precision(results, "logic_1.0") == pytest.approx(expected[1], abs=1e-9)


def test_a_text_map_that_was_trained_applies_to_tags(make: Make) -> None:
    benchmark, store = make()
    model = untrained(store)
    assert model.text_part is not None
    with torch.no_grad():
        model.text_part.projection.weight.copy_(-torch.eye(16))
    pairs = [("news/t0q0", "night"), ("news/t0q1", "crowd")]
    plain = ModelScores(untrained(store), store).tag_scores(benchmark["news"], pairs)
    turned = ModelScores(model, store).tag_scores(benchmark["news"], pairs)
    vector = store.array('["news/t0q0", "night"]', "tags")[0, 0]
    frames = store.array(benchmark["news"].database[0])[:, 0]
    cosines = frames @ vector / np.linalg.norm(frames, axis=1) / np.linalg.norm(vector)
    assert plain[0, 0] == pytest.approx(cosines.max(), abs=1e-6)
    assert turned[0, 0] == pytest.approx(-cosines.min(), abs=1e-6)


def test_a_tag_vector_that_is_no_number_is_named(make: Make) -> None:
    def change(news: Path) -> None:
        broken = {**vectors(*TAGS), "crowd": np.full((1, 16), np.nan, dtype=np.float32)}
        write_query(news, "t1q0", np.ones((1, 16), dtype=np.float32), broken)

    benchmark, store = make(change)
    with pytest.raises(DataError, match="crowd"):
        evaluate(untrained(store), store, benchmark, OFFICIAL)


def test_the_queries_own_score_may_be_of_one_part(make: Make) -> None:
    benchmark, store = make()
    by_mode = {
        mode: evaluate(untrained(store), store, benchmark, Protocol(modes=(mode,))).metrics("tag_0.0")["mAP"]
        for mode in ("v", "t", "tv")
    }
    assert evaluate(untrained(store), store, benchmark).metrics("tag_0.0")["mAP"] == by_mode["tv"]
    assert len(set(by_mode.values())) == 3


def test_a_source_without_tags_is_refused(store: FeatureStore, benchmark: Benchmark) -> None:
    class Plain:
        modes = ("v",)
        pairwise = True

        def refuse_missing(self, benchmark: Benchmark, modes: Any) -> None:
            """Lack nothing."""

        def known_queries(self, partition: Any) -> Any:
            return partition.query_ids

        def score(self, partition: Any, modes: Any) -> Any:
            raise AssertionError("not reached")

    with pytest.raises(ConfigError, match=r"benchmark=muvr_filter needs the scores of tags, which Plain does not give"):
        evaluate_scores(Plain(), benchmark)


def test_a_partition_without_expressions_is_left_out(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    benchmark, store = make()
    news, dance = benchmark.partitions
    silent = replace(benchmark, partitions=(replace(news, filters=()), dance))
    results = evaluate(untrained(store), store, silent)
    assert {row["partition"] for row in results.rows} == {"dance", "mean"}
    assert "news: no query with features has a tag expression; its rows are left out" in caplog.text


def test_nothing_to_evaluate_is_an_error(make: Make) -> None:
    benchmark, store = make(lambda news: [path.unlink() for path in news.glob("t*q*.npy")])
    news = benchmark["news"]
    only = replace(
        benchmark, partitions=(replace(news, filters=tuple(r for r in news.filters if r.query == "news/t0q0")),)
    )
    with pytest.raises(DataError, match="news"):
        evaluate(untrained(store), store, only, OFFICIAL)


def test_only_words_leave_no_official_row(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    benchmark, store = make()
    news = benchmark["news"]
    words = tuple(row for row in news.filters if str(row.expression)[0] not in "+-")
    only = replace(benchmark, partitions=(replace(news, filters=words),))
    assert evaluate(untrained(store), store, only).modes == ("logic_0.0", "logic_0.3", UPPER_BOUND)
    assert "officially evaluated" in caplog.text
    with pytest.raises(DataError, match="no query with features has a tag expression that is evaluated"):
        evaluate(untrained(store), store, only, Protocol(tags=ALL))
