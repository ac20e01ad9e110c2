"""A forest plot of differences: where an interval does not touch zero, the runs differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from muvr_train.reports.brief import brief_names
from muvr_train.reports.comparison import MEANS, shown_rows

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Okabe and Ito's, which colour-blind people can tell apart."""
NO_INTERVAL = "; cross: no interval"
WIDEST = 9.8
"""Inches: wider pictures would be shrunk on a page."""


def save_forest_plot(path: Path, found: Mapping[str, Any]) -> None:
    """Draw the difference of every run to the first, per partition, with its 95 % interval; a panel per mode.

    Runs stand in the order of the overview, the best first.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.lines import Line2D

    by_mode = {mode: [row for row in found["rows"] if row["mode"] == mode] for mode in _modes(found)}
    by_mode = {mode: shown_rows(rows) for mode, rows in by_mode.items()}
    first_run = found["runs"][0]["name"]
    order = [row["run"] for row in found["overview"]["rows"]]
    others = [name for name in order if name != first_run]
    brief = brief_names(order)
    parts = list(dict.fromkeys(row["partition"] for rows in by_mode.values() for row in rows))
    height = 0.9 + len(parts) * (0.28 + 0.16 * len(others))
    figure, axes = panels(plt, len(by_mode), 1.4, 2.7, height, 0.9 + 0.2 * len(others), sharex=True)
    for axis, (mode, rows) in zip(axes, by_mode.items(), strict=True):
        _draw_mode(axis, rows, others, parts)
        axis.set_title(f"query {mode}", fontsize=10)
        axis.set_xlabel(f"difference in {found['metric']} (points)", fontsize=9)
    first = axes[0]
    first.set_yticks(range(len(parts)), parts)
    first.set_ylim(len(parts) - 0.4, -0.6)
    low, high = first.get_xlim()
    first.set_xlim(min(low, -0.5), max(high, 0.5))
    marks = [
        Line2D([], [], color=COLOURS[index % len(COLOURS)], marker="o", label=plain(brief[name]))
        for index, name in enumerate(others)
    ]
    figure.legend(handles=marks, loc="outside lower left", ncols=1, frameon=False, fontsize=9)
    tested = any(other["p_holm"] is not None for row in found["rows"] for other in row["differences"])
    meaning = "; filled: p < 0.05 after Holm" if tested else ""
    without = any(other["interval"] is None for row in found["rows"] for other in row["differences"])
    meaning += NO_INTERVAL if without else ""
    figure.suptitle(
        f"{found['metric']} on {found['benchmark']}, minus {plain(brief[first_run])}\n95 % intervals{meaning}",
        fontsize=10,
        x=0.01,
        ha="left",
    )
    figure.savefig(path, dpi=130, facecolor="white")
    plt.close(figure)


def panels(
    plt: Any, number: int, left: float, width: float, height: float, more: float, sharex: bool = False
) -> tuple[Any, list[Any]]:
    """Make a figure of panels that share their y axis, in as many rows as keep it no wider than a page.

    Args:
        plt: matplotlib's pyplot.
        number: of panels.
        left: inches for the names on the left.
        width: of a panel, in inches.
        height: the same.
        more: inches above and below all of them.
        sharex: whether they share the x axis too.
    """
    columns = min(number, max(1, int((WIDEST - left) / width)))
    rows = -(-number // columns)
    size = max(left + width * columns, 5.5), more + height * rows
    figure = plt.figure(figsize=size, layout="constrained")
    axes = list(figure.subplots(rows, columns, sharex=sharex, sharey=True, squeeze=False).flat)
    for axis in axes[number:]:
        axis.remove()
    return figure, axes[:number]


def _modes(found: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys(row["mode"] for row in found["rows"]))


def _draw_mode(axis: Any, rows: Sequence[Mapping[str, Any]], others: Sequence[str], parts: Sequence[str]) -> None:
    """Draw the differences of every partition, those of the runs `others` in their order."""
    step = 0.7 / len(others)
    for row in rows:
        for index, other in enumerate(sorted(row["differences"], key=lambda other: others.index(other["run"]))):
            place = parts.index(row["partition"]) + (index - (len(others) - 1) / 2) * step
            _draw(axis, place, other, COLOURS[index % len(COLOURS)], row["partition"] in MEANS)
    axis.axvline(0, color="#444444", linewidth=1, zorder=0)
    axis.grid(axis="x", color="#dddddd", linewidth=0.6)
    axis.set_axisbelow(True)
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.tick_params(labelsize=9, length=0, labelbottom=True)
    for place in range(1, len(parts)):
        if parts[place] in MEANS:
            axis.axhline(place - 0.5, color="#bbbbbb", linewidth=0.8)


def _draw(axis: Any, place: float, other: Mapping[str, Any], colour: str, is_mean: bool) -> None:
    value = 100 * other["difference"]
    if other["interval"] is not None:
        low, high = (100 * end for end in other["interval"])
        axis.plot([low, high], [place, place], color=colour, linewidth=2.6 if is_mean else 1.6, solid_capstyle="butt")
    sure = other["p_holm"] is None or other["p_holm"] < 0.05
    axis.plot(
        [value],
        [place],
        marker="x" if other["interval"] is None else "D" if is_mean else "o",
        markersize=6,
        color=colour,
        markerfacecolor=colour if sure else "white",
    )


def plain(name: str) -> str:
    """Keep matplotlib from reading $ as mathematics."""
    return name.replace("$", r"\$")
