"""What becomes of the places in query texts that point at a mask: `[<region>]`, `<mask1>`, `<mask_0001>`."""

from __future__ import annotations

import re
from typing import Any

from muvr_train.errors import ConfigError, DataError

RULES = ("drop", "name", "keep")
DEFAULT = "drop"
"""Text encoders were trained on plain sentences; the mark-up says nothing to them and uses up their context."""
NAME = "the marked object"

_MARK = "\0"
_PLACEHOLDER = re.compile(r"<\s*(?:region|mask)[\s_-]*\d*\s*>", re.IGNORECASE)
_BRACKETED = re.compile(
    r"\[([\0\s,;/&]|\band\b)*\0([\0\s,;/&]|\band\b)*\]|\(([\0\s,;/&]|\band\b)*\0([\0\s,;/&]|\band\b)*\)"
    r"|\{\s*\0\s*\}|[【（]\s*\0\s*[】）]|\"\s*\0\s*\"|“\s*\0\s*”",
)
_MENDED = (
    (re.compile(r"[\s\0]*\0[\s\0]*"), _MARK),  # one mark for neighbours, without the spaces around
    (re.compile(r"\0['’]s\b\s*"), _MARK),
    (re.compile(r"^\0[\s,.;:!?，。；：！？、]*|[\s,;:，；：、]*\0$"), ""),
    (re.compile(r"(?<=[\[({【（])\0|\0(?=[\])}】）])"), ""),
    (re.compile(r"(?<=[.!?…。！？])\0[.!?,;:。！？，；：]+"), " "),
    (re.compile(r"[,;:，；：、]\0(?=[,.;:!?…，。；：！？、])"), ""),
    (re.compile(r"\0(?=[,.;:!?…，。；：！？、])"), ""),
    (re.compile(_MARK), " "),
)


def check_rule(rule: str) -> None:
    """Raise a ConfigError unless there is such a rule."""
    if rule not in RULES:
        raise ConfigError(f"placeholders={rule} is not possible: choose from {', '.join(RULES)}")


def replace_placeholders(text: str, rule: str = DEFAULT) -> str:
    """Apply a rule to a text; one without placeholders stays as it is, letter by letter.

    `drop` takes placeholders away, with the brackets around them, and mends spaces and commas; `name` says "the marked
    object" instead, in round brackets where the placeholder stood in brackets; `keep` leaves all as it is.

    >>> replace_placeholders("Follow the man [<region>] in red, <mask1>, and his dog <mask2>.")
    'Follow the man in red, and his dog.'
    >>> replace_placeholders("Follow the man [<region>]. <mask1> sings.", "name")
    'Follow the man (the marked object). the marked object sings.'

    Raises:
        ConfigError: an unknown rule.
    """
    check_rule(rule)
    if rule == "keep" or not _PLACEHOLDER.search(text):
        return text
    marked = _PLACEHOLDER.sub(_MARK, text.replace(_MARK, " "))
    return _named(marked) if rule == "name" else _dropped(marked)


def _dropped(text: str) -> str:
    while (shorter := _BRACKETED.sub(_MARK, text)) != text:  # brackets in brackets
        text = shorter
    for pattern, by in _MENDED:
        text = pattern.sub(by, text)
    return text.strip()


def _named(text: str) -> str:
    text = re.sub(r"\b(?:the|an|a)\s+\0", _MARK, text, flags=re.IGNORECASE)
    text = re.sub(r"\[\s*\0\s*\]", f"({_MARK})", text)
    text = re.sub(r"(?<=[\w,.;:!?)\0])(?=\(?\0)", " ", text)
    text = re.sub(r"(?<=\0)(?=\w)|(?<=\0\))(?=\w)", " ", text)
    return text.replace(_MARK, NAME).strip()


def plain_texts(texts: dict[str, str], rule: str = DEFAULT) -> dict[str, str]:
    """Apply a rule to texts by query id.

    Raises:
        ConfigError: an unknown rule.
        DataError: texts that hold nothing but placeholders, by query id.
    """
    plain = {query: replace_placeholders(text, rule) for query, text in texts.items()}
    if empty := [query for query, text in plain.items() if not re.search(r"\w", text) and texts[query] != text]:
        queries = ", ".join(f"{query} ({texts[query]!r})" for query in empty[:5])
        raise DataError(
            f"{len(empty)} queries have a text of nothing but placeholders: {queries}. Give them words, leave their "
            "texts out, or extract with placeholders=name"
        )
    return plain


def rule_manifest(rule: str) -> dict[str, Any]:
    """What a store records: the rule where it is not the default."""
    check_rule(rule)
    return {} if rule == DEFAULT else {"placeholders": rule}
