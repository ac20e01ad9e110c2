"""The face of a calibration step: hooks that do nothing unless a step overrides them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from muvr_train.search.calibration.order import Kind

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Rows:
    """Scores of Q queries in one mode, on their way through the steps.

    Attributes:
        queries: Q ids.
        own: Q ids, the video of each query.
        database: N ids.
        scores: float64 [Q, N].
        background: float64 [Q, M], scores against the background videos, M = 0 where no step asks for one.
        background_ids: M ids.
        as_queries: gives the rows of database videos that are asked as video queries, with all earlier steps applied.
    """

    queries: tuple[str, ...]
    own: tuple[str, ...]
    database: tuple[str, ...]
    scores: Floats
    background: Floats
    background_ids: tuple[str, ...]
    as_queries: Callable[[Sequence[str]], Rows]


class FitContext(Protocol):
    """What a step may learn from: the training split or a background store, seen through the steps before it."""

    def vectors(self, part: str) -> Iterator[Tensor]:
        """L2-normalised vectors float32 [M, D] of a part, in blocks.

        "video" is what the network compares, "frames" what the text part looks at, "text" the texts of queries
        (nothing where there is none).
        """

    def scores(self) -> Mapping[str, Floats]:
        """Scores float64 [P] of training pairs by part, "video" and "text".

        A query's own video is left out; a part without a training query is absent.
        """


class CalibrationStep:
    """A named step of a calibration.

    A new one is a class in a file of the user's own, and configs/calibration/NAME.yaml with `NAME: {_target_: ...}`.

    Attributes:
        kind: "features" (the hook `features`), "fusion" (`fuse`) or "scores" (`scores`).
        parts: for a step on features, the parts that it changes.
        modes: for the others, the modes that it changes.
        pairwise: whether a pair's score depends on no other video of the gallery, see `sources.ScoreSource`.
        background_videos: most videos of the background that the step wants `Rows.background` for.
        state: what `fit` learned, plain tensors; saved and loaded by their names.
    """

    kind: ClassVar[Kind] = "scores"
    pairwise: ClassVar[bool] = False
    parts: tuple[str, ...] = ("video", "frames", "text")
    modes: tuple[str, ...] = ("v", "t", "tv")
    background_videos: int = 0

    def __init__(self) -> None:
        self.state: dict[str, Tensor] = {}

    def fit(self, context: FitContext) -> None:
        """Learn `state`; called once, after the steps before it are fitted."""

    def features(self, x: Tensor, part: str) -> Tensor:  # noqa: ARG002 (a hook)
        """Change L2-normalised vectors [..., D] of a part (see `FitContext.vectors`); the size D stays."""
        return x

    def fuse(self, parts: Mapping[str, Floats]) -> Floats:
        """Merge scores [Q, N] of the parts "video" and "text", of which all the queries here have those given."""
        raise NotImplementedError(f"{type(self).__name__} is of kind fusion and must override fuse()")

    def scores(self, rows: Rows) -> Rows:
        """Change the scores of queries, those against the background alike."""
        return rows
