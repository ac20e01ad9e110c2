"""Scores behind calibration steps: equal to plain twins, whatever the blocks and the order; saved and loaded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from muvr_train.errors import ConfigError, DataError
from muvr_train.evaluation import Protocol, evaluate_scores
from muvr_train.features.store import FeatureStore
from muvr_train.features.writer import StoreWriter
from muvr_train.models.frame_max import FrameMax
from muvr_train.models.fusion.mean import MeanFusion
from muvr_train.models.retriever import Retriever
from muvr_train.models.s2vs import S2VS
from muvr_train.search.calibration import pipeline
from muvr_train.search.calibration.base import CalibrationStep
from muvr_train.search.calibration.centring import Centring
from muvr_train.search.calibration.fitting import Sample, fit
from muvr_train.search.calibration.pca_whitening import PcaWhitening
from muvr_train.search.calibration.pipeline import CalibratedScores, Calibration
from muvr_train.search.calibration.product import Harris
from muvr_train.search.calibration.query_expansion import QueryExpansion
from muvr_train.search.calibration.saving import FILE, model_digest, read_facts, read_state, save_state
from muvr_train.search.calibration.score_norm import ScoreNorm
from muvr_train.search.calibration.z_fusion import ZFusion
from muvr_train.search.sources import ModelScores
from tests.search.calibration_worlds import World, fitted, frame_max, unit

DIM = 8
MODES = ("v", "t", "tv")


def all_steps() -> dict[str, CalibrationStep]:
    return {
        "centring": Centring(),
        "pca_whitening": PcaWhitening(),
        "query_expansion": QueryExpansion(k=2),
        "score_norm": ScoreNorm(k=3, videos=9),
        "z_fusion": ZFusion(),
    }


def random_world(frames: int = 3, seed: int = 0) -> World:
    rng = np.random.default_rng(seed)
    world = World()
    for i in range(12):
        world.videos[f"n{i}"] = rng.standard_normal((rng.integers(1, frames + 1), DIM)) + 1
        world.videos[f"train/{i}"] = rng.standard_normal((rng.integers(1, frames + 1), DIM)) + 1
    for name in ("q0", "q1", "q2", "train/0", "train/1"):
        world.videos[name] = rng.standard_normal((rng.integers(1, frames + 1), DIM)) + 1
        world.positives[name] = ["n0", "n1"]
        if name != "q1":
            world.texts[name] = rng.standard_normal(DIM) - 1
    return world


@pytest.fixture(scope="module")
def world() -> World:
    return random_world()


@pytest.fixture(scope="module")
def store(world: World, tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    return world.write(tmp_path_factory.mktemp("world") / "store")


def scores_of(source: CalibratedScores, world: World, modes: tuple[str, ...] = MODES) -> dict[str, np.ndarray]:
    found = source.score(world.benchmark.partitions[0], modes)
    return {mode: matrix.scores for mode, matrix in found.items()}


def test_no_step_is_the_raw_score(world: World, store: FeatureStore) -> None:
    partition = world.benchmark.partitions[0]
    raw = ModelScores(frame_max(store), store).score(partition, MODES)
    after = CalibratedScores(ModelScores(frame_max(store), store), Calibration({})).score(partition, MODES)
    for mode in MODES:
        assert after[mode].queries == raw[mode].queries
        assert after[mode].scores.dtype == np.float32
        np.testing.assert_array_equal(after[mode].scores, raw[mode].scores)


def test_whitening_is_that_of_a_whitened_network(world: World, store: FeatureStore) -> None:
    dims = store.dims
    network = FrameMax(dims.dim, dims.regions, whiten=5)
    network.fit([store.tokens(world.sample(store).videos)])
    whitened = Retriever(network, MeanFusion(dims), dims)
    expected = ModelScores(whitened, store).score(world.benchmark.partitions[0], MODES)
    found = scores_of(fitted(world, store, {"pca_whitening": PcaWhitening(components=5)}), world)
    for mode in MODES:
        np.testing.assert_allclose(found[mode], expected[mode].scores, atol=1e-5)


def test_centring_is_that_of_plain_numpy(world: World, store: FeatureStore) -> None:
    def normal(x: np.ndarray) -> np.ndarray:
        return x / np.linalg.norm(x, axis=-1, keepdims=True)

    frames = {name: normal(np.atleast_2d(x)) for name, x in world.videos.items()}
    mean = np.concatenate([x for name, x in frames.items() if name.startswith("train/")]).mean(axis=0)
    text_mean = np.mean([normal(x) for name, x in world.texts.items() if name.startswith("train/")], axis=0)
    database = world.benchmark.partitions[0].database
    targets = [normal(frames[name] - mean) for name in database]
    video = [[(normal(frames[q] - mean) @ x.T).max() for x in targets] for q in ("q0", "q1", "q2")]
    text = [[(normal(normal(world.texts[q]) - text_mean) @ x.T).max() for x in targets] for q in ("q0", "q2")]
    found = scores_of(fitted(world, store, {"centring": Centring()}), world)
    np.testing.assert_allclose(found["v"], video, atol=1e-5)
    np.testing.assert_allclose(found["t"], text, atol=1e-5)
    np.testing.assert_allclose(found["tv"][[0, 2]], (np.array(video)[[0, 2]] + text) / 2, atol=1e-5)
    np.testing.assert_allclose(found["tv"][1], video[1], atol=1e-5)


def test_expansion_of_single_vectors_is_the_classic_average(tmp_path: Path) -> None:
    world = random_world(frames=1)
    store = world.write(tmp_path / "s")
    partition = world.benchmark.partitions[0]
    found = scores_of(fitted(world, store, {"qe": QueryExpansion(k=2, alpha=3)}), world, ("v",))["v"]
    vectors = np.stack([unit(world.videos[name][0]) for name in partition.database])
    for row, query in enumerate(partition.query_ids):
        asked = unit(world.videos[query][0])
        scores = vectors @ asked
        first = np.argsort(-scores)[:2]
        weights = np.clip(scores[first], 0, 1) ** 3
        mean = (asked + weights @ vectors[first]) / (1 + weights.sum())
        np.testing.assert_allclose(found[row], vectors @ mean, atol=1e-6)


def test_the_chain_equals_its_parts_one_after_the_other(world: World, store: FeatureStore) -> None:
    """score_norm, then z_fusion: by hand from raw matrices."""
    steps = {"score_norm": ScoreNorm(k=3, videos=99), "z_fusion": ZFusion()}
    source = fitted(world, store, steps)
    raw, sample = ModelScores(frame_max(store), store), world.sample(store)
    partition = world.benchmark.partitions[0]

    def normed(queries: tuple, database: tuple[str, ...], mode: str) -> np.ndarray:  # type: ignore[type-arg]
        def score(columns: tuple[str, ...]) -> np.ndarray:
            part = replace(partition, queries=queries, database=columns)
            return raw.score(part, [mode])[mode].scores.astype(np.float64)

        background = score(sample.videos)
        background[[[q.id == v for v in sample.videos] for q in queries]] = -np.inf
        return score(database) - np.sort(background, axis=1)[:, -3:].mean(axis=1)[:, None]

    expected = []
    for mode in ("v", "t"):
        training = normed(sample.queries, sample.videos, mode)
        kept = training[[[q.id != v for v in sample.videos] for q in sample.queries]]
        rows = tuple(q for q in partition.queries if mode == "v" or q.id in world.texts)
        expected.append((normed(rows, partition.database, mode) - kept.mean()) / kept.std())
    found = scores_of(source, world, ("tv",))["tv"]
    np.testing.assert_allclose(found[[0, 2]], (expected[0][[0, 2]] + expected[1]) / 2, atol=1e-5)
    np.testing.assert_allclose(found[1], expected[0][1], atol=1e-5)


@pytest.mark.parametrize("fusion", [{}, {"z_fusion": ZFusion()}, {"harris": Harris()}])
def test_blocks_and_order_change_nothing(
    world: World, store: FeatureStore, fusion: dict[str, CalibrationStep], monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = {**{k: v for k, v in all_steps().items() if k != "z_fusion"}, **fusion}
    source = fitted(world, store, steps)
    partition = world.benchmark.partitions[0]
    expected = source.score(partition, MODES)
    shuffled = replace(partition, database=partition.database[::-1], queries=partition.queries[::-1])
    for mode, matrix in source.score(shuffled, MODES).items():
        again = matrix.take(expected[mode].queries, expected[mode].database)
        np.testing.assert_allclose(again.scores, expected[mode].scores, atol=1e-6)
    monkeypatch.setattr(pipeline, "BACKGROUND_BLOCK", 2)
    steps["query_expansion"].chunk = 1  # type: ignore[attr-defined]
    small = CalibratedScores(ModelScores(frame_max(store), store, memory_budget=20_000), source.calibration)
    for mode, matrix in small.score(partition, MODES).items():
        np.testing.assert_allclose(matrix.scores, expected[mode].scores, atol=1e-6)


def test_what_looks_at_the_gallery_is_done_for_every_task_by_itself(world: World, store: FeatureStore) -> None:
    """Expansion by what a query finds first: a task without the easy videos must not see them."""
    whole = world.benchmark.partitions[0]
    hard = replace(whole, name="hard", database=whole.database[2:])
    tasks = replace(world.benchmark, partitions=(whole, hard))
    protocol = Protocol(modes=("v",), keep_scores=True, on_missing="official")
    expanded = fitted(world, store, {"query_expansion": QueryExpansion(k=2)})
    plain = fitted(world, store, {"z_fusion": ZFusion(), "score_norm": ScoreNorm(k=3, videos=9)})
    assert (expanded.pairwise, plain.pairwise) == (False, True)
    for source in (expanded, plain):
        kept = evaluate_scores(source, tasks, protocol).kept[-1].judged
        np.testing.assert_allclose(kept.scores, source.score(hard, ("v",))["v"].scores, atol=1e-6)


def test_expansion_after_a_fusion_asks_by_video_alone(world: World, store: FeatureStore) -> None:
    """[z_fusion, expansion]: found videos have z-scores of the video part, as a query without a text has."""
    source = fitted(world, store, {"z_fusion": ZFusion(), "qe": QueryExpansion(k=1, alpha=0)})
    z_only = CalibratedScores(source.source, source.calibration, 1)
    partition = world.benchmark.partitions[0]
    before = z_only.score(partition, ("tv",))["tv"].scores.astype(np.float64)
    raw = source.source
    shift, scale = source.calibration.steps["z_fusion"].state["video"].tolist()
    after = scores_of(source, world, ("tv",))["tv"]
    for row in range(3):
        found = partition.database[int(before[row].argmax())]
        asked = replace(partition, queries=(replace(partition.queries[0], id=found),))
        again = (raw.score(asked, ("v",))["v"].scores[0] - shift) / scale
        np.testing.assert_allclose(after[row], (before[row] + again) / 2, atol=1e-5)


def test_saved_state_gives_equal_scores(world: World, store: FeatureStore, tmp_path: Path) -> None:
    source = fitted(world, store, all_steps())
    state = source.calibration.state()
    assert all(isinstance(value, torch.Tensor) for value in state.values())
    save_state(tmp_path / FILE, state, {"steps": ["ü"]})
    assert read_facts(tmp_path / FILE) == {"steps": ["ü"]}
    calibration = Calibration(all_steps())
    calibration.load(read_state(tmp_path / FILE))
    again = CalibratedScores(ModelScores(frame_max(store), store), calibration)
    for mode, scores in scores_of(again, world).items():
        np.testing.assert_array_equal(scores, scores_of(source, world)[mode])


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / FILE
    path.write_bytes(b"nonsense")
    with pytest.raises(DataError, match="no saved calibration"):
        read_facts(path)
    save_state(path, {}, {})
    assert read_state(path) == {}


def test_models_have_digests_of_their_own(store: FeatureStore) -> None:
    dims = store.dims
    same = [model_digest(frame_max(store)) for _ in range(2)]
    assert same[0] == same[1]
    torch.manual_seed(0)
    network = S2VS(dims.dim, dims.regions)
    digests = {model_digest(Retriever(network, MeanFusion(dims), dims)), same[0]}
    with torch.no_grad():
        next(iter(network.parameters())).add_(1)
    assert len({*digests, model_digest(Retriever(network, MeanFusion(dims), dims))}) == 3


def test_fitting_needs_training_videos_and_queries(world: World, store: FeatureStore) -> None:
    model, nothing = frame_max(store), Sample(store, (), ())
    with pytest.raises(DataError, match="no training video"):
        fit(Calibration(all_steps()), model, nothing, nothing)
    videos_only = Sample(store, world.sample(store).videos, ())
    with pytest.raises(DataError, match="0 training scores of the part video"):
        fit(Calibration({"z_fusion": ZFusion()}), model, videos_only, videos_only)
    one = Sample(store, ("train/5",), ())
    calibration = Calibration({"score_norm": ScoreNorm()})
    fit(calibration, model, one, one)
    assert calibration.background is not None
    assert calibration.background.ids == ("train/5",)


def test_a_network_with_weights_gets_its_input_as_it_is(world: World, store: FeatureStore) -> None:
    dims = store.dims
    torch.manual_seed(0)
    model = Retriever(S2VS(dims.dim, dims.regions), MeanFusion(dims), dims)
    with pytest.raises(ConfigError, match="calibration=pca_whitening changes what the network compares"):
        Calibration({"pca_whitening": PcaWhitening()}).changed_modes(model.network)
    calibration = Calibration({"centring": Centring()})
    assert calibration.changed_modes(model.network) == ("t", "tv")
    assert calibration.changed_modes(frame_max(store).network) == MODES
    fit(calibration, model, world.sample(store), world.sample(store))
    partition = world.benchmark.partitions[0]
    raw = ModelScores(model, store).score(partition, MODES)
    after = CalibratedScores(ModelScores(model, store), calibration).score(partition, MODES)
    np.testing.assert_array_equal(after["v"].scores, raw["v"].scores)
    assert np.abs(after["t"].scores - raw["t"].scores).max() > 0.01


def test_only_fusions_leave_v_and_t_alone(world: World, store: FeatureStore) -> None:
    assert Calibration({"z": ZFusion()}).changed_modes(frame_max(store).network) == ("tv",)
    assert Calibration({"qe": QueryExpansion()}).changed_modes(frame_max(store).network) == ("v", "tv")
    assert Calibration({"sn": ScoreNorm()}).changed_modes(frame_max(store).network) == MODES
    raw = ModelScores(frame_max(store), store).score(world.benchmark.partitions[0], MODES)
    found = scores_of(fitted(world, store, {"z": ZFusion()}), world)
    np.testing.assert_array_equal(found["v"], raw["v"].scores)
    np.testing.assert_array_equal(found["t"], raw["t"].scores)


def test_a_partition_without_texts_is_fused_by_video(world: World, store: FeatureStore) -> None:
    source = fitted(world, store, {"z": ZFusion()})
    partition = world.benchmark.partitions[0]
    mute = replace(partition, queries=(partition.queries[1],), judgements=(partition.judgements[1],))
    whole = source.score(partition, ("tv",))["tv"].scores
    np.testing.assert_allclose(source.score(mute, ("tv",))["tv"].scores[0], whole[1], atol=1e-6)
    for steps in (all_steps(), {"harris": Harris(), "qe": QueryExpansion(k=1), "sn": ScoreNorm(k=2, videos=5)}):
        scored = fitted(world, store, steps).score(mute, MODES)
        shapes = [scored[mode].scores.shape for mode in MODES]
        assert shapes == [(1, 12), (0, 12), (1, 12)]


def test_a_store_with_a_second_grid_calibrates_what_texts_look_at(tmp_path: Path) -> None:
    """The stream "fine" has a mean, a size and background tokens of its own."""
    world, rng = random_world(), np.random.default_rng(5)
    with StoreWriter(tmp_path / "s", {"encoder": "numbers", "text_aligned": True}, dtype="float16") as writer:
        for name, vectors in world.videos.items():
            writer.add(name, np.atleast_2d(vectors)[:, None].astype(np.float16))
            writer.add(name, rng.standard_normal((len(vectors), 2, 4)).astype(np.float16), stream="fine")
        for name in world.texts:
            writer.add(name, rng.standard_normal((1, 1, 4)).astype(np.float16), stream="text")
    store = FeatureStore(tmp_path / "s")
    source = fitted(world, store, {"centring": Centring(), "score_norm": ScoreNorm(k=2, videos=5)})
    state = source.calibration.state()
    sizes = {name: len(state[f"centring/{name}"]) for name in ("video", "frames", "text")}
    assert sizes == {"video": DIM, "frames": 4, "text": 4}
    assert state["/fine"].dtype == state["/video"].dtype == torch.float16, "half precision loses nothing here"
    before = scores_of(source, world)
    source.calibration.load(state)
    for mode, scores in scores_of(source, world).items():
        np.testing.assert_array_equal(scores, before[mode])


def test_steps_of_ones_own_are_checked(world: World, store: FeatureStore) -> None:
    class Shorter(CalibrationStep):
        kind = "features"

        def features(self, x: torch.Tensor, part: str) -> torch.Tensor:
            return x[..., :2]

    class Odd(CalibrationStep):
        kind = "feature"  # type: ignore[assignment]

    class Idle(CalibrationStep):
        pass

    with pytest.raises(ConfigError, match=r"Shorter turned video features of shape .* must keep the shape"):
        scores_of(fitted(world, store, {"shorter": Shorter()}), world)
    with pytest.raises(ConfigError, match="kind='feature' is none of"):
        Calibration({"odd": Odd()})
    with pytest.raises(ConfigError, match=r"calibration.idle: Idle is of kind scores but has no method scores\(\)"):
        Calibration({"idle": Idle()})
