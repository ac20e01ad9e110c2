"""The page of answers: figures, and a card for each question with what was shown, said and read; no server needed."""

from __future__ import annotations

import base64
import hashlib
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muvr_train.benchmarks.published import PublishedRow
from muvr_train.reports.answer_cards import (
    FAILED,
    INSTRUCTIVE,
    UNASKED,
    Card,
    choose_cards,
    facet_values,
    make_cards,
)
from muvr_train.reports.answer_entries import entry_of, headings_of, text_of, title_of
from muvr_train.reports.answer_figures import headline_tiles, rows_table, setting_tables, short_rows, sources_of
from muvr_train.reports.answer_files import definitions_of
from muvr_train.reports.answer_pictures import LEFT_OUT, Sheet, remove_stale, save_sheets
from muvr_train.reports.answer_reading import Reading
from muvr_train.reports.page import document, facts_of
from muvr_train.reports.rerank_parts import Gained
from muvr_train.rerank.types import Answer, Question, Visual
from muvr_train.rerank.visuals import Media

log = logging.getLogger(__name__)
PICTURES = "report_files"
READ = Reading()
NO_PICTURES = {
    True: "There are no pictures: no video or image is at hand.",
    False: "There are no pictures: this answerer looks at no video or image, and none is at hand.",
}
"""Whether the answerer looks at pictures -> why there are none."""


@dataclass(frozen=True)
class AnswerLimits:
    """Bounds on a page of answers.

    Attributes:
        items: questions; those with failed, invalid and wrong answers first.
        seconds: in which pictures are made; those of earlier pages in the same folder are there at once.
        picture_bytes: of all pictures.
    """

    items: int = 5000
    seconds: float = 60.0
    picture_bytes: int = 80_000_000


def write_answer_page(
    folder: Path,
    questions: Sequence[Question],
    verdicts: Mapping[tuple[str, str], str | None],
    answers: Mapping[tuple[str, str], Answer],
    rows: Sequence[Mapping[str, Any]],
    meta: Mapping[str, Any],
    published: Sequence[PublishedRow] = (),
    loads: bool = True,
    limits: AnswerLimits | None = None,
    *,
    reading: Reading = READ,
    looks: bool = True,
    gained: Gained | None = None,
    back: str = "",
) -> Path:
    """Write report.html into `folder`, with its pictures in `report_files`, each file at once (temp file + rename).

    Ids, prompts, answers and all other texts are escaped, and the page may run no script but its own.

    Args:
        folder: is made.
        questions: in the order of the page. Those about targets of one query, with one tag, stand on one card.
        verdicts: (question, setting) -> what the answer was read as, None where it is invalid or failed.
        answers: (question, setting) -> the answer; what has none is shown as not asked.
        rows: as in results.json.
        meta: as in results.json: scalars, `notes` and `definitions` are shown.
        published: rows that may stand beside these.
        loads: False leaves the pictures out; the page says so, also where no video or image is at hand.
        limits: bounds, None for the usual ones.
        reading: how the answers were read.
        looks: False says, where there are no pictures, that the answerer looks at none.
        gained: what reranking changed, for its page.
        back: address of the page that this one belongs to.

    Returns:
        The path of report.html.

    Raises:
        OSError: the folder cannot be written.
    """
    limits = limits or AnswerLimits()
    cards = make_cards(questions, verdicts, answers)
    chosen = choose_cards(cards, limits.items)
    folder.mkdir(parents=True, exist_ok=True)
    loads = loads and len(Media.missing(questions)) < len(questions)
    sheets = _sheets(folder / PICTURES, chosen, limits) if loads else {}
    parts = {
        **_result_parts(rows, meta, published),
        **_card_parts(chosen, reading),
        "left_out": len(cards) - len(chosen),
        "sheets": sheets,
        "picture_note": _picture_note(sheets) if loads else NO_PICTURES[looks],
        "gained": gained,
        "back": back,
    }
    text = _render(parts)
    temporary = folder / ".report.html.tmp"
    temporary.write_bytes(text.encode("utf-8", errors="replace"))
    os.replace(temporary, folder / "report.html")
    remove_stale(folder / PICTURES, sheets)
    return folder / "report.html"


def _sheets(folder: Path, cards: Sequence[Card], limits: AnswerLimits) -> dict[int, Sheet]:
    instructive = sorted(cards, key=lambda card: INSTRUCTIVE.index(card.outcome))
    visuals = [
        part
        for card in instructive
        for entry in card.entries
        for part in entry.question.parts
        if isinstance(part, Visual)
    ]
    if not visuals:
        return {}
    log.info("making the pictures of the page (%.0f s at most)", limits.seconds)
    return save_sheets(folder, visuals, limits.seconds, limits.picture_bytes)


