"""Tiny models of open_clip's architectures, registered with open_clip itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import open_clip
from timm.models import register_model
from timm.models.eva import Eva


@register_model
def tiny_eva02(pretrained: bool = False, num_classes: int = 0, global_pool: str = "token", **_: Any) -> Eva:
    """An EVA-02 tower (SwiGLU, rotary positions) of two layers for pictures of 64 pixels."""
    assert not pretrained
    return Eva(
        64,
        16,
        num_classes=num_classes,
        global_pool=global_pool,
        embed_dim=32,
        depth=2,
        num_heads=2,
        mlp_ratio=8 / 3,
        swiglu_mlp=True,
        use_rot_pos_emb=True,
        ref_feat_shape=(4, 4),
    )


VISION: dict[str, dict[str, Any]] = {
    "tiny-vit": {"image_size": 32, "patch_size": 16, "width": 32, "layers": 1, "head_width": 16},
    "tiny-vit-large": {"image_size": 64, "patch_size": 16, "width": 32, "layers": 1, "head_width": 16},
    "tiny-rn": {"image_size": 64, "layers": [1, 1, 1, 1], "width": 8, "patch_size": None},
    "tiny-siglip-tower": {"image_size": 160, "timm_model_name": "test_vit3", "timm_pool": "map", "timm_proj": "none"},
    "tiny-eva": {"image_size": 64, "timm_model_name": "tiny_eva02", "timm_pool": "token", "timm_proj": None},
    "tiny-convnext": {"image_size": 160, "timm_model_name": "test_convnext", "timm_pool": "", "timm_proj": "linear"},
}
TEXT = {"context_length": 16, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 1}


def add_tiny_models(folder: Path) -> None:
    """Register all of them, and tiny-vit-quickgelu."""
    for name, vision in VISION.items():
        config: dict[str, Any] = {"embed_dim": 96 if "siglip" in name else 32, "vision_cfg": vision, "text_cfg": TEXT}
        if "timm_model_name" in vision:
            config["custom_text"] = True
        (folder / f"{name}.json").write_text(json.dumps(config))
    quick = {"embed_dim": 32, "quick_gelu": True, "vision_cfg": VISION["tiny-vit"], "text_cfg": TEXT}
    (folder / "tiny-vit-quickgelu.json").write_text(json.dumps(quick))
    open_clip.add_model_config(folder)
