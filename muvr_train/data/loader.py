"""The loop's source of batches: those still to come, prepared ahead by a thread or by worker processes.

Where the content of batches changes during training (mined negatives), what was prepared before is prepared again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from muvr_train.data.batch import Batch


class HasProgress(Protocol):
    """Something that knows how many training batches are finished."""

    finished: int


class LiveSampler(Sampler[int]):
    """Numbers of the batches that are still to come in this epoch, read from the live progress at each iteration.

    Lightning restores its counters but does not skip data inside an epoch; this sampler starts where the progress
    stands. The length stays that of a full epoch.
    """

    def __init__(self, progress: HasProgress, steps_per_epoch: int) -> None:
        self.progress, self.steps_per_epoch = progress, steps_per_epoch

    def __len__(self) -> int:
        return self.steps_per_epoch

    def __iter__(self) -> Iterator[int]:
        start = self.progress.finished
        yield from range(start, (start // self.steps_per_epoch + 1) * self.steps_per_epoch)


def _never() -> int:
    return 0


class AheadLoader:
    """Loads batches in this process, some of them ahead in a background thread.

    Which batches come is settled when the first one is asked for. An error of a batch is raised where the batch is
    asked for, as it is. The thread ends with the iteration, however that ends.

    Args:
        batches: number n to batch n.
        numbers: which to load, in order.
        prefetch: batches that are prepared while another one is worked on; 0 loads each when it is asked for.
        pin: put batches that are in ordinary memory into pinned memory, from where copies to a GPU can run on the side.
        version: of the batches' content; those that were begun under another version are loaded anew.
    """

    def __init__(
        self,
        batches: Dataset[Batch],
        numbers: Sampler[int],
        prefetch: int,
        pin: bool = False,
        version: Callable[[], int] = _never,
    ) -> None:
        self.batches, self.numbers, self.prefetch, self.pin = batches, numbers, prefetch, pin
        self.version = version

    def __len__(self) -> int:
        return len(self.numbers)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Batch]:
        if not self.prefetch:
            yield from map(self._load, self.numbers)
            return
        place = (torch.cuda.set_device, (torch.cuda.current_device(),)) if self.pin else (None, ())
        pool = ThreadPoolExecutor(1, "batches", *place)  # a new thread would open the first GPU
        try:
            coming = deque[tuple[int, int, Future[Batch]]]()
            for n in self.numbers:
                coming.append(self._begin(pool, n))
                if len(coming) > self.prefetch:
                    yield self._next(pool, coming)
            while coming:
                yield self._next(pool, coming)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _begin(self, pool: ThreadPoolExecutor, n: int) -> tuple[int, int, Future[Batch]]:
        return n, self.version(), pool.submit(self._load, n)

    def _next(self, pool: ThreadPoolExecutor, coming: deque[tuple[int, int, Future[Batch]]]) -> Batch:
        """Give the first of the batches in preparation; those whose version has passed begin again."""
        for place, (n, version, future) in enumerate(list(coming)):
            if version != self.version():
                future.cancel()
                coming[place] = self._begin(pool, n)
        return coming.popleft()[2].result()

    def _load(self, n: int) -> Batch:
        batch = self.batches[n]
        return batch.pin_memory() if self.pin else batch


def _as_is(batch: Any) -> Any:
    return batch


def make_loader(
    batches: Dataset[Batch],
    progress: HasProgress,
    steps_per_epoch: int,
    workers: int | None = None,
    prefetch: int = 2,
    pin: bool = False,
    version: Callable[[], int] = _never,
) -> Iterable[Batch]:
    """Build the training loader; every setting gives the same batches.

    Args:
        batches: number n to batch n.
        progress: says which batch is the next.
        steps_per_epoch: batches in an epoch.
        workers: processes that load; 0 or None loads in this process, with a thread.
        prefetch: batches that the thread prepares ahead (each worker prepares two).
        pin: whether batches go to a GPU from pinned memory.
        version: of the batches' content; only without workers, which would not hear of a new one.
    """
    numbers = LiveSampler(progress, steps_per_epoch)
    if not workers:
        return AheadLoader(batches, numbers, prefetch, pin, version)
    return DataLoader(batches, batch_size=None, sampler=numbers, num_workers=workers, collate_fn=_as_is, pin_memory=pin)
