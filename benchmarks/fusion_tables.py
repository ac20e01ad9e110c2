"""The tables of the fusion study: values with the spread of seeds, and differences with intervals over topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float64]
Key = tuple[str, str, str, str]
Place = tuple[str, str]
"""A row and a mode."""
Lead = tuple[float, float, float]
UNTRAINED = "untrained"
OFFICIAL = ("frame_max", "frame_max whitened")
"""MUVR's zero-shot scorer, raw and whitened."""
PLAIN, TAGGED = ("v", "t", "tv"), ("v, tags ignored", "tv, tags ignored", "tv+tag")
MODES = ("v", "t", "tv", "tv+tag")
BEGIN, END = "<!-- tables of benchmarks/fusion_study.py -->", "<!-- end of the tables -->"


class Figures:
    """Values and resamples of every row, in percent; a trained row is the mean of its seeds."""

    def __init__(self, figures: Mapping[str, Any], drawn: Mapping[str, Mapping[Key, Samples]]) -> None:
        self.meta, self.runs = figures["meta"], figures["runs"]
        self.drawn = drawn
        self.untrained = list(self.runs[UNTRAINED]["rows"])
        self.trained: dict[str, list[str]] = {}
        for name in self.runs:
            if name != UNTRAINED:
                self.trained.setdefault(name.rsplit("-", 1)[0], []).append(name)

    def values(self, row: str, mode: str, metric: str, partition: str = "mean") -> list[float]:
        """Give a row's metric for each seed (an untrained row has one)."""
        owners = self.trained.get(row, [UNTRAINED])
        models = [name if row in self.trained else row for name in owners]
        found = [self.runs[o]["rows"][m].get(mode, {}).get(partition, {}) for o, m in zip(owners, models, strict=True)]
        return [100 * values[metric] for values in found if metric in values]

    def samples(self, row: str, mode: str, metric: str) -> Samples:
        """Give the resampled means over partitions [B], of the mean of the seeds."""
        per_seed = []
        for owner in self.trained.get(row, [UNTRAINED]):
            model = owner if row in self.trained else row
            parts = [v for (m, k, _, q), v in self.drawn[owner].items() if (m, k, q) == (model, mode, metric)]
            per_seed.append(np.mean(parts, axis=0))
        return 100 * np.asarray(np.mean(per_seed, axis=0), dtype=np.float64)

    def best(self, rows: Sequence[str], modes: Sequence[str], metric: str) -> Place:
        """Give the row and mode that is best in the metric on these very queries: the hardest one to beat."""
        have = [(row, mode) for row in rows for mode in modes if self.values(row, mode, metric)]
        return max(have, key=lambda place: float(np.mean(self.values(place[0], place[1], metric))))

    def lead(self, one: Place, other: Place, metric: str) -> Lead | None:
        """Give the difference of two rows and its 95 % interval; None where one has no such metric."""
        if not self.values(*one, metric) or not self.values(*other, metric):
            return None
        middle = np.mean(self.values(*one, metric)) - np.mean(self.values(*other, metric))
        low, high = np.percentile(self.samples(*one, metric) - self.samples(*other, metric), [2.5, 97.5])
        return float(middle), float(low), float(high)

    def rivals(self, rows: Sequence[str], metric: str) -> dict[str, Place]:
        """Give for each mode the best of some rows; under tag expressions (no uAP) of what is judged by them."""
        tagged = self.best(rows, TAGGED, "mAP")
        return {mode: tagged if mode == "tv+tag" else self.best(rows, PLAIN, metric) for mode in MODES}


def write_tables(figures: Figures, path: Path, doc: Path | None) -> None:
    """Write the tables to `path`, and between the marks of the page `doc`; print them."""
    text = "\n\n".join(tables(figures)) + "\n"
    path.write_text(text, encoding="utf-8")
    if doc is not None:
        before, _, rest = doc.read_text(encoding="utf-8").partition(BEGIN)
        doc.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    print(text)


