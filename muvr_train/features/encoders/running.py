"""How networks run: normalisation, precision, compilation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from textwrap import shorten
from typing import Any

import torch
from torch import Tensor

from muvr_train.errors import ConfigError

MOST_SAID = 500  # letters of another library's message
PRECISIONS: dict[str, torch.dtype | None] = {"32": None, "bf16": torch.bfloat16, "fp16": torch.float16}


def check_precision(precision: str | int) -> str:
    """Give the precision as a text; a ConfigError unless it is known."""
    if str(precision) not in PRECISIONS:
        raise ConfigError(f"precision={precision} is not possible: choose from {', '.join(PRECISIONS)}")
    return str(precision)


@contextmanager
def in_precision(device: torch.device, precision: str) -> Iterator[None]:
    """Autocast to the precision; "32" also forbids the shortened multiplications (TF32) of convolutions on GPUs."""
    dtype = PRECISIONS[precision]
    now = torch.backends.cudnn
    with (
        torch.autocast(device.type, dtype or torch.bfloat16, enabled=dtype is not None),
        now.flags(now.enabled, now.benchmark, now.benchmark_limit, now.deterministic, allow_tf32=dtype is not None),
    ):
        yield


def normalised(x: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Bytes [n, 3, h, w] to float32 (x / 255 - mean) / std, channels last in memory."""
    means = torch.tensor(mean, device=x.device).view(1, 3, 1, 1) * 255
    stds = torch.tensor(std, device=x.device).view(1, 3, 1, 1) * 255
    return ((x.float() - means) / stds).contiguous(memory_format=torch.channels_last)


class Compiled:
    """A function of a batch through torch.compile; smaller batches are filled up, so that it is compiled once.

    Args:
        compute: [n, ...] to named tensors [n, ...].
        batch_size: the size that is compiled.
        name: of the encoder, for messages.
    """

    def __init__(self, compute: Callable[[Tensor], dict[str, Tensor]], batch_size: int, name: str) -> None:
        self._compute: Any = torch.compile(compute, dynamic=False)
        self.batch_size, self.name = batch_size, name

    def __call__(self, x: Tensor) -> dict[str, Tensor]:
        """Compute.

        Raises:
            ConfigError: it cannot be compiled on this machine.
        """
        count = len(x)
        if count < self.batch_size:
            x = torch.cat([x, x[-1:].expand(self.batch_size - count, *x.shape[1:])])
        try:
            found = self._compute(x.contiguous(memory_format=torch.channels_last))
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            reason = first_line(error)
            raise ConfigError(
                f"compile=true: {self.name} cannot be compiled here ({reason}); use compile=false"
            ) from error
        return {name: values[:count] for name, values in found.items()}


def first_line(error: Exception) -> str:
    """What an error says, cut between words; its type where it says nothing.

    >>> first_line(ValueError("too " * 200))[-11:]
    'too too ...'
    """
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return shorten(line, MOST_SAID, placeholder=" ...")
