"""Slow, obvious twins of the untrained scorers: one pair of videos at a time, plain loops, float64, no masks.

A video is a tensor [T, R, D] of its real frames only.
"""

from __future__ import annotations

import torch
from torch import Tensor


def unit(x: Tensor) -> Tensor:
    return x / x.norm(dim=-1, keepdim=True)


def merged(video: Tensor) -> Tensor:
    return unit(unit(video).mean(dim=1, keepdim=True))


def frame_max(q: Tensor, n: Tensor) -> float:
    best = -2.0
    for frame_q in unit(q.double()):
        for frame_n in unit(n.double()):
            for a in frame_q:
                for b in frame_n:
                    best = max(best, float(a @ b))
    return best


def mean_pool(q: Tensor, n: Tensor) -> float:
    a, b = (unit(video.double()).mean(dim=(0, 1)) for video in (q, n))
    return float(unit(a) @ unit(b))


def chamfer(q: Tensor, n: Tensor, region_pooling: str = "chamfer", symmetric: bool = False) -> float:
    def frames(a: Tensor, b: Tensor) -> float:
        table = [[float(x @ y) for y in b] for x in a]
        if region_pooling == "max":
            return max(max(row) for row in table)
        forward = sum(max(row) for row in table) / len(table)
        columns = list(zip(*table, strict=True))
        backward = sum(max(column) for column in columns) / len(columns)
        return (forward + backward) / 2 if symmetric else forward

    table = [[frames(a, b) for b in unit(n.double())] for a in unit(q.double())]
    forward = sum(max(row) for row in table) / len(table)
    columns = list(zip(*table, strict=True))
    backward = sum(max(column) for column in columns) / len(columns)
    return (forward + backward) / 2 if symmetric else forward


def matrix(score: object, queries: list[Tensor], videos: list[Tensor], **settings: object) -> Tensor:
    return torch.tensor([[score(q, n, **settings) for n in videos] for q in queries], dtype=torch.float64)  # type: ignore[operator]
