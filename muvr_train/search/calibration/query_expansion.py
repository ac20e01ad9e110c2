"""Query expansion: what was found asks again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from muvr_train.errors import ConfigError
from muvr_train.search.calibration.base import CalibrationStep, Floats, Rows


class QueryExpansion(CalibrationStep):
    """(s(q, n) + sum_j w_j s(d_j, n)) / (1 + sum_j w_j) over the k videos d_j that the query finds first.

    w_j = clip(s(q, d_j), 0, 1) ^ alpha; alpha = 0 is the plain average (alpha-QE: Radenovic et al., arXiv 1711.02512).
    The average is taken over scores, with each d_j asked as a video query of its own: for one vector per video this is
    the classic average of vectors, and for tokens of frames, which have no common length to be averaged over, it is the
    form that is left. It acts on v and tv; a found video has no text to ask with in t, and in tv it asks by its video
    alone. Put it before steps that change the scale of scores, because weights are meant for cosines.

    Every found video is scored once, `chunk` at a time: time grows by at most k scorings of the query, memory by
    chunk x N. Where scores tie at the k-th place the smaller id is taken, so the order of the database has no effect.

    Args:
        k: videos that ask again; fewer where the database is smaller. The query's own video is never among them.
        alpha: exponent of the weights.
        chunk: found videos scored at a time; changes memory, not results.

    Raises:
        ConfigError: a value out of range.
    """

    modes = ("v", "tv")

    def __init__(self, k: int = 3, alpha: float = 3.0, chunk: int = 256) -> None:
        super().__init__()
        if k < 1 or chunk < 1 or not alpha >= 0:
            raise ConfigError(f"calibration.query_expansion: k={k} and chunk={chunk} must be >= 1, alpha={alpha} >= 0")
        self.k, self.alpha, self.chunk = k, alpha, chunk

    def scores(self, rows: Rows) -> Rows:
        """Average each query's rows with those of what it finds first."""
        names = np.array(rows.database, dtype=object)
        weights: list[dict[str, float]] = []
        for row, own in zip(rows.scores, rows.own, strict=True):
            first = _first(row, names, names != own, self.k)
            weights.append({names[i]: float(np.clip(row[i], 0.0, 1.0)) ** self.alpha for i in first})
        found = sorted({name for chosen in weights for name in chosen})
        scores, background = rows.scores.copy(), rows.background.copy()
        for start in range(0, len(found), self.chunk):
            block = found[start : start + self.chunk]
            again = rows.as_queries(block)
            share = np.array([[chosen.get(name, 0.0) for name in again.queries] for chosen in weights])
            scores += share @ again.scores
            background += share @ again.background
        total = 1.0 + np.array([sum(chosen.values()) for chosen in weights])[:, None]
        return replace(rows, scores=scores / total, background=background / total)


def _first(row: Floats, names: np.ndarray, allowed: np.ndarray, k: int) -> list[int]:
    """Places of the k largest scores among the allowed ones, ties by id."""
    places = np.flatnonzero(allowed)
    if len(places) > k:
        least = np.partition(row[places], len(places) - k)[len(places) - k]
        places = places[row[places] >= least]
    return sorted(places.tolist(), key=lambda place: (-row[place], names[place]))[:k]
