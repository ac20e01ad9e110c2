"""A matrix of scores with the ids of its rows and columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muvr_train.errors import DataError, shorten


@dataclass(frozen=True)
class ScoreMatrix:
    """Scores of queries against database videos, higher is more similar.

    Attributes:
        queries: Q ids.
        database: N ids.
        scores: float32 or float64 [Q, N].

    Raises:
        DataError: the shape does not fit the ids, an id stands twice, or scores are of another type.
    """

    queries: tuple[str, ...]
    database: tuple[str, ...]
    scores: NDArray[Any]

    def __post_init__(self) -> None:
        if self.scores.shape != (len(self.queries), len(self.database)):
            raise DataError(
                f"scores of shape {self.scores.shape} do not fit {len(self.queries)} queries x {len(self.database)} "
                "database videos"
            )
        if self.scores.dtype not in (np.float32, np.float64):
            raise DataError(f"scores must be float32 or float64 (coarser ones tie falsely), got {self.scores.dtype}")
        for what, ids in (("query", self.queries), ("database", self.database)):
            if len(set(ids)) < len(ids):
                twice = [name for name, count in Counter(ids).items() if count > 1]
                raise DataError(f"{len(twice)} {what} ids stand twice in the scores: {shorten(twice)}")

    def take(self, queries: Sequence[str] | None = None, database: Sequence[str] | None = None) -> ScoreMatrix:
        """Choose and reorder rows and columns by id.

        Args:
            queries: ids that are all there, None for all rows as they are.
            database: ids that are all there, None for all columns as they are.

        Raises:
            KeyError: an id that is not there.
        """
        chosen = self
        if queries is not None and tuple(queries) != self.queries:
            place = {name: row for row, name in enumerate(self.queries)}
            rows = [place[name] for name in queries]
            chosen = ScoreMatrix(tuple(queries), chosen.database, chosen.scores[rows])
        if database is not None and tuple(database) != self.database:
            place = {name: column for column, name in enumerate(self.database)}
            columns = [place[name] for name in database]
            chosen = ScoreMatrix(chosen.queries, tuple(database), chosen.scores[:, columns])
        return chosen

    def refuse_nan(self, maker: str = "the checkpoint") -> None:
        """Refuse scores that have no order.

        Args:
            maker: of the scores, for the message.

        Raises:
            DataError: a score is NaN or infinite (the first query and video are named).
        """
        if np.isfinite(self.scores).all():
            return
        bad = np.argwhere(~np.isfinite(self.scores))
        row, column = bad[0]
        raise DataError(
            f"{len(bad)} scores are not finite; the first is {self.scores[row, column]}, of query {self.queries[row]} "
            f"against video {self.database[column]}: look at the features of both and at {maker}"
        )
