"""What an answerer gave back, checked (the class may be a user's own), or that there is nothing."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from muvr_train.rerank.types import AnswerError, Reply

HALVES = re.compile("[\ud800-\udfff]")


class NoAnswerError(AnswerError):
    """There is no answer to this question, which says nothing about others (a file without a line for it).

    Attributes:
        seconds: that asking took when it failed elsewhere, None where unknown.
    """

    def __init__(self, message: str, seconds: float | None = None) -> None:
        super().__init__(message)
        self.seconds = seconds


def fault_of(reply: Any) -> str:
    """Say what a reply should have and does not; nothing where it is sound."""
    if not isinstance(reply, Reply) or not (isinstance(reply.text, str) and isinstance(reply.finish, str)):
        return "a text (and a finish that is one)"
    if reply.tokens is not None and not (
        isinstance(reply.tokens, Mapping) and all(_number(value) is not None for value in reply.tokens.values())
    ):
        return "tokens that are numbers by text"
    for name in ("seconds", "prompt_tokens", "completion_tokens"):
        value = getattr(reply, name)
        if value is not None and ((number := _number(value)) is None or not 0 <= number < math.inf):
            return f"{name} that are a number of at least 0"
    return ""


def _number(value: Any) -> float | None:
    """A number of Python, numpy or torch; None for anything else."""
    try:
        return None if isinstance(value, (str, bytes, bool)) else float(value)
    except (TypeError, ValueError):
        return None


def plain(text: str) -> str:
    """Replace what no file can hold: halves of characters, as byte-wise tokenizers may leave them."""
    return HALVES.sub("\ufffd", text)


def speaks(token: str) -> bool:
    """Whether a token holds a letter or digit; markdown, brackets, quotes and white space in front of a word do not."""
    return any(sign.isalnum() for sign in token)
