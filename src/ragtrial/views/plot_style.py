"""The look of plots, and differences with their intervals: at the width of a column, distinct without colour."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ragtrial.cache.untrusted import plain
from ragtrial.errors import PlotError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ragtrial.comparison.comparison_parts import ComparisonPart


WIDTH = 3.5
"""Inches: a column of most journals; half a slide."""

BETTER, WORSE, NEUTRAL, PALE = "#0072b2", "#d55e00", "#4d4d4d", "#b3b3b3"
"""Blue and vermilion differ for every eye (Okabe & Ito 2008), and both from the greys in lightness."""

_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#000000", "#56b4e9", "#d55e00")
_SIGNS = ("o", "s", "^", "D", "v", "P", "X")
_STROKES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))

MOST_SERIES = len(_COLOURS)

_RULES: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 7.5,
    "axes.labelsize": 7.5,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e3e3e3",
    "grid.linewidth": 0.5,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "lines.linewidth": 1.1,
    "lines.markersize": 4,
    "hatch.linewidth": 0.6,
    "savefig.dpi": 300,
    "svg.fonttype": "none",  # text stays text: it is found, copied and set in the font of the document
    "svg.hashsalt": "ragtrial",  # else ids are drawn anew each time
    "text.parse_math": False,  # a name with $ in it is a name
}


@dataclass(frozen=True)
class Series:
    """How one setting is drawn wherever it is."""

    colour: str
    sign: str
    stroke: Any


@contextmanager
def styled() -> Iterator[None]:
    """Draws by these rules alone; the user's own rules are ignored. Raises PlotError if matplotlib is not installed."""
    try:
        import matplotlib as mpl
    except ImportError:
        message = "plots need matplotlib, which is not installed: pip install 'ragtrial[plot]'."
        raise PlotError(message) from None
    rules: Any = {name: value for name, value in mpl.rcParamsDefault.items() if name != "backend"}
    rules.update(_RULES)
    with mpl.rc_context(rules):
        yield


def new_figure(height: float) -> Figure:
    """A figure of one column, ``height`` inches high."""
    from matplotlib.figure import Figure

    return Figure(figsize=(WIDTH, height), layout="constrained")


def series_of(names: Sequence[str]) -> dict[str, Series]:
    """A colour, a sign and a stroke for each of the first names; there is none for more than MOST_SERIES."""
    looks = zip(_COLOURS, _SIGNS, _STROKES, strict=True)
    return {name: Series(*look) for name, look in zip(names, looks, strict=False)}


def shortened(name: str, most: int = 28) -> str:
    """A name that fits, without what no plot can show."""
    shown = plain(name).replace("\n", " ").replace("\t", " ")
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def legend(axes: Axes, series: dict[str, Series], *, others: int = 0) -> None:
    """Names below the plot, in as many columns as have room; ``others`` are counted, in grey."""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], color=look.colour, marker=look.sign, linestyle=look.stroke) for look in series.values()]
    labels = [shortened(name, 34) for name in series]
    if others:
        handles.append(Line2D([], [], color=PALE))
        labels.append(f"{others:,} more")
    columns = 3 if max(map(len, labels)) <= 12 else 2 if max(map(len, labels)) <= 22 else 1
    figure = axes.get_figure(root=True)
    if figure is not None:
        # A name that begins with _ is a name as well.
        made = figure.legend(handles, [" "] * len(labels), loc="outside lower center", ncols=columns)
        for text, label in zip(made.get_texts(), labels, strict=True):
            text.set_text(label)


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
    """The text at the right."""


def claimed(part: ComparisonPart) -> int:
    """The side that a verdict is on."""
    return 1 if part.verdict == "better" else -1 if (part.verdict or "").startswith("worse") else 0


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
