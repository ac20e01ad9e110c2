"""Asking again after failures that may pass: back-off, jitter, and what the server asks for."""

from __future__ import annotations

import email.utils
import math
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

T = TypeVar("T")
LONGEST_PAUSE = 60.0
"""Seconds: no single pause is longer, whatever the server asks for."""


class TransientError(Exception):
    """A try failed in a way that another try may not.

    Attributes:
        kind: a few words to count by, such as "HTTP 429".
        retry_after: seconds for which the server asks to be left alone.
        lost: there was no connection to the server.
    """

    def __init__(self, message: str, kind: str, retry_after: float | None = None, lost: bool = False) -> None:
        super().__init__(message)
        self.kind, self.retry_after, self.lost = kind, retry_after, lost


def pause(tries: int, first: float, share: float, retry_after: float | None = None) -> float:
    """Give the seconds to wait after `tries` failed tries.

    Doubles from `first`, of which a random half keeps many askers from coming back at once; at least what the server
    asks for; at most `LONGEST_PAUSE`.

    Args:
        tries: failed tries so far, from 1.
        first: the pause before the second try.
        share: random number from 0 to 1.
        retry_after: what the server asks for.

    >>> pause(1, 1.0, 1.0), pause(3, 1.0, 1.0), pause(3, 1.0, 0.0), pause(1, 1.0, 0.0, 7.0), pause(99, 1.0, 1.0)
    (1.0, 4.0, 2.0, 7.0, 60.0)
    """
    longest = min(LONGEST_PAUSE, first * 2.0 ** min(tries - 1, 30))
    wait = longest * (0.5 + 0.5 * share)
    return min(LONGEST_PAUSE, max(wait, retry_after or 0.0))


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Read for how many seconds a server asks to be left alone: a number, or an HTTP date; None where it says nothing.

    >>> retry_after({"retry-after": "3"}), retry_after({"retry-after-ms": "250"}), retry_after({"retry-after": "soon"})
    (3.0, 0.25, None)
    """
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        value = headers.get(name)
        if value is None:
            continue
        try:
            seconds = float(value) / unit
        except ValueError:
            seconds = _until(value, time.time() if now is None else now)
        if math.isfinite(seconds) and seconds >= 0:
            return seconds
    return None


def _until(date: str, now: float) -> float:
    try:
        return max(0.0, email.utils.parsedate_to_datetime(date).timestamp() - now)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def with_retries(
    attempt: Callable[[], T],
    retries: int,
    first_pause: float,
    sleep: Callable[[float], object],
    random: Callable[[], float],
    failed: Callable[[TransientError], object],
) -> T:
    """Try until it works; after `retries` further tries the last failure goes on to the caller.

    Args:
        attempt: one try.
        retries: how often it may be tried again.
        first_pause: seconds before the second try, see `pause`.
        sleep: waits.
        random: gives numbers from 0 to 1.
        failed: is told of every failed try, before the pause; may raise to stop.

    Raises:
        TransientError: of the last try.
    """
    for tries in range(1, retries + 2):
        try:
            return attempt()
        except TransientError as error:
            failed(error)
            if tries > retries:
                raise
            sleep(pause(tries, first_pause, random(), error.retry_after))
    raise ValueError(f"retries must be at least 0, got {retries}")
