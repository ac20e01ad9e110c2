"""L3-iMAC: regional maximum activations of all four stages of ResNet-50, the frame features of ViSiL and S2VS."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from muvr_train.errors import ConfigError
from muvr_train.features.encoders.timm_encoder import TimmEncoder

WINDOWS = {56: (28, 14), 28: (14, 7), 14: (6, 3), 7: (3, 2)}
"""Edge of a stage's map to (edge, stride) of the regions, which are 3 x 3 in each case (224 pixels)."""


class L3Imac(TimmEncoder):
    """One stream "video", [T, 9, 3840]: maxima over 3 x 3 overlapping regions of four stages, each L2-normalised.

    The four vectors of a region are concatenated and L2-normalised again. Source: Kordopatis-Zilos et al., ViSiL (ICCV
    2019, arXiv 1908.07410), section 4.1; Kordopatis-Zilos et al., S2VS (arXiv 2304.03378), which whitens to 512.

    Args:
        architecture: a timm ResNet with stages at 1/4 to 1/32 of the input.
        pretrained: true downloads the tag's weights, false leaves them random (seeded), a path loads a file.
        fit: "crop" or "squash" to 224 pixels.
        batch_size: frames per forward pass.
        name: what stores call the encoder.
        device: where the network runs.
        precision: "32", "bf16" or "fp16".
        compile: use torch.compile.
        dim: the width before whitening, checked; null: any.
        whitening: null, or {dim: N} for PCA-whitening learned from a sample (see `FrameEncoder.fit`).

    Raises:
        ConfigError: another architecture, impossible settings.
        DataError: weights that cannot be had or do not fit.
    """

    def __init__(
        self,
        architecture: str = "resnet50.tv_in1k",
        pretrained: bool | str | Path = True,
        fit: str = "crop",
        batch_size: int = 32,
        name: str = "resnet50_l3imac",
        device: torch.device | str = "cpu",
        precision: str = "32",
        compile: bool = False,  # noqa: A002
        dim: int | None = None,
        whitening: Mapping[str, Any] | None = None,
    ) -> None:
        streams = {"video": {"grid": 3, "stages": [1, 2, 3, 4]}}
        super().__init__(
            architecture,
            pretrained,
            streams,
            224,
            fit,
            batch_size=batch_size,
            name=name,
            device=device,
            precision=precision,
            compile=compile,
            dim=dim,
            whitening=whitening,
        )

    def compute(self, x: Tensor) -> dict[str, Tensor]:
        """Features [n, 9, D]; regions row by row from the top left."""
        return {
            "video": F.normalize(torch.cat([regional_maxima(x) for x in self._maps(x, (1, 2, 3, 4))], dim=-1), dim=-1)
        }

    def compute_maps(self, x: Tensor, stream: str) -> Tensor:
        """The four stages at the resolution of the first, normalised as the regions are."""
        return F.normalize(super().compute_maps(x, stream), dim=-1)

    def manifest(self) -> dict[str, Any]:
        """Plain data for `make_manifest`."""
        return {**super().manifest(), "pooling": "l3_imac"}


def regional_maxima(x: Tensor) -> Tensor:
    """Maxima of a map [n, C, H, W] over 3 x 3 regions, L2-normalised: [n, 9, C].

    Raises:
        ConfigError: a map of none of the sizes that are defined.
    """
    if x.shape[2] != x.shape[3] or x.shape[2] not in WINDOWS:
        raise ConfigError(
            f"L3-iMAC is defined on maps of {', '.join(map(str, WINDOWS))} (ResNet-50 at 224 pixels), this network has "
            f"{x.shape[2]} x {x.shape[3]}"
        )
    edge, stride = WINDOWS[x.shape[2]]
    return F.normalize(F.max_pool2d(x.float(), edge, stride).flatten(2).transpose(1, 2), dim=-1)
