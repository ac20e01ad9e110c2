"""A question as it is asked, without its pixels: what its letters stand for, and a digest of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from muvr_train.rerank.types import Question


def asked_digest(question: Question, logprobs: bool) -> str:
    """Name a question as it is asked: prompt with the names of its visuals, options, length, log-probabilities wanted.

    Pixels are left out, so that no file is needed, and so are id and setting, which stand beside it.
    """
    parts = [part if isinstance(part, str) else [part.kind, part.name] for part in question.parts]
    facts = [parts, list(question.choices), options_of(question), question.max_tokens, logprobs]
    return short_digest(json.dumps(facts))


def options_of(question: Question) -> Mapping[str, str] | None:
    """Give the text behind each letter; None where the choices are the answers themselves."""
    options = question.about.get("options")
    return dict(options) if options else None


def short_digest(text: str) -> str:
    """Hash a text: 16 hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
