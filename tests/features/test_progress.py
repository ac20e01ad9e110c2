"""Progress where stderr is no terminal: a line now and then, none where nothing is shown."""

from __future__ import annotations

import logging

import pytest

from muvr_train.features import progress
from muvr_train.features.progress import Progress, track


@pytest.fixture(autouse=True)
def heard(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(progress, "LINE_EVERY", 0.0)


def test_a_line_tells_how_many_are_through(caplog: pytest.LogCaptureFixture) -> None:
    assert list(track(range(3), 3, "extracting features")) == [0, 1, 2]
    assert [line.split(",")[0] for line in caplog.messages] == [
        "extracting features: 1 of 3",
        "extracting features: 2 of 3",
    ]  # that all are through is said by what follows
    assert all(line.endswith(" min left") and "/s, " in line for line in caplog.messages)


def test_the_text_may_change(caplog: pytest.LogCaptureFixture) -> None:
    bar = Progress("asking [a]", 2)
    bar.describe("asking [a] (1 failed)")
    bar.advance()
    bar.close()
    assert caplog.messages[0].startswith("asking [a] (1 failed): 1 of 2, ")


def test_it_is_silent_where_nothing_is_shown_or_the_time_is_not_over(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert list(track("ab", 2, "reading", show=False)) == ["a", "b"]
    assert list(track((), 0, "reading")) == []
    monkeypatch.setattr(progress, "LINE_EVERY", 30.0)
    assert list(track("ab", 2, "reading")) == ["a", "b"]
    assert caplog.messages == []


def test_a_terminal_has_its_bar(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes it for a terminal
    assert list(track("ab", 2, "reading")) == ["a", "b"]
    assert caplog.messages == []
