"""What goes to a chat-completions server and what comes back, as plain values; nothing here connects to anything."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from muvr_train.rerank.answerers.retries import TransientError
from muvr_train.rerank.images import ImageSettings, encode_images, flat_parts
from muvr_train.rerank.replies import speaks
from muvr_train.rerank.types import AnswerError, Part, Reply

PART_BYTES = 200
"""What a part of a message takes besides its text or image, at most."""
MOST_TOKENS = 2**53


class NoLogprobsError(TransientError):
    """A reply lacks the log-probabilities that were asked for; others may have them."""


def message_content(
    parts: Sequence[Part], settings: ImageSettings, detail: str | None = None, frame_times: bool = False
) -> tuple[str | list[dict[str, Any]], int]:
    """Give the content of a user's message, and how many images had to be made smaller than the settings ask for.

    One text alone stays a plain text, which servers of text-only models take as well.

    Args:
        parts: texts, images, frames of videos, in order.
        settings: how images are sent.
        detail: "low", "high", "auto", or None: the server decides.
        frame_times: put its time before each frame.

    Raises:
        AnswerError: the images do not fit into a request.
    """
    flat = flat_parts(parts, frame_times)
    if len(flat) == 1 and isinstance(flat[0], str):
        return clean(flat[0]), 0
    texts = sum(len(clean(part).encode()) for part in flat if isinstance(part, str))
    images = [part for part in flat if not isinstance(part, str)]
    encoded = encode_images(images, settings, texts + PART_BYTES * len(flat))
    uris = iter(encoded.uris)
    more = {} if detail is None else {"detail": detail}
    content: list[dict[str, Any]] = [
        {"type": "text", "text": clean(part)}
        if isinstance(part, str)
        else {"type": "image_url", "image_url": {"url": next(uris), **more}}
        for part in flat
    ]
    return content, encoded.shrunk


def read_reply(body: bytes, logprobs: bool = False) -> Reply:
    """Read the answer out of a reply.

    What the model says counts as its answer even if it was cut off, filtered half-way or refuses. A reasoning that
    never came to an answer is a failure: there the allowed length was too small.

    Args:
        body: UTF-8 JSON.
        logprobs: whether log-probabilities were asked for.

    Raises:
        TransientError: the reply is broken or empty.
        NoLogprobsError: it has none.
        AnswerError: there is no answer and will be none.
    """
    reply = _parsed(body)
    choice = _choice(reply)
    message = choice["message"]
    reasoning = _first_text(message, "reasoning_content", "reasoning")
    text = _text(message.get("content"))
    if not text and reasoning:
        raise AnswerError(_unfinished(choice))
    if text is None:
        text = _first_text(message, "refusal")
    if text is None:
        if choice.get("finish_reason") == "content_filter":
            raise AnswerError("the server's content filter withheld the answer")
        raise TransientError("the server sent an answer without a text", "no text")
    tokens = _tokens(choice, text, bool(reasoning)) if logprobs else None
    usage = reply.get("usage")
    counts = usage if isinstance(usage, dict) else {}
    finish = choice.get("finish_reason")
    return Reply(
        text,
        tokens,
        _count(counts, "prompt_tokens"),
        _count(counts, "completion_tokens"),
        finish=finish if isinstance(finish, str) else "",
    )


def clean(text: str) -> str:
    """Replace halves of characters, which no request can hold."""
    return text.encode("utf-8", "replace").decode()


def server_message(body: object, limit: int = 300) -> str:
    """Give what a server says about an error, whatever form it has, on one short line."""
    while isinstance(body, Mapping):
        inner = next((body[name] for name in ("error", "message", "detail", "msg") if body.get(name)), None)
        body = json.dumps(body, ensure_ascii=False, default=str) if inner is None else inner
    text = body.decode(errors="replace") if isinstance(body, bytes) else "" if body is None else str(body)
    text = " ".join(text.split())
    return text if len(text) <= limit else f"{text[:limit]}..."


def _parsed(body: bytes) -> dict[str, Any]:
    try:
        reply = json.loads(body.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        reply = None
    if not isinstance(reply, dict):
        raise TransientError(f"the reply is no JSON object: {server_message(body, 80)!r}", "malformed JSON")
    return reply


def _choice(reply: Mapping[str, Any]) -> dict[str, Any]:
    """Give the first choice of a reply, which has a message."""
    choices = reply.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, dict) or not isinstance(choice.get("message"), dict):
        said = server_message(reply.get("error"))
        raise TransientError("the reply holds no message" + (f": {said}" if said else ""), "no message")
    return choice


def _text(content: object) -> str | None:
    """Give a message's text, which some servers send in parts."""
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, dict)]
        return "".join(text for text in texts if isinstance(text, str)) or None
    return content if isinstance(content, str) else None


def _first_text(message: Mapping[str, Any], *names: str) -> str | None:
    return next((message[name] for name in names if isinstance(message.get(name), str) and message[name]), None)


def _unfinished(choice: Mapping[str, Any]) -> str:
    if choice.get("finish_reason") == "length":
        return "the model was cut off while it reasoned: raise answerer.max_tokens"
    return f"the model reasoned, but gave no answer (finish_reason: {choice.get('finish_reason')})"


def _count(usage: Mapping[str, Any], name: str) -> int | None:
    value = usage.get(name)
    sound = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_TOKENS
    return value if sound else None


def _tokens(choice: Mapping[str, Any], text: str, reasoned: bool) -> dict[str, float] | None:
    """Give the log-probabilities of the candidates for the answer's first token that holds a letter or digit."""
    given = choice.get("logprobs")
    entries = given.get("content") if isinstance(given, dict) else None
    entries = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    if not entries:
        if not text:
            return None
        raise NoLogprobsError("the reply has no log-probabilities of tokens", "no log-probabilities")
    written = [entry["token"] if isinstance(entry.get("token"), str) else "" for entry in entries]
    start = _answer_start(written, text) if reasoned else 0
    if start is None:
        return None
    places = [i for i in range(start, len(entries)) if written[i].strip()]
    if not places:
        return None
    first = entries[next((i for i in places if speaks(written[i])), places[0])]
    candidates = first.get("top_logprobs")
    tokens: dict[str, float] = {}
    for candidate in [*(candidates if isinstance(candidates, list) else []), first]:
        token = candidate.get("token") if isinstance(candidate, dict) else None
        value = _finite(candidate["logprob"]) if isinstance(token, str) and "logprob" in candidate else None
        if isinstance(token, str) and value is not None:
            tokens[token] = max(value, tokens.get(token, -math.inf))
    return tokens


def _finite(value: object) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:  # a whole number of hundreds of digits
        return None


def _answer_start(written: Sequence[str], text: str) -> int | None:
    """Find the token at which the answer starts behind a reasoning: the last one from which on it can be read."""
    tail = ""
    for i in reversed(range(len(written))):
        tail = written[i] + tail
        if tail.lstrip().startswith(text.strip()):
            return i
    return None
