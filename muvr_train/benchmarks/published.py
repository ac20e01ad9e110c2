"""Published figures, as rows to print beside one's own. All are of the MUVR paper (arXiv 2510.21406), in percent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

MUVR_PAPER = "MUVR paper, arXiv 2510.21406"


@dataclass(frozen=True)
class PublishedRow:
    """A row of a published table.

    Attributes:
        system: What was scored.
        benchmark: `muvr_base`, ...
        mode: `v`, `t` or `tv`, `tag_0.3` ...; `any` where it does not matter.
        partition: Name of a partition, or `mean`.
        metrics: Name -> fraction in [0, 1].
        source: Where the figures stand.
    """

    system: str
    benchmark: str
    mode: str
    partition: str
    metrics: Mapping[str, float]
    source: str = MUVR_PAPER


_METRICS = ("mAP", "uAP", "recall@200", "recall@500", "recall@2000")
_MEANS: tuple[tuple[str, str, tuple[float, ...]], ...] = (
    ("EVA-CLIP", "t", (43.0, 23.3, 61.9, 73.3, 86.9)),
    ("EVA-CLIP", "v", (50.7, 33.1, 66.6, 77.8, 90.5)),
    ("EVA-CLIP", "tv", (58.0, 44.6, 73.0, 82.5, 92.3)),
    ("InternVideo2", "tv", (52.1, 37.4, 66.9, 78.4, 90.7)),
    ("CLIP RN50x4", "v", (34.2, 16.1)),
    ("CLIP RN50x4", "tv", (42.9,)),
    ("S2VS on CLIP RN50x4", "v", (47.2, 36.6)),
    ("CoVR", "tv", (43.3,)),
)
_PARTITIONS = ("news", "others", "instance", "region", "dance")
_MAP: tuple[tuple[str, str, tuple[float, ...]], ...] = (
    ("EVA-CLIP", "tv", (63.1, 66.1, 68.2, 63.8, 28.7)),
    ("InternVideo2", "tv", (57.3, 66.3, 55.3, 52.5, 28.9)),
    ("CLIP RN50x4", "tv", (49.4, 53.6, 46.5, 43.8, 21.2)),
    ("S2VS on CLIP RN50x4", "v", (51.3, 63.7, 49.5, 49.1, 22.5)),
    ("CoVR", "tv", (50.5, 54.3, 46.9, 44.0, 20.8)),
)


def _fractions(percents: tuple[float, ...]) -> dict[str, float]:
    return {name: round(value / 100, 4) for name, value in zip(_METRICS, percents, strict=False)}


ROWS: tuple[PublishedRow, ...] = (
    *(PublishedRow(system, "muvr_base", mode, "mean", _fractions(values)) for system, mode, values in _MEANS),
    *(
        PublishedRow(system, "muvr_base", mode, partition, {"mAP": round(value / 100, 4)})
        for system, mode, values in _MAP
        for partition, value in zip(_PARTITIONS, values, strict=True)
    ),
    PublishedRow("EVA-CLIP", "muvr_filter", "tag_0.0", "mean", {"mAP": 0.329}),
    PublishedRow("EVA-CLIP", "muvr_filter", "tag_0.3", "mean", {"mAP": 0.34}),
    PublishedRow("random ranking", "muvr_base", "any", "mean", {"mAP": 0.0075}),
)


def published_rows(
    benchmark: str, mode: str | None = None, partition: str | None = None, *, split: str = "all"
) -> tuple[PublishedRow, ...]:
    """The published rows that may stand beside one's own.

    Args:
        benchmark: `muvr_base`, ...
        mode: `v`, `t`, `tv`, or None for all.
        partition: Name of a partition or `mean`, None for all.
        split: The split one's own rows are on; published rows are on all queries, so any other split has none.
    """
    if split != "all":
        return ()
    return tuple(
        row
        for row in ROWS
        if row.benchmark == benchmark
        and (mode in (None, row.mode) or row.mode == "any")
        and partition in (None, row.partition)
    )
