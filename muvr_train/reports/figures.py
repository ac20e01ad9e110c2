"""Charts as SVG that takes the text colour of the page around it, so that it reads well on light and dark."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from muvr_train.reports.curves import Curve

INK = "#010203"
"""Drawn in this colour, shown in the page's `currentColor`."""
COLOURS = ("#2f7fd0", "#d9730d", "#2a9d63", "#b0479a", "#8a7a1f", "#7a6ff0", "#c2453f", "#0f98a8")
DASHES = ("", "6 3", "2 2", "8 3 2 3")
SIZE = (4.4, 3.1)  # inches of 72 units


@dataclass(frozen=True)
class Style:
    """Of a line: a mid-tone colour and an SVG dash pattern, so that lines differ without colour too."""

    colour: str
    dash: str


def style_of(index: int) -> Style:
    """The style of the line of that number."""
    return Style(COLOURS[index % len(COLOURS)], DASHES[index // 2 % len(DASHES)])


def line_chart(lines: Sequence[tuple[int, Curve]], x_label: str, y_label: str, steps: bool = False) -> str:
    """Curves in the unit interval, as an inline SVG.

    Args:
        lines: (number of the style, curve).
        x_label: a fixed text.
        y_label: a fixed text.
        steps: a precision-recall curve: each point holds from the one before it; x from 0 to 1. Without: x is
            logarithmic.
    """
    figure, axes = _new_figure(x_label, y_label)
    for number, curve in lines:
        style = style_of(number)
        dashes = [float(part) / 1.6 for part in style.dash.split()]
        axes.plot(
            [0.0, *curve.x] if steps and len(curve.x) else curve.x,
            [curve.y[0], *curve.y] if steps and len(curve.x) else curve.y,
            drawstyle="steps-pre" if steps else "default",
            color=style.colour,
            linewidth=1.6,
            linestyle=(0, dashes) if dashes else "solid",
            clip_on=False,
        )
    axes.set_ylim(0, 1.03)
    if steps:
        axes.set_xlim(0, 1.03)
    else:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.minorticks_off()
    return to_svg(figure)


def bar_chart(curve: Curve, number: int, x_label: str, y_label: str) -> str:
    """A histogram of equal intervals of [0, 1], as an inline SVG."""
    figure, axes = _new_figure(x_label, y_label)
    width = 1.0 / max(len(curve.x), 1)
    axes.bar(curve.x, curve.y, width * 0.9, align="edge", color=style_of(number).colour, clip_on=False)
    axes.set_xlim(-0.01, 1.01)
    axes.yaxis.get_major_locator().set_params(integer=True)
    return to_svg(figure)


def _new_figure(x_label: str, y_label: str) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE)
    axes = figure.add_axes((0.13, 0.16, 0.84, 0.8))
    axes.set_facecolor("none")
    axes.grid(color=INK, alpha=0.12, linewidth=0.8, clip_on=False)
    axes.set_axisbelow(True)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(INK)
        spine.set_alpha(0.5)
    axes.tick_params(which="both", colors=INK, labelsize=9, length=0)
    axes.set_xlabel(x_label, color=INK, fontsize=10)
    axes.set_ylabel(y_label, color=INK, fontsize=10)
    return figure, axes


def to_svg(figure: Any) -> str:
    """A matplotlib figure as an SVG element, without outside addresses and without what could clash inside a page."""
    import matplotlib

    file = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "muvr-train", "path.simplify": False}):
        figure.savefig(file, format="svg", transparent=True)
    svg = file.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style type=.*?</style>|<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', r'<svg viewBox="\1" aria-hidden="true">', svg, count=1)
    svg = re.sub(r' id="[^"]*"| clip-path="[^"]*"|<defs>.*?</defs>|font-family: [^;"]*;', "", svg, flags=re.DOTALL)
    svg = re.sub(r"(\.\d\d)\d+", r"\1", svg)
    return re.sub(r"\s+", " ", svg).replace(INK, "currentColor")
