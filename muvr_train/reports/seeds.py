"""Runs that differ by their seed alone, put together as the results of one run: means and deviations over seeds."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from muvr_train.errors import DataError
from muvr_train.metrics.bootstrap import draw_topics, resampled_means
from muvr_train.reports.matching import NO_METRIC
from muvr_train.reports.runs import read_json, resampled_of
from muvr_train.results import CalibratedRow, Results
from muvr_train.robustness import ONE_TOPIC, Samples, add_intervals, add_mean_extras

Line = dict[str, Any]
ABOUT = ("model", "query", "expression", "partition", "topic", "mode", "positives", "counted")
"""Columns of per_query.csv that do not depend on the seed; the others are averaged, and those with videos left out."""


@dataclass(frozen=True)
class Summary:
    """What several seeds reach together.

    Attributes:
        results: of the model; rows have `std` (n - 1) beside `metrics`, and intervals of the mean over seeds.
        baselines: untrained rows by name; without `std`: they do not depend on the seed.
        calibrated: the model's rows behind calibration steps.
        meta: of the first seed.
        notes: those of all seeds.
    """

    results: Results
    baselines: dict[str, Results]
    calibrated: list[CalibratedRow]
    meta: dict[str, Any]
    notes: list[str]


@dataclass(frozen=True)
class _Model:
    """One model of one seed: its rows, breakdowns, per-query lines and resampled uAP."""

    rows: list[Line]
    breakdowns: list[Line]
    lines: list[Line]
    resampled: Mapping[tuple[str, str], Any]


def summarize(folders: Sequence[Path]) -> Summary:
    """Read the results of the seeds and put them together.

    Raises:
        DataError: files are missing or broken, or the seeds were not evaluated alike.
    """
    contents = [read_json(folder / "results.json") for folder in folders]
    tables = [_read_lines(folder / "per_query.csv") for folder in folders]
    protocols = [content["meta"].get("protocol") for content in contents]
    kinds = [[entry["name"] for entry in content["baselines"]] for content in contents]
    steps = [[entry["steps"] for entry in content["calibrated"]] for content in contents]
    for folder, *facts in zip(folders, protocols, kinds, steps, strict=True):
        if facts != [protocols[0], kinds[0], steps[0]]:
            raise DataError(f"{folder} was not evaluated as {folders[0]}: resume each seed with the same settings")
    averaged = contents[0]["meta"].get("averaged")
    resamples = contents[0]["meta"].get("config", {}).get("benchmark", {}).get("bootstrap") or 0

    def joined(entries: Sequence[tuple[str, Line]], spread: bool) -> Results:
        models = [
            _Model(entry["rows"], entry.get("breakdowns", []), table.get(name, []), resampled_of(folder, name))
            for (name, entry), table, folder in zip(entries, tables, folders, strict=True)
        ]
        return _average(models, folders, averaged, resamples, spread)

    own = joined([(str(content["meta"]["model"]), content) for content in contents], spread=True)
    baselines = {
        name: joined([(name, content["baselines"][place]) for content in contents], spread=False)
        for place, name in enumerate(kinds[0])
    }
    calibrated = []
    for place in range(len(steps[0])):
        entries = [content["calibrated"][place] for content in contents]
        results = joined([(entry["name"], entry) for entry in entries], spread=True)
        name = f"{len(folders)} seeds + {str(entries[0]['name']).partition(' + ')[2]}"
        calibrated.append(CalibratedRow(name, entries[0]["steps"], entries[0]["fitted_on"], results))
    notes = list(dict.fromkeys(note for content in contents for note in content["meta"].get("notes", ())))
    return Summary(own, baselines, calibrated, contents[0]["meta"], notes)


def _read_lines(path: Path) -> dict[str, list[Line]]:
    found: dict[str, list[Line]] = {}
    try:
        with path.open(encoding="utf-8", newline="") as file:
            for line in csv.DictReader(file):
                found.setdefault(line["model"], []).append(line)
    except FileNotFoundError:
        raise DataError(f"{path} is missing: evaluate this seed again") from None
    return found


def _average(
    models: Sequence[_Model], folders: Sequence[Path], averaged: Sequence[str] | None, resamples: int, spread: bool
) -> Results:
    first = models[0]
    results = Results(str(first.rows[0]["benchmark"]))
    results.rows = _average_rows([model.rows for model in models], ("mode", "partition"), folders)
    keys = ("mode", "partition", "group", "name")
    results.breakdowns = _average_rows([model.breakdowns for model in models], keys, folders)
    results.per_query = _average_lines([model.lines for model in models], folders)
    if resamples:
        _add_samples(results, models, resamples)
    names = {str(row["partition"]) for row in results.rows if row["partition"] != "mean"}
    parts, results.breakdowns = results.breakdowns, []
    add_mean_extras(results, averaged or names)
    results.breakdowns = parts
    for row in results.rows if not spread or len(models) == 1 else ():
        row.pop("std", None)
    return results


def _average_rows(tables: Sequence[Sequence[Line]], keys: Sequence[str], folders: Sequence[Path]) -> list[Line]:
    """Rows with the mean and the standard deviation over seeds of every metric; counts are rounded means."""
    found = [{tuple(row[key] for key in keys): row for row in table} for table in tables]
    for folder, table in zip(folders, found, strict=True):
        if table.keys() != found[0].keys():
            raise DataError(f"{folder} has other rows than {folders[0]}: evaluate each seed with the same settings")
    rows = []
    for key, row in found[0].items():
        same = [table[key] for table in found]
        values = {name: np.array([other["metrics"][name] for other in same]) for name in row["metrics"]}
        counts = {
            name: round(float(np.mean([other["counts"].get(name, 0) for other in same]))) for name in row["counts"]
        }
        kept = {name: value for name, value in row.items() if name not in ("repeats", "intervals", "notes")}
        more = {"std": {name: float(value.std(ddof=1)) for name, value in values.items()}} if len(same) > 1 else {}
        rows.append(
            {**kept, "metrics": {name: float(value.mean()) for name, value in values.items()}, **more, "counts": counts}
        )
    return rows


def _average_lines(tables: Sequence[Sequence[Line]], folders: Sequence[Path]) -> list[Line]:
    """Per-query lines with the mean over seeds of every metric."""
    keys = ("query", "expression", "partition", "mode")
    found = [{tuple(line.get(key) or "" for key in keys): line for line in table} for table in tables]
    for folder, table in zip(folders, found, strict=True):
        if table.keys() != found[0].keys():
            raise DataError(f"{folder} has other queries than {folders[0]}: evaluate each seed with the same settings")
    lines = []
    for key, line in found[0].items():
        about = {name: line[name] for name in ABOUT if name in line and name != "model"}
        metrics = {
            name: _mean([table[key][name] for table in found])
            for name, value in line.items()
            if name not in (*NO_METRIC, "model") and value not in ("", None)
        }
        lines.append({**about, **metrics})
    return lines


def _mean(texts: Sequence[str]) -> float:
    return float(np.mean([float(text) for text in texts]))


def _add_samples(results: Results, models: Sequence[_Model], resamples: int) -> None:
    """Add the intervals of the means over seeds: the same resampled topics for all seeds."""
    blocks: dict[tuple[str, str], list[Line]] = {}
    for line in results.per_query:
        blocks.setdefault((str(line["mode"]), str(line["partition"])), []).append(line)
    for row in results.rows:
        key = str(row["mode"]), str(row["partition"])
        if key in blocks:
            samples = _samples(blocks[key], resamples)
            known = [model.resampled[key] for model in models if key in model.resampled]
            if len(known) == len(models):
                samples["uAP"] = np.mean(known, axis=0)
            results.resampled[key] = samples
            add_intervals(row, samples, ONE_TOPIC)


def _samples(lines: Sequence[Line], size: int) -> Samples:
    counted = np.array([line["counted"] == "True" for line in lines])
    draws = draw_topics([line["topic"] for line in lines], size)
    if np.count_nonzero(draws.sums(counted)) < 2:
        return {}
    names = [name for name in lines[0] if name == "AP" or name.startswith("recall@")]
    means = resampled_means(np.array([[line[name] for line in lines] for name in names]), counted, draws)
    return {"mAP" if name == "AP" else name: values for name, values in zip(names, means, strict=True)}
