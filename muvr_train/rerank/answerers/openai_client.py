"""The official client of chat-completions servers: its connection, and what its errors mean."""

from __future__ import annotations

import ipaddress
import json
import logging
import os
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from muvr_train.errors import ConfigError, DataError, shorten
from muvr_train.names import hint, nearest_names
from muvr_train.rerank.answerers.openai_messages import server_message
from muvr_train.rerank.answerers.retries import TransientError, retry_after
from muvr_train.rerank.types import AnswerError

if TYPE_CHECKING:
    from openai import APIConnectionError, APIStatusError, OpenAI

logger = logging.getLogger(__name__)
PASSING = (408, 409, 425, 429)
FATAL = (401, 402, 403, 404, 405)
FIRST_CONTACT = 10.0
"""Seconds in which a server must take a connection and name its models."""
SHORT = 16
"""Tokens of a first answer that only shows that the model is there."""
NO_KEY = "no-key"


def connect(base_url: str | None, api_key_env: str, timeout: float, concurrency: int) -> OpenAI:
    """Make a client, which connects when it is first asked. Retries are the caller's.

    Proxies of the environment are used, but never towards this machine itself.

    Args:
        base_url: None: OPENAI_BASE_URL, else OpenAI's own.
        api_key_env: the variable that holds the key.
        timeout: seconds.
        concurrency: requests at the same time.

    Raises:
        ConfigError: the client is not installed, or there is neither a key nor an address.
    """
    try:
        import openai
    except ImportError:
        raise ConfigError("answerer=openai needs the official client: pip install 'muvr-train[mllm]'") from None
    url = base_url or os.environ.get("OPENAI_BASE_URL") or None
    key = _key(api_key_env, url)
    for name in ("httpx", "httpx2", "openai"):  # they log every request
        if logging.getLogger(name).level == logging.NOTSET:
            logging.getLogger(name).setLevel(logging.WARNING)
    spare = concurrency + 1
    limits = type(openai.DEFAULT_CONNECTION_LIMITS)(max_connections=spare, max_keepalive_connections=spare)
    waits = openai.Timeout(timeout, connect=min(FIRST_CONTACT, timeout))
    try:
        http = openai.DefaultHttpxClient(limits=limits, timeout=waits, trust_env=not _is_local(url))
    except (ImportError, ValueError) as error:
        raise ConfigError(f"answerer=openai: a proxy of the environment cannot be used: {error}") from None
    return openai.OpenAI(api_key=key, base_url=url, timeout=waits, max_retries=0, http_client=http)


def check_model(client: OpenAI, model: str, max_tokens_key: str) -> None:
    """See within seconds whether the server is there and knows the model.

    Servers that do not list their models are believed. A model that is not in the list may still be known (a
    deployment, an alias): then one short question decides.

    Raises:
        ConfigError: the key is refused, or there is no such model.
        DataError: there is no server.
    """
    known = listed_models(client)
    if known is None or model in known or any(fnmatchcase(model, pattern) for pattern in known):
        return
    import openai

    patient = client.with_options(timeout=10 * FIRST_CONTACT).chat.completions.with_raw_response
    try:
        patient.create(
            model=model, messages=[{"role": "user", "content": "Say yes."}], extra_body={max_tokens_key: SHORT}
        )
    except openai.APIStatusError as error:
        if 400 <= error.status_code < 500 and error.status_code not in PASSING:
            near = nearest_names(model, known, limit=3, least=0.4)
            raise ConfigError(
                f"answerer.model={model}: {_where(client)} has {shorten(known, 5)}{hint(near) or '.'} "
                f"It says: {_said(error, client)}"
            ) from None
        logger.warning("%s: HTTP %d at the first question; it is asked on", _where(client), error.status_code)
    except openai.APIConnectionError as error:
        logger.warning("%s: %s at the first question; it is asked on", _where(client), _cause(error))
    else:
        logger.info("%s does not list the model %s, but answers by that name", _where(client), model)


