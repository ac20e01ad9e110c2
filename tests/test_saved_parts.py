"""Modes tv+tag and tv+region in the files and on the page that an evaluation leaves, and as folds join them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from muvr_train import cli, mine
from muvr_train.benchmarks.muvr import read_muvr
from muvr_train.benchmarks.muvr_qa import read_qa
from muvr_train.benchmarks.splits import split_by_fold
from muvr_train.errors import ConfigError, DataError
from muvr_train.evaluation import Protocol, evaluate_scores
from muvr_train.features.store import FeatureStore, tag_key
from muvr_train.runner.cross_fit import join_folds, write_fold
from muvr_train.search.calibration.base import CalibrationStep
from muvr_train.search.calibration.centring import Centring
from muvr_train.search.calibration.fitting import Sample, fit
from muvr_train.search.calibration.pipeline import CalibratedScores, Calibration
from muvr_train.search.calibration.score_norm import ScoreNorm
from muvr_train.search.calibration.z_fusion import ZFusion
from muvr_train.search.held import HeldScores
from muvr_train.search.score_files import read_scores
from muvr_train.search.sources import ModelScores
from tests import in_process
from tests.parts import make_parts
from tests.tagged import EXPRESSIONS, TAGS
from tests.test_cross_fit import TINY
from tests.test_end_to_end import Workplace as Programs
from tests.test_parts_evaluation import ALL, trained, without


class Workplace:
    """A user's folder with an evaluation in all modes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.annotations, self.store = make_parts(folder / "data")
        self.data = ("data=muvr", f"data.annotations={self.annotations}")
        self.features = f"data.features={self.store.path}"
        modes = f"benchmark.modes=[{','.join(ALL)}]"
        calibrated = "calibration=[centring,score_norm]"
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            patch.setenv("MUVR_TRAIN_CACHE", str(folder / "cache"))
            few = ("benchmark.bootstrap=0", calibrated)
            self.evaluate("model=frame_max", *self.data, self.features, modes, "out=all", "save_scores=true", *few)

    def evaluate(self, *arguments: str) -> dict[str, float]:
        return in_process.evaluate(*arguments, "trainer=cpu")

    def results(self, out: str) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.folder / out / "results.json").read_text(encoding="utf-8"))
        return content


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    return Workplace(tmp_path_factory.mktemp("place"))


