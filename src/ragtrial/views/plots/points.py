"""Settings and queries as points: curves over k, two settings query by query, quality against cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ragtrial.comparison.analysis import Analysis
from ragtrial.comparison.contest import Contest
from ragtrial.comparison.curves import curves_of
from ragtrial.comparison.queries.moves import QueryDifferences
from ragtrial.comparison.tradeoffs import CostName, TradeoffPart, TradeoffsPart
from ragtrial.errors import PlotError
from ragtrial.evaluation.metrics import parse_metric
from ragtrial.views.plots.style import (
    BETTER,
    MOST_SERIES,
    NEUTRAL,
    PALE,
    WORSE,
    Series,
    legend,
    new_figure,
    series_of,
    shortened,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BINS = 12
"""On each side of 0."""

_SCALES: dict[CostName, float] = {"latency": 1000.0, "context": 1.0, "index": 1e-6}


def curves(contest: Contest) -> Figure:
    """The primary metric over k, or the first one with several cutoffs. Raises PlotError where none has them."""
    found = {curve.metric: curve for curve in curves_of(contest)}
    if not found:
        raise PlotError("there is no plot of curves: no metric has two cutoffs; add values of k, and run again.")
    chosen = found.get(str(parse_metric(contest.primary).at(None))) or next(iter(found.values()))
    names = best_first(contest)
    series = series_of(names)
    figure = new_figure(2.5 + 0.13 * min(len(names), MOST_SERIES))
    axes = figure.subplots()
    for name in reversed(names):
        means = [np.nan if mean is None else mean for mean in chosen.means[name]]
        if name in series:
            look = series[name]
            axes.plot(chosen.cutoffs, means, color=look.colour, marker=look.sign, linestyle=look.stroke,
                      gid=f"curve-{names.index(name)}")  # fmt: skip
        else:
            axes.plot(chosen.cutoffs, means, color=PALE, linewidth=0.7)
    axes.set_xscale("log")
    axes.set_xticks(chosen.cutoffs, [str(k) for k in chosen.cutoffs])
    axes.minorticks_off()
    axes.set_xlabel("k")
    axes.set_ylabel(chosen.metric)
    legend(axes, series, lines=True, others=len(names) - len(series))
    return figure


def scatter(found: QueryDifferences) -> Figure:
    """Each query: the baseline across, the setting up."""
    figure = new_figure(3.4)
    axes = figure.subplots()
    highest = max([1.0, *(max(one.baseline, one.setting) for one in found.queries)])
    axes.plot([0, highest], [0, highest], color=NEUTRAL, linewidth=0.7)
    signs = {"won": ("^", BETTER), "lost": ("v", WORSE), "tied": ("o", NEUTRAL)}
    for outcome, (sign, ink) in signs.items():
        own = [one for one in found.queries if one.outcome == outcome]
        face = "none" if outcome == "tied" else ink
        axes.plot([one.baseline for one in own], [one.setting for one in own], sign, color=ink, markerfacecolor=face,
                  markersize=4, alpha=0.75, gid=f"queries-{outcome}",
                  label=f"{len(own):,} {outcome}")  # fmt: skip
    axes.set_aspect("equal")
    axes.set_xlabel(f"{found.metric}, {shortened(found.baseline)}")
    axes.set_ylabel(f"{found.metric}, {shortened(found.setting)}")
    axes.legend(loc="lower right", handletextpad=0.2)
    return figure


def distribution(found: QueryDifferences) -> Figure:
    """How many queries differ by how much; ties are counted, and have no bar."""
    differences = np.array([one.difference for one in found.queries])
    reach = float(np.abs(differences).max(initial=0.0)) or 1.0
    edges = np.linspace(0.0, reach, _BINS + 1)
    figure = new_figure(2.4)
    axes = figure.subplots()
    # Sides are counted apart, so that no bar holds both; a value on an edge belongs to the bin nearer to 0.
    for outcome, sign, ink, hatch in (("won", 1, BETTER, ""), ("lost", -1, WORSE, "////")):
        sizes = sign * differences[sign * differences > 0]
        counts = np.bincount(np.clip(np.searchsorted(edges, sizes) - 1, 0, _BINS - 1), minlength=_BINS)
        for place, count in enumerate(counts.tolist()):
            if count:
                left = edges[place] if sign > 0 else -edges[place + 1]
                axes.bar(left, count, width=reach / _BINS, align="edge", color=ink if sign > 0 else "white",
                         edgecolor="white" if sign > 0 else ink, linewidth=0.5, hatch=hatch,
                         gid=f"{outcome}-{place}")  # fmt: skip
    axes.axvline(0, color="black", linewidth=0.7)
    axes.set_xlim(-1.04 * reach, 1.04 * reach)
    axes.yaxis.get_major_locator().set_params(integer=True)  # type: ignore[call-arg]
    axes.grid(visible=False, axis="x")
    axes.set_ylabel("queries")
    axes.set_xlabel(f"difference in {found.metric}: {shortened(found.setting)}\nless {shortened(found.baseline)}")
    axes.set_title(f"{found.lost:,} lost", loc="left", fontsize=7, color=WORSE)
    axes.set_title(f"{found.tied:,} tied", loc="center", fontsize=7, color=NEUTRAL)
    axes.set_title(f"{found.won:,} won", loc="right", fontsize=7, color=BETTER)
    return figure


def tradeoff(analysis: Analysis) -> Figure:
    """Quality against each cost that is known of two settings, the Pareto set joined by a line. Raises PlotError."""
    weighed = analysis.costs
    drawable = [cost for cost in weighed.costs if len(_known(weighed, cost)) > 1] if weighed else []
    if not weighed or not drawable:
        raise PlotError(
            "there is no plot of the tradeoff: of no cost (latency, context, index) are two settings known."
        )
    fronted = {part.setting for cost in drawable for part in _known(weighed, cost) if part.undominated[cost]}
    names = [part.setting for part in weighed.settings]
    shown = names if len(names) <= MOST_SERIES else [name for name in names if name in fronted]
    series = series_of(shown)
    figure = new_figure(0.3 + 1.75 * len(drawable) + 0.14 * len(series))
    panels = figure.subplots(len(drawable), squeeze=False)[:, 0].tolist()
    for axes, cost in zip(panels, drawable, strict=True):
        _against(axes, weighed, cost, series)
    legend(panels[-1], series, lines=False, others=len(names) - len(series))
    return figure


def _against(axes: Axes, weighed: TradeoffsPart, cost: CostName, series: dict[str, Series]) -> None:
    parts = _known(weighed, cost)
    front = sorted(_point(part, cost) for part in parts if part.undominated[cost])
    axes.plot(*zip(*front, strict=True), color=NEUTRAL, linewidth=0.8, drawstyle="steps-post", gid=f"front-{cost}")
    for part in reversed(parts):
        look = series.get(part.setting)
        ink = look.colour if look else PALE
        axes.plot(*_point(part, cost), look.sign if look else "o", color=ink, markersize=5,
                  markerfacecolor=ink if part.undominated[cost] else "white",
                  gid=f"{cost}-{weighed.settings.index(part)}")  # fmt: skip
    labels = {
        "latency": "ms per query (median)",
        "context": f"{weighed.context_unit} in the first {weighed.k or 'hits'}",
        "index": "index, MB",
    }
    axes.margins(0.08)
    axes.locator_params(nbins=5)
    axes.set_xlabel(labels[cost])
    axes.set_ylabel(weighed.metric)


def _known(weighed: TradeoffsPart, cost: CostName) -> list[TradeoffPart]:
    return [part for part in weighed.settings if part.mean is not None and getattr(part, cost) is not None]


def _point(part: TradeoffPart, cost: CostName) -> tuple[float, float]:
    return getattr(part, cost) * _SCALES[cost], part.mean or 0.0


def best_first(contest: Contest) -> Sequence[str]:
    """Names by the mean of the primary metric."""
    values = contest.scores(contest.primary).values
    counted = ~np.isnan(values)
    means = np.where(counted, values, 0.0).sum(axis=1) / np.maximum(counted.sum(axis=1), 1)
    return [contest.names[place] for place in np.argsort(-means, kind="stable").tolist()]
