"""Forest plots with a row per run: what each reaches, and how far it is from the baseline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from muvr_train.reports.brief import brief_names
from muvr_train.reports.compare_picture import COLOURS, NO_INTERVAL, panels, plain
from muvr_train.reports.comparison import MEANS

Row = tuple[str, str, float, Sequence[float] | None, bool]
"""Mode, run, value, interval, and whether it is drawn hollow; in points."""


def save_values(path: Path, overview: Mapping[str, Any], metric: str = "mAP") -> None:
    """Draw the mean over partitions of every run with its 95 % interval; a panel per mode, the baseline as a line."""
    rows: list[Row] = []
    lines: dict[str, float | None] = dict.fromkeys(overview["modes"])
    for row in overview["rows"]:
        for mode, cells in row["cells"].items():
            cell = cells[metric]
            if cell["value"] is not None:
                interval = cell["interval"] and [100 * end for end in cell["interval"]]
                rows.append((mode, row["run"], 100 * cell["value"], interval, row["baseline"]))
                lines |= {mode: 100 * cell["value"]} if row["baseline"] else {}
    title = f"{metric} (%), 95 % intervals\nhollow and dashed: the baseline"
    _draw(path, rows, lines, title, f"{metric} (%)")


def save_differences(path: Path, found: Mapping[str, Any]) -> None:
    """Draw the differences of the means to the first run; a panel per mode, hollow from p = 0.05 on after Holm.

    Runs stand in the order of the overview, the best first.
    """
    order = [row["run"] for row in found["overview"]["rows"]]
    rows = sorted(_differences(found), key=lambda row: order.index(row[1]))
    first, metric = plain(brief_names(order)[found["runs"][0]["name"]]), found["metric"]
    tested = any(other["p_holm"] is not None for row in found["rows"] for other in row["differences"])
    title = f"{metric} minus {first}\n95 % intervals" + ("; hollow: p >= 0.05 after Holm" if tested else "")
    _draw(path, rows, {row["mode"]: 0.0 for row in found["rows"]}, title, f"difference in {metric} (points)")


def _differences(found: Mapping[str, Any]) -> Iterator[Row]:
    for row in found["rows"]:
        if row["partition"] in MEANS:
            for other in row["differences"]:
                interval = other["interval"] and [100 * end for end in other["interval"]]
                unsure = other["p_holm"] is not None and other["p_holm"] >= 0.05
                yield row["mode"], other["run"], 100 * other["difference"], interval, unsure


def _draw(path: Path, rows: Sequence[Row], lines: Mapping[str, float | None], title: str, label: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    modes, runs = list(lines), list(dict.fromkeys(row[1] for row in rows))
    names = [plain(name) for name in brief_names(runs, 28).values()]
    left = 0.8 + 0.075 * max(map(len, names))
    figure, axes = panels(plt, len(modes), left, 2.2, 0.8 + 0.27 * len(runs), 0.8)
    title += NO_INTERVAL if any(interval is None for _, _, _, interval, _ in rows) else ""
    for axis, mode in zip(axes, modes, strict=True):
        for _, run, value, interval, hollow in (row for row in rows if row[0] == mode):
            place, colour = runs.index(run), COLOURS[0]
            if interval is not None:
                axis.plot(interval, [place, place], color=colour, linewidth=1.6, solid_capstyle="butt")
            face, marker = "white" if hollow else colour, "x" if interval is None else "o"
            axis.plot([value], [place], marker, markersize=6, color=colour, markerfacecolor=face)
        line = lines[mode]
        if line is not None:
            axis.axvline(line, color="#444444", linewidth=1, linestyle="--", zorder=0)
        axis.set_title(f"query {mode}", fontsize=10)
        axis.set_xlabel(label, fontsize=9)
        axis.grid(axis="x", color="#dddddd", linewidth=0.6)
        axis.set_axisbelow(True)
        axis.spines[["top", "right", "left"]].set_visible(False)
        axis.tick_params(labelsize=9, length=0)
        axis.margins(x=0.12)
    axes[0].set_yticks(range(len(names)), names)
    axes[0].set_ylim(len(names) - 0.5, -0.5)
    figure.suptitle(title, fontsize=10, x=0.01, ha="left")
    figure.savefig(path, dpi=130, facecolor="white")
    plt.close(figure)
