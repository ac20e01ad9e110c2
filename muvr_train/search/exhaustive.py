"""Scores of every query against every database video, in bounded memory and independent of the block sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from muvr_train.errors import ConfigError
from muvr_train.features.store import FeatureStore
from muvr_train.memory import free_bytes, show_bytes
from muvr_train.models.fusion.base import FusionHead
from muvr_train.models.queries import MODES
from muvr_train.models.retriever import Retriever
from muvr_train.types import EncodedDatabase, QueryBatch, StoreDims

Places = NDArray[np.int64]
Scorer = Callable[[EncodedDatabase], dict[str, Tensor]]
"""Gives named scores [rows, B] of a block of B database videos."""

COPIES = 4
"""How often the tokens of a block exist while it is scored: as stored, as read, normalised, indexed."""
QUERY_COPIES = 3
REWRITTEN_COPIES = 2
"""Those of a query's video that a fusion head has rewritten: its vectors, and the network's own."""
QUERY_BLOCK = 128
"""Queries that are scored at a time."""
LARGEST_BLOCK = {"cpu": 2**25, "cuda": 2**28}
"""Bytes of the tokens of a block that there is memory for; larger ones leave a CPU's caches and win nothing."""

BLOCKS = 24
"""Blocks that a database is cut into at least, whatever the number of processes."""
SMALLEST_BLOCK = 32
"""Videos of a block that is never cut for the sake of their number."""


