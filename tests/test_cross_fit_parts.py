"""What folds keep of their held-out queries and what is made of it, where queries lack texts or features."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from muvr_train.benchmarks.muvr import read_muvr
from muvr_train.benchmarks.splits import split_by_fold
from muvr_train.errors import DataError
from muvr_train.evaluation import Protocol, evaluate_scores
from muvr_train.features.open import open_features
from muvr_train.runner.cross_fit import join_folds, write_fold
from muvr_train.search.held import HeldScores
from muvr_train.search.sources import ModelScores
from tests.test_cross_fit import TINY
from tests.test_end_to_end import Workplace
from tests.test_evaluation import untrained
from tests.toy import make_toy

MODES = ("v", "t", "tv")
OFFICIAL = Protocol(on_missing="official")


@pytest.mark.parametrize("lost", ["texts of a topic", "texts of dance", "all texts but one topic's", "features"])
def test_folds_joined_are_the_evaluation_of_all_queries(tmp_path: Path, lost: str) -> None:
    """An untrained model is the same in every fold, so its cross-fitted numbers are its plain ones."""
    annotations, features = make_toy(tmp_path)
    patterns = {
        "texts of a topic": ["*/t0q*_query_dict.pkl"],
        "texts of dance": ["dance/*_query_dict.pkl"],
        "all texts but one topic's": ["dance/*_query_dict.pkl", "news/t[1234]q*_query_dict.pkl"],
        "features": ["dance/t*q*.npy", "news/t3q*.npy"],
    }
    for pattern in patterns[lost]:
        for path in features.glob(pattern):
            path.unlink()
    toy = read_muvr(annotations)
    benchmark = replace(
        toy,
        partitions=tuple(replace(p, queries=tuple(replace(q, text=None) for q in p.queries)) for p in toy.partitions),
    )
    store = open_features(features, tmp_path / "cache")
    source = ModelScores(untrained(store), store)
    folders = [tmp_path / f"fold-{fold}" for fold in range(5)]
    for fold, folder in enumerate(folders):
        folder.mkdir()
        part = split_by_fold(benchmark, 5, fold).select("test", "full")
        write_fold(folder, part, [("trained", source, MODES)])
    joined = HeldScores(join_folds(folders)["trained"])
    whole = benchmark.select("all", "full")
    found, expected = (evaluate_scores(one, whole, OFFICIAL) for one in (joined, source))
    assert [(r["mode"], r["partition"], r["counts"]) for r in found.rows] == [
        (r["mode"], r["partition"], r["counts"]) for r in expected.rows
    ]
    for one, other in zip(found.rows, expected.rows, strict=True):
        assert one["metrics"] == pytest.approx(other["metrics"], abs=1e-9)
    assert found.notes == expected.notes
    if lost == "features":
        with pytest.raises(DataError, match="have no scores: dance/"):
            evaluate_scores(joined, whole)


@pytest.mark.slow
def test_a_topic_without_texts_and_rivals_without_a_text_mode(tmp_path: Path) -> None:
    """Texts that are not in the space of the frames: untrained rows serve v alone, whatever modes were asked for."""
    place = Workplace(tmp_path)
    queries = place.annotations / "dance" / "queries_en.json"
    entries = json.loads(queries.read_text())
    for entry in entries:
        entry["prompt_en"] = "" if entry["topic_id"] == 0 else entry["prompt_en"]
    queries.write_text(json.dumps(entries))
    for path in place.features.glob("dance/t0q*_query_dict.pkl"):
        path.unlink()
    store = tmp_path / "store"
    imported = place.call("muvr_train.import_features", str(place.features), str(store))
    assert imported.returncode == 0, imported.stderr
    manifest = store / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "text_aligned": False}))
    data = ("data=muvr", f"data.annotations={place.annotations}", f"data.features={store}")
    few = ("benchmark.folds=5", "benchmark.modes=[v,t,tv]", "benchmark.report=false", "benchmark.bootstrap=0")
    done = place.call("train.py", "experiment=s2vs_evaclip", *data, "run=cross", *few, *TINY, time_limit=300)
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "checkpoints" / "cross" / "results.json").read_text())
    counts = {(row["mode"], row["partition"]): row["counts"] for row in results["rows"]}
    assert counts["t", "dance"]["queries_without_text"] == 2
    assert (counts["t", "mean"]["queries"], counts["v", "mean"]["queries"]) == (18, 20)
    assert {row["mode"] for rival in results["baselines"] for row in rival["rows"]} == {"v"}
