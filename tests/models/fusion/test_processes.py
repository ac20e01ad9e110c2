"""Two processes train a head of every kind as one does. Real processes (gloo)."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from muvr_train.processes import SINGLE
from tests.models.fusion import heads_worker as worker
from tests.together import together
from tests.training.processes_worker import make_batch

BATCHES = [
    make_batch(5, 7, 1),
    make_batch(4, 6, 4, with_text=(3,)),
    make_batch(4, 6, 7, with_video=(0,)),
    make_batch(4, 6, 5, with_text=(0, 2), with_video=(1, 2, 3)),
]


@pytest.mark.slow
def test_two_processes_equal_one(tmp_path: Path) -> None:
    several = together((2,), tmp_path, worker.steps, BATCHES)[2]
    for place, one in enumerate(worker.steps(SINGLE, BATCHES)):
        learned = {key: value for key, value in one["gradients"].items() if value is not None}
        scale = max(float(gradient.abs().max()) for gradient in learned.values())
        assert scale > 0
        assert any(key.startswith("retriever.head.") for key in learned)
        for process in several:
            found = process[place]
            torch.testing.assert_close(found["loss"], one["loss"], rtol=1e-5, atol=0)
            for key, gradient in learned.items():  # the shift of all scores has a gradient of 0, the sum of large terms
                torch.testing.assert_close(found["gradients"][key], gradient, rtol=1e-4, atol=1e-5 * scale)
