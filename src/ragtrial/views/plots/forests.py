"""Differences with their intervals, one below the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ragtrial.views.plots.style import BETTER, NEUTRAL, PALE, WORSE, new_figure, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ragtrial.comparison.comparison_parts import ComparisonPart

MOST_ROWS = 40
_ROW = 0.165
"""Inches."""


@dataclass(frozen=True)
class ForestRow:
    """A difference; ``side`` is 1 for better, -1 for worse, 0 for inconclusive."""

    label: str
    difference: float
    ci: tuple[float, float] | None = None
    side: int = 0
    beside: str = ""
    """What is said at the right."""


def claimed(part: ComparisonPart) -> int:
    """The side that a verdict is on."""
    return 1 if part.verdict == "better" else -1 if (part.verdict or "").startswith("worse") else 0


def side(ci: tuple[float, float] | None) -> int:
    """The side of 0 that an interval is on; 0 if it has 0 in it."""
    return 0 if ci is None else int(ci[0] > 0) - int(ci[1] < 0)


def forest(rows: Sequence[ForestRow], label: str, margin: float | None = None) -> Figure:
    """Rows one below the other, each a difference with its interval; what lies within ``margin`` is shaded."""
    figure = new_figure(0.62 + _ROW * len(rows))
    axes = figure.subplots()
    if margin:
        axes.axvspan(-margin, margin, color="#ededed", linewidth=0, zorder=0)
    axes.axvline(0, color="black", linewidth=0.7, zorder=1)
    for place, row in enumerate(rows):
        _draw(axes, place, row)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_yticks(range(len(rows)), [shortened(row.label) for row in rows])
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)
    figure.supxlabel(label, fontsize=7.5)  # it may be wider than the axes
    axes.locator_params(axis="x", nbins=5)
    for place, row in enumerate(rows):
        if row.beside:
            axes.annotate(row.beside, (1.02, place), xycoords=("axes fraction", "data"), va="center", fontsize=7,
                          annotation_clip=False)  # fmt: skip
    return figure


def _draw(axes: Axes, place: int, row: ForestRow) -> None:
    ink = {1: BETTER, -1: WORSE, 0: NEUTRAL}[row.side]
    if row.ci is not None:
        axes.plot(row.ci, [place, place], color=ink, linewidth=1.3, solid_capstyle="butt", gid=f"interval-{place}")
    sign = {1: "^", -1: "v", 0: "o"}[row.side]
    face = ink if row.side else "white"
    axes.plot([row.difference], [place], sign, color=ink if row.ci else PALE, markerfacecolor=face, markersize=4.5,
              gid=f"difference-{place}")  # fmt: skip
