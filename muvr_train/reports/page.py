"""The HTML page: one file that needs nothing outside itself, made of a template and plain values."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from muvr_train.reports.breakdowns import breakdown_tables
from muvr_train.reports.charts import Charts, make_charts, shown_mode
from muvr_train.reports.content import Map, ReportContent
from muvr_train.reports.examples import Example, choose_rows, make_example
from muvr_train.reports.rerank_parts import gained_rows
from muvr_train.reports.score_tables import (
    counts_table,
    metric_names,
    modes_apart,
    partitions_of,
    percent,
    table_by_partition,
    table_of_metrics,
    upright,
)
from muvr_train.reports.thumbnails import Thumbnails, heat_map, make_thumbnails
from muvr_train.reports.write import DEFINITIONS

MOST_WARNINGS = 100
MOST_DOCUMENT = 40_000  # characters
OPEN = 3  # of the queries are unfolded


@dataclass(frozen=True)
class MapPicture:
    """A similarity map of an example: which video (and what it is), which map, and its data URI."""

    what: str
    video: str
    name: str
    image: str


@dataclass(frozen=True)
class Scale:
    """The colour scale that all maps of one name share."""

    name: str
    low: float
    high: float
    image: str

    @property
    def ends(self) -> tuple[str, str]:
        """Both ends as text, with the digits that their size needs."""
        form = ".2f" if self.high >= 0.1 else ".2g"
        return f"{self.low:{form}}", f"{self.high:{form}}"


def render_page(content: ReportContent) -> str:
    """Make the page.

    Ids, prompts and all other texts are escaped; the page loads nothing and runs no script.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("muvr_train.reports")
    environment = Environment(autoescape=True, undefined=StrictUndefined, loader=loader, trim_blocks=True)
    environment.filters["upright"] = upright
    graphs = make_charts(content)
    examples = _examples(content, graphs)
    thumbnails = _thumbnails(content, examples)
    maps, scales = _maps(content, examples)
    return environment.get_template("report.html").render(
        **_result_parts(content),
        **_protocol_parts(content),
        graphs=graphs,
        mode=shown_mode(content.results),
        modes=list(dict.fromkeys(example.mode for example in examples)),
        examples=[{**vars(example), "maps": maps.get(i, []), "open": i < OPEN} for i, example in enumerate(examples)],
        scales=scales,
        thumbnails=thumbnails,
        with_thumbnails=content.pictures is not None,
        broken=thumbnails.broken,
        missing_note=_missing_note(thumbnails),
    )


def _result_parts(content: ReportContent) -> dict[str, Any]:
    by_partition = [table_by_partition(content, metric) for metric in ("mAP", "uAP")]
    partitions = partitions_of(content)
    rows = [row for results in content.named.values() for row in results.rows]
    return {
        "model": content.meta.get("model", content.model),
        "benchmark": content.results.benchmark,
        "headline": _headline(content),
        "tiles": list(_tiles(content)),
        "partition_tables": [upright(table) for table in by_partition if table is not None],
        "mean_table": table_of_metrics(content, partitions[-1] if partitions else "mean", metric_names(content)),
        "all_tables": [table_of_metrics(content, name, metric_names(content, extra=True)) for name in partitions],
        "notes": content.notes,
        "gained": gained_rows(content.reranked),
        "answers_page": content.answers_page,
        "breakdowns": breakdown_tables(content),
        "published": "; ".join(dict.fromkeys(row.source for row in content.references)),
        "apart": modes_apart(content),
        "several": len(content.named) > 1,
        "intervals": any("intervals" in row for row in rows),
    }


def _headline(content: ReportContent) -> list[str]:
    protocol = content.meta.get("protocol", {})
    facts = [f"{name}: {protocol[name]}" for name in ("split", "gallery") if name in protocol]
    facts += [f"ties: {content.meta['ties']}"] if "ties" in content.meta else []
    return [
        *facts,
        f"muvr-train {content.meta.get('version', '?')}",
        *([str(content.meta["time"])] if "time" in content.meta else []),
    ]


def _tiles(content: ReportContent) -> Iterator[dict[str, str]]:
    """The mean of each mode in large figures."""
    for row in content.results.rows:
        metrics: Mapping[str, float] = row["metrics"]  # type: ignore[assignment]
        if row["partition"] == "mean" and "mAP" in metrics:
            more = f", uAP {percent(metrics['uAP'])}" if "uAP" in metrics else ""
            yield {"name": str(row["mode"]), "value": percent(metrics["mAP"]), "what": f"mAP{more}"}


