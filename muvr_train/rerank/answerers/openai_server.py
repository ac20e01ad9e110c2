"""Multimodal models behind an OpenAI-compatible server: vLLM, SGLang, llama.cpp, OpenAI's own."""

from __future__ import annotations

import logging
import random
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from muvr_train.rerank.answerers.openai_client import check_model, connect, reachable, translated
from muvr_train.rerank.answerers.openai_messages import NoLogprobsError, clean, message_content, read_reply
from muvr_train.rerank.answerers.openai_settings import check_address, check_names
from muvr_train.rerank.answerers.retries import TransientError, with_retries
from muvr_train.rerank.answerers.setting_checks import check_flags, check_number, check_texts
from muvr_train.rerank.images import ImageSettings
from muvr_train.rerank.types import Answerer, AnswerError, Reply, Request

if TYPE_CHECKING:
    from openai import OpenAI

logger = logging.getLogger(__name__)
STOPPED = "the run was stopped"
LACKING = 3
"""Replies without log-probabilities, at least, after which a server that never gave any counts as one without them."""


class OpenAIServer(Answerer):
    """Asks a chat-completions server through the official client.

    A try that fails in a passing way (no connection, timeout, HTTP 408, 409, 429, 5xx, a reply that is broken, empty or
    without the log-probabilities that were asked for) is made again, later each time. A question that the server
    refuses (HTTP 400, 413, 422 ...) fails alone. A refused key, an unknown model or address, a server that is gone and
    one that has never given log-probabilities stop the run.

    Args:
        model: its name on the server.
        base_url: of the server, such as http://localhost:8000/v1; None: OPENAI_BASE_URL, else OpenAI's own.
        api_key_env: the variable of the environment that holds the key; servers of your own need none.
        concurrency: questions that are asked at the same time.
        retries: further tries of one question.
        back_off: seconds before the second try; doubled before each further one, 60 at most.
        timeout: seconds within which the server must send something.
        temperature: 0: greedy; None: not sent.
        seed: of the server's sampling; None: not sent.
        max_tokens: bound on an answer, with its reasoning; None: as each question says.
        max_tokens_key: what the server calls it: max_tokens, or max_completion_tokens.
        system: a system prompt; None: none.
        top_logprobs: candidates per token, where log-probabilities are wanted.
        extra: further keys of the request's body, such as {"chat_template_kwargs": {"enable_thinking": False}}.
        detail: "low", "high" or "auto" of OpenAI's image inputs; None: not sent.
        frame_times: put its time, as a text, before each frame of a video.
        image_format: see `ImageSettings`, also for the other settings of images.
        image_quality: see there.
        max_side: see there.
        max_image_mb: see there.
        max_request_mb: see there.

    Attributes:
        requests: what was sent so far, tries included.
        failures: failed tries, by kind.
        sleep: waits for some seconds; `close` ends a wait.

    Raises:
        ConfigError: a setting is impossible.
    """

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        api_key_env: str = "OPENAI_API_KEY",
        concurrency: int = 8,
        retries: int = 6,
        back_off: float = 1.0,
        timeout: float = 300.0,
        temperature: float | None = 0.0,
        seed: int | None = 0,
        max_tokens: int | None = None,
        max_tokens_key: str = "max_tokens",
        system: str | None = None,
        top_logprobs: int = 20,
        extra: Mapping[str, Any] | None = None,
        detail: str | None = None,
        frame_times: bool = False,
        image_format: str = "jpeg",
        image_quality: int = 90,
        max_side: int | None = 2048,
        max_image_mb: float | None = 10.0,
        max_request_mb: float | None = 45.0,
    ) -> None:
        self.name = self.model = model
        self.base_url, self.api_key_env = base_url, api_key_env
        self.concurrency, self.retries, self.back_off, self.timeout = concurrency, retries, back_off, timeout
        self.temperature, self.seed = temperature, seed
        self.max_tokens, self.max_tokens_key, self.system = max_tokens, max_tokens_key, system
        check_names(model, max_tokens_key, api_key_env, extra)
        self.top_logprobs, self.extra = top_logprobs, dict(extra or {})
        self.detail, self.frame_times = detail, frame_times
        self.images = ImageSettings(image_format, image_quality, max_side, max_image_mb, max_request_mb)
        self._check()
        self.requests, self.failures = 0, Counter[str]()
        self._closed, self._lock = threading.Event(), threading.Lock()
        self._client: OpenAI | None = None
        self._told_of_shrinking = self._gave_logprobs = False
        self._lacking = 0
        self.sleep = self._closed.wait

    def _check(self) -> None:
        check_texts(model=self.model, base_url=self.base_url, system=self.system, detail=self.detail)
        check_address(self.base_url)
        check_flags(frame_times=self.frame_times)
        check_number("concurrency", self.concurrency, 1, whole=True)
        check_number("retries", self.retries, 0, whole=True)
        check_number("back_off", self.back_off, 0)
        check_number("timeout", self.timeout, 0, above=True)
        check_number("temperature", self.temperature, 0, optional=True)
        check_number("seed", self.seed, 0, whole=True, optional=True)
        check_number("max_tokens", self.max_tokens, 1, whole=True, optional=True)
        check_number("top_logprobs", self.top_logprobs, 1, whole=True)

    def identity(self) -> Mapping[str, Any]:
        """What determines the answers; neither the server's address nor how often and how fast it is asked."""
        names = ("model", "temperature", "seed", "max_tokens", "system", "extra", "detail", "frame_times")
        return {"name": "openai", **{name: getattr(self, name) for name in names}, **asdict(self.images)}

    def prepare(self) -> None:
        """Connect, and see whether the server knows the model.

        Raises:
            ConfigError: the key or the client is missing, or there is no such model.
            DataError: there is no server.
        """
        check_model(self.client(), self.model, self.max_tokens_key)

    def client(self) -> OpenAI:
        """Give the client that all threads share."""
        with self._lock:
            if self._client is None:
                self._client = connect(self.base_url, self.api_key_env, self.timeout, self.concurrency)
            return self._client

    def answer(self, request: Request) -> Reply:
        """Ask the server, several times if need be.

        Raises:
            AnswerError: the server refuses the question, or all tries failed.
        """
        client, body, logprobs = self.client(), self._body(request), request.logprobs
        del request  # its pixels are not needed while the server thinks
        try:
            return with_retries(
                lambda: self._ask_once(client, body, logprobs),
                self.retries,
                self.back_off,
                self.sleep,
                random.random,
                self._count,
            )
        except TransientError as error:
            gone = error.lost and not self._closed.is_set() and not reachable(client)
            tries = f" ({self.retries + 1} tries)" if self.retries else ""
            raise AnswerError(f"{'the server is gone: ' if gone else ''}{error}{tries}", fatal=gone) from None

    def close(self) -> None:
        """Let go of the connections, end all waiting, and say in the log what had to be asked again."""
        self._closed.set()
        if self._client is not None:
            self._client.close()
        if self.failures:
            kinds = ", ".join(f"{count} x {kind}" for kind, count in self.failures.most_common())
            logger.info("%s: %d requests, of which failed: %s", self.name, self.requests, kinds)

    def _ask_once(self, client: OpenAI, body: dict[str, Any], logprobs: bool) -> Reply:
        if self._closed.is_set():
            raise AnswerError(STOPPED, fatal=True)
        with self._lock:
            self.requests += 1
        try:
            with translated(client, logprobs):
                reply = client.chat.completions.with_raw_response.create(**body)
        except RuntimeError:
            if client.is_closed():  # while it was asked
                raise AnswerError(STOPPED, fatal=True) from None
            raise
        try:
            found = read_reply(reply.http_response.content, logprobs)
        except NoLogprobsError as error:
            if self._never_gives_logprobs():
                raise AnswerError(
                    "the server gives no log-probabilities of tokens: judge by the text (decision=text, "
                    "rerank=keep_drop)",
                    fatal=True,
                ) from error
            raise
        if found.tokens:
            with self._lock:
                self._gave_logprobs = True
        return found

    def _never_gives_logprobs(self) -> bool:
        """Count a reply without them: as many as are asked for at once must lack them, before any has had them."""
        with self._lock:
            self._lacking += 1
            return not self._gave_logprobs and self._lacking >= max(LACKING, self.concurrency)

    def _count(self, error: TransientError) -> None:
        with self._lock:
            self.failures[error.kind] += 1
        logger.debug("%s: %s", self.name, error)

    def _body(self, request: Request) -> dict[str, Any]:
        """Give the arguments of the client's call; the same for all tries."""
        content, shrunk = message_content(request.parts, self.images, self.detail, self.frame_times)
        if shrunk:
            self._tell_of_shrinking(request.question.id, shrunk)
        messages: list[dict[str, Any]] = [{"role": "user", "content": content}]
        if self.system is not None:
            messages.insert(0, {"role": "system", "content": clean(self.system)})
        length = request.question.max_tokens if self.max_tokens is None else self.max_tokens
        body: dict[str, Any] = {
            "model": self.model,
            "messages": messages,
            "extra_body": {**self.extra, self.max_tokens_key: length},
        }
        if self.temperature is not None:
            body["temperature"] = self.temperature
        if self.seed is not None:
            body["seed"] = self.seed
        if request.logprobs:
            body |= {"logprobs": True, "top_logprobs": self.top_logprobs}
        return body

    def _tell_of_shrinking(self, question: str, images: int) -> None:
        with self._lock:
            told, self._told_of_shrinking = self._told_of_shrinking, True
        if not told:
            logger.warning(
                "%d images of question %s are sent coarser or smaller, to keep answerer.max_image_mb=%s and "
                "answerer.max_request_mb=%s; further ones will not be named",
                images,
                question,
                self.images.max_image_mb,
                self.images.max_request_mb,
            )
