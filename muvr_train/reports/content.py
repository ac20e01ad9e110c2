"""What a report is made of: plain results, and callables for what needs a model or videos."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muvr_train.benchmarks.published import PublishedRow
from muvr_train.benchmarks.types import Query
from muvr_train.reports.write import all_notes
from muvr_train.results import RerankedRow, Results

Map = NDArray[np.floating[Any]]
Maps = Callable[[Query, str], Sequence[tuple[str, Map]]]
"""Query and database id -> named similarity maps [frames of the query, frames of the video]."""
Pictures = Callable[[str], Iterable[NDArray[np.uint8]] | None]
"""Id of a query's or database video -> a few of its frames uint8 [H, W, 3], None where there is no video file."""


@dataclass(frozen=True)
class Limits:
    """Bounds on what a page shows.

    Attributes:
        queries: Queries that are shown with their results.
        results: Results of each.
        seconds: Time in which thumbnails are made; those that are not ready by then are left out and counted.
        picture_bytes: Bytes of all pictures.
    """

    queries: int = 24
    results: int = 8
    seconds: float = 10.0
    picture_bytes: int = 3_500_000


@dataclass(frozen=True)
class ReportContent:
    """Everything that `write_reports` needs.

    Attributes:
        model: Name of the evaluated model, a key of `named`.
        named: Results by name, on the same queries and gallery: untrained baselines, calibrated rows, the model.
        meta: As in results.json.
        ks: Cut-offs of recall@k.
        references: Published rows, only those that may stand beside these.
        reranked: Rows with the first videos of each query in another order.
        answers_page: Address of the page with the answers they are made of, "" where there is none.
        maps: Draws similarity maps; None where there is no model.
        pictures: Gives frames; None where no videos are at hand. May raise `DataError` for a broken video.
        limits: Bounds.
    """

    model: str
    named: Mapping[str, Results]
    meta: Mapping[str, Any]
    ks: Sequence[int]
    references: Sequence[PublishedRow] = ()
    reranked: Sequence[RerankedRow] = ()
    answers_page: str = ""
    maps: Maps | None = None
    pictures: Pictures | None = None
    limits: Limits = field(default_factory=Limits)

    @property
    def results(self) -> Results:
        """Those of the model itself."""
        return self.named[self.model]

    @property
    def notes(self) -> list[str]:
        """What stands below the tables."""
        return all_notes(self.meta.get("notes", ()), self.model, self.named)
