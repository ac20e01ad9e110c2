"""What a config says about memory and precision reaches the model."""

from __future__ import annotations

import torch
from omegaconf import OmegaConf

from muvr_train.models.frame_max import FrameMax
from muvr_train.models.fusion.mean import MeanFusion
from muvr_train.models.retriever import Retriever
from muvr_train.runner.models import limited
from muvr_train.types import StoreDims

DIMS = StoreDims(regions=1, dim=8, text_dim=8)


def test_budget_and_precision_reach_network_and_text_part():
    model = Retriever(FrameMax(8), MeanFusion(DIMS), DIMS)
    limited(model, OmegaConf.create({"memory_budget": None}))
    assert (model.network.memory_budget, model.network.product_dtype, model.network.work_bytes) == (None, None, 0)
    assert model.network.products_at_once(8_000_000) == model.text_part.block_elements == 8_000_000
    limited(model, OmegaConf.create({"memory_budget": "4.8MB", "scoring_precision": "bf16"}))
    assert model.network.memory_budget == 4_800_000
    assert model.network.work_bytes == 1_200_000
    assert model.network.products_at_once(8_000_000) == model.text_part.block_elements == 100_000
    assert model.network.product_dtype == torch.bfloat16
