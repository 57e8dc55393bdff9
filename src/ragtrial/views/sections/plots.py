"""Plots, and drawings of the page: differences with their intervals, and means over k.

Plots are as wide as a column, and distinct without colour.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import mode
from typing import TYPE_CHECKING, Any

import numpy as np

from ragtrial.cache.untrusted import plain
from ragtrial.comparison.comparing import close_comparisons
from ragtrial.comparison.comparison_input import ComparisonInput
from ragtrial.comparison.comparison_parts import ComparisonPart
from ragtrial.comparison.number_text import percent
from ragtrial.errors import PlotError
from ragtrial.evaluation.metrics import parse_metric
from ragtrial.views.sections.base import View, ViewInput, registered

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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


def series_of(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """How each of the first names is drawn wherever it is; there is no more than MOST_SERIES of them."""
    looks = zip(_COLOURS, _SIGNS, _STROKES, strict=True)
    keys = ("color", "marker", "linestyle")
    return {name: dict(zip(keys, look, strict=True)) for name, look in zip(names, looks, strict=False)}


def shortened(name: str, most: int = 28) -> str:
    """A name that fits, without what no plot can show."""
    shown = plain(name).replace("\n", " ").replace("\t", " ")
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def legend(axes: Axes, series: dict[str, dict[str, Any]], *, others: int = 0) -> None:
    """Names below the plot, in as many columns as have room; ``others`` are counted, in grey."""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], **look) for look in series.values()]
    labels = [shortened(name, 34) for name in series]
    if others:
        handles.append(Line2D([], [], color=PALE))
        labels.append(f"{others:,} more")
    columns = 3 if max(map(len, labels)) <= 12 else 2 if max(map(len, labels)) <= 22 else 1
    figure = axes.get_figure(root=True)
    if figure is not None:
        # A name that begins with _ is a name as well.
        shown = figure.legend(handles, [" "] * len(labels), loc="outside lower center", ncols=columns)
        for text, label in zip(shown.get_texts(), labels, strict=True):
            text.set_text(label)


class CurvesView(View[None]):
    """The means of all metrics that have several cutoffs; the page and plots alone show it."""

    name, order = "curves", 27

    def as_json(self, part: None) -> dict[str, Any]:
        return {}


@dataclass(frozen=True)
class Curve:
    """A metric that has several cutoffs."""

    metric: str
    """Without its cutoff."""

    cutoffs: tuple[int, ...]
    """Ascending."""

    means: dict[str, list[float | None]]
    """For each setting the mean at each cutoff, over the queries that count for it; None where it has none."""


def curves_of(contest: ComparisonInput) -> Iterator[Curve]:
    """One for each metric of the first report that has two cutoffs or more."""
    by_name: dict[str, dict[int, str]] = {}
    for name in contest.report.metrics:
        metric = parse_metric(name)
        if metric.k is not None:
            by_name.setdefault(str(metric.at(None)), {})[metric.k] = name
    for base, names in by_name.items():
        cutoffs = tuple(sorted(names))
        means = {
            setting.name: [mean.mean if (mean := setting.part.scores.get(names[k])) else None for k in cutoffs]
            for setting in contest.settings
        }
        if len(cutoffs) > 1:
            yield Curve(base, cutoffs, means)


def curve_plot(given: ViewInput) -> Figure:
    """The primary metric over k, or the first one with several cutoffs. Raises PlotError where none has them."""
    contest = given.contest
    found = {curve.metric: curve for curve in curves_of(contest)}
    if not found:
        raise PlotError("cannot plot curves: no metric has two cutoffs; add values of k and run again.")
    curve = found.get(str(parse_metric(contest.primary).at(None))) or next(iter(found.values()))
    names = best_first(contest)
    series = series_of(names)
    figure = new_figure(2.5 + 0.13 * min(len(names), MOST_SERIES))
    axes = figure.subplots()
    for name in reversed(names):
        means = [math.nan if mean is None else mean for mean in curve.means[name]]
        look = series.get(name, {"color": PALE, "linewidth": 0.7})
        axes.plot(curve.cutoffs, means, gid=f"curve-{names.index(name)}", **look)
    axes.set_xscale("log")
    axes.set_xticks(curve.cutoffs, [str(k) for k in curve.cutoffs])
    axes.minorticks_off()
    axes.set_xlabel("k")
    axes.set_ylabel(curve.metric)
    legend(axes, series, others=len(names) - len(series))
    return figure


def best_first(contest: ComparisonInput) -> Sequence[str]:
    """Names by the mean of the primary metric."""
    means = np.nan_to_num(contest.scores(contest.primary).means)
    order = np.argsort(-contest.sign(contest.primary) * means, kind="stable")
    return [contest.names[index] for index in order.tolist()]


CURVES = registered(CurvesView(curves=curve_plot))


class DifferencesView(View[None]):
    """The differences with their intervals; the page and plots alone draw them."""

    name, order = "differences", 25

    def as_json(self, part: None) -> dict[str, Any]:
        return {}


MOST_ROWS = 40
_ROW = 0.165
"""Inches."""


def difference_plot(given: ViewInput) -> Figure:
    """Each setting against the baseline, or else the best one, with the verdict. Raises PlotError."""
    analysis, procedure = given.analysis, given.analysis.procedure
    close = [part for part in close_comparisons(analysis) if part.difference is not None]
    if not close:
        raise PlotError("there is no plot of differences: no query counts for two settings.")
    baseline = procedure.baseline or mode(part.baseline for part in close)
    # A baseline that is no setting is a report: settings are compared with its settings of the same name.
    parts = [part for part in close if part.baseline == baseline or baseline not in analysis.settings]
    rows = parts[:MOST_ROWS]
    figure = new_figure(0.62 + _ROW * len(rows))
    axes = figure.subplots()
    if procedure.margin:
        axes.axvspan(-procedure.margin, procedure.margin, color="#ededed", linewidth=0, zorder=0)
    axes.axvline(0, color="black", linewidth=0.7, zorder=1)
    for row, part in enumerate(rows):
        _draw(axes, row, part)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_yticks(range(len(rows)), [shortened(part.setting) for part in rows])
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)
    label = f"difference in {analysis.primary_metric} from {shortened(baseline)},\n"
    label += f"{percent(procedure.confidence)} intervals, margin {procedure.margin:g}"
    label += f"; {len(parts) - MOST_ROWS:,} lower ones not shown" if len(parts) > MOST_ROWS else ""
    figure.supxlabel(label, fontsize=7.5)  # it may be wider than the axes
    axes.locator_params(axis="x", nbins=5)
    for row, part in enumerate(rows):
        axes.annotate(part.verdict or "", (1.02, row), xycoords=("axes fraction", "data"), va="center", fontsize=7,
                      annotation_clip=False)  # fmt: skip
    return figure


def claimed(part: ComparisonPart) -> int:
    """The side that a verdict is on: 1 for better, -1 for worse, else 0."""
    return 1 if part.verdict == "better" else -1 if (part.verdict or "").startswith("worse") else 0


def _draw(axes: Axes, row: int, part: ComparisonPart) -> None:
    """The difference and its interval, in the row of a comparison."""
    ink, sign = {1: (BETTER, "^"), -1: (WORSE, "v"), 0: (NEUTRAL, "o")}[claimed(part)]
    if part.ci is not None:
        axes.plot(part.ci, [row, row], color=ink, linewidth=1.3, solid_capstyle="butt", gid=f"interval-{row}")
    line, face = ink if part.ci else PALE, ink if claimed(part) else "white"
    axes.plot([part.difference or 0.0], [row], sign, color=line, markerfacecolor=face, markersize=4.5,
              gid=f"difference-{row}")  # fmt: skip


DIFFERENCES = registered(DifferencesView(differences=difference_plot))
