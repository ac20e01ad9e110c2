"""Which of the named folders are compared, and with which of them: `checkpoints/*` names more than runs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from muvr_train.benchmarks.expressions import UPPER_BOUND
from muvr_train.errors import ConfigError, DataError
from muvr_train.reports.brief import brief_names
from muvr_train.reports.runs import Run, named_apart, read_json, read_run

BEST = "best"
"""The baseline that is the run with the highest value."""
FILES, LINKS = ("file", "files"), ("link to a run", "links to a run")
EMPTY = "folder without results", "folders without results"
"""What is left out, as one and as several are called."""


@dataclass(frozen=True)
class Choice:
    """Runs, the baseline first, and what is to be said about those that were left out."""

    runs: list[Run]
    notes: list[str]


def choose_runs(texts: Sequence[str], baseline: str | None, metric: str, mode: str | None) -> Choice:
    """Read the named runs; leave out, with counts, what is none and what is about another benchmark.

    Nothing is left out where that would leave one of several. A single run is compared with its best untrained row.

    Args:
        texts: folders, or FOLDER:MODEL; files, links to other runs and folders without results are left out.
        baseline: what the others are compared with: `best`, a run as it is named in `texts` or in tables; None: the
            first.
        metric: by which a best one is chosen.
        mode: the same; None: tv, or another that all runs have.

    Raises:
        ConfigError: too few runs, or a baseline that is none of them.
        DataError: a run cannot be read.
    """
    kept, left = _split(texts)
    chosen = named_apart([read_run(text) for text in kept], kept)
    notes = [
        f"left out, {len(names)} {one if len(names) == 1 else many}: {', '.join(names)}"
        for (one, many), names in left.items()
        if names
    ]
    if len(chosen) == 1:
        chosen = [_untrained(kept[0], chosen[0], metric, mode), *chosen]
        notes.append(f"{chosen[1].name} is the only run: it is compared with its best untrained row")
        return Choice(chosen, notes)
    chosen, more = _same_benchmark(chosen) if len(kept) > 2 else (chosen, [])
    first, why = _baseline(chosen, dict(zip(kept, chosen, strict=False)), baseline, metric, mode)
    return Choice([first, *(run for run in chosen if run is not first)], [*notes, *more, *why])


def _split(texts: Sequence[str]) -> tuple[list[str], dict[tuple[str, str], list[str]]]:
    """What may be a run, and what is not, by reason."""
    left: dict[tuple[str, str], list[str]] = {FILES: [], LINKS: [], EMPTY: []}
    named = {Path(text).resolve() for text in texts if Path(text).is_dir() and not Path(text).is_symlink()}
    kept = []
    for text in texts:
        path = Path(text)
        if path.is_file():
            left[FILES].append(path.name)
        elif path.is_symlink() and path.resolve() in named:
            left[LINKS].append(path.name)
        elif path.is_dir() and not (path / "results.json").is_file():
            left[EMPTY].append(path.name)
        else:
            kept.append(text)
    lacking = [text for text in texts if Path(text).is_dir() and not (Path(text) / "results.json").is_file()]
    if not kept or (len(kept) == 1 and lacking):
        read_json(Path((lacking or list(texts))[0]) / "results.json")
    return kept, left


def _same_benchmark(runs: list[Run]) -> tuple[list[Run], list[str]]:
    """The runs about the benchmark (with its split and galleries) that most are about."""
    kinds = {id(run): _about(run) for run in runs}
    (most, _), *_ = Counter(kinds.values()).most_common(1)
    other = [run.name for run in runs if kinds[id(run)] != most]
    note = f"left out, {len(other)} on another benchmark, split or gallery: {', '.join(other)}"
    return [run for run in runs if kinds[id(run)] == most], [note] if other else []


def _about(run: Run) -> str:
    protocol = run.meta.get("protocol", {})
    facts = [run.benchmark, protocol.get("split"), protocol.get("gallery"), run.meta.get("galleries")]
    return json.dumps(facts, sort_keys=True)


def _baseline(
    runs: list[Run], by_text: dict[str, Run], wanted: str | None, metric: str, mode: str | None
) -> tuple[Run, list[str]]:
    if len(runs) < 2:
        raise ConfigError("only one run is left to compare: name runs on the same benchmark, split and gallery")
    if wanted is None:
        return runs[0], []
    if wanted == BEST:
        best = max(runs, key=lambda run: value_of(run, metric, mode or shown_mode(runs)))
        note = f"{best.name} is the best by the scores shown here, which flatters its lead over the others"
        return best, [note]
    brief = brief_names([run.name for run in runs])
    named = next((run for run in runs if wanted in (run.name, brief[run.name])), None)
    found = named or by_text.get(wanted.rstrip("/"))
    if found is None or found not in runs:
        raise ConfigError(f"--baseline {wanted}: name {BEST} or one of {', '.join(run.name for run in runs)}")
    return found, []


def _untrained(text: str, run: Run, metric: str, mode: str | None) -> Run:
    folder = str(run.path)
    names = [entry["name"] for entry in read_json(run.path / "results.json").get("baselines", [])]
    others = [other for name in names if (other := read_run(f"{folder}:{name}")).name != run.name]
    if not others:
        raise ConfigError(
            f"{text} is the only run and has no untrained rows to be compared with: name two or more runs"
        )
    return max(others, key=lambda other: value_of(other, metric, mode or shown_mode([run, *others])))


def shown_mode(runs: Sequence[Run]) -> str:
    """The mode that decides: tv where all runs have it, else the first that they share.

    Raises:
        DataError: none.
    """
    shared = [name for name in runs[0].modes if name != UPPER_BOUND and all(name in run.modes for run in runs)]
    if not shared:
        raise DataError("no mode in common: " + "; ".join(f"{run.name} has {', '.join(run.modes)}" for run in runs))
    return "tv" if "tv" in shared else shared[0]


def value_of(run: Run, metric: str, mode: str) -> float:
    """The mean over partitions of a metric in a mode, minus infinity where the run has none."""
    row = run.rows.get((mode, "mean")) or next((row for (known, _), row in run.rows.items() if known == mode), {})
    return float(row.get("metrics", {}).get(metric, float("-inf")))