class Demand(NamedTuple):
    """What scoring a partition holds, in bytes.

    Attributes:
        held: query tokens and score matrices.
        largest_video: the tokens of the longest database video.
        work: the network's work space, its `work_bytes`.
        least: the smallest budget with which the network can compare the longest videos, its `least_budget`.
        copies: how often a block's tokens are held, what the fusion head makes of them included.
    """

    held: int
    largest_video: int
    work: int = 0
    least: int = 0
    copies: float = COPIES

    def room(self, budget: int) -> int:
        """What a budget leaves for the tokens of one block."""
        return int((budget - self.held - self.work) // self.copies)

    def enough(self, budget: int) -> int:
        """The given budget where it will do, else one that would, with a little room for rounding."""
        if self.room(budget) >= self.largest_video and budget >= self.least:
            return budget
        blocks = (self.held + self.copies * self.largest_video) * budget / max(1, budget - self.work)
        return int(1.06 * max(self.least, blocks))

    def reason(self, budget: int) -> str:
        """Why a budget is too small."""
        if budget < self.least:
            return "the network has no room to compare the longest query with the longest database video"
        return (
            f"the queries and their scores take {show_bytes(self.held)} "
            f"and one database video up to {show_bytes(int(self.copies * self.largest_video))}"
        )


def block_bytes(device: torch.device, budget: int | None, demand: Demand) -> int:
    """How many bytes the tokens of one block may have.

    Args:
        device: where scores are computed.
        budget: bytes for everything that scoring holds; None takes a quarter of what is free, and goes on if that is
            too little.
        demand: of what is scored.

    Raises:
        ConfigError: the budget is too small even for blocks of one video, or for the network.
    """
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" and budget is None else free_bytes()
    if budget is not None and (needed := demand.enough(budget)) > budget:
        raise small_budget(budget, demand.reason(budget), needed)
    return min(
        max(demand.room(free // 4 if budget is None else budget), 1),
        LARGEST_BLOCK["cpu" if device.type == "cpu" else "cuda"],
    )


def small_budget(budget: int, reason: str, needed: int, what: str = "") -> ConfigError:
    """Say that a budget is too small (`what`: for what), and what is needed."""
    return ConfigError(
        f"memory_budget={show_bytes(budget)} is too small{what}: {reason}; give at least {show_bytes(needed)}"
    )


def plan_blocks(sizes: NDArray[np.int64], limit: int) -> list[Places]:
    """Split videos into blocks of similar size, so that little is padded.

    There are at least `BLOCKS` blocks where there are enough videos, so that processes can share them.

    Args:
        sizes: [N] bytes of the tokens of each video.
        limit: bytes of one padded block; a block of a single video may be larger.

    Returns:
        The places of each block's videos, every place once.

    >>> [places.tolist() for places in plan_blocks(np.array([3, 1, 3, 1, 1]), 6)]
    [[1, 3, 4], [0, 2]]
    """
    order = np.argsort(sizes, kind="stable")
    most = max(SMALLEST_BLOCK, -(-len(order) // BLOCKS))
    blocks, start = [], 0
    for stop, size in enumerate(sizes[order].tolist()):
        if stop > start and ((stop + 1 - start) * size > limit or stop - start == most):
            blocks.append(order[start:stop])
            start = stop
    return [*blocks, order[start:]] if len(order) else []


def video_bytes(store: FeatureStore, ids: Sequence[str]) -> NDArray[np.int64]:
    """Bytes of the float32 tokens of each video that scoring reads."""
    width = sum(int(np.prod(store.shape(stream))) for stream in _streams(store))
    return 4 * width * np.array([store.length(video) for video in ids], dtype=np.int64)


def rewritten_modes(head: FusionHead, modes: Sequence[str]) -> int:
    """How many modes there are for which a head may rewrite the videos of queries, in tokens that it then holds."""
    return 0 if type(head).prepare is FusionHead.prepare else sum("video" in MODES[mode] for mode in modes)


def token_copies(head: FusionHead, dims: StoreDims, queries: int, frames: int) -> float:
    """How often a block's tokens are held, what a head makes of them for so many queries included."""
    vectors = dims.dim * dims.regions + (dims.fine_dim or 0) * (dims.fine_regions or 0)
    return COPIES + head.scoring_bytes(min(queries, QUERY_BLOCK), frames) / (4 * vectors)


def encoded_blocks(
    model: Retriever, store: FeatureStore, ids: Sequence[str], blocks: Iterable[Places], device: torch.device
) -> Iterator[tuple[Places, EncodedDatabase]]:
    """Read and encode the blocks of a database, one after the other."""
    for places in blocks:
        named = [ids[place] for place in places]
        tokens = [store.tokens(named, stream).to(device) for stream in _streams(store)]
        yield places, model.encode_database(*tokens)


def query_scorer(model: Retriever, queries: QueryBatch, modes: Sequence[str], query_block: int = QUERY_BLOCK) -> Scorer:
    """Score Q queries under several modes: float32 [Q, B] each.

    Args:
        model: in eval mode.
        queries: on the model's device; encoded and prepared by the head here, once.
        modes: of `v` (video), `t` (text), `tv` (both).
        query_block: queries scored at a time; changes memory, not results.
    """
    starts = range(0, len(queries), query_block)
    asked = [model.ask(model.encode_query(queries[slice(start, start + query_block)]), modes) for start in starts]

    def score(block: EncodedDatabase) -> dict[str, Tensor]:
        parts = [model.score_asked(one, block) for one in asked]
        return {mode: torch.cat([part[mode] for part in parts]) for mode in modes}

    return score


def score_blocks(
    scorers: Sequence[Scorer], blocks: Iterable[tuple[Places, EncodedDatabase]], total: int
) -> list[dict[str, NDArray[np.float32]]]:
    """Give every block to every scorer: float32 [rows, total] by name, for each scorer.

    No product of all frames is kept: a block's scores are reduced before the next block is read.
    """
    filled: list[dict[str, NDArray[np.float32]]] = [{} for _ in scorers]
    for places, block in blocks:
        for scorer, matrices in zip(scorers, filled, strict=True):
            for name, scores in scorer(block).items():
                if name not in matrices:
                    matrices[name] = np.empty((len(scores), total), dtype=np.float32)
                matrices[name][:, places] = scores.float().cpu().numpy()
    return filled


@contextmanager
def evaluating(model: torch.nn.Module) -> Iterator[None]:
    """Eval mode without gradients; afterwards the model is as it was."""
    was_training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        model.train(was_training)


def _streams(store: FeatureStore) -> tuple[str, ...]:
    return ("video",) if store.dims.fine_dim is None else ("video", "fine")
