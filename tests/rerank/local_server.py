"""A real HTTP server on this machine that speaks chat completions, and misbehaves when told to."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import random
import select
import socket
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

FAULTS = ("500", "429", "drop", "truncate", "malformed", "no_choices", "null", "slow")
COLOURS = {"red": (220, 30, 30), "green": (30, 200, 30), "blue": (30, 30, 220), "white": (250, 250, 250)}
PATIENCE = 20.0
"""Seconds after which a request that waits for others or for its client gives up; no test that passes gets there."""


@dataclass
class Asked:
    """One request for an answer, and what became of it."""

    body: dict[str, Any]
    headers: dict[str, str]
    size: int
    fault: str | None = None
    answered: bool = False
    content: list[dict[str, Any]] = field(init=False)

    def __post_init__(self) -> None:
        content = self.body["messages"][-1]["content"]
        self.content = [{"type": "text", "text": content}] if isinstance(content, str) else content

    @property
    def shown(self) -> list[str | NDArray[np.uint8]]:
        """Texts and decoded images in order."""
        return [part["text"] if part["type"] == "text" else decoded(part["image_url"]["url"]) for part in self.content]

    @property
    def text(self) -> str:
        """All texts of the question."""
        return "\n".join(part["text"] for part in self.content if part["type"] == "text")


def decoded(uri: str) -> NDArray[np.uint8]:
    """Read a data URI."""
    head, _, data = uri.partition(",")
    image = Image.open(io.BytesIO(base64.b64decode(data, validate=True)))
    assert head == f"data:image/{(image.format or '').lower()};base64"
    return np.asarray(image)


def colour_of(pixels: NDArray[np.uint8]) -> str:
    """Name the colour that is nearest to an image's mean."""
    mean = pixels.reshape(-1, 3).mean(0)
    return min(COLOURS, key=lambda name: float(np.abs(mean - COLOURS[name]).sum()))


def by_colour(asked: Asked) -> str:
    """Answer with what was seen, in order: texts as they are, colours of images."""
    return " ".join(part if isinstance(part, str) else colour_of(part) for part in asked.shown)


def at_random(share: float, seed: int, faults: tuple[str, ...] = FAULTS) -> Callable[[Asked], str | None]:
    """A share of all requests meets one of the faults."""
    dice = random.Random(seed)
    return lambda _: dice.choice(faults) if dice.random() < share else None


class LocalServer:
    """Serves until the end of its `with` block.

    Args:
        answer: gives the text, or a whole choice, for a request.
        fault: names what goes wrong with it: one of FAULTS, an HTTP status, "gone" (the server ends); None: nothing.
        models: that it lists; None: it has no /models.
        gather: the first requests wait until so many are under way.
        says: the body of errors.
        retry_after: header of errors 429.
        key: that requests need, if any.

    Attributes:
        asked: all requests for answers, in the order in which they came.
        listed: how often the models were listed.
        most: requests that were under way at the same time, at most.
    """

    def __init__(
        self,
        answer: Callable[[Asked], str | dict[str, Any]] = by_colour,
        fault: Callable[[Asked], str | None] = lambda _: None,
        models: tuple[str, ...] | None = ("tiny",),
        gather: int = 1,
        says: object = None,
        retry_after: str = "0",
        key: str | None = None,
    ) -> None:
        self.answer, self.fault, self.models, self.gather = answer, fault, models, gather
        self.says, self.retry_after, self.key = says, retry_after, key
        self.asked: list[Asked] = []
        self.listed = self.most = self._now = 0
        self._lock = threading.Condition()
        self.connections: list[socket.socket] = []
        self._http = _Server(self)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def __enter__(self) -> LocalServer:
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """End, with all connections."""
        self._http.shutdown()
        self._http.server_close()
        for connection in self.connections:
            with contextlib.suppress(OSError):  # closed already
                connection.shutdown(socket.SHUT_RDWR)

    def answers(self) -> Counter[str]:
        """How often each text was answered."""
        return Counter(asked.text for asked in self.asked if asked.answered)

    def enter(self, asked: Asked) -> None:
        with self._lock:
            self.asked.append(asked)
            asked.fault = self.fault(asked)
            self._now += 1
            self.most = max(self.most, self._now)
            self._lock.notify_all()
            self._lock.wait_for(lambda: self.most >= self.gather, PATIENCE)

    def leave(self) -> None:
        """Called before the last byte is sent: what the client asks next does not overlap with this."""
        with self._lock:
            self._now -= 1


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, owner: LocalServer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.owner = owner

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):  # clients may hang up
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *args: object) -> None:
        pass

    def setup(self) -> None:
        super().setup()
        self.owner = self.server.owner
        self.owner.connections.append(self.connection)

    def do_GET(self) -> None:
        self.owner.listed += 1
        if not self.allowed():
            return
        if self.owner.models is None:
            self.reply(404, {"detail": "Not Found"})
        else:
            rows = [{"id": name, "object": "model", "created": 0, "owned_by": "me"} for name in self.owner.models]
            self.reply(200, {"object": "list", "data": rows})

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        if not self.allowed():
            return
        asked = Asked(json.loads(data), {name.lower(): value for name, value in self.headers.items()}, len(data))
        self.owner.enter(asked)
        answer = self.owner.answer(asked)
        self.owner.leave()
        self.give(asked, answer)

    def allowed(self) -> bool:
        if self.owner.key is None or self.headers["Authorization"] == f"Bearer {self.owner.key}":
            return True
        self.reply(401, {"error": {"message": f"bad key: {self.headers['Authorization']}"}})
        return False

    def give(self, asked: Asked, answer: str | dict[str, Any]) -> None:
        message = {"role": "assistant", "content": answer}
        choice = {"index": 0, "finish_reason": "stop", "message": message} if isinstance(answer, str) else answer
        usage = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
        reply = {"id": "1", "object": "chat.completion", "choices": [choice], "usage": usage}
        broken: dict[str, object] = {
            "no_choices": {**reply, "choices": []},
            "null": {**reply, "choices": [{**choice, "message": {**message, "content": None}}]},
            "malformed": json.dumps(reply)[:-9].encode(),
        }
        if asked.fault is None:
            asked.answered = True
            self.reply(200, reply)
        elif asked.fault.isdigit():
            wait = {} if asked.fault != "429" else {"Retry-After": self.owner.retry_after}
            self.reply(int(asked.fault), self.owner.says or {"error": {"message": "so it is", "code": None}}, wait)
        elif asked.fault in broken:
            self.reply(200, broken[asked.fault])
        elif asked.fault == "truncate":
            self.reply(200, reply, sent=0.5)
        else:
            self.hang_up(asked.fault)

    def hang_up(self, fault: str) -> None:
        if fault == "slow":
            select.select([self.connection], [], [], PATIENCE)  # until the client has had enough
        elif fault == "gone":
            self.owner.stop()
        self.close_connection = True

    def reply(self, status: int, body: object, headers: Mapping[str, str] | None = None, sent: float = 1.0) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[: round(len(data) * sent)])
        self.close_connection = sent < 1
