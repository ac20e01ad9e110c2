"""Short names of runs."""

from __future__ import annotations

import pytest

from muvr_train.reports.brief import brief_names

DAY = "2026-11-30"


@pytest.mark.parametrize(
    ("names", "brief"),
    [
        ([], []),
        (["a", "a", "b"], ["a", "b"]),
        ([f"fusion_mean-{DAY}_13-58-45_6", f"s2vs-{DAY}_14-05-41"], ["fusion_mean", "s2vs"]),
        ([f"s2vs-{DAY}_14-04-50", f"s2vs-{DAY}_14-05-41_12"], ["s2vs 14-04-50", "s2vs 14-05-41_12"]),
        (["s2vs", f"s2vs-{DAY}_14-05-41"], ["s2vs", "s2vs 14-05-41"]),
        (["s2vs-2026-11-29_14-05-41", f"s2vs-{DAY}_14-05-41"], ["s2vs-2026-11-29_14-05-41", f"s2vs-{DAY}_14-05-41"]),
        ([f"a-{DAY}_14-05-41:frame_max", f"a-{DAY}_14-05-41"], ["a:frame_max", "a"]),
        ([f"a-{DAY}_14-05-41/seed0"], ["a/seed0"]),
        (["0123456789" * 3, "é" * 20], ["0123456789…123456789", "é" * 20]),
        (
            ["0123456789" * 3, "0123456789" * 2 + "x" + "0123456789"],
            ["0123456789" * 3, "0123456789" * 2 + "x0123456789"],
        ),
    ],
)
def test_names_are_shortened_and_stay_apart(names: list[str], brief: list[str]) -> None:
    found = brief_names(names, limit=24 if DAY in "".join(names) else 20)
    assert list(found) == list(dict.fromkeys(names))
    assert list(found.values()) == brief