def _examples(content: ReportContent, graphs: Charts) -> list[Example]:
    limits = content.limits
    chosen = choose_rows(graphs.kept, graphs.precisions, limits.queries)
    return [
        make_example(graphs.kept[part], row, choice, float(graphs.precisions[part][row]), limits.results)
        for part, row, choice in chosen
    ]


def _thumbnails(content: ReportContent, examples: Sequence[Example]) -> Thumbnails:
    if content.pictures is None:
        return Thumbnails()
    ids = [example.query.video_id for example in examples]
    for example in examples:
        ids += [video.video for video in (*example.results, *([example.missed] if example.missed else []))]
    return make_thumbnails(ids, content.pictures, content.limits.seconds, content.limits.picture_bytes)


def _missing_note(thumbnails: Thumbnails) -> str:
    counts = {
        "cannot be decoded": len(thumbnails.broken),
        "have no file": len(thumbnails.absent),
        "were left out to keep the page quick and small": len(thumbnails.left_out),
    }
    parts = [f"{number} {what}" for what, number in counts.items() if number]
    return f"Videos without a picture: {', '.join(parts)}." if parts else ""


def _maps(content: ReportContent, examples: Sequence[Example]) -> tuple[dict[int, list[MapPicture]], list[Scale]]:
    """Draw the maps of the first hit, the first miss and the missed match of each example; a scale per name."""
    drawn: list[tuple[int, str, str, str, Map]] = []
    if content.maps is not None:
        for index, example in enumerate(examples):
            for what, video in _mapped(example):
                drawn += [(index, what, video, name, values) for name, values in content.maps(example.query, video)]
    scales: dict[str, Scale] = {}
    for name in dict.fromkeys(name for *_, name, _ in drawn):
        own = [entry[-1] for entry in drawn if entry[3] == name]
        high = max(float(np.abs(array).max()) for array in own)
        low = -high if min(float(array.min()) for array in own) < 0 else 0.0
        scales[name] = Scale(name, low, high, heat_map(np.linspace(low, high, 128)[None], low, high))
    pictures: dict[int, list[MapPicture]] = {}
    for index, what, video, name, values in drawn:
        image = heat_map(values, scales[name].low, scales[name].high)
        pictures.setdefault(index, []).append(MapPicture(what, video, name, image))
    return pictures, list(scales.values())


def _mapped(example: Example) -> Iterator[tuple[str, str]]:
    for what, hit in (("first hit", True), ("first miss", False)):
        video = next((found.video for found in example.results if found.hit is hit), None)
        if video is not None:
            yield what, video
    if example.missed is not None:
        yield "missed match", example.missed.video


def _protocol_parts(content: ReportContent) -> dict[str, Any]:
    meta = content.meta
    warnings = [str(warning) for warning in meta.get("annotation_warnings", ())]
    if len(warnings) > MOST_WARNINGS:
        warnings = [*warnings[:MOST_WARNINGS], f"{len(warnings) - MOST_WARNINGS} more are in results.json"]
    store = meta.get("store") or {}
    documents = {"Config": meta.get("config"), "Feature store": store.get("manifest")}
    return {
        "facts": facts_of(meta),
        "counts": counts_table(content.results),
        "warnings": warnings,
        "definitions": _definitions(content),
        "documents": [(name, document(value)) for name, value in documents.items() if value],
    }


def _definitions(content: ReportContent) -> dict[str, str]:
    """All that results.json has, those of reranking where there is any."""
    known: Mapping[str, str] = content.meta.get("definitions", DEFINITIONS)
    return {name: text for name, text in known.items() if content.reranked or not name.startswith("reranked.")}


def facts_of(meta: Mapping[str, Any]) -> list[tuple[str, object]]:
    """The scalars of results.json's meta and of its protocol, and where the features are."""
    facts = {**meta, **{f"protocol: {name}": value for name, value in meta.get("protocol", {}).items()}}
    store = meta.get("store") or {}
    facts |= {"store": store["path"]} if "path" in store else {}
    return [(name, value) for name, value in facts.items() if isinstance(value, (str, int, float, bool))]


def document(value: object) -> str:
    """Anything plain as indented JSON, cut where it is too long for a page."""
    text = json.dumps(value, indent=2, ensure_ascii=False, default=str)
    return text if len(text) <= MOST_DOCUMENT else text[:MOST_DOCUMENT] + "\n... (all of it is in results.json)"
