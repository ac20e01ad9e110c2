"""The tables of the fusion study: values with the spread of seeds, and differences with intervals over topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float64]
Key = tuple[str, str, str, str]
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

    def best(self, rows: Sequence[str], modes: Sequence[str], metric: str) -> tuple[str, str]:
        """Give the row and mode that is best in the metric on these very queries: the hardest one to beat."""
        have = [(row, mode) for row in rows for mode in modes if self.values(row, mode, metric)]
        return max(have, key=lambda place: np.mean(self.values(*place, metric)))

    def lead(self, one: tuple[str, str], other: tuple[str, str], metric: str) -> str:
        """Give the difference of two rows with its 95 % interval, in bold where that does not hold 0."""
        if not self.values(*one, metric) or not self.values(*other, metric):
            return "-"
        middle = np.mean(self.values(*one, metric)) - np.mean(self.values(*other, metric))
        low, high = np.percentile(self.samples(*one, metric) - self.samples(*other, metric), [2.5, 97.5])
        text = f"{middle:+.1f} [{low:+.1f}, {high:+.1f}]"
        return f"**{text}**" if low > 0 or high < 0 else text


def write_tables(
    figures: Mapping[str, Any], drawn: Mapping[str, Mapping[Key, Samples]], path: Path, doc: Path | None
) -> None:
    """Write the tables to `path`, and between the marks of the page `doc`; print them."""
    text = "\n\n".join(tables(Figures(figures, drawn))) + "\n"
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
    official = {mode: figures.best(OFFICIAL, TAGGED if mode == "tv+tag" else PLAIN, "mAP") for mode in MODES}
    strongest = {mode: figures.best(figures.untrained, TAGGED if mode == "tv+tag" else PLAIN, "mAP") for mode in MODES}
    for metric in ("mAP", "uAP"):
        what = (
            f"{metric}: minus the best zero-shot row ({named(official['tv'])}; with tags {named(official['tv+tag'])})"
        )
        yield table(what, MODES, heads, lambda r, m, k=metric: figures.lead((r, m), official[m], k))
    what = f"mAP: minus the best untrained row ({named(strongest['tv'])}; with tags {named(strongest['tv+tag'])})"
    yield table(what, MODES, heads, lambda r, m: figures.lead((r, m), strongest[m], "mAP"))
    for metric in ("mAP", "uAP"):
        others = [row for row in heads if not row.endswith("-mean") and mean_of(row) in heads]
        what = f"{metric}: minus the head `mean` on the same network"
        yield table(what, MODES, others, lambda r, m, k=metric: figures.lead((r, m), (mean_of(r), m), k))
    yield table(
        "mAP (%) under tag expressions",
        TAGGED,
        [*OFFICIAL, *heads],
        lambda r, m: spread(figures.values(r, m, "mAP")),
    )
    parts = [name for name in figures.runs[UNTRAINED]["rows"][OFFICIAL[0]]["v"] if name != "mean"]
    shown = [figures.best(figures.untrained, PLAIN, "mAP"), *((row, "tv") for row in heads)]
    cells = {named(place): place for place in shown}
    yield table(
        "mAP (%) by partition, video + text",
        parts,
        list(cells),
        lambda r, p: spread(figures.values(*cells[r], "mAP", p)),
    )
    yield training(figures)


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


def named(place: tuple[str, str]) -> str:
    """Name a row in a mode."""
    return f"{place[0]}, {place[1]}"


def mean_of(row: str) -> str:
    """Give the name of the row of the head `mean` on the same network."""
    return f"{row.rsplit('-', 1)[0]}-mean"