def tables(figures: Figures) -> Iterator[str]:
    """Give every table in Markdown."""
    heads = list(figures.trained)
    split = figures.meta["split"]
    yield f"Corpus {figures.meta['corpus']}; {split} topics; {figures.meta['resamples']} resamples of the topics."
    yield table(f"mAP / uAP (%), {split} topics", MODES, [*figures.untrained, *heads], lambda r, m: pair(figures, r, m))
    for what, metric, rows, rivals in comparisons(figures):
        cells = {
            row: {m: shown(figures.lead((row, m), other, metric)) for m, other in rivals(row).items()} for row in rows
        }
        yield table(f"{metric}: {what}", MODES, rows, partial(_cell, cells))
    yield table(
        "mAP (%) under tag expressions",
        TAGGED,
        [*OFFICIAL, *heads],
        lambda r, m: spread(figures.values(r, m, "mAP")),
    )
    parts = [name for name in figures.runs[UNTRAINED]["rows"][OFFICIAL[0]]["v"] if name != "mean"]
    places = [figures.best(figures.untrained, PLAIN, "mAP"), *((row, "tv") for row in heads)]
    by_name = {named(place): place for place in places}
    yield table(
        "mAP (%) by partition, video + text",
        parts,
        list(by_name),
        lambda r, p: spread(figures.values(by_name[r][0], by_name[r][1], "mAP", p)),
    )
    yield training(figures)


def comparisons(figures: Figures) -> Iterator[tuple[str, str, list[str], Callable[[str], Mapping[str, Place]]]]:
    """Give what trained rows are compared with: title, metric, rows, and for a row its rival in each mode."""
    heads = list(figures.trained)
    others = [row for row in heads if mean_of(row) in heads and row != mean_of(row)]
    for metric in ("mAP", "uAP"):
        for kind, rows in (("zero-shot", OFFICIAL), ("untrained", figures.untrained)):
            best = figures.rivals(rows, metric)
            tagged = f"; with tags {named(best['tv+tag'])}" if metric == "mAP" else ""
            yield f"minus the best {kind} row ({named(best['tv'])}{tagged})", metric, heads, partial(_same, best)
        what = "minus the head `mean` on the same network"
        yield what, metric, others, lambda row: {mode: (mean_of(row), mode) for mode in MODES}


def _cell(cells: Mapping[str, Mapping[str, str]], row: str, mode: str) -> str:
    return cells[row][mode]


def _same(rivals: Mapping[str, Place], row: str) -> Mapping[str, Place]:
    del row
    return rivals


def differences(figures: Figures) -> list[dict[str, Any]]:
    """Give every difference of `comparisons` as plain values, in percent points."""
    found = []
    for what, metric, rows, rivals in comparisons(figures):
        for row in rows:
            for mode, other in rivals(row).items():
                lead = figures.lead((row, mode), other, metric)
                if lead is not None:
                    entry = {"what": what, "metric": metric, "row": row, "mode": mode, "minus": named(other)}
                    found.append({**entry, "difference": lead[0], "interval": lead[1:]})
    return found


def shown(lead: Lead | None) -> str:
    """Draw a difference with its interval, in bold where that does not hold 0."""
    if lead is None:
        return "-"
    text = "{:+.1f} [{:+.1f}, {:+.1f}]".format(*lead)
    return f"**{text}**" if lead[1] > 0 or lead[2] < 0 else text


def table(what: str, columns: Sequence[str], rows: Sequence[str], cell: Callable[[str, str], str]) -> str:
    """Draw one table."""
    lines = [f"| {what} | {' | '.join(columns)} |", "|---|" + "---|" * len(columns)]
    lines += [f"| {row} | {' | '.join(cell(row, column) for column in columns)} |" for row in rows]
    return "\n".join(lines)


def training(figures: Figures) -> str:
    """Draw what the trainings took."""
    lines = ["| training | parameters | chosen steps | seconds, with their evaluations |", "|---|---|---|---|"]
    for row, names in figures.trained.items():
        runs = [figures.runs[name] for name in names]
        steps = ", ".join(str(run["best_step"]) for run in runs)
        seconds = ", ".join(f"{run['seconds']:.0f}" for run in runs)
        lines.append(f"| {row} | {runs[0]['parameters']:,} | {steps} | {seconds} |")
    return "\n".join(lines)


def pair(figures: Figures, row: str, mode: str) -> str:
    """Give mAP / uAP of a row."""
    return " / ".join(text for k in ("mAP", "uAP") if (text := spread(figures.values(row, mode, k))) != "-") or "-"


def spread(values: Sequence[float]) -> str:
    """Give the mean, and the standard deviation over the seeds."""
    if not values:
        return "-"
    return f"{np.mean(values):.1f}" + (f" ± {np.std(values, ddof=1):.1f}" if len(values) > 1 else "")


def named(place: Place) -> str:
    """Name a row in a mode."""
    return f"{place[0]}, {place[1]}"


def mean_of(row: str) -> str:
    """Give the name of the row of the head `mean` on the same network."""
    return f"{row.rsplit('-', 1)[0]}-mean"
