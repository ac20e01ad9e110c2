"""Score normalisation: a query that is similar to everything loses that advantage."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from muvr_train.errors import ConfigError, DataError
from muvr_train.search.calibration.base import CalibrationStep, Rows


class ScoreNorm(CalibrationStep):
    """s(q, n) - weight * mean of the k largest scores of q against the background (VSC2022, arXiv 2306.09489).

    The ranking of one query stays as it is, so that mAP does not change; uAP does, because scores of different
    queries become comparable. Each mode is normalised by its own background scores. The background are at most
    `videos` videos of the training split (or of `calibration_background`); the query's own video is left out of it.

    Args:
        k: how many background scores; fewer where the background is smaller.
        weight: of their mean.
        videos: most background videos, drawn once with a seed.

    Raises:
        ConfigError: a value out of range.
    """

    pairwise = True

    def __init__(self, k: int = 10, weight: float = 1.0, videos: int = 512) -> None:
        super().__init__()
        if k < 1 or videos < 1:
            raise ConfigError(f"calibration.score_norm: k={k} and videos={videos} must be >= 1")
        self.k, self.weight, self.background_videos = k, weight, videos

    def scores(self, rows: Rows) -> Rows:
        """Subtract each query's bias.

        Raises:
            DataError: the background holds nothing but a query's own video.
        """
        own = np.array(rows.own, dtype=object)[:, None] == np.array(rows.background_ids, dtype=object)[None]
        left = (~own).sum(axis=1)
        if not left.all():
            query = rows.queries[int(np.argmin(left))]
            raise DataError(f"score_norm: the background holds no other video than the query {query}'s own; give more")
        ordered = -np.sort(np.where(own, np.inf, -rows.background), axis=1)[:, : self.k]
        count = np.minimum(left, self.k)
        real = np.arange(ordered.shape[1]) < count[:, None]
        bias = self.weight * (np.where(real, ordered, 0.0).sum(axis=1) / count)[:, None]
        return replace(rows, scores=rows.scores - bias, background=rows.background - bias)
