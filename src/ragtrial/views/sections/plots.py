"""Plots for papers and slides: differences with their intervals, and means over k.

Plots are as wide as a column, and distinct without colour.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import mode
from typing import TYPE_CHECKING, Any

import numpy as np

from ragtrial.cache.untrusted import plain
from ragtrial.comparison.comparing import close_comparisons
from ragtrial.comparison.comparison_input import ComparisonInput
from ragtrial.comparison.comparison_parts import ComparisonPart
from ragtrial.comparison.number_text import percent
from ragtrial.errors import PlotError
from ragtrial.evaluation.metrics import metric_called
from ragtrial.views.sections.base import View, ViewInput, registered

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


WIDTH = 3.5
"""Inches: a column of most journals; half a slide."""

BETTER, WORSE, NEUTRAL, PALE = "#0072b2", "#d55e00", "#4d4d4d", "#b3b3b3"
"""Blue and vermilion differ for every eye (Okabe & Ito 2008), and both from the greys in lightness."""

SERIES = (
    ("#0072b2", "o", "-"), ("#e69f00", "s", "--"), ("#009e73", "^", "-."), ("#cc79a7", "D", ":"),
    ("#000000", "v", (0, (5, 1))), ("#56b4e9", "P", (0, (3, 1, 1, 1))), ("#d55e00", "X", (0, (1, 1))),
)  # fmt: skip
"""Colour, marker and stroke of each setting that has a name in the legend."""

_RULES: dict[str, Any] = {
    "font.size": 7.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e3e3e3",
    "legend.frameon": False,
    "lines.linewidth": 1.1,
    "lines.markersize": 4,
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
    with mpl.rc_context(rules | _RULES):
        yield


def new_figure(height: float) -> Figure:
    """A figure of one column, ``height`` inches high."""
    from matplotlib.figure import Figure

    return Figure(figsize=(WIDTH, height), layout="constrained")


def _shortened(name: str) -> str:
    """A name that fits, without what no plot can show."""
    shown = plain(name).replace("\n", " ").replace("\t", " ")
    return shown if len(shown) <= 28 else f"{shown[:27]}…"


def best_first(inputs: ComparisonInput) -> Sequence[str]:
    """Names by the mean of the primary metric."""
    means = np.nan_to_num(inputs.scores(inputs.primary).means)
    order = np.argsort(-inputs.sign(inputs.primary) * means, kind="stable")
    return [inputs.names[index] for index in order.tolist()]


def _names_by_k(inputs: ComparisonInput) -> tuple[str, Mapping[int, str]]:
    """The primary metric, or the first one that has two cutoffs, and its names by ascending k. Raises PlotError."""
    by_metric: dict[str, dict[int, str]] = {}
    for name in inputs.report.metrics:
        metric = metric_called(name)
        if metric.k is not None:
            by_metric.setdefault(str(metric.at(None)), {})[metric.k] = name
    curves = {base: names for base, names in by_metric.items() if len(names) > 1}
    if not curves:
        raise PlotError("cannot plot curves: no metric has two cutoffs; add values of k and run again.")
    primary = str(metric_called(inputs.primary).at(None))
    base = primary if primary in curves else next(iter(curves))
    return base, dict(sorted(curves[base].items()))


def curve_plot(given: ViewInput) -> Figure:
    """The primary metric over k, or the first one with several cutoffs. Raises PlotError if no metric has them."""
    inputs = given.inputs
    metric, by_k = _names_by_k(inputs)
    names = best_first(inputs)
    figure = new_figure(2.5 + 0.13 * min(len(names), len(SERIES)))
    axes = figure.subplots()
    lines = []
    for place, name in enumerate(names):
        scores = [inputs.settings[inputs.setting_index(name)].part.scores.get(by_k[k]) for k in by_k]
        means = [math.nan if score is None or score.mean is None else score.mean for score in scores]
        color, marker, stroke = SERIES[place] if place < len(SERIES) else (PALE, "", "-")
        lines += axes.plot([*by_k], means, color=color, marker=marker, linestyle=stroke, gid=f"curve-{place}",
                           zorder=3 - place / len(names))  # fmt: skip
    axes.set_xscale("log")
    axes.set_xticks([*by_k], [str(k) for k in by_k])
    axes.minorticks_off()
    axes.set_xlabel("k")
    axes.set_ylabel(metric)
    labels = [_shortened(name) for name in names[: len(SERIES)]]
    labels += [f"{len(names) - len(SERIES):,} more"] if len(names) > len(SERIES) else []
    columns = max(1, min(3, 45 // max(map(len, labels))))
    figure.legend(lines[: len(labels)], labels, loc="outside lower center", ncols=columns)
    return figure


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
    axes.set_yticks(range(len(rows)), [_shortened(part.setting) for part in rows])
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)
    label = f"difference in {analysis.primary_metric} from {_shortened(baseline)},\n"
    label += f"{percent(procedure.confidence)} intervals, margin {procedure.margin:g}"
    label += f"; {len(parts) - MOST_ROWS:,} lower ones not shown" if len(parts) > MOST_ROWS else ""
    figure.supxlabel(label, fontsize=7.5)  # it may be wider than the axes
    axes.locator_params(axis="x", nbins=5)
    return figure


def claimed(part: ComparisonPart) -> int:
    """The side that a verdict is on: 1 for better, -1 for worse, else 0."""
    return 1 if part.verdict == "better" else -1 if (part.verdict or "").startswith("worse") else 0


def _draw(axes: Axes, row: int, part: ComparisonPart) -> None:
    """The difference, its interval and the verdict, in the row of a comparison."""
    ink, sign = {1: (BETTER, "^"), -1: (WORSE, "v"), 0: (NEUTRAL, "o")}[claimed(part)]
    if part.ci is not None:
        axes.plot(part.ci, [row, row], color=ink, linewidth=1.3, solid_capstyle="butt", gid=f"interval-{row}")
    line, face = ink if part.ci else PALE, ink if claimed(part) else "white"
    axes.plot([part.difference or 0.0], [row], sign, color=line, markerfacecolor=face, gid=f"difference-{row}")
    axes.annotate(part.verdict or "", (1.02, row), xycoords=("axes fraction", "data"), va="center", fontsize=7,
                  annotation_clip=False)  # fmt: skip


class PlotsView(View[None]):
    """The plots of a comparison, which have no other form."""

    name, order = "plots", 25

    def as_json(self, part: None) -> dict[str, Any]:
        return {}


registered(PlotsView(differences=difference_plot, curves=curve_plot))
