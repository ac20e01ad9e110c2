"""Calibration steps against numbers worked by hand and plain twins; edges of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from muvr_train.errors import ConfigError, DataError
from muvr_train.search.calibration.base import CalibrationStep, Floats, Rows
from muvr_train.search.calibration.centring import Centring
from muvr_train.search.calibration.order import OWN_STEPS, check_order
from muvr_train.search.calibration.pca_whitening import PcaWhitening
from muvr_train.search.calibration.pipeline import Calibration
from muvr_train.search.calibration.product import Harris, Product
from muvr_train.search.calibration.query_expansion import QueryExpansion
from muvr_train.search.calibration.score_norm import ScoreNorm
from muvr_train.search.calibration.z_fusion import ZFusion


class Context:
    """Vectors and scores to fit on, given outright."""

    def __init__(self, vectors: Mapping[str, list[list[float]]], scores: Mapping[str, list[float]]) -> None:
        self.given, self.found = vectors, {part: np.array(values) for part, values in scores.items()}

    def vectors(self, part: str) -> Iterator[Tensor]:
        for row in self.given.get(part, []):
            yield torch.tensor([row])

    def scores(self) -> Mapping[str, Floats]:
        return self.found


def rows_of(scores: list[list[float]], background: list[list[float]], ids: Sequence[str] = ("b0", "b1", "b2")) -> Rows:
    def nobody(ids: Sequence[str]) -> Rows:
        raise AssertionError(ids)

    names = tuple(f"q{i}" for i in range(len(scores)))
    columns = tuple(f"n{i}" for i in range(len(scores[0])))
    return Rows(names, names, columns, np.array(scores), np.array(background), tuple(ids), nobody)


def test_centring_subtracts_each_parts_own_mean() -> None:
    step = Centring()
    step.fit(Context({"video": [[1.0, 0], [0, 1.0]], "frames": [[0.6, 0.8]], "text": [[0, 1.0]]}, {}))
    assert {part: mean.tolist() for part, mean in step.state.items()} == {
        "video": [0.5, 0.5],
        "frames": pytest.approx([0.6, 0.8]),
        "text": [0, 1],
    }
    x = torch.tensor([[1.0, 0.0]])
    torch.testing.assert_close(step.features(x, "video"), torch.tensor([[0.5**0.5, -(0.5**0.5)]]))
    torch.testing.assert_close(step.features(x, "text"), torch.tensor([[0.5**0.5, -(0.5**0.5)]]))
    assert step.features(torch.tensor([[0.6, 0.8]]), "frames").tolist() == [[0, 0]], "the mean itself is like nothing"


def test_centring_without_texts_leaves_texts_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    step = Centring()
    step.fit(Context({"video": [[1.0, 0]], "frames": [[1.0, 0]]}, {}))
    assert "texts are not centred" in caplog.text
    assert step.features(torch.tensor([[1.0, 0.0]]), "text").tolist() == [[1, 0]]
    with pytest.raises(DataError, match="no training frame"):
        Centring().fit(Context({}, {}))
    with pytest.raises(DataError, match="not finite"):
        Centring().fit(Context({"video": [[float("nan"), 0]]}, {}))


def test_whitening_keeps_the_size_and_leaves_texts_alone() -> None:
    generator = torch.Generator().manual_seed(0)
    vectors = torch.nn.functional.normalize(torch.randn(50, 6, generator=generator), dim=-1)
    step = PcaWhitening(components=2)
    step.fit(Context({"video": vectors.tolist()}, {}))
    white = step.features(vectors, "video")
    assert white.shape == (50, 6)
    assert not white[:, 2:].any()
    torch.testing.assert_close(white.norm(dim=-1), torch.ones(50))
    assert step.features(vectors, "text") is vectors
    assert step.features(vectors, "frames") is vectors


@pytest.mark.parametrize(
    ("vectors", "message"),
    [([], "no training frame"), ([[1.0, 0]], "at least 2"), ([[1.0, 0], [1.0, 0]], "all training frames are equal")],
)
def test_whitening_refuses_what_has_no_variance(vectors: list[list[float]], message: str) -> None:
    with pytest.raises(DataError, match=message):
        PcaWhitening().fit(Context({"video": vectors}, {}))


def test_score_norm_by_hand() -> None:
    rows = rows_of([[1.0, 0.5]], [[0.9, 0.1, 0.5]])
    normed = ScoreNorm(k=2, weight=0.5).scores(rows)
    np.testing.assert_allclose(normed.scores, [[0.65, 0.15]])
    np.testing.assert_allclose(normed.background, [[0.55, -0.25, 0.15]])


def test_score_norm_with_a_small_background() -> None:
    rows = rows_of([[1.0, 0.5]], [[0.9, 0.1, 0.5]])
    np.testing.assert_allclose(ScoreNorm(k=99).scores(rows).scores, [[0.5, 0.0]])
    single = rows_of([[1.0, 0.5]], [[0.9]], ["b0"])
    np.testing.assert_allclose(ScoreNorm(k=10).scores(single).scores, [[0.1, -0.4]])


def test_score_norm_leaves_the_querys_own_video_out_of_the_background() -> None:
    rows = rows_of([[1.0, 0.5]], [[1.0, 0.1, 0.5]], ["q0", "b1", "b2"])
    np.testing.assert_allclose(ScoreNorm(k=1).scores(rows).scores, [[0.5, 0.0]])
    with pytest.raises(DataError, match="no other video than the query q0's own"):
        ScoreNorm().scores(rows_of([[1.0]], [[1.0]], ["q0"]))


def test_z_fusion_by_hand() -> None:
    step = ZFusion()
    step.fit(Context({}, {"video": [0.0, 1.0], "text": [0.1, 0.3]}))
    both = {"video": np.array([[1.0, 0.5]]), "text": np.array([[0.2, 0.4]])}
    np.testing.assert_allclose(step.fuse(both), [[0.5, 1.0]])
    np.testing.assert_allclose(step.fuse({"video": both["video"]}), [[1.0, 0.0]])


def test_product_and_harris_by_hand() -> None:
    found = {"video": [0.0, 1.0], "text": [-0.2, 0.0]}  # lows 0 and -0.2, means 0.5 and -0.1
    both = {"video": np.array([[1.0, 0.25, -1.0]]), "text": np.array([[0.0, 0.2, 0.2]])}
    product, harris = Product(), Harris(weight=0.1)
    product.fit(Context({}, found))
    harris.fit(Context({}, found))
    # s_v' = 2, 0.5, 0 (below the low) and s_t' = 2, 4, 4
    np.testing.assert_allclose(product.fuse(both), [[4, 2, 0]])
    np.testing.assert_allclose(harris.fuse(both), [[4, 2 - 0.1 * 3.5**2, -0.1 * 16]])
    np.testing.assert_allclose(product.fuse({"video": both["video"]}), [[4, 0.25, 0]])
    np.testing.assert_allclose(harris.fuse({"video": both["video"]}), [[4, 0.25, 0]])


def test_harris_orders_as_the_corner_measure() -> None:
    """s t - c (s + t)^2 = (1 - 4 c) (s t - c / (1 - 4 c) (s - t)^2)."""
    video, text = np.random.default_rng(0).uniform(0, 3, (2, 1, 50))
    ours = Harris(weight=1 / 6)
    ours.state = {part: torch.tensor([0.0, 1.0]) for part in ("video", "text")}
    corner = video * text - 0.1 * (video + text) ** 2
    np.testing.assert_allclose(0.6 * ours.fuse({"video": video, "text": text}), corner)


@pytest.mark.parametrize("step", [ZFusion(), Product(), Harris()])
@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ({"video": [0.1, 0.2]}, "0 training scores of the part text"),
        ({"video": [0.1], "text": [0.1, 0.2]}, "1 training scores of the part video"),
        ({"video": [0.3] * 7, "text": [0.1, 0.2]}, "part video are all equal"),
        ({"video": [0.1, float("nan")], "text": [0.1, 0.2]}, "not finite"),
    ],
)
def test_fusions_refuse_what_gives_no_scale(step: ZFusion, scores: dict[str, list[float]], message: str) -> None:
    with pytest.raises(DataError, match=message):
        step.fit(Context({}, scores))


def expand(step: QueryExpansion, scores: list[list[float]], between: list[list[float]], own: Sequence[str]) -> Floats:
    rows = rows_of(scores, [[0.0]] * len(scores), ["b0"])
    asked: list[str] = []

    def ask(ids: Sequence[str]) -> Rows:
        asked.extend(ids)
        places = [rows.database.index(name) for name in ids]
        return replace(rows, queries=tuple(ids), scores=np.array(between)[places], background=np.zeros((len(ids), 1)))

    expanded = step.scores(replace(rows, own=tuple(own), as_queries=ask))
    assert len(set(asked)) == len(asked), "every found video is scored once"
    return expanded.scores


def test_query_expansion_by_hand() -> None:
    between = [[1.0, 0.8, 0.1], [0.8, 1.0, 0.2], [0.1, 0.2, 1.0]]
    plain = expand(QueryExpansion(k=1, alpha=0), [[0.9, 0.5, 0.4]], between, ["q0"])
    np.testing.assert_allclose(plain, [[(0.9 + 1) / 2, (0.5 + 0.8) / 2, (0.4 + 0.1) / 2]])
    weighted = expand(QueryExpansion(k=2, alpha=2), [[0.9, 0.5, 0.4]], between, ["q0"])
    np.testing.assert_allclose(weighted[0, 2], (0.4 + 0.81 * 0.1 + 0.25 * 0.2) / (1 + 0.81 + 0.25))
    negative = expand(QueryExpansion(k=3, alpha=1), [[-0.9, -0.5, -0.4]], between, ["q0"])
    np.testing.assert_allclose(negative, [[-0.9, -0.5, -0.4]])


def test_query_expansion_never_asks_the_queries_own_video() -> None:
    between = [[1.0, 0.8], [0.8, 1.0]]
    expanded = expand(QueryExpansion(k=5, alpha=0), [[1.0, 0.5]], between, ["n0"])
    np.testing.assert_allclose(expanded, [[(1 + 0.8) / 2, (0.5 + 1) / 2]])
    np.testing.assert_allclose(expand(QueryExpansion(), [[1.0]], [[1.0]], ["n0"]), [[1.0]])


def test_ties_at_the_kth_place_are_settled_by_id() -> None:
    between = np.eye(4).tolist()
    expanded = expand(QueryExpansion(k=2, alpha=0), [[0.5, 0.9, 0.5, 0.5]], between, ["q0"])
    np.testing.assert_allclose(expanded, [[1.5 / 3, 1.9 / 3, 0.5 / 3, 0.5 / 3]])


@pytest.mark.parametrize(
    ("kinds", "modes", "message"),
    [
        ({"score_norm": "scores", "centring": "features"}, None, "centring changes features and cannot come after"),
        ({"z_fusion": "fusion", "own": None, "pca": "features"}, None, "cannot come after z_fusion"),
        ({"z_fusion": "fusion", "harris": "fusion"}, None, "z_fusion and harris both fuse"),
        ({"product": "fusion"}, ("v",), "acts on mode tv only, but the modes are v"),
    ],
)
def test_impossible_orders(kinds: dict[str, object], modes: tuple[str, ...] | None, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_order(kinds, modes)  # type: ignore[arg-type]


def test_possible_orders() -> None:
    check_order({"centring": "features", "pca": "features", "score_norm": "scores", "harris": "fusion"}, ("v", "tv"))
    check_order({"mine": None, "centring": "features", "z_fusion": "fusion", "norm": "scores", "qe": "scores"}, None)
    with pytest.raises(ConfigError, match="both fuse"):
        Calibration({"a": Product(), "b": ZFusion()})


def test_the_table_of_own_steps_is_what_the_classes_say() -> None:
    import importlib

    for path, kind in OWN_STEPS.items():
        module, _, name = path.rpartition(".")
        step = getattr(importlib.import_module(module), name)
        assert issubclass(step, CalibrationStep)
        assert step.kind == kind


@pytest.mark.parametrize(
    "build",
    [
        lambda: ScoreNorm(k=0),
        lambda: ScoreNorm(videos=0),
        lambda: QueryExpansion(k=0),
        lambda: QueryExpansion(alpha=-1),
        lambda: QueryExpansion(alpha=float("nan")),
        lambda: PcaWhitening(components=0),
        lambda: PcaWhitening(regularization=-1),
        lambda: Harris(weight=-1),
    ],
)
def test_impossible_settings(build: object) -> None:
    with pytest.raises(ConfigError, match="must be"):
        build()  # type: ignore[operator]


def test_a_step_of_ones_own_starts_with_hooks_that_do_nothing(tmp_path: Path) -> None:
    step = CalibrationStep()
    step.fit(Context({}, {}))
    x, rows = torch.ones(1, 2), rows_of([[1.0]], [[1.0, 2, 3]])
    assert step.state == {}
    assert step.features(x, "video") is x
    assert step.scores(rows) is rows
    with pytest.raises(NotImplementedError, match="must override fuse"):
        step.fuse({"video": np.ones((1, 1))})
