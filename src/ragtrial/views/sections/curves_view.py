"""Drawings of the page and of plots: differences with their intervals, and means over k."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import mode
from typing import TYPE_CHECKING, Any

from ragtrial.errors import PlotError
from ragtrial.views.plot_style import (
    MOST_ROWS,
    MOST_SERIES,
    PALE,
    ForestRow,
    claimed,
    forest,
    legend,
    new_figure,
    series_of,
    shortened,
)
from ragtrial.views.sections.base import PageSection, View, ViewInput, registered

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ragtrial.comparison.comparison_input import ComparisonInput


class CurvesView(View[None]):
    """The means of all metrics that have several cutoffs; the page and plots alone show it."""

    name, order = "curves", 27

    def as_json(self, part: None) -> dict[str, Any]:
        return {}

    def page(self, given: ViewInput) -> PageSection:
        return PageSection("At each cutoff", data=[_page_data(curve) for curve in curves_of(given.contest)])


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
    from ragtrial.evaluation.metrics import parse_metric

    by_name: dict[str, list[tuple[int, str]]] = {}
    for name in contest.report.metrics:
        metric = parse_metric(name)
        if metric.k is not None:
            by_name.setdefault(str(metric.at(None)), []).append((metric.k, name))
    for base, cutoffs in by_name.items():
        if len(cutoffs) > 1:
            ordered = sorted(cutoffs)
            means = {
                contender.name: [
                    contender.part.scores[name].mean if name in contender.part.scores else None for _, name in ordered
                ]
                for contender in contest.settings
            }
            yield Curve(base, tuple(k for k, _ in ordered), means)


def _page_data(curve: Curve) -> dict[str, Any]:
    points = [
        {"setting": name, "k": k, "mean": mean}
        for name, means in curve.means.items()
        for k, mean in zip(curve.cutoffs, means, strict=True)
        if mean is not None
    ]
    from ragtrial.evaluation.metrics import parse_metric

    return {"metric": curve.metric, "order": parse_metric(curve.metric).definition.curve, "points": points}


def curve_plot(given: ViewInput) -> Figure:
    """The primary metric over k, or the first one with several cutoffs. Raises PlotError where none has them."""
    from ragtrial.evaluation.metrics import parse_metric

    contest = given.contest
    found = {curve.metric: curve for curve in curves_of(contest)}
    if not found:
        raise PlotError("cannot plot curves: no metric has two cutoffs; add values of k and run again.")
    chosen = found.get(str(parse_metric(contest.primary).at(None))) or next(iter(found.values()))
    names = best_first(contest)
    series = series_of(names)
    figure = new_figure(2.5 + 0.13 * min(len(names), MOST_SERIES))
    axes = figure.subplots()
    for name in reversed(names):
        means = [math.nan if mean is None else mean for mean in chosen.means[name]]
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
    legend(axes, series, others=len(names) - len(series))
    return figure


def best_first(contest: ComparisonInput) -> Sequence[str]:
    """Names by the mean of the primary metric."""
    import numpy as np

    values = contest.scores(contest.primary).values
    known = ~np.isnan(values)
    means = np.where(known, values, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    order = np.argsort(-contest.sign(contest.primary) * means, kind="stable")
    return [contest.names[place] for place in order.tolist()]


CURVES = registered(CurvesView(curves=curve_plot))


class DifferencesView(View[None]):
    """The differences with their intervals; the page and plots alone draw them."""

    name, order = "differences", 25

    def as_json(self, part: None) -> dict[str, Any]:
        return {}

    def page(self, given: ViewInput) -> PageSection | None:
        return PageSection("Differences") if given.analysis.comparisons else None


def difference_plot(given: ViewInput) -> Figure:
    """Each setting against the baseline, or else the best one, with the verdict. Raises PlotError."""
    from ragtrial.comparison.comparing import close_comparisons
    from ragtrial.comparison.number_text import percent

    analysis = given.analysis
    close = [part for part in close_comparisons(analysis) if part.difference is not None]
    if not close:
        raise PlotError("there is no plot of differences: no query counts for two settings.")
    procedure = analysis.procedure
    baseline = procedure.baseline or mode(part.baseline for part in close)
    # A baseline that is no setting is a report: settings are compared with its settings of the same name.
    parts = [part for part in close if part.baseline == baseline or baseline not in analysis.settings]
    rows = [
        ForestRow(part.setting, part.difference, part.ci, claimed(part), part.verdict or "")
        for part in parts[:MOST_ROWS]
        if part.difference is not None
    ]
    label = f"difference in {analysis.primary_metric} from {shortened(baseline)},\n"
    label += f"{percent(procedure.confidence)} intervals, margin {procedure.margin:g}"
    if len(parts) > MOST_ROWS:
        label += f"; {len(parts) - MOST_ROWS:,} lower ones not shown"
    return forest(rows, label, margin=procedure.margin)


DIFFERENCES = registered(DifferencesView(differences=difference_plot))
