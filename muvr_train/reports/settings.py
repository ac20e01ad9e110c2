"""The settings in which compared runs differ, from the configs that their results hold."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from muvr_train.reports.brief import without_middle
from muvr_train.reports.overview import BASELINE, shown_order
from muvr_train.reports.runs import Run

LEFT_OUT = {
    "answers",
    "callbacks",
    "data.prefetch",
    "data.workers",
    "logger",
    "out",
    "overwrite",
    "residency",
    "resume_from",
    "run",
    "save_scores",
    "trainer.checkpoint_every_n_steps",
}
"""Settings that name a run or say how it works, not what it computes."""
ABSENT = "-"
MOST = 40
"""Letters of a value."""
MOST_COLUMNS, MOST_SHOWN = 6, 24
"""Settings that stand side by side, and those that are shown at all."""


def differing_settings(runs: Sequence[Run]) -> dict[str, list[str]]:
    """Give the settings in which runs differ, each with its value in every run, as text.

    Where a run has another class than others (a model, a loss), this stands for all settings of the class. A group that
    a run has no use for, as an evaluation has none for training, is not compared with it. Untrained rows have no
    settings of their own: they are not compared.

    Returns:
        By the setting as it is typed (`optimizer.lr`); "-" where a run has none.
    """
    configs = [{} if run.kind == "baselines" else run.meta.get("config") or {} for run in runs]
    found: dict[str, list[str]] = {}
    for key in dict.fromkeys(key for config in configs for key in config):
        own = [config for config in configs if key in config]
        if len(own) > 1:
            for name, values in _differing(key, [config[key] for config in own]):
                given = iter(values)
                found[name] = [next(given) if key in config else ABSENT for config in configs]
    return found


def _differing(name: str, values: Sequence[Any]) -> Iterator[tuple[str, list[str]]]:
    """What differs within a setting; `values` are those of the runs, ... where one has none."""
    if name in LEFT_OUT or all(value == values[0] for value in values):
        return
    if not all(isinstance(value, Mapping) for value in values) or len({_class(value) for value in values}) > 1:
        yield name, [_text(value) for value in values]
        return
    for key in dict.fromkeys(key for value in values for key in value):
        yield from _differing(f"{name}.{key}", [value.get(key, ...) for value in values])


def _class(value: Mapping[str, Any]) -> str | None:
    return value.get("_target_")


def _text(value: Any) -> str:
    if value is ...:
        return ABSENT
    if isinstance(value, Mapping):
        return str(_class(value) or "set").rpartition(".")[2]
    return without_middle(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), MOST)


def settings_table(
    found: Mapping[str, Any], brief: Mapping[str, str]
) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """Give the table of a comparison's `settings`, with short names of runs; none where nothing differs.

    A line per run, or a line per setting where these are many.
    """
    settings, order = dict(list(found["settings"].items())[:MOST_SHOWN]), shown_order(found)
    if not settings:
        return
    every = len(found["settings"])
    title = "settings that differ" + (f" ({len(settings)} of {every})" if every > len(settings) else "")
    names = [brief[found["runs"][place]["name"]] + BASELINE * (place == 0) for place in order]
    if len(settings) > max(MOST_COLUMNS, len(names)):
        yield title, ["setting", *names], [[name, *(own[place] for place in order)] for name, own in settings.items()]
    else:
        lines = [[name, *(own[place] for own in settings.values())] for name, place in zip(names, order, strict=True)]
        yield title, ["run", *settings], lines