def _render(parts: Mapping[str, Any]) -> str:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("muvr_train.reports")
    environment = Environment(autoescape=True, undefined=StrictUndefined, loader=loader, trim_blocks=True)
    script = loader.get_source(environment, "answers.js")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    return environment.get_template("answers.html").render(
        **parts, folder=PICTURES, script=script, script_hash=f"sha256-{digest}"
    )


def _card_parts(cards: Sequence[Card], reading: Reading) -> dict[str, Any]:
    facets = facet_values(cards)
    numbers = {(name, value): f"{f}.{v}" for f, name in enumerate(facets) for v, value in enumerate(facets[name])}
    several = any(len(card.entries) > 1 for card in cards)
    there = {_kind(card) for card in cards}
    return {
        "cards": [_card(card, numbers, reading) for card in cards],
        "facets": [
            {
                "name": "cards with an answer" if several and name == "outcome" else name,
                "values": [_value(name, value, count, numbers) for value, count in values.items()],
            }
            for name, values in facets.items()
        ],
        "several": several,
        "edges": [kind for kind in INSTRUCTIVE if kind in there],
    }


def _kind(card: Card) -> str:
    """What colours a card's edge."""
    return FAILED if card.outcome == UNASKED else card.outcome


def _value(facet: str, value: str, count: int, numbers: Mapping[tuple[str, str], str]) -> dict[str, object]:
    return {"name": value, "word": numbers[facet, value], "count": f"{count:,}"}


def _card(card: Card, numbers: Mapping[tuple[str, str], str], reading: Reading) -> dict[str, object]:
    words = [
        numbers[name, value]
        for name, values in card.facets.items()
        for value in sorted(values)
        if (name, value) in numbers
    ]
    title, facts = title_of(card)
    visuals = [[part for part in entry.question.parts if isinstance(part, Visual)] for entry in card.entries]
    common = _common(visuals) if len(card.entries) > 1 else 0
    headings = headings_of(card)
    return {
        "kind": _kind(card),
        "title": title,
        "facts": facts,
        "text": text_of(card),
        "words": " ".join(words),
        "visuals": [_visual(part) for part in visuals[0][:common]],
        "entries": [
            {**entry_of(entry, heading, reading), "visuals": [_visual(part) for part in own[common:]]}
            for entry, own, heading in zip(card.entries, visuals, headings, strict=True)
        ],
    }


def _common(visuals: Sequence[Sequence[Visual]]) -> int:
    """How many of the first images and videos are those of all questions."""
    number = 0
    for parts in zip(*visuals, strict=False):
        if len({(part.kind, part.name) for part in parts}) > 1:
            break
        number += 1
    return number


def _visual(part: Visual) -> dict[str, object]:
    return {"place": id(part), "kind": part.kind, "name": part.name}


def _picture_note(sheets: Mapping[int, Sheet]) -> str:
    left_out = sum(sheet == LEFT_OUT for sheet in sheets.values())
    broken = sum(bool(sheet.why) for sheet in sheets.values()) - left_out
    counts = {"cannot be shown (their cards say why)": broken, "were left out to keep the page small": left_out}
    parts = [f"{number:,} {what}" for what, number in counts.items() if number]
    return f"Of {len(sheets):,} images and videos {' and '.join(parts)}." if parts else ""


def _result_parts(
    rows: Sequence[Mapping[str, Any]], meta: Mapping[str, Any], published: Sequence[PublishedRow]
) -> dict[str, Any]:
    model = meta.get("model", meta.get("answerer", "answers"))
    benchmark = next((str(row["benchmark"]) for row in rows), str(meta.get("benchmark", "")))
    short, beside = short_rows(rows), setting_tables(rows, published)
    headline = [f"muvr-train {meta['version']}"] if "version" in meta else []
    headline += [str(meta["time"])] if "time" in meta else []
    return {
        "title": f"{model} on {benchmark}" if benchmark else str(model),
        "headline": headline,
        "tiles": list(headline_tiles(rows)),
        "table": rows_table(short, published),
        "side_by_side": beside,
        "whole_table": rows_table(rows, published) if beside or len(short) < len(rows) else None,
        "published": sources_of(published),
        "notes": [str(note) for note in meta.get("notes", ())],
        "definitions": meta.get("definitions", definitions_of(rows)),
        "facts": facts_of(meta),
        "documents": [
            (name, document(value))
            for name, value in meta.items()
            if isinstance(value, (dict, list)) and value and name not in ("notes", "definitions")
        ],
    }
