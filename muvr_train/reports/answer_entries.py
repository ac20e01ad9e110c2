"""What a card says about each of its questions, as plain values for the template."""

from __future__ import annotations

import math
from collections.abc import Mapping

from muvr_train.reports.answer_cards import CORRECT, FAILED, INVALID, UNASKED, WRONG, Card, Entry
from muvr_train.reports.answer_figures import seconds_text
from muvr_train.reports.answer_reading import Reading
from muvr_train.rerank.prompts import describe
from muvr_train.rerank.types import Question

LONG = 300  # characters; longer answers are folded
MOST_ANSWER = 20_000
MOST_TOKENS = 8
MARKS = {CORRECT: "✓", WRONG: "✗", INVALID: "?", FAILED: "!", UNASKED: "–"}
FACTS = ("rank", "score", "level", "tasks")
"""Further facts of a question that are shown where it has them."""


def title_of(card: Card) -> tuple[str, list[str]]:
    """What a card is called, and the facts that stand beside."""
    question = card.entries[0].question
    about = question.about
    title = str(about["query"]) if "query" in about and _has_headings(card) else question.id
    facts = [card.setting, *(str(about[name]) for name in ("partition", "task", "granularity") if about.get(name))]
    facts += [f"tag {about[name]}" for name in ("tag", "expression") if about.get(name)]
    return title, [*facts, *([f"pair: {card.pair}"] if card.pair is not None else [])]


def headings_of(card: Card) -> list[str]:
    """What each question of a card is called; nothing where it is the only one and its id is the title."""
    if not _has_headings(card):
        return [""] * len(card.entries)
    names = [str(entry.question.about.get("target", entry.question.id)) for entry in card.entries]
    if card.pair is None:
        return names
    return [f"{what}: {name}" for what, name in zip(("match", "no match"), names, strict=True)]


def text_of(card: Card) -> str:
    """The description that all questions of a card share, as the prompt tells it."""
    about = card.entries[0].question.about
    return describe(str(about.get("text", "")), bool(about.get("outlined")))


def entry_of(entry: Entry, heading: str, reading: Reading) -> dict[str, object]:
    """Everything about a question but its images and videos."""
    question, answer = entry.question, entry.answer
    text = "" if answer is None else answer.text
    more = len(text) - MOST_ANSWER
    end = f"\n... ({more:,} characters more are in answers.jsonl)" if more > 0 else ""
    return {
        "heading": heading,
        "facts": [f"{name} {_short(question.about[name])}" for name in FACTS if question.about.get(name) is not None],
        "kind": FAILED if entry.outcome == UNASKED else entry.outcome,
        "outcome": entry.outcome,
        "mark": MARKS[entry.outcome],
        "question": str(question.about.get("question", "")),
        "options": _options(entry),
        "read": _read(entry, reading),
        "shares": "" if answer is None or not answer.answered else reading.shares(answer, question),
        "costs": _costs(entry),
        "reason": "" if answer is None else answer.reason,
        "answer": text[:MOST_ANSWER] + end,
        "long": len(text) > LONG or text.count("\n") > 8,
        "tokens": _tokens(answer.tokens if answer is not None else None),
        "prompt": prompt_of(question),
    }


def prompt_of(question: Question) -> str:
    """The texts as they are sent, with a mark for each image and video."""
    parts = [part if isinstance(part, str) else f"<{part.kind}: {part.name}>" for part in question.parts]
    return "\n".join(parts)


def _options(entry: Entry) -> list[dict[str, object]]:
    options = entry.options
    if not any(options.values()):
        return []
    return [
        {"name": name, "text": text, "right": name in entry.right, "chosen": name == entry.verdict}
        for name, text in options.items()
    ]


def _has_headings(card: Card) -> bool:
    return len(card.entries) > 1 or card.entries[0].question.about.get("benchmark") == "rerank"


def _read(entry: Entry, reading: Reading) -> str:
    """The right answer and the one that was given, or why there is none."""
    truth = f"right: {entry.question.truth}" if entry.question.truth else "the right answer is not known"
    if entry.answer is not None and entry.outcome == INVALID:
        return f"{reading.why_invalid(entry.answer, entry.question)} · {truth}"
    return truth if entry.verdict is None else f"{truth} · read as {entry.verdict}"


def _costs(entry: Entry) -> list[str]:
    answer = entry.answer
    if answer is None:
        return []
    seconds = [] if answer.seconds is None else [f"{seconds_text(answer.seconds)} s"]
    tokens = {"of the prompt": answer.prompt_tokens, "of the answer": answer.completion_tokens}
    counted = {what: number for what, number in tokens.items() if number is not None}
    return [*seconds, *(f"{number:,} token{'s' * (number != 1)} {what}" for what, number in counted.items())]


def _tokens(tokens: Mapping[str, float] | None) -> list[tuple[str, str]]:
    """The likeliest first tokens, as a literal, and their probability in percent."""
    ordered = sorted((tokens or {}).items(), key=lambda item: -item[1])[:MOST_TOKENS]
    return [(repr(token), f"{100 * math.exp(min(value, 0.0)):.3g} %") for token, value in ordered]


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
