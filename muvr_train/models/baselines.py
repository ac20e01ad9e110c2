"""The untrained rows that stand beside a trained one, by name: what is built for them."""

from __future__ import annotations

from typing import Any

BASELINES: dict[str, dict[str, Any]] = {
    "frame_max": {"_target_": "muvr_train.models.frame_max.FrameMax"},
    "frame_max whitened": {"_target_": "muvr_train.models.frame_max.FrameMax", "whiten": True},
    "frame_max global whitened": {"_target_": "muvr_train.models.frame_max.FrameMax", "over": "frames", "whiten": True},
    "chamfer global whitened": {"_target_": "muvr_train.models.chamfer.Chamfer", "over": "frames", "whiten": True},
    "chamfer whitened": {"_target_": "muvr_train.models.chamfer.Chamfer", "over": "regions", "whiten": True},
    "chamfer max whitened": {
        "_target_": "muvr_train.models.chamfer.Chamfer",
        "over": "regions",
        "region_pooling": "max",
        "whiten": True,
    },
}
"""Where a frame has one region, the regional forms are left out."""
