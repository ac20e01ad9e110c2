"""Slow twin of muvr_train.metrics.bootstrap: queries are really drawn, and every metric is computed anew."""

from __future__ import annotations

import numpy as np

from muvr_train.metrics.functional import micro_average_precision, ranking_metrics


def drawn_rows(draws, resample):
    """The rows of one resample, each topic's as often as it is drawn."""
    rows = []
    for topic, times in enumerate(draws.weights[:, resample].astype(int)):
        members = np.flatnonzero(draws.row_topic == topic)
        rows += [*members] * times
    return np.array(rows, dtype=int)


def uap(scores, relevance, n_positive, draws, ties):
    """The uAP of every resample; NaN without a positive."""
    values = []
    for resample in range(draws.weights.shape[1]):
        rows = drawn_rows(draws, resample)
        total = int(n_positive[rows].sum())
        values.append(micro_average_precision(scores[rows], relevance[rows], total, ties) if total else np.nan)
    return np.array(values)


def mean(name, scores, relevance, n_positive, counted, ks, draws, ties):
    """The mean of a per-query metric over the counted queries of every resample; NaN without one."""
    values = []
    for resample in range(draws.weights.shape[1]):
        rows = drawn_rows(draws, resample)
        rows = rows[counted[rows]]
        found = ranking_metrics(scores[rows], relevance[rows], n_positive[rows], ks, ties)[name]
        values.append(found.mean() if len(rows) else np.nan)
    return np.array(values)
