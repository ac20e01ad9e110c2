"""Stub until tests/reference/s2vs_plain.py exists: S2VS in its plain formulation."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from muvr_train.models.s2vs import S2VS


def plain_scores(network: S2VS, q: Tensor, n: Tensor) -> tuple[Tensor, Tensor]:
    """Scores and range excess [Q, N] of indexed videos [., T, R, D], by the full tensor of all similarities."""
    full = torch.einsum("aiod,pjbd->aiopjb", q, n)
    maps = full.amax(dim=5).mean(dim=2).permute(0, 2, 1, 3).flatten(0, 1)[:, None]
    head = network.head
    for place, layer in enumerate((head.conv1, head.conv2, head.conv3)):
        maps = F.relu(F.conv2d(maps, layer.weight.contiguous(), layer.bias, padding=1))  # type: ignore[arg-type, operator]
        maps = F.max_pool2d(maps, 2) if place < 2 else maps
    refined = F.conv2d(maps, head.fconv.weight, head.fconv.bias)[:, 0]
    excess = (F.relu(refined - 1) + F.relu(-1 - refined)).sum(dim=(1, 2))
    scores = F.hardtanh(refined).amax(dim=2).mean(dim=1)
    return scores.view(len(q), len(n)), excess.view(len(q), len(n))