@pytest.fixture
def place(made: Workplace, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    monkeypatch.chdir(made.folder)
    return made


def metrics(results: dict[str, Any], mode: str) -> dict[str, dict[str, float]]:
    return {row["partition"]: row["metrics"] for row in results["rows"] if row["mode"] == mode}


@pytest.mark.parametrize("mode", ALL)
def test_every_mode_is_evaluated_again_from_its_file(place: Workplace, mode: str) -> None:
    few = ("benchmark.bootstrap=0", "benchmark.report=false", f"out=again-{mode}")
    given = f"scores=all/scores_{mode}.npz"
    if mode == "tv+region":
        with pytest.raises(DataError, match=r"no query of partition dance is in it.*on_missing=official"):
            place.evaluate(*place.data, given, *few)
        few = (*few, "on_missing=official")
    place.evaluate(*place.data, given, *few)
    again, first = metrics(place.results(f"again-{mode}"), mode), metrics(place.results("all"), mode)
    assert set(again) == set(first) == ({"news", "mean"} if mode == "tv+region" else {"news", "dance", "mean"})
    for partition, values in first.items():
        assert again[partition] == pytest.approx(values, abs=1e-9)


def test_tags_from_a_file_count_what_is_there(place: Workplace) -> None:
    few = ("benchmark.bootstrap=0", "benchmark.report=false")
    place.evaluate(*place.data, "scores=all/scores_tv+tag.npz", *few, "out=counts")
    counts = {row["partition"]: row["counts"] for row in place.results("counts")["rows"]}
    assert counts["news"]["expressions"] == 9 * len(EXPRESSIONS)
    assert (counts["news"]["missing_queries"], counts["news"]["queries_without_expressions"]) == (0, 1)
    place.evaluate(*place.data, "scores=all/scores_tv+tag.npz", "benchmark=muvr_filter", *few, "out=filter")
    assert metrics(place.results("filter"), "tv+tag") == metrics(place.results("counts"), "tv+tag")


def test_the_page_shows_queries_in_every_kind_of_mode(place: Workplace) -> None:
    page = (place.folder / "all" / "report.html").read_text(encoding="utf-8")
    assert re.search(r"</b> \(the\none with the highest mAP\), and with <b><bdi>tv\+tag</bdi></b>, and with <b>", page)
    shown = re.findall(r'<span class="soft">([^<]*) AP, \d+ match', page)
    assert {line.partition(",")[0] for line in shown} > {"tv+tag", "tv+region"}
    assert "with <bdi><code>" in page
    axis = dict(
        re.findall(r'aria-label="histogram of average precision: ([^"]*)".*?>(queries|expressions)</text>', page)
    )
    assert axis == {mode: "expressions" if mode == "tv+tag" else "queries" for mode in ALL}
    assert "How many queries or expressions (up)" in page
    legend = page[page.index('class="legend"') : page.index("Precision and recall of")]
    assert "<bdi>tv+tag</bdi>" in legend


def test_hard_cases_of_tags(place: Workplace) -> None:
    mine.main(["all", "--mode", "tv+tag", "--threshold", "0.9", "--pairs", "3", "--out", "hard"])
    rows = read_qa(Path("hard/news.jsonl"))
    assert len(rows) == 6
    assert {row.tag for row in rows} <= set(EXPRESSIONS)


def test_the_calibrated_row_has_tags_and_says_that_it_has_no_regions(place: Workplace) -> None:
    (row,) = place.results("all")["calibrated"]
    assert list(dict.fromkeys(entry["mode"] for entry in row["rows"])) == list(ALL[:4])
    assert any(
        note.endswith("no row in mode tv+region: calibration steps know the modes v, t, tv, tv+tag")
        for note in place.results("all")["meta"]["notes"]
    )


@pytest.mark.parametrize(
    "steps", [{"norm": ScoreNorm(k=2)}, {"centring": Centring()}, {"fusion": ZFusion(), "norm": ScoreNorm(k=2)}]
)
def test_calibrated_tags_are_calibrated_scores_and_what_the_head_adds(
    place: Workplace, steps: dict[str, CalibrationStep]
) -> None:
    benchmark = read_muvr(place.annotations, filters="beside").select("all", "full")
    raw, calibration = model_scores(place.store), Calibration(steps)
    videos, queries = tuple(place.store.ids()), benchmark.queries
    sample = Sample(place.store, videos, queries)
    fit(calibration, raw.model, sample, sample)
    source = CalibratedScores(raw, calibration)
    results = evaluate_scores(source, benchmark, Protocol(modes=("tv", "tv+tag"), keep_scores=True))
    kept = {(one.mode, one.partition.name): one.judged for one in results.kept}
    plain = {
        (one.mode, one.partition.name): one.judged
        for one in evaluate_scores(raw, benchmark, Protocol(modes=("tv", "tv+tag"), keep_scores=True)).kept
    }
    for name in ("news", "dance"):
        rows = [kept["tv", name].queries.index(query) for query in kept["tv+tag", name].queries]
        added = kept["tv+tag", name].scores - kept["tv", name].scores[rows]
        raw_added = plain["tv+tag", name].scores - plain["tv", name].scores[rows]
        np.testing.assert_allclose(added, raw_added, atol=1e-5)
        assert np.abs(kept["tv", name].scores - plain["tv", name].scores).max() > 1e-3


@pytest.mark.parametrize("lost", ["nothing", "a tag", "the tags of a topic"])
def test_folds_joined_are_the_evaluation_of_all_queries(tmp_path: Path, lost: str) -> None:
    annotations, store = make_parts(tmp_path)
    benchmark = read_muvr(annotations, filters="beside")
    gone = {
        "nothing": set(),
        "a tag": {("tags", tag_key("news/t0q0", "night"))},
        "the tags of a topic": {("tags", tag_key(f"news/t1q{number}", tag)) for number in (0, 1) for tag in TAGS},
    }
    source = model_scores(without(store, tmp_path / "poor", gone[lost]))
    folders = [tmp_path / f"fold-{fold}" for fold in range(5)]
    for fold, folder in enumerate(folders):
        folder.mkdir()
        write_fold(folder, split_by_fold(benchmark, 5, fold).select("test", "full"), [("trained", source, ALL)])
    joined = HeldScores(join_folds(folders)["trained"])
    assert joined.modes == ALL
    whole, protocol = benchmark.select("all", "full"), Protocol(on_missing="official")
    found, expected = (evaluate_scores(one, whole, protocol) for one in (joined, source))
    assert [(row["mode"], row["partition"]) for row in found.rows] == [
        (row["mode"], row["partition"]) for row in expected.rows
    ]
    for one, other in zip(found.rows, expected.rows, strict=True):
        assert one["metrics"] == pytest.approx(other["metrics"], abs=1e-9)
    rows: Any = {row["partition"]: row["counts"] for row in found.rows if row["mode"] == "tv+tag"}
    less = {"nothing": 0, "a tag": 4, "the tags of a topic": 12}[lost]
    assert rows["news"]["expressions"] == 9 * len(EXPRESSIONS) - less
    assert rows["dance"]["expressions"] == 9 * len(EXPRESSIONS)
    assert found.notes == expected.notes


def model_scores(store: FeatureStore) -> ModelScores:
    return ModelScores(trained(store), store)


@pytest.mark.parametrize(
    ("program", "typed"),
    [
        ("train", ["benchmark.folds=5", "benchmark.modes=[v,tv+tag]"]),
        ("evaluate", ["model=frame_max", "calibration=[z_fusion]", "benchmark.modes=[tv+tag]"]),
    ],
)
def test_tags_go_with_folds_and_calibrations(program: str, typed: list[str]) -> None:
    assert set(typed) <= set(cli.prepare(typed, program))


def test_nothing_of_another_model_stays_in_a_folder_that_is_overwritten(place: Workplace) -> None:
    few = (*place.data, place.features, "benchmark.bootstrap=0", "benchmark.modes=[v,tv]", "out=twice")
    place.evaluate("model=frame_max", *few, "save_scores=true")
    (place.folder / "twice" / "answers.jsonl").write_text("")
    with pytest.raises(ConfigError, match="out=twice holds results of frame_max, and those of chamfer would replace"):
        place.evaluate("model=chamfer", *few)
    place.evaluate("model=chamfer", *few, "benchmark.report=false", "overwrite=true")
    left = {path.name for path in (place.folder / "twice").iterdir()}
    assert left == {"answers.jsonl", "metrics.json", "per_query.csv", "results.json", "similarity_map.png"}


@pytest.mark.slow
def test_a_cross_fitted_run_has_rows_of_tags(tmp_path: Path) -> None:
    place = Programs(tmp_path / "place")
    annotations, store = make_parts(tmp_path / "parts")
    done = place.call(
        *("train.py", "fusion=weighted", "data=muvr", f"data.annotations={annotations}", f"data.features={store.path}"),
        *("run=cross", "benchmark.folds=3", "benchmark.modes=[tv,tv+tag]", "benchmark.bootstrap=0", "save_scores=true"),
        *TINY,
        time_limit=300,
    )
    assert done.returncode == 0, done.stderr
    folder = place.folder / "checkpoints" / "cross"
    results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    counts = {row["partition"]: row["counts"] for row in results["rows"] if row["mode"] == "tv+tag"}
    assert counts["mean"]["expressions"] == 2 * 9 * len(EXPRESSIONS)
    assert all({row["mode"] for row in rival["rows"]} == {"tv", "tv+tag"} for rival in results["baselines"])
    saved = read_scores(folder / "scores_tv+tag.npz")
    assert len(saved.blocks["news"].expressions or ()) == 9 * len(EXPRESSIONS)
