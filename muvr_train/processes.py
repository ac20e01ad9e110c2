"""The processes that work on one run together: who this one is, its share of the work, and how values are exchanged.

Nothing here starts a process: `training.launch` does, and hands a `Group` to whoever shares work. The default is the
single process, for which every call gives back what it was given.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


@dataclass(frozen=True)
class Group:
    """The processes of a run.

    Attributes:
        rank: number of this process, from 0.
        size: number of processes.
    """

    rank: int = 0
    size: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this process writes files and prints."""
        return self.rank == 0

    def share(self, count: int, rank: int | None = None) -> slice:
        """The contiguous share of `count` items of this process (or of another); shares differ by one item at most.

        >>> [Group(rank, 3).share(5) for rank in range(3)]
        [slice(0, 1, None), slice(1, 3, None), slice(3, 5, None)]
        """
        rank = self.rank if rank is None else rank
        return slice(rank * count // self.size, (rank + 1) * count // self.size)

    def gather_objects(self, value: Any) -> list[Any]:
        """The values of all processes, in the order of their ranks, in every process (picklable, small)."""
        if self.size == 1:
            return [value]
        found: list[Any] = [None] * self.size
        dist.all_gather_object(found, value)
        return found

    def gather(self, x: Tensor) -> list[Tensor]:
        """The tensors of all processes, in the order of their ranks, in every process; no gradient.

        Their shapes may differ, their number of dimensions and dtype must not.
        """
        x = x.detach()
        if self.size == 1:
            return [x]
        if x.dtype == torch.bool:  # some backends cannot send it
            return [part.bool() for part in self.gather(x.to(torch.uint8))]
        shapes = [torch.zeros(x.ndim, dtype=torch.long, device=x.device) for _ in range(self.size)]
        dist.all_gather(shapes, torch.tensor(x.shape, dtype=torch.long, device=x.device))
        sizes = [tuple(shape.tolist()) for shape in shapes]
        flat = [x.new_empty(prod(size)) for size in sizes]
        most = max(len(part) for part in flat)
        if not most:
            return [part.view(size) for part, size in zip(flat, sizes, strict=True)]
        raw = x.contiguous().view(-1)
        padded = raw if len(raw) == most else torch.cat([raw, raw.new_zeros(most - len(raw))])
        found = [raw.new_empty(most) for _ in range(self.size)]
        dist.all_gather(found, padded)
        return [part[: prod(size)].view(size) for part, size in zip(found, sizes, strict=True)]

    def broadcast(self, value: Any) -> Any:
        """The first process's value, in every process (picklable)."""
        if self.size == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box, src=0)
        return box[0]

    def barrier(self) -> None:
        """Wait until every process has come here."""
        self.gather_objects(None)


SINGLE = Group()
