"""The released FIVR, EVVE and CC_WEB_VIDEO annotations: known counts, and all numbers against slow twins."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from muvr_train.benchmarks.cc_web_video import SETTINGS, read_cc_web_video
from muvr_train.benchmarks.evve import read_evve
from muvr_train.benchmarks.fivr import TASKS, read_fivr
from muvr_train.benchmarks.types import Benchmark, Partition
from muvr_train.evaluation import Protocol, evaluate_scores
from muvr_train.pickles import read_pickle
from muvr_train.results import Results
from tests.matrix_scores import MatrixScores
from tests.reference import video_similarity as slow

OFFICIAL = Protocol(on_missing="official")


@pytest.fixture(scope="module")
def annotations(shared: Path) -> Path:
    return shared / "data" / "annotations"


@pytest.fixture(scope="module")
def raw(annotations: Path) -> Callable[[str], Any]:
    return lambda name: read_pickle(annotations / f"{name}.pickle")


@pytest.fixture(scope="module")
def fivr_200k(annotations: Path) -> Benchmark:
    return read_fivr(annotations, "200k")


def value(results: Results, partition: str, metric: str = "mAP") -> float:
    return results.metrics("v", partition)[metric]


def found(ids: tuple[str, ...], share: float) -> list[str]:
    """The part of the ids that was found."""
    rng = np.random.default_rng(1)
    return [name for name in ids if rng.random() < share]


def sizes(partition: Partition) -> tuple[int, int, int]:
    return len(partition.queries), len(partition.database), sum(len(row.positives) for row in partition.judgements)


def test_counts_of_fivr(annotations: Path, fivr_200k: Benchmark) -> None:
    assert {partition.name: sizes(partition) for partition in fivr_200k.partitions} == {
        "DSVR": (100, 225_960, 7_456),
        "CSVR": (100, 225_960, 8_840),
        "ISVR": (100, 225_960, 12_362),
        "DSVR_hard": (100, 221_087, 2_502),
        "CSVR_hard": (100, 221_087, 3_873),
        "ISVR_hard": (100, 221_087, 7_322),
    }
    assert fivr_200k.warnings == ()
    small = read_fivr(annotations, "5k")
    assert {partition.name: sizes(partition) for partition in small.partitions} == {
        "DSVR": (50, 5_000, 1_082),
        "CSVR": (50, 5_000, 1_323),
        "ISVR": (50, 5_000, 1_944),
        "DSVR_hard": (50, 4_405, 525),
        "CSVR_hard": (50, 4_405, 762),
        "ISVR_hard": (50, 4_405, 1_381),
    }
    assert len(set(fivr_200k["DSVR"].topics)) == 100


def test_counts_of_evve(annotations: Path) -> None:
    benchmark = read_evve(annotations)
    assert sum(partition.name != "all" for partition in benchmark.partitions) == 13
    assert sizes(benchmark["all"])[:2] == (620, 2_373)
    assert sizes(benchmark["marrakech+bomb+attack"]) == (4, 2_373, 4 * 10)
    assert len({tuple(sorted(row.positives)) for row in benchmark["all"].judgements}) == 13
    assert len({video for row in benchmark["all"].judgements for video in row.positives}) == 1_252


def test_counts_of_cc_web_video(annotations: Path) -> None:
    benchmark = read_cc_web_video(annotations)
    everything = benchmark["cc*"]
    assert sizes(everything) == (24, 13_115, 2_651 + 748 + 308 + 42 + 40)
    assert sizes(benchmark["c"])[2] == sizes(everything)[2] - 21
    assert {len(row.ranked or ()) for row in everything.judgements} == {13_115}
    assert len(benchmark["cc"].judgements[0].ranked or ()) == 792
    assert all(row.query in row.positives for row in everything.judgements)
    assert "10 labelled videos are not in the database; 1 of them are matches" in benchmark.warnings[0]


def test_fivr_5k_equals_the_slow_twin(annotations: Path, raw: Callable[[str], Any]) -> None:
    easy = set((annotations / "fivr_easy_duplicates.txt").read_text().split())
    benchmark = read_fivr(annotations, "5k")
    assert_fivr(benchmark, raw("fivr_audio")["annotation"], easy, query_share=0.5, video_share=1.0)


def test_a_part_of_fivr_200k_equals_the_slow_twin(
    annotations: Path, raw: Callable[[str], Any], fivr_200k: Benchmark
) -> None:
    easy = set((annotations / "fivr_easy_duplicates.txt").read_text().split())
    assert_fivr(fivr_200k, raw("fivr_audio")["annotation"], easy, query_share=0.3, video_share=0.02)


def assert_fivr(benchmark: Benchmark, annotation: Any, easy: set[str], query_share: float, video_share: float) -> None:
    whole = benchmark["ISVR"]
    queries, videos = found(whole.query_ids, query_share), found(whole.database, video_share)
    source = MatrixScores.random(queries, videos)
    results = evaluate_scores(source, benchmark, OFFICIAL)
    assert source.asked == 1
    scores = source.as_dicts()
    for task in TASKS:
        for name, database in ((task, set(videos)), (f"{task}_hard", set(videos) - easy)):
            expected = slow.fivr(annotation, scores, database, task)
            assert (value(results, name), value(results, name, "uAP")) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("query_share", "video_share"), [(0.2, 1.0), (0.6, 0.3)])
def test_evve_equals_the_slow_twin(
    annotations: Path, raw: Callable[[str], Any], query_share: float, video_share: float
) -> None:
    benchmark = read_evve(annotations)
    queries, videos = found(benchmark["all"].query_ids, query_share), found(benchmark["all"].database, video_share)
    source = MatrixScores.random(queries, videos)
    results = evaluate_scores(source, benchmark, OFFICIAL)
    expected = slow.evve(raw("evve")["annotation"], source.as_dicts())
    assert len(results.rows) == len(expected) >= 14
    for name, pair in expected.items():
        assert (value(results, name), value(results, name, "uAP")) == pytest.approx(pair, abs=1e-9)


@pytest.mark.parametrize(("query_share", "video_share"), [(0.5, 1.0), (0.6, 0.3)])
def test_cc_web_video_equals_the_slow_twin(
    annotations: Path, raw: Callable[[str], Any], query_share: float, video_share: float
) -> None:
    benchmark = read_cc_web_video(annotations)
    queries, videos = found(benchmark["cc"].query_ids, query_share), found(benchmark["cc"].database, video_share)
    source = MatrixScores.random(queries, videos)
    results = evaluate_scores(source, benchmark, OFFICIAL)
    dataset, scores = raw("cc_web_video"), source.as_dicts()
    for setting, (whole, clean) in SETTINGS.items():
        expected = slow.cc_web_video(dataset, scores, whole=whole, clean=clean)
        assert value(results, setting) == pytest.approx(expected, abs=1e-9)
