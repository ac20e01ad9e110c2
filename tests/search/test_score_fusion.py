"""Fusions of score files: worked by hand, and the properties that a fusion must have."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muvr_train.benchmarks.types import Benchmark, Judgement, Partition, Query
from muvr_train.errors import ConfigError, DataError
from muvr_train.evaluation import Protocol, evaluate_scores
from muvr_train.preflight import scores
from muvr_train.search.file_scores import FileScores
from muvr_train.search.score_files import ScoreBlock, ScoreFile
from muvr_train.search.score_fusion import FUSIONS, FusedScores, mean_scores, reciprocal_rank, z_mean

QUERIES, VIDEOS = ("a", "b"), ("x", "y", "z", "w")
PART = Partition(
    "p",
    tuple(Query(query, "p", "p/t", video="z" if query == "b" else None) for query in QUERIES),
    (Judgement("a", {"x": "match"}), Judgement("b", {"y": "match"})),
    VIDEOS,
)
BENCHMARK = Benchmark("table", (PART,))
A = np.array([[0.9, 0.1, 0.5, 0.1], [0.3, 0.2, 9.0, 0.4]])
B = np.array([[10.0, 40.0, 20.0, 30.0], [-5.0, 0.0, -90.0, -1.0]])


def files(*matrices: Any, videos: Any = None) -> list[FileScores]:
    columns = videos or [VIDEOS] * len(matrices)
    blocks = [ScoreBlock(QUERIES, tuple(ids), np.asarray(m)) for m, ids in zip(matrices, columns, strict=True)]
    return [FileScores(ScoreFile(Path(f"f{at}.npz"), "scores", {"": block})) for at, block in enumerate(blocks)]


def test_every_fusion_can_be_asked_for() -> None:
    assert sorted(scores.FUSIONS) == sorted(FUSIONS)


def test_mean() -> None:
    np.testing.assert_allclose(mean_scores([A, B, B]), (A + 2 * B) / 3)


def test_z_mean_takes_the_statistics_of_a_whole_matrix() -> None:
    expected = ((A - A.mean()) / A.std() + (B - B.mean()) / B.std()) / 2
    np.testing.assert_allclose(z_mean([A, B]), expected)


def test_z_mean_without_unranked_pairs() -> None:
    holed = A.copy()
    holed[1, 2] = np.nan
    rest = A[~np.isnan(holed)]
    fused = z_mean([holed])
    assert np.isnan(fused[1, 2])
    np.testing.assert_allclose(fused[~np.isnan(holed)], (rest - rest.mean()) / rest.std())


def test_a_constant_matrix_adds_nothing() -> None:
    np.testing.assert_allclose(z_mean([A, np.full_like(A, 7)]), z_mean([A]) / 2)


def test_reciprocal_rank_by_hand() -> None:
    # a: ranks 1, 3.5, 2, 3.5 and 4, 1, 3, 2; b: 3, 4, 1, 2 and 3, 1, 4, 2
    ranks = [
        [[1, 3.5, 2, 3.5], [3, 4, 1, 2]],
        [[4, 1, 3, 2], [3, 1, 4, 2]],
    ]
    np.testing.assert_allclose(reciprocal_rank([A, B]), sum(1 / (60 + np.array(rank)) for rank in ranks))


def test_what_is_not_ranked_takes_no_rank() -> None:
    holed = A.copy()
    holed[1, 2] = np.nan
    np.testing.assert_allclose(reciprocal_rank([holed])[1], [1 / 62, 1 / 63, np.nan, 1 / 61])


@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 9), st.sampled_from(sorted(FUSIONS)))
def test_a_file_fused_with_itself_keeps_every_ranking(seed: int, queries: int, videos: int, method: str) -> None:
    file = np.random.default_rng(seed).integers(0, 6, (queries, videos)).astype(float)
    fused = FUSIONS[method]([file, file])
    for row, before in zip(fused, file, strict=True):
        sign = np.sign(np.subtract.outer(before, before))
        np.testing.assert_array_equal(np.sign(np.subtract.outer(row, row).round(9)), sign)
    if method != "reciprocal_rank":  # ranks are of each query, so only these two keep the order between queries
        flat, was = fused.ravel(), file.ravel()
        changes = np.sign(np.subtract.outer(flat, flat).round(9)) != np.sign(np.subtract.outer(was, was))
        assert not changes.any()


@given(st.integers(0, 2**32 - 1), st.floats(0.01, 100), st.floats(-50, 50))
def test_a_scale_changes_no_z_mean(seed: int, factor: float, shift: float) -> None:
    rng = np.random.default_rng(seed)
    one, two = rng.random((3, 5)), rng.random((3, 5))
    np.testing.assert_allclose(z_mean([one, factor * two + shift]), z_mean([one, two]), atol=1e-6)


@pytest.mark.parametrize("method", sorted(FUSIONS))
def test_the_source_is_the_function_without_own_videos(method: str) -> None:
    holed = [A.copy(), B.copy()]
    for matrix in holed:
        matrix[1, 2] = np.nan  # query b is video z
    expected = np.nan_to_num(FUSIONS[method](holed))
    swapped = [3, 0, 2, 1]
    fused = FusedScores(files(A, B[:, swapped], videos=[VIDEOS, [VIDEOS[at] for at in swapped]]), method)
    matrix = fused.score(PART, fused.modes)["scores"]
    assert (matrix.queries, matrix.database) == (QUERIES, VIDEOS)
    np.testing.assert_allclose(matrix.scores, expected)
    assert matrix.scores.dtype == np.float64
    assert fused.label == f"fusion: {method}"


def test_other_galleries_are_refused_or_cut_to_what_is_common() -> None:
    fused = FusedScores(files(A[:, :3], B[:, 1:], videos=[VIDEOS[:3], VIDEOS[1:]]), "mean")
    with pytest.raises(DataError, match=r"f0.npz lacks scores .*\n1 database videos without a column: w"):
        evaluate_scores(fused, BENCHMARK)
    results = evaluate_scores(fused, BENCHMARK, Protocol(on_missing="official"))
    counts: Any = results.rows[0]["counts"]
    assert (counts["database"], counts["missing_database"]) == (2, 2)
    assert results.metrics("scores")["mAP"] == pytest.approx((0 + 1) / 2)  # x of a is gone, y of b stands first


@pytest.mark.parametrize("method", sorted(FUSIONS))
def test_a_task_is_fused_by_itself(method: str) -> None:
    """A task without the easy videos gets the same numbers whether the full task is evaluated beside it or not."""
    hard = replace(
        PART, name="hard", database=VIDEOS[1:], judgements=(Judgement("a", {"w": "match"}), *PART.judgements[1:])
    )
    rng = np.random.default_rng(3)
    fused = FusedScores(files(rng.random((2, 4)), rng.random((2, 4)) ** 3), method)
    seen: list[Any] = []
    for partitions in ((hard,), (PART, hard)):
        results = evaluate_scores(fused, Benchmark("fivr_5k", partitions), Protocol(keep_scores=True))
        seen.append(results.kept[-1].judged.scores)
    np.testing.assert_array_equal(*seen)
    np.testing.assert_array_equal(seen[0], fused.score(hard, fused.modes)["scores"].scores)


def test_a_partition_that_one_file_lacks_is_left_out_as_official_missing() -> None:
    more = Partition("more", (Query("c", "more", "more/t"),), (Judgement("c", {"x": "match"}),), VIDEOS)
    one = ScoreBlock(("a", "b", "c"), VIDEOS, np.vstack([A, A[:1]]))
    whole = FileScores(ScoreFile(Path("whole.npz"), "scores", {"": one}))
    fused = FusedScores([whole, *files(B)], "z_mean")
    both = Benchmark("table", (PART, more))
    results = evaluate_scores(fused, both, Protocol(on_missing="official"))
    assert [row["partition"] for row in results.rows] == ["p", "mean"]
    assert results.metrics("scores") == evaluate_scores(FusedScores(files(A, B), "z_mean"), BENCHMARK).metrics("scores")
    with pytest.raises(DataError, match=r"f0.npz: no query of partition more"):
        evaluate_scores(fused, both)


def test_nothing_in_common() -> None:
    fused = FusedScores(files(A[:, :2], B[:, 2:], videos=[VIDEOS[:2], VIDEOS[2:]]), "mean")
    with pytest.raises(DataError, match="no database video of partition p in common"):
        fused.score(PART, fused.modes)


def test_modes_of_both_files_name_the_row() -> None:
    pair = files(A, B)
    modes = [FileScores(ScoreFile(one.file.path, mode, one.file.blocks)) for one, mode in zip(pair, "vt", strict=True)]
    assert FusedScores(modes, "mean").modes == ("v+t",)


@pytest.mark.parametrize(("number", "method"), [(1, "mean"), (2, "median")])
def test_what_cannot_be_fused(number: int, method: str) -> None:
    with pytest.raises(ConfigError, match="mean, z_mean, reciprocal_rank"):
        FusedScores(files(A, B)[:number], method)
