"""Features of one id, as a store holds them."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from muvr_train.errors import DataError
from muvr_train.features.shards import DTYPES, Array


class FeatureError(DataError):
    """Features that no store can hold; the store is as it was."""


def _is_finite(tensor: Tensor) -> bool:
    """Whether no value is NaN or infinite: either would reach a sum in float64 (20 times faster than testing each)."""
    return math.isfinite(tensor.sum(dtype=torch.float64).item())


def to_raw(array: Array | Tensor, dtype: str | None, what: str) -> tuple[Array, str]:
    """Check one entry and convert it: raw values [T, R, D] (int16 bits for bfloat16), owned, and their dtype's name.

    Args:
        array: floating point [T, R, D].
        dtype: to convert to; None keeps its own (float64 becomes float32).
        what: names it in messages.

    Raises:
        FeatureError: a wrong shape or type, or values that are not finite.
    """
    tensor = array.detach().cpu() if isinstance(array, Tensor) else None
    if tensor is None:
        values = np.asarray(array)
        if values.dtype.kind != "f" or values.dtype.itemsize > 8:
            raise FeatureError(f"{what} must be float16, float32 or float64, got {values.dtype}")
        tensor = torch.from_numpy(np.array(values, dtype=values.dtype.newbyteorder("="), order="C"))
    if not tensor.is_floating_point() or tensor.ndim != 3 or 0 in tensor.shape:
        raise FeatureError(
            f"{what} must be floating point [T, R, D] with nothing empty, got {tuple(tensor.shape)} {tensor.dtype}"
        )
    if not _is_finite(tensor):
        raise FeatureError(f"{what} hold values that are not finite (NaN or infinity)")
    name = dtype or str(tensor.dtype).removeprefix("torch.")
    name = "float32" if name == "float64" else name
    if name not in DTYPES:
        raise FeatureError(f"{what} have dtype {name}, which a store cannot hold; it holds {', '.join(DTYPES)}")
    kept = tensor.to(getattr(torch, name), copy=True).contiguous()
    if kept.dtype != tensor.dtype and not _is_finite(kept):
        raise FeatureError(f"{what} hold values beyond the range of {name}; choose another dtype")
    return (kept.view(torch.int16) if name == "bfloat16" else kept).numpy(), name
