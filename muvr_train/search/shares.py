"""Scoring shared out to several processes: who scores which blocks, and how everybody gets the whole matrices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from muvr_train.agreement import agreed
from muvr_train.errors import DataError
from muvr_train.features.store import FeatureStore
from muvr_train.models.retriever import Retriever
from muvr_train.processes import Group
from muvr_train.search.exhaustive import (
    Demand,
    Places,
    Scorer,
    block_bytes,
    encoded_blocks,
    evaluating,
    plan_blocks,
    score_blocks,
    token_copies,
    video_bytes,
)

GATHERED = 2**24
"""Scores that all processes send at a time: 64 MiB."""


class Rows(NamedTuple):
    """Rows that are scored together.

    Attributes:
        ids: theirs.
        names: of the matrices, one for each mode.
        scorer: makes what scores them; called in eval mode.
    """

    ids: tuple[str, ...]
    names: tuple[str, ...]
    scorer: Callable[[], Scorer]


@dataclass(frozen=True)
class Work:
    """What is scored: rows against a database. The same in every process.

    Attributes:
        database: ids of its videos.
        rows: what asks.
        held: bytes that are held besides the blocks and the matrices.
        frames: of the longest query video, 0 where there is none.
    """

    database: tuple[str, ...]
    rows: tuple[Rows, ...]
    held: int = 0
    frames: int = 0

    def fingerprint(self, sizes: NDArray[np.int64]) -> str:
        """Tells works apart: other ids, other modes, or videos of other `sizes`."""
        content = repr((self.database, [(rows.ids, rows.names) for rows in self.rows], sizes.tobytes()))
        return blake2b(content.encode(errors="surrogatepass"), digest_size=16).hexdigest()


def score_work(
    prepare: Callable[[], Work],
    model: Retriever,
    store: FeatureStore,
    device: torch.device,
    memory_budget: int | None,
    group: Group,
) -> tuple[Work, list[dict[str, NDArray[np.float32]]]]:
    """Score each database video in one process; every process gets all scores.

    The blocks do not depend on the number of processes, so neither does a bit of a score, while there is memory for
    them: a block has the bytes for which the process with the least memory has room.

    Args:
        prepare: says what is scored; an error in one process is one in all.
        model: on the device.
        store: the features.
        device: of the model.
        memory_budget: see `exhaustive.block_bytes`; in each process.
        group: the processes.

    Returns:
        What is scored, and for each of its rows the float32 matrices [rows, N] by name.

    Raises:
        ConfigError: the budget is too small.
        DataError: what `prepare` raises, or the processes read different features.
    """

    def plan() -> tuple[tuple[Work, NDArray[np.int64]], tuple[str, int]]:
        work = prepare()
        sizes = video_bytes(store, work.database)
        return (work, sizes), (work.fingerprint(sizes), block_bytes(device, memory_budget, demand(work, model, store)))

    (work, sizes), told = agreed(group, plan)
    if len({name for name, _ in told}) > 1:
        raise DataError(
            f"the processes find different features in {store.path}: is it the same folder on all machines?"
        )
    blocks = plan_blocks(sizes, min(limit for _, limit in told)) if work.rows else []
    shares = share_blocks(blocks, sizes, group.size)

    def fill() -> tuple[list[dict[str, NDArray[np.float32]]], None]:
        with evaluating(model):
            scorers = [rows.scorer() for rows in work.rows]
            own = encoded_blocks(model, store, work.database, shares[group.rank], device)
            return score_blocks(scorers, own, len(work.database)), None

    filled, _ = agreed(group, fill)
    _exchange(work, filled, shares, group)
    return work, filled


def demand(work: Work, model: Retriever, store: FeatureStore) -> Demand:
    """What scoring this work holds in a process."""
    matrices = sum(4 * len(rows.ids) * len(rows.names) * len(work.database) for rows in work.rows)
    longest = max(store.length(video) for video in work.database)
    largest = int(video_bytes(store, work.database).max())
    least = model.network.least_budget(work.frames, longest) if work.frames else 0
    copies = token_copies(model.head, store.dims, max((len(rows.ids) for rows in work.rows), default=0), work.frames)
    return Demand(work.held + matrices, largest, model.network.work_bytes, least, copies)


def _exchange(
    work: Work, filled: list[dict[str, NDArray[np.float32]]], shares: list[list[Places]], group: Group
) -> None:
    """Complete the matrices of each of the work's rows, by name, in place."""
    columns = [np.concatenate([*own, np.empty(0, np.int64)]) for own in shares]
    for rows, matrices in zip(work.rows, filled, strict=True):
        for name in rows.names:
            if name not in matrices:  # no block is this process's
                matrices[name] = np.empty((len(rows.ids), len(work.database)), dtype=np.float32)
            exchange_columns(matrices[name], columns, group)


def share_blocks(blocks: Sequence[Places], sizes: NDArray[np.int64], count: int) -> list[list[Places]]:
    """Share blocks out to `count` processes, longest first, each to the process that has least to do.

    Args:
        blocks: places of the videos of each block.
        sizes: [N] bytes of each video; a block costs what its padded tokens take.
        count: processes.

    Returns:
        The blocks of each process, every block once, in the order in which they came; none where there are too few.

    >>> shares = share_blocks([np.array([0]), np.array([1, 2])], np.array([1, 1, 1]), 3)
    >>> [[places.tolist() for places in own] for own in shares]
    [[[1, 2]], [[0]], []]
    """
    costs = [len(places) * int(sizes[places].max()) for places in blocks]
    loads = [0] * count
    chosen: list[list[int]] = [[] for _ in range(count)]
    for number in sorted(range(len(blocks)), key=lambda number: -costs[number]):
        process = loads.index(min(loads))
        loads[process] += costs[number]
        chosen[process].append(number)
    return [[blocks[number] for number in sorted(own)] for own in chosen]


def exchange_columns(scores: NDArray[np.float32], columns: Sequence[Places], group: Group) -> None:
    """Fill the columns that other processes have scored, in place.

    Args:
        scores: [rows, N], of which the columns `columns[group.rank]` are filled.
        columns: of each process, every column once.
        group: the processes.
    """
    if group.size == 1:
        return
    step = max(1, GATHERED // scores.shape[1])
    for start in range(0, len(scores), step):
        block = scores[start : start + step]
        own = torch.from_numpy(block[:, columns[group.rank]])
        for places, part in zip(columns, group.gather(own), strict=True):
            block[:, places] = part.numpy()
