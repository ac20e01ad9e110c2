"""Reads the golden S2VS files: network settings per file, our network with the reference's weights, inputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from muvr_train.losses.composite import CompositeLoss
from muvr_train.losses.hard_negative import HardNegativeLoss
from muvr_train.losses.infonce import InfoNCELoss
from muvr_train.losses.range_regularization import RangeRegularizationLoss
from muvr_train.losses.self_similarity import SelfSimilarityLoss
from muvr_train.models.reference import load_reference_weights, own_name
from muvr_train.models.s2vs import S2VS
from muvr_train.types import Tokens

__all__ = ["own_name"]
SETTINGS: dict[str, dict[str, object]] = {
    "att_r9": {},
    "att_r9_mask": {"mask_pooling": "any"},
    "att_r1_t15": {},
    "att_r1_t15_mask": {"mask_pooling": "any"},
    "plain": {"attention": False},
    "symmetric": {"symmetric": True},
    "symmetric_mask": {"symmetric": True, "mask_pooling": "any"},
    "attention_norm": {"attention_norm": True},
    "batchnorm_eval": {"batch_norm": True},
    "batchnorm_train": {"batch_norm": True},
    "small_output": {},
    "binary_eval": {"attention": False, "binarization": 128},
    "binary_train": {"attention": False, "binarization": 128},
}
EVAL_ONLY = [name for name in SETTINGS if not name.endswith("_train")]


def load(shared: Path, name: str) -> dict[str, Tensor]:
    with np.load(shared / "golden" / "s2vs" / f"{name}.npz", allow_pickle=False) as file:
        return {key: torch.from_numpy(np.asarray(file[key])) for key in file.files}


def network(name: str, data: dict[str, Tensor], **overrides: object) -> S2VS:
    x = data["in/x"]
    model = S2VS(dim=x.shape[-1], regions=x.shape[2], **{**SETTINGS[name], **overrides})
    load_reference_weights(model, {key[2:]: value for key, value in data.items() if key.startswith("w/")})
    return model.train(name.endswith("_train"))


def raw_tokens(data: dict[str, Tensor]) -> Tokens:
    x = data["in/x"]
    mask = data["in/mask"].bool() if "in/mask" in data else torch.ones(x.shape[:2], dtype=torch.bool)
    return Tokens(x, mask)


def reference_index(model: S2VS, tokens: Tokens) -> Tokens:
    """`index` without our L2-normalisation: the golden inputs are normalised only up to float16 rounding."""
    return model._index(tokens)


def s2vs_losses() -> CompositeLoss:
    return CompositeLoss(
        {
            "infonce": InfoNCELoss(on="video", temperature=0.03, epsilon=1e-6, unit_range=True),
            "hardneg": HardNegativeLoss(on="video"),
            "self": SelfSimilarityLoss(on="video"),
            "regularization": RangeRegularizationLoss(on="video"),
        },
        {"hardneg": 3.0, "self": 3.0},
    )


def relevance(labels: Tensor) -> Tensor:
    """The contract's relevance: a query's own column is not judged."""
    return labels.long().masked_fill(torch.eye(len(labels), dtype=torch.bool), -1)
