"""Each step in a small world with the very fault that it mends: there it must help clearly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from muvr_train.search.calibration.centring import Centring
from muvr_train.search.calibration.pca_whitening import PcaWhitening
from muvr_train.search.calibration.product import Harris, Product
from muvr_train.search.calibration.query_expansion import QueryExpansion
from muvr_train.search.calibration.score_norm import ScoreNorm
from muvr_train.search.calibration.z_fusion import ZFusion
from tests.search.calibration_worlds import World, raw_and_calibrated, unit

DIM, TOPICS = 32, 8


def topics_with(rng: np.random.Generator, spoil: object, noise: float = 0.7) -> World:
    """Topics of a query and five matches, and as many training videos without topic; `spoil` alters each vector."""
    world = World()
    for topic in range(TOPICS):
        centre = rng.standard_normal(DIM)
        world.positives[f"q{topic}"] = [f"t{topic}m{i}" for i in range(5)]
        for name in [f"q{topic}", *world.positives[f"q{topic}"]]:
            world.videos[name] = spoil(centre + noise * rng.standard_normal(DIM))  # type: ignore[operator]
    for i in range(200):
        world.videos[f"train/{i}"] = spoil(rng.standard_normal(DIM) * 1.2)  # type: ignore[operator]
    return world


def test_centring_removes_a_direction_that_all_frames_share(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    shared = 25 * unit(rng.standard_normal(DIM))
    world = topics_with(rng, lambda x: rng.uniform(0.2, 1.0) * shared + x, noise=1.0)
    raw, centred = raw_and_calibrated(world, tmp_path / "s", {"centring": Centring()}, "v")
    assert centred["mAP"] > raw["mAP"] + 0.15


def test_whitening_tames_a_few_loud_directions(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    loud = np.linalg.qr(rng.standard_normal((DIM, 3)))[0]
    world = topics_with(rng, lambda x: x + loud @ (12 * rng.standard_normal(3)))
    raw, white = raw_and_calibrated(world, tmp_path / "s", {"pca_whitening": PcaWhitening()}, "v")
    assert white["mAP"] > raw["mAP"] + 0.3


def test_score_norm_takes_the_head_start_from_hubs(tmp_path: Path) -> None:
    """All videos share a direction; half of the queries point there, so that all of their scores are high."""
    rng = np.random.default_rng(2)
    world = topics_with(rng, lambda x: x, noise=0.9)
    hub = unit(rng.standard_normal(DIM))
    for name in world.videos:
        world.videos[name] = world.videos[name] + {"q": 12 * (name < "q4"), "t": 6}[name[0]] * hub
    raw, normed = raw_and_calibrated(world, tmp_path / "s", {"score_norm": ScoreNorm(k=10)}, "v")
    assert normed["uAP"] > raw["uAP"] + 0.1
    assert normed["mAP"] == pytest.approx(raw["mAP"], abs=1e-9), "the order within a query stays"


def pair_world(rng: np.random.Generator, of_video: object, of_text: object) -> World:
    """Frames a e_v + b e_t + rest, so that v = a and t = b; `of_*` draw a and b of matches (True) and others."""
    world = World()
    basis = np.eye(DIM)

    def frame(video: float, text: float) -> np.ndarray:
        rest = np.concatenate([np.zeros(2), rng.standard_normal(DIM - 2)])
        return video * basis[0] + text * basis[1] + np.sqrt(max(0.0, 1 - video**2 - text**2)) * unit(rest)

    for name in ("q", "train/q"):
        world.videos[name], world.texts[name] = basis[0], basis[1]
    for i in range(60):
        world.videos[f"v{i}"] = frame(of_video(i < 10), of_text(i < 10))  # type: ignore[operator]
        world.videos[f"train/{i}"] = frame(of_video(i < 10), of_text(i < 10))  # type: ignore[operator]
    world.positives["q"], world.positives["train/q"] = [f"v{i}" for i in range(10)], []
    return world


def test_z_fusion_hears_a_part_whose_scores_spread_little(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    world = pair_world(
        rng,
        lambda match: rng.uniform(0.1, 0.8) + 0.05 * match,
        lambda match: 0.2 + 0.02 * rng.standard_normal() + 0.06 * match,
    )
    raw, fused = raw_and_calibrated(world, tmp_path / "s", {"z_fusion": ZFusion()}, "tv")
    assert fused["mAP"] > raw["mAP"] + 0.2


@pytest.mark.parametrize("step", [Product(), Harris()], ids=["product", "harris"])
def test_product_asks_for_both_parts(tmp_path: Path, step: Product) -> None:
    """Matches have some of both parts; others have much of one and nothing of the other."""
    rng = np.random.default_rng(4)
    sides = iter(rng.integers(0, 2, size=1000))
    side: list[int] = [0]

    def of_video(match: bool) -> float:
        side[0] = int(next(sides))
        return float(rng.uniform(0.4, 0.6) if match else (rng.uniform(0.85, 0.95) if side[0] else rng.uniform(0, 0.3)))

    def of_text(match: bool) -> float:
        return float(rng.uniform(0.4, 0.6) if match else (rng.uniform(0, 0.3) if side[0] else rng.uniform(0.85, 0.95)))

    raw, fused = raw_and_calibrated(pair_world(rng, of_video, of_text), tmp_path / "s", {"fusion": step}, "tv")
    assert fused["mAP"] > raw["mAP"] + 0.3


def test_query_expansion_follows_a_chain_of_near_duplicates(tmp_path: Path) -> None:
    """Every copy is 25 degrees from the one before it; the last is less like the query than a stranger is."""
    rng = np.random.default_rng(5)
    world = World()
    for topic in range(6):
        plane, *strangers = np.linalg.qr(rng.standard_normal((DIM, 6)))[0].T.reshape(3, 2, DIM)
        angles = np.radians(25 * np.arange(5))
        chain = np.cos(angles)[:, None] * plane[0] + np.sin(angles)[:, None] * plane[1]
        world.videos[f"q{topic}"] = chain[0]
        world.positives[f"q{topic}"] = [f"t{topic}c{i}" for i in range(1, 5)]
        world.videos |= {f"t{topic}c{i}": chain[i] for i in range(1, 5)}
        for i, stranger in enumerate(np.concatenate(strangers)):
            world.videos[f"t{topic}x{i}"] = 0.45 * chain[0] + np.sqrt(1 - 0.45**2) * stranger
        world.videos[f"train/{topic}"] = rng.standard_normal(DIM)
    raw, expanded = raw_and_calibrated(world, tmp_path / "s", {"query_expansion": QueryExpansion(k=3)}, "v")
    assert expanded["mAP"] > raw["mAP"] + 0.1
