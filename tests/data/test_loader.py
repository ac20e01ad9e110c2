"""Loading ahead: the same batches as one by one, errors as they are, no thread left behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import pytest
import torch
from torch.utils.data import Dataset

from muvr_train.data.batch import Batch
from muvr_train.data.loader import AheadLoader, LiveSampler, make_loader
from muvr_train.errors import DataError
from muvr_train.types import QueryBatch, Tokens


@dataclass
class Counter:
    finished: int = 0


class Numbered(Dataset[Batch]):
    """Batch n holds the number n; from batch `broken` on there is only an error."""

    def __init__(self, broken: int = 100) -> None:
        self.broken = broken
        self.loaded: list[int] = []
        self.threads: set[str] = set()

    def __getitem__(self, n: int) -> Batch:
        self.loaded.append(n)
        self.threads.add(threading.current_thread().name)
        if n >= self.broken:
            raise DataError(f"batch {n} is broken: mend it")
        tokens = Tokens(torch.full((1, 1, 1, 1), float(n)), torch.ones(1, 1, dtype=torch.bool))
        return Batch(QueryBatch(("q",), tokens, None, {}), tokens, None, ("v",), torch.ones(1, 1))


def numbers(batches: object) -> list[int]:
    return [int(batch.database.x) for batch in cast(Iterator[Batch], batches)]


def running() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("batches")]


def test_the_sampler_goes_on_where_the_progress_stands() -> None:
    progress = Counter()
    sampler = LiveSampler(progress, 5)
    assert list(sampler) == [0, 1, 2, 3, 4]
    progress.finished = 3
    assert list(sampler) == [3, 4]
    assert list(sampler) == [3, 4]
    progress.finished = 5
    assert list(sampler) == [5, 6, 7, 8, 9]
    assert len(sampler) == 5


@pytest.mark.parametrize(("workers", "prefetch"), [(None, 0), (0, 1), (None, 2), (0, 50), (2, 2)])
def test_every_way_of_loading_gives_the_same_batches(workers: int | None, prefetch: int) -> None:
    progress = Counter(2)
    loader = make_loader(Numbered(), progress, 6, workers, prefetch)
    assert len(loader) == 6
    assert numbers(loader) == [2, 3, 4, 5]
    progress.finished = 6
    assert numbers(loader) == [6, 7, 8, 9, 10, 11]
    assert not running()


@pytest.mark.parametrize("prefetch", [0, 2, 5])
def test_progress_during_the_epoch_does_not_change_what_comes(prefetch: int) -> None:
    progress, seen = Counter(), []
    iterator = iter(make_loader(Numbered(), progress, 5, 0, prefetch))
    progress.finished = 1  # as a checkpoint that is restored after the iterator was made
    for batch in iterator:
        seen += numbers([batch])
        progress.finished += 1
    assert seen == [1, 2, 3, 4]


@pytest.mark.parametrize("prefetch", [0, 1, 3])
def test_so_many_are_loaded_ahead_and_no_more(prefetch: int) -> None:
    batches = Numbered()
    iterator = iter(make_loader(batches, Counter(), 50, 0, prefetch))
    assert batches.loaded == []
    assert [next(iterator), next(iterator)]
    iterator.close()  # type: ignore[attr-defined]  # waits for the thread
    assert batches.loaded[:2] == [0, 1]
    assert len(batches.loaded) <= 2 + prefetch
    assert len(batches.threads) == 1
    assert (threading.current_thread().name in batches.threads) == (prefetch == 0)
    assert not running()


@pytest.mark.parametrize("prefetch", [0, 1, 4])
def test_an_error_comes_where_its_batch_is_asked_for(prefetch: int) -> None:
    iterator = iter(make_loader(Numbered(broken=2), Counter(), 9, 0, prefetch))
    assert numbers([next(iterator), next(iterator)]) == [0, 1]
    with pytest.raises(DataError, match=r"^batch 2 is broken: mend it$"):
        next(iterator)
    assert not running()


def test_a_loop_that_is_left_leaves_no_thread() -> None:
    def interrupted() -> None:
        for batch in make_loader(Numbered(), Counter(), 90, 0, 2):
            if int(batch.database.x) == 3:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not running()


def test_moving_keeps_one_tensor_one_and_moves_what_is_empty() -> None:
    batch = Numbered()[3]
    moved = batch.to("meta", non_blocking=True)
    assert moved.queries.video is moved.database
    assert moved.database.x.device.type == moved.relevance.device.type == "meta"
    empty = Tokens(torch.zeros(0, 1, 1, 1), torch.zeros(0, 1, dtype=torch.bool))
    queries = QueryBatch((), empty, None, {"video": torch.zeros(0, dtype=torch.bool)})
    share = Batch(queries, empty[:], empty, ("v",), torch.ones(1, 1), ("q",)).to("meta")
    assert share.fine is not None
    assert share.queries.video is not None
    kinds = [share.queries.video.x, share.database.mask, share.fine.x, share.queries.present["video"]]
    assert {value.device.type for value in kinds} == {"meta"}
    assert (share.query_ids, share.database_ids) == (("q",), ("v",))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="pinned memory needs a GPU")
def test_batches_for_a_gpu_are_pinned() -> None:
    (batch,) = AheadLoader(Numbered(), LiveSampler(Counter(), 1), 2, pin=True)
    assert batch.database.x.is_pinned()
    assert batch.relevance.is_pinned()
    assert batch.to("cuda").pin_memory().database.x.is_cuda


class Changing(Numbered):
    """Batch n holds n and the version that was in force when it was made."""

    version = 0

    def __getitem__(self, n: int) -> Batch:
        batch = super().__getitem__(n)
        batch.database.x.add_(100.0 * self.version)
        return batch


@pytest.mark.parametrize("prefetch", [0, 1, 2, 5, 50])
def test_what_was_prepared_under_an_older_version_is_prepared_again(prefetch: int) -> None:
    batches, seen = Changing(), list[int]()
    for batch in make_loader(batches, Counter(), 9, 0, prefetch, version=lambda: batches.version):
        seen += numbers([batch])
        if len(seen) in (3, 4, 8):
            batches.version += 1
    assert seen == [0, 1, 2, 103, 204, 205, 206, 207, 308]
    assert not running()


def test_an_error_of_an_older_version_is_none() -> None:
    batches = Changing(broken=3)
    iterator = iter(make_loader(batches, Counter(), 6, 0, 4, version=lambda: batches.version))
    assert numbers([next(iterator), next(iterator)]) == [0, 1]
    batches.broken, batches.version = 100, 1
    assert numbers(iterator) == [102, 103, 104, 105]
