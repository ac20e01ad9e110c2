"""Settings of chat-completions servers that cannot be right, named before anything is connected."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from muvr_train.errors import ConfigError
from muvr_train.rerank.answerers.setting_checks import check_mappings

LENGTH_KEYS = ("max_tokens", "max_completion_tokens")
TAKEN = {
    "model": "answerer.model",
    "temperature": "answerer.temperature",
    "seed": "answerer.seed",
    **dict.fromkeys(LENGTH_KEYS, "answerer.max_tokens and answerer.max_tokens_key"),
    "top_logprobs": "answerer.top_logprobs",
    **dict.fromkeys(("messages", "logprobs"), "the question"),
    **dict.fromkeys(("stream", "n"), "this program: one whole answer at a time"),
}
"""Keys of the request's body that `extra` may not hold, and what sets them."""


def check_address(url: str | None) -> None:
    """Refuse what is no address of a server, or holds a password, which the saved settings would show.

    Raises:
        ConfigError: says what is wrong.
    """
    if url is None:
        return
    parts = urlsplit(url)
    if parts.username or parts.password:
        raise ConfigError("answerer.base_url holds a password, which results would show; use answerer.api_key_env")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"answerer.base_url={url} is no address; give one such as http://localhost:8000/v1")
    if parts.path.rstrip("/").endswith("/completions"):
        raise ConfigError(f"answerer.base_url={url}: leave out /chat/completions, which the client appends")


def check_names(model: str, max_tokens_key: str, api_key_env: str, extra: Mapping[str, Any] | None) -> None:
    """Refuse an empty model, unknown names, a key in place of its variable, and keys that other settings set.

    Raises:
        ConfigError: names the setting; a key is never repeated.
    """
    if not model:
        raise ConfigError("answerer.model must be the model's name on the server, it is empty")
    if max_tokens_key not in LENGTH_KEYS:
        raise ConfigError(f"answerer.max_tokens_key must be one of {', '.join(LENGTH_KEYS)}, got {max_tokens_key!r}")
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", str(api_key_env)):
        raise ConfigError("answerer.api_key_env is the name of a variable of the environment, never the key itself")
    check_mappings(extra=extra)
    for key in extra or {}:
        if key in TAKEN:
            raise ConfigError(f"answerer.extra.{key}: that is set by {TAKEN[key]}")
