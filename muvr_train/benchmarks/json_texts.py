"""JSON texts whose strings can be written again."""

from __future__ import annotations

import json
from typing import Any


def load_json(text: str | bytes) -> Any:
    r"""Read JSON; a half of a character (a lone surrogate, which no file can hold) becomes a question mark.

    >>> load_json(r'["\ud83d\ude00 \ud83d"]') == ["\N{GRINNING FACE} ?"]
    True

    Raises:
        ValueError: it is no JSON.
    """
    content = json.loads(text)
    escape = b"\\ud" if isinstance(text, bytes) else "\\ud"
    if escape not in text.lower():  # type: ignore[operator]
        return content
    return json.loads(json.dumps(content, ensure_ascii=False).encode(errors="replace"))
