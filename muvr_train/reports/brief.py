"""Short names of runs, for tables and pictures that have no room for a date in each line."""

from __future__ import annotations

import re
from collections.abc import Sequence

AUTOMATIC = re.compile(r"-\d{4}-\d\d-\d\d_(\d\d-\d\d-\d\d(_\d+)?)(?=[:/]|$)")
"""What the automatic name of a run ends in: date, time and its number in a sweep."""


def brief_names(names: Sequence[str], limit: int = 48) -> dict[str, str]:
    """Shorten names, each to one that no other has.

    Automatic names lose their date and time, or the date alone where that would make two the same; what is longer than
    `limit` letters then loses its middle.
    """
    names = list(dict.fromkeys(names))
    brief = dict(zip(names, names, strict=True))
    for form in (r" \1", ""):
        tried = [AUTOMATIC.sub(form, name) for name in names]
        brief |= {name: text for name, text in zip(names, tried, strict=True) if tried.count(text) == 1}
    cut = [without_middle(text, limit) for text in brief.values()]
    return {name: new if cut.count(new) == 1 else old for (name, old), new in zip(brief.items(), cut, strict=True)}


def without_middle(text: str, limit: int) -> str:
    """Cut what is longer than `limit` letters, in its middle."""
    kept = limit - 1
    return text if len(text) <= limit else f"{text[: kept - kept // 2]}…{text[len(text) - kept // 2 :]}"
