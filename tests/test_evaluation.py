"""The one evaluation against the official program's numbers, end to end: annotations, importer, scores, metrics."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from muvr_train.benchmarks.muvr import read_muvr
from muvr_train.benchmarks.splits import apply_splits
from muvr_train.benchmarks.types import Benchmark
from muvr_train.errors import ConfigError, DataError
from muvr_train.evaluation import Protocol, evaluate, evaluate_scores
from muvr_train.features.import_muvr import import_muvr
from muvr_train.features.open import open_features
from muvr_train.features.store import FeatureStore
from muvr_train.models.frame_max import FrameMax
from muvr_train.models.fusion.mean import MeanFusion
from muvr_train.models.retriever import Retriever
from muvr_train.results import Results
from tests.matrix_scores import MatrixScores
from tests.toy import make_toy

OFFICIAL_NAMES = {"R-Precision": "R-precision"}
MODES = ("v", "t", "tv")
OFFICIAL = Protocol(modes=MODES, on_missing="official", ks=(200, 500, 1000, 2000))


@pytest.fixture(scope="module")
def golden(shared: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((shared / "golden/muvr_small/golden.json").read_text())
    return content


@pytest.fixture(scope="module")
def annotations(shared: Path) -> Path:
    return shared / "golden/muvr_small/annotations"


@pytest.fixture(scope="module")
def store(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    out = tmp_path_factory.mktemp("stores") / "toyclip"
    import_muvr(shared / "golden/muvr_small/features/toyclip", out)
    return FeatureStore(out)


@pytest.fixture(scope="module")
def benchmark(annotations: Path) -> Benchmark:
    return read_muvr(annotations)


def untrained(store: FeatureStore) -> Retriever:
    dims = store.dims
    return Retriever(FrameMax(dims.dim, dims.regions), MeanFusion(dims), dims)


def assert_equal_to_official(results: Any, expected: dict[str, Any], modes: tuple[str, ...], ks: str) -> int:
    compared = 0
    for mode in modes:
        for partition, metrics in expected[mode][ks].items():
            ours = results.metrics(mode, partition)
            for name, value in metrics.items():
                assert ours[OFFICIAL_NAMES.get(name, name)] == pytest.approx(value, abs=1e-9), (mode, partition, name)
                compared += 1
        if ks == "per_topic":
            for name, value in expected[mode]["average"].items():
                assert results.metrics(mode)[name] == pytest.approx(value, abs=1e-9)
                compared += 1
    return compared


def test_every_metric_of_the_official_program(
    store: FeatureStore, benchmark: Benchmark, golden: dict[str, Any]
) -> None:
    results = evaluate(untrained(store), store, benchmark.select("all", "full"), OFFICIAL)
    assert assert_equal_to_official(results, golden["toyclip"], MODES, "per_topic") > 200
    small = evaluate(
        untrained(store), store, benchmark.select("all", "full"), replace(OFFICIAL, ks=(1, 5, 10, 50, 100))
    )
    assert assert_equal_to_official(small, golden["toyclip"], MODES, "per_topic_small_k") > 200


def test_average_precision_of_every_query(store: FeatureStore, benchmark: Benchmark, golden: dict[str, Any]) -> None:
    results = evaluate(untrained(store), store, benchmark.select("all", "full"), OFFICIAL)
    for mode in MODES:
        rows = {row["query"]: row["AP"] for row in results.per_query if row["mode"] == mode and row["counted"]}
        official = {
            f"{partition}/{query}": value
            for partition, values in golden["toyclip"][mode]["average_precision"].items()
            for query, value in values.items()
        }
        assert rows.keys() == official.keys()
        assert max(abs(rows[query] - official[query]) for query in rows) <= 1e-9  # type: ignore[operator]


def test_the_annotations_own_test_split(store: FeatureStore, benchmark: Benchmark, golden: dict[str, Any]) -> None:
    split = apply_splits(benchmark, "annotation").select("test", "split")
    results = evaluate(untrained(store), store, split, replace(OFFICIAL, modes=("tv",)))
    assert assert_equal_to_official(results, golden["toyclip_split_test"], ("tv",), "per_topic") > 60


def test_tokens_of_a_querying_transformer(shared: Path, benchmark: Benchmark, tmp_path: Path) -> None:
    expected = json.loads((shared / "golden/muvr_small/golden.json").read_text())["tokens32"]
    import_muvr(shared / "golden/muvr_small/features/tokens32", tmp_path / "store")
    tokens = FeatureStore(tmp_path / "store")
    dance = replace(benchmark, partitions=(benchmark["dance"],))
    results = evaluate(untrained(tokens), tokens, dance.select("all", "full"), OFFICIAL)
    assert assert_equal_to_official(results, expected, MODES, "per_topic") > 50


def test_results_do_not_depend_on_blocks(store: FeatureStore, benchmark: Benchmark) -> None:
    whole = evaluate(untrained(store), store, benchmark.select("all", "full"), OFFICIAL)
    small = evaluate(untrained(store), store, benchmark.select("all", "full"), replace(OFFICIAL, memory_budget=400_000))
    for one, other in zip(whole.rows, small.rows, strict=True):
        assert one["metrics"] == pytest.approx(other["metrics"], abs=1e-9)
        assert one["counts"] == other["counts"]


def test_missing_features_are_an_error_that_lists_them(store: FeatureStore, benchmark: Benchmark) -> None:
    with pytest.raises(DataError, match=r"(?s)36 videos without features: .*on_missing=official") as caught:
        evaluate(untrained(store), store, benchmark.select("all", "full"))
    missing = [video for video in benchmark.video_ids if not store.has(video)]
    assert len(missing) == 36
    assert all(video in str(caught.value) for video in missing)


def test_counts_under_official_rules(store: FeatureStore, benchmark: Benchmark) -> None:
    results = evaluate(untrained(store), store, benchmark.select("all", "full"), OFFICIAL)
    counts = {row["partition"]: row["counts"] for row in results.rows if row["mode"] == "tv"}
    assert counts["others"]["missing_queries"] == 1  # type: ignore[index]
    assert counts["dance"]["missing_database"] == 7  # type: ignore[index]
    assert counts["dance"]["self_removed"] == 5  # type: ignore[index]
    assert counts["mean"]["queries"] == 59  # type: ignore[index]


def test_unknown_and_impossible_modes(store: FeatureStore, benchmark: Benchmark, tmp_path: Path) -> None:
    part = benchmark.select("all", "full")
    with pytest.raises(ConfigError, match="unknown mode 'x'"):
        evaluate(untrained(store), store, part, replace(OFFICIAL, modes=("x",)))
    from muvr_train.features.writer import StoreWriter

    with StoreWriter(tmp_path / "mute", dict(store.manifest), dtype="float32") as writer:
        for video in store.ids():
            writer.add(video, store.array(video))
    mute = FeatureStore(tmp_path / "mute")
    with pytest.raises(ConfigError, match="needs texts"):
        evaluate(untrained(mute), mute, part, replace(OFFICIAL, modes=("tv",)))
    results = evaluate(untrained(mute), mute, part, replace(OFFICIAL, modes=None))
    assert results.modes == ("v",)


def test_a_score_that_is_no_number_is_an_error(store: FeatureStore, benchmark: Benchmark) -> None:
    model = untrained(store)
    assert model.text_part is not None
    weight = next(model.text_part.parameters())
    weight.data[0, 0] = np.nan
    with pytest.raises(DataError, match=r"not finite; the first is nan, of query news/BVq\w+ against video news/BV"):
        evaluate(model, store, benchmark.select("all", "full"), OFFICIAL)


def without_texts(toy: Benchmark, *names: str) -> Benchmark:
    """The toy benchmark with partitions in which no query has a text, of all queries and videos."""
    parts = []
    for part in toy.partitions:
        silent = tuple(replace(query, text=None) for query in part.queries)
        parts.append(replace(part, queries=silent) if part.name in names else part)
    return replace(toy, partitions=tuple(parts)).select("all", "full")


def counts_of(results: Results, mode: str, partition: str = "mean") -> dict[str, int]:
    found: Any = [row["counts"] for row in results.rows if (row["mode"], row["partition"]) == (mode, partition)]
    return dict(found[0])


def test_a_partition_without_texts_is_no_row_of_mode_t(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    annotations, features = make_toy(tmp_path)
    for path in (features / "dance").glob("*_query_dict.pkl"):
        path.unlink()
    mixed = without_texts(read_muvr(annotations), "dance")
    store = open_features(features, tmp_path / "cache")
    results = evaluate(untrained(store), store, mixed, Protocol(modes=("v", "t", "tv")))
    assert results.metrics("t") == results.metrics("t", "news")
    assert results.metrics("tv", "dance") == results.metrics("v", "dance")
    assert ("t", "dance") not in {(row["mode"], row["partition"]) for row in results.rows}
    assert [counts_of(results, mode)["partitions"] for mode in ("v", "t", "tv")] == [2, 1, 2]
    assert counts_of(results, "t")["queries"] == len(mixed["news"].queries)
    assert results.notes == ["dance: left out of mode t, because no scored query has a text"]
    assert results.notes[0] in caplog.text
    alone = replace(mixed, partitions=(mixed["dance"],))
    with pytest.raises(DataError, match="no partition is left in mode t: dance: left out of mode t"):
        evaluate(untrained(store), store, alone, Protocol(modes=("v", "t")))
    results = evaluate(untrained(store), store, alone)  # the modes that there are
    assert (results.modes, results.notes) == (("v",), []), "tv would be v once more"
    hole = r"10 queries without a text vector(?s:.*)Or pass benchmark\.modes=\[v\]"
    with pytest.raises(DataError, match=hole):  # a hole in the store stays an error
        evaluate(untrained(store), store, replace(mixed, partitions=(read_muvr(annotations)["dance"],)))


def test_frames_stand_in_for_texts_only_where_that_is_the_rule(tmp_path: Path) -> None:
    annotations, features = make_toy(tmp_path)
    (features / "dance" / "t0q0_query_dict.pkl").unlink()
    toy = read_muvr(annotations).select("all", "full")
    store = open_features(features, tmp_path / "cache")
    official = evaluate(untrained(store), store, toy, Protocol(on_missing="official"))
    assert official.notes == [
        "1 of 20 queries have no text vector: in t and tv their own frames stand in for it, MUVR's official rule"
    ]
    assert counts_of(official, "t")["queries_without_text"] == 0
    own = evaluate(untrained(store), store, replace(toy, name="table"), Protocol(on_missing="official"))
    assert own.notes == []
    assert counts_of(own, "t", "dance") | {"queries": 9, "queries_without_text": 1} == counts_of(own, "t", "dance")
    line = {row["mode"]: row["AP"] for row in own.per_query if row["query"] == "dance/t0q0"}
    assert line.keys() == {"v", "tv"}
    assert line["v"] == line["tv"]


def test_a_partition_of_which_nothing_has_features_is_left_out(tmp_path: Path) -> None:
    annotations, features = make_toy(tmp_path)
    toy = read_muvr(annotations).select("all", "full")
    for query in toy["dance"].queries:
        (features / f"{query.id}.npy").unlink()
    store = open_features(features, tmp_path / "cache")
    with pytest.raises(DataError, match="10 videos without features: dance/"):
        evaluate(untrained(store), store, toy)
    results = evaluate(untrained(store), store, toy, Protocol(on_missing="official"))
    assert [row["partition"] for row in results.rows if row["mode"] == "v"] == ["news", "mean"]
    assert results.notes == ["dance: left out of mode v, t, tv, because no query or no database video has scores"]
    assert counts_of(results, "v")["partitions"] == 1
    assert counts_of(results, "v")["missing_queries"] == 0
    none = replace(toy, partitions=(replace(toy["dance"], database=("dance/x",)),))
    with pytest.raises(DataError, match="partition dance: no query has features in "):
        evaluate(untrained(store), store, none, Protocol(on_missing="official"))
    lost = replace(toy, partitions=(toy["news"], replace(toy["news"], name="lost", database=("news/x",))))
    results = evaluate(untrained(store), store, lost, Protocol(on_missing="official"))
    assert [row["partition"] for row in results.rows if row["mode"] == "v"] == ["news", "mean"]


def test_a_partition_of_which_no_query_counts_is_left_out(tmp_path: Path) -> None:
    toy = read_muvr(make_toy(tmp_path)[0]).select("all", "full")
    rows = tuple(replace(row, positives={}, counted=False) for row in toy["dance"].judgements)
    mixed = replace(toy, partitions=(toy["news"], replace(toy["dance"], judgements=rows)))
    source = MatrixScores.random(
        [query.id for query in toy.queries], [video for part in toy.partitions for video in part.database]
    )
    results = evaluate_scores(source, mixed)
    assert [row["partition"] for row in results.rows] == ["news", "mean"]
    assert results.notes == ["dance: left out of mode v, because no scored query has a list of positives"]
    with pytest.raises(DataError, match="no partition is left in mode v: dance"):
        evaluate_scores(source, replace(mixed, partitions=(mixed["dance"],)))


def test_partitions_alike_share_a_note(tmp_path: Path) -> None:
    toy = read_muvr(make_toy(tmp_path)[0]).select("all", "full")
    more = replace(toy["dance"], name="more")
    source = MatrixScores.random(toy["news"].query_ids, toy["news"].database)
    results = evaluate_scores(source, replace(toy, partitions=(toy["dance"], toy["news"], more)))
    assert results.notes == ["dance, more: left out of mode v, because no query or no database video has scores"]