def listed_models(client: OpenAI) -> list[str] | None:
    """Give the names of a server's models; None where it gives none.

    Raises:
        ConfigError: the key is refused.
        DataError: there is no server.
    """
    import openai

    try:
        reply = client.with_options(timeout=FIRST_CONTACT).models.with_raw_response.list().http_response.content
        models = json.loads(reply)
    except openai.APITimeoutError as error:
        if type(error.__cause__).__name__ == "ConnectTimeout":
            raise DataError(_no_server(client, error)) from None
        logger.warning("%s does not name its models within %.0f seconds; it is asked on", _where(client), FIRST_CONTACT)
        return None
    except openai.APIConnectionError as error:
        raise DataError(_no_server(client, error)) from None
    except openai.APIStatusError as error:
        if error.status_code == 401:
            raise ConfigError(f"{_where(client)} refuses the key: {_said(error, client)}") from None
        return None  # many gateways and keys serve answers only
    except ValueError:
        return None
    rows = models.get("data") if isinstance(models, dict) else models
    names = [row.get("id") for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return [name for name in names if isinstance(name, str)] or None


def reachable(client: OpenAI) -> bool:
    """Whether the server says anything at all."""
    import openai

    try:
        client.with_options(timeout=FIRST_CONTACT).models.with_raw_response.list()
    except openai.APIConnectionError:
        return False
    except openai.APIStatusError:
        return True
    return True


@contextmanager
def translated(client: OpenAI, logprobs: bool) -> Iterator[None]:
    """Turn the client's errors into ours.

    Args:
        client: for its address and key.
        logprobs: whether log-probabilities are asked for, which some servers refuse.

    Raises:
        TransientError: another try may work.
        AnswerError: it will not; fatal where no other question can be answered either.
    """
    import openai

    try:
        yield
    except openai.APITimeoutError:
        raise TransientError(
            f"{_where(client)} did not answer in time (answerer.timeout)", "timeout", lost=True
        ) from None
    except openai.APIConnectionError as error:
        raise TransientError(f"no answer from {_where(client)}: {_cause(error)}", "connection", lost=True) from None
    except openai.APIStatusError as error:
        raise _refusal(error, client, logprobs) from None


def _refusal(error: APIStatusError, client: OpenAI, logprobs: bool) -> TransientError | AnswerError:
    """Judge an HTTP status."""
    status, said = error.status_code, _said(error, client)
    message = f"HTTP {status}" + (f": {said}" if said else "")
    if error.code == "insufficient_quota":
        return AnswerError(f"{_where(client)}: {message}", fatal=True)
    if status in PASSING or status >= 500:
        return TransientError(message, f"HTTP {status}", retry_after(error.response.headers))
    if status in FATAL:
        return AnswerError(f"{_where(client)} (answerer.base_url, answerer.model, or the key): {message}", fatal=True)
    if logprobs and "logprob" in said.lower():
        return AnswerError(f"{message}; answerer.top_logprobs asks for fewer, decision=text for none", fatal=True)
    if status == 413:
        message += "; answerer.max_request_mb makes requests smaller"
    return AnswerError(message)


def _where(client: OpenAI) -> str:
    return f"the server {client.base_url}"


def _no_server(client: OpenAI, error: APIConnectionError) -> str:
    url = str(client.base_url)
    proxy = "" if _is_local(url) or not urllib.request.getproxies() else " (through the proxy of the environment)"
    return f"answerer.base_url={url}: no server answers there{proxy}: {_cause(error)}; start it, or mend the address"


def _cause(error: APIConnectionError) -> str:
    return server_message(str(error.__cause__ or error), 200)


def _said(error: APIStatusError, client: OpenAI) -> str:
    """What the server says, without the key."""
    said = server_message(error.body if error.body else error.response.content)
    return said if client.api_key == NO_KEY else said.replace(client.api_key, "(the key)")


def _key(variable: str, url: str | None) -> str:
    """Read the key from the environment; a server of one's own may do without."""
    key = os.environ.get(variable, "").strip()
    if not key and url is None:
        raise ConfigError(
            f"the environment has no {variable}: export the key of OpenAI's server, or give the address of your own, "
            "such as answerer.base_url=http://localhost:8000/v1"
        )
    if not key.isascii() or not key.isprintable():
        raise ConfigError(f"{variable} holds characters that no key has; it must be one line of plain ASCII")
    return key or NO_KEY


def _is_local(url: str | None) -> bool:
    """Whether a plain HTTP address is on this machine, where no proxy can reach it."""
    parts = urlsplit(url or "")
    if parts.scheme != "http" or parts.hostname is None:
        return False
    try:
        address = ipaddress.ip_address(parts.hostname)
    except ValueError:
        return parts.hostname == "localhost" or parts.hostname.endswith(".localhost")
    return address.is_loopback or address.is_unspecified
