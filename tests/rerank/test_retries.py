"""When a failed question is asked again."""

from __future__ import annotations

from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muvr_train.rerank.answerers.retries import LONGEST_PAUSE, TransientError, pause, retry_after, with_retries


@given(st.integers(1, 500), st.just(0.0) | st.floats(1e-6, 100), st.floats(0, 1), st.none() | st.floats(0, 1e9))
def test_pauses_stay_between_half_and_all_of_the_doubled_one(
    tries: int, first: float, share: float, asked: float | None
) -> None:
    whole = min(LONGEST_PAUSE, first * 2.0 ** (tries - 1))
    wait = pause(tries, first, share, asked)
    assert max(whole / 2, min(asked or 0, LONGEST_PAUSE)) <= wait <= max(whole, min(asked or 0, LONGEST_PAUSE))


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "12"}, 12.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after-ms": "x", "retry-after": "9"}, 9.0),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "later"}, None),
        ({"retry-after": formatdate(1_000_030, usegmt=True)}, 30.0),
        ({"retry-after": formatdate(999_000, usegmt=True)}, 0.0),
    ],
)
def test_what_servers_ask_for(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, now=1_000_000) == seconds


class Attempts:
    def __init__(self, *errors: TransientError) -> None:
        self.errors = list(errors)
        self.slept: list[float] = []
        self.failed: list[TransientError] = []

    def __call__(self) -> str:
        if self.errors:
            raise self.errors.pop(0)
        return "done"

    def run(self, retries: int) -> str:
        return with_retries(self, retries, 1.0, self.slept.append, lambda: 1.0, self.failed.append)


def test_it_works_at_once_without_a_pause() -> None:
    attempts = Attempts()
    assert attempts.run(3) == "done"
    assert attempts.slept == attempts.failed == []


def test_pauses_double_and_the_servers_wish_counts() -> None:
    errors = [TransientError("busy", "HTTP 429"), TransientError("busy", "HTTP 429", 9.0), TransientError("x", "y")]
    attempts = Attempts(*errors)
    assert attempts.run(3) == "done"
    assert attempts.slept == [1.0, 9.0, 4.0]
    assert attempts.failed == errors


@pytest.mark.parametrize("retries", [0, 2])
def test_the_last_failure_is_the_callers(retries: int) -> None:
    attempts = Attempts(*(TransientError(f"no {i}", "no") for i in range(5)))
    with pytest.raises(TransientError, match=f"no {retries}"):
        attempts.run(retries)
    assert len(attempts.failed) == retries + 1
    assert len(attempts.slept) == retries


def test_other_errors_are_not_tried_again() -> None:
    calls: list[int] = []

    def attempt() -> None:
        calls.append(1)
        raise KeyError("x")

    with pytest.raises(KeyError):
        with_retries(attempt, 5, 1.0, lambda _: None, lambda: 0.0, lambda _: None)
    assert calls == [1]
