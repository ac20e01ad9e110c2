"""Runs as other programs find them: results.json, per_query.csv and resampled.npz of a folder."""

from __future__ import annotations

import csv
import json
import zipfile
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muvr_train.errors import ConfigError, DataError

Key = tuple[str, str]
"""A query of a mode and partition: its id and tag expression ("" for none)."""
KINDS = "baselines", "calibrated", "reranked"
"""Models beside the evaluated one in results.json."""
NEEDED = ("model", "query", "partition", "topic", "mode", "positives", "counted")


@dataclass(frozen=True)
class Run:
    """One model's results.

    Attributes:
        name: for tables.
        path: the folder.
        meta: of results.json.
        rows: by (mode, partition).
        lines: per-query lines by (mode, partition), then by query; values as text.
        resampled: by (mode, partition), the resampled uAP [B]; empty where the evaluation had no bootstrap.
        kind: "" for the evaluated model itself, else what it is in results.json: baselines, calibrated or reranked.
        best_step: of the best checkpoint of the run, 0 for one that is not trained; None where that is not known.
    """

    name: str
    path: Path
    meta: Mapping[str, Any]
    rows: Mapping[tuple[str, str], Mapping[str, Any]]
    lines: Mapping[tuple[str, str], Mapping[Key, Mapping[str, str]]]
    resampled: Mapping[tuple[str, str], NDArray[np.float64]] = field(default_factory=dict)
    kind: str = ""
    best_step: int | None = None

    @property
    def benchmark(self) -> str:
        """The name of the benchmark."""
        return next((str(row["benchmark"]) for row in self.rows.values()), "?")

    @property
    def modes(self) -> tuple[str, ...]:
        """Modes with per-query lines."""
        return tuple(dict.fromkeys(mode for mode, _ in self.lines))


def read_run(text: str) -> Run:
    """Read what the user names: a folder, or FOLDER:MODEL for another row in it: untrained, calibrated, reranked.

    Raises:
        ConfigError: there is no such folder, or no such model in it.
        DataError: its files are missing or broken.
    """
    ends = [len(text), *(place for place, letter in enumerate(text) if letter == ":")]
    folder = next((text[:end] for end in ends if text[:end] and Path(text[:end]).is_dir()), None)
    if folder is None:
        raise ConfigError(f"{text}: there is no such folder; name checkpoints/RUN, outputs/NAME or FOLDER:MODEL")
    path, model = Path(folder), text[len(folder) + 1 :]
    content = read_json(path / "results.json")
    own = str(content["meta"].get("model", "model"))
    kinds = {entry["name"]: kind for kind in KINDS for entry in content.get(kind, [])}
    others = [entry for kind in KINDS for entry in content.get(kind, [])]
    models = {own: content["rows"], **{entry["name"]: entry["rows"] for entry in others}}
    if len(models) <= len(others):
        twice = next(name for name in models if [own, *(entry["name"] for entry in others)].count(name) > 1)
        raise DataError(f"{path / 'results.json'}: two models are called {twice!r}: evaluate again under another name")
    model = model or own
    if model not in models:
        raise ConfigError(f"{text}: {path} has no model {model!r}; it has {', '.join(models)}")
    name = path.resolve().name + ("" if model == own else f":{model}")
    rows = {(str(row["mode"]), str(row["partition"])): row for row in models[model]}
    meta, kind = content["meta"], kinds.get(model, "")
    step = None if kind == "baselines" else _best_step(path, meta)
    lines = _read_lines(path / "per_query.csv", model)
    return Run(name, path, meta, rows, lines, resampled_of(path, model), kind, step)


def _best_step(path: Path, meta: Mapping[str, Any]) -> int | None:
    """The step of the best checkpoint, as its training run wrote it beside it."""
    checkpoint = Path(str(meta.get("checkpoint") or ""))
    for folder in (path, *([checkpoint.parent] if checkpoint.name == "best.ckpt" else [])):
        with suppress(OSError, ValueError, KeyError, TypeError):  # not known, as of runs of other programs
            return int(json.loads((folder / "training.json").read_text(encoding="utf-8"))["best_step"])
    return None


def read_json(path: Path) -> dict[str, Any]:
    """Read results.json.

    Raises:
        DataError: it is missing or broken.
    """
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content["rows"], list) or not isinstance(content["meta"], dict):
            raise TypeError("rows and meta are of another type")
    except FileNotFoundError:
        raise DataError(f"{path} is missing: train or evaluate into this folder first") from None
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is no results file of this program ({error}): evaluate again") from error
    return content


def _read_lines(path: Path, model: str) -> dict[tuple[str, str], dict[Key, Mapping[str, str]]]:
    lines: dict[tuple[str, str], dict[Key, Mapping[str, str]]] = {}
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            if missing := [name for name in NEEDED if name not in (reader.fieldnames or ())]:
                raise DataError(f"{path} has no column {missing[0]}: evaluate again with this version")
            for line in reader:
                if line["model"] == model:
                    block = lines.setdefault((line["mode"], line["partition"]), {})
                    block[line["query"], line.get("expression") or ""] = line
    except FileNotFoundError:
        raise DataError(f"{path} is missing: evaluate again to compare queries") from None
    if not lines:
        raise DataError(f"{path} has no line of model {model!r}: evaluate again")
    return lines


def resampled_of(folder: Path, model: str) -> dict[tuple[str, str], NDArray[np.float64]]:
    """Read the resampled uAP [B] of a model by (mode, partition); empty where there is none.

    Raises:
        DataError: the file is broken.
    """
    path = folder / "resampled.npz"
    if not path.is_file():
        return {}
    try:
        with np.load(path, allow_pickle=False) as archive:
            keys = [json.loads(text) for text in archive["rows"].tolist()]
            values = archive["uAP"]
            return {(key[1], key[2]): values[row] for row, key in enumerate(keys) if key[0] == model}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path} is damaged ({error}): evaluate again, or delete it") from error


def named_apart(runs: Sequence[Run], texts: Sequence[str]) -> list[Run]:
    """Name runs by what the user typed where two would have one name.

    Raises:
        ConfigError: a run is named twice.
    """
    if len(set(texts)) < len(texts):
        raise ConfigError(f"{next(text for text in texts if texts.count(text) > 1)} is named twice")
    counts = Counter(run.name for run in runs)
    return [replace(run, name=text) if counts[run.name] > 1 else run for run, text in zip(runs, texts, strict=True)]
