"""Published figures, as rows to print beside one's own; of the MUVR paper (arXiv 2510.21406) if not said otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from muvr_train.benchmarks.types import Benchmark

MUVR_PAPER = "MUVR paper, arXiv 2510.21406"
VISIL_PAPER = "ViSiL paper, arXiv 1908.07410"
DNS_PAPER = "DnS paper, arXiv 2106.13266"
IV_PAPER = "IV-Bench paper, arXiv 2504.15415, over its 2,560 questions, of which the released file has 1,686"
MUVR_QUERIES = 1050


@dataclass(frozen=True)
class PublishedRow:
    """A row of a published table.

    Attributes:
        system: What was scored.
        benchmark: `muvr_base`, ...
        mode: `v`, `t` or `tv`, `tag_0.3` ...; `any` where it does not matter.
        partition: Name of a partition, or `mean`.
        metrics: Name -> fraction in [0, 1]; a Reranking Score is in [-2, 1].
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


_SIMILARITY: Mapping[str, tuple[str, ...]] = {
    "fivr_200k": ("DSVR", "CSVR", "ISVR"),
    "cc_web_video": ("cc", "cc*", "c", "c*"),
}
_SIMILARITY_MAP: tuple[tuple[str, str, tuple[float, ...], str], ...] = (
    ("ViSiL", "fivr_200k", (0.892, 0.841, 0.702), VISIL_PAPER),
    ("DnS fine", "fivr_200k", (0.921, 0.875, 0.741), DNS_PAPER),
    ("DnS coarse", "fivr_200k", (0.574, 0.558, 0.476), DNS_PAPER),
    ("ViSiL", "cc_web_video", (0.985, 0.971, 0.996, 0.993), VISIL_PAPER),
    ("DnS fine", "cc_web_video", (0.984, 0.973, 0.995, 0.992), DNS_PAPER),
)
_QA: tuple[tuple[str, float, float], ...] = (
    ("GPT-4o, 6 frames", 0.65, 0.19),
    ("Gemini-2.0-Flash", 0.635, 0.07),
    ("InternVL2-8B", 0.585, -0.23),
    ("always yes", 0.5, 0.0),
    ("coin flip", 0.5, -0.5),
)
_IV: tuple[tuple[str, str, float], ...] = (
    ("human", "overall", 0.888),
    ("Qwen2.5-VL-72B", "overall", 0.289),
    ("Qwen2.5-VL-72B", "perception", 0.337),
    ("Qwen2.5-VL-72B", "reasoning", 0.219),
    ("InternVL2.5-78B", "overall", 0.286),
    ("Gemini-2-Pro", "overall", 0.277),
    ("GPT-4o", "overall", 0.207),
    ("Qwen2.5-VL-7B", "overall", 0.185),
    ("InternVL2.5-8B", "overall", 0.174),
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
    *(
        PublishedRow(system, benchmark, "any", partition, {"mAP": value}, source)
        for system, benchmark, values, source in _SIMILARITY_MAP
        for partition, value in zip(_SIMILARITY[benchmark], values, strict=True)
    ),
    *(
        PublishedRow(system, "muvr_qa", "any", "all", {"accuracy": accuracy, "reranking_score": score})
        for system, accuracy, score in _QA
    ),
    *(
        PublishedRow(system, "iv_bench", "any", partition, {"accuracy": value}, IV_PAPER)
        for system, partition, value in _IV
    ),
    PublishedRow("chance", "iv_bench", "any", "overall", {"accuracy": 0.103}, "computed from the released file"),
)


def is_whole_muvr(benchmark: Benchmark) -> bool:
    """Whether a benchmark may be what the paper evaluates, up to a few lost queries: not a part of it or another one.

    The five partitions are there, and the queries are as many as in the paper, give or take 20 %.
    """
    return (
        benchmark.name.startswith("muvr_")
        and {partition.name for partition in benchmark.partitions} == set(_PARTITIONS)
        and abs(len(benchmark.queries) - MUVR_QUERIES) <= 0.2 * MUVR_QUERIES
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
