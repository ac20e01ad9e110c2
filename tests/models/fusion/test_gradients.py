"""Heads that rewrite queries learn from the untrained scorer inside S2VS too, from the first step on."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from muvr_train.models.chamfer import Chamfer
from muvr_train.models.frame_max import FrameMax
from muvr_train.models.fusion.combiner import Combiner
from muvr_train.models.fusion.cross_attention import CrossAttention
from muvr_train.models.s2vs import S2VS
from tests.models.fusion.mechanism_tasks import OtherObject
from tests.models.fusion.mechanisms import built

BASES = {"frame_max": FrameMax, "chamfer": Chamfer}


def gradients(head: type, network: object, query_chunk: int | None = None) -> dict[str, torch.Tensor]:
    """Of the head's parameters, by name."""
    task = OtherObject(0)
    model = built(head, network, task, 0).train()  # type: ignore[arg-type]
    model.query_chunk = query_chunk
    drawn = task.drawn(6, 1)
    scores, _ = model.training_scores(*model.encode_batch(drawn.query, drawn.database))
    (scores["fused"] * drawn.relevance).sum().backward()
    return {name: p.grad for name, p in model.head.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("chunk", [None, 4])
@pytest.mark.parametrize("attention", [False, True])
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("head", [Combiner, CrossAttention])
def test_s2vs_that_starts_as_its_base_has_the_base_s_gradient(head, base, attention, chunk):
    expected = gradients(head, BASES[base])
    found = gradients(head, partial(S2VS, residual=True, base=base, attention=attention), chunk)
    assert expected["change.weight"].abs().max() > 1e-4
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, atol=1e-6, rtol=1e-4)
