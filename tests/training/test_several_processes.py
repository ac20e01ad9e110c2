"""One, two and three processes: the same loss, the same gradients. Real processes (gloo)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from muvr_train.processes import SINGLE
from tests.together import together
from tests.training import processes_worker as worker


def assert_same_step(one: dict[str, Any], several: list[dict[str, Any]]) -> None:
    scale = max(float(g.abs().max()) for g in one["gradients"].values() if g is not None)
    for result in several:
        torch.testing.assert_close(result["loss"], one["loss"], rtol=1e-6, atol=0)
        for name, gradient in one["gradients"].items():
            found = result["gradients"][name]
            assert (found is None) == (gradient is None), name
            if gradient is not None:
                torch.testing.assert_close(
                    found, gradient, rtol=1e-5, atol=1e-6 * scale, msg=lambda m, n=name: f"{n}: {m}"
                )
        assert {k: v for k, v in result["logged"].items() if "skipped" in k} == {
            k: v for k, v in one["logged"].items() if "skipped" in k
        }


NETWORKS: list[dict[str, Any]] = [
    {},
    {"base_weights": True, "pair_chunk": 3, "learned": False},
    {"model": "late_interaction", "temporal_layers": 1, "temporal_width": 8, "symmetric": True},
    {"model": "dns_coarse", "width": 8, "clusters": 2},
]
LONELY = "one query, one video"
BATCHES = {
    "even": worker.make_batch(6, 12, 0),
    "uneven": worker.make_batch(5, 7, 1),
    "fewer queries than processes": worker.make_batch(2, 5, 2),
    LONELY: worker.make_batch(1, 1, 3),
    "texts in one process only": worker.make_batch(4, 6, 4, with_text=(3,)),
    "no texts at all": worker.make_batch(4, 6, 5, with_text=()),
    "no videos at all": worker.make_batch(4, 6, 6, with_video=()),
    "videos in one process only": worker.make_batch(4, 6, 7, with_video=(0,)),
    "tags and regions": worker.make_batch(5, 7, 8, with_tags=(1, 2, 4), with_region=(0, 2)),
    "tags in one process only, regions in the other": worker.make_batch(4, 6, 9, with_tags=(3,), with_region=(0,)),
}


@pytest.mark.parametrize("size", [2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("network", NETWORKS)
def test_any_number_of_processes_gives_the_gradient_of_one(tmp_path: Path, size: int, network: dict[str, Any]) -> None:
    several = together((size,), tmp_path, worker.steps, list(BATCHES.values()), network)[size]
    for place, (name, batch) in enumerate(BATCHES.items()):
        one = worker.step(SINGLE, batch, network)
        assert any(g is not None and float(g.abs().max()) > 0 for g in one["gradients"].values()) or name == LONELY
        assert_same_step(one, [results[place] for results in several])


def test_a_loss_of_nan_is_reported_by_the_first_process(tmp_path: Path) -> None:
    batch = worker.make_batch(4, 6, 0)
    batch.database.x[0, 0] = float("nan")
    first, second = together((2,), tmp_path, worker.failed_step, batch)[2]
    assert (first.kind, second.kind) == ("DataError", "ProcessError")
    assert first.message.startswith("the loss is nan")
