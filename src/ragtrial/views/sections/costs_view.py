"""Quality against what it costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ragtrial.errors import PlotError
from ragtrial.views.plots.style import MOST_SERIES, NEUTRAL, PALE, Series, legend, new_figure, series_of
from ragtrial.views.sections.base import AnalysisInput, PageSection, Plot, View, ViewInput, registered
from ragtrial.views.table import Table, cells_if_different, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ragtrial.comparison.tradeoffs import CostName, TradeoffPart, TradeoffsPart
    from ragtrial.report.schema import WarningPart

_SCALES: dict[CostName, float] = {"latency": 1000.0, "context": 1.0, "index": 1e-6}


class CostsView(View["TradeoffsPart"]):
    """Each setting's quality and costs, with those marked that no other one beats."""

    name, order = "costs", 50
    help = "Quality against latency, context and index size."
    is_on_page = True

    def compute(self, given: AnalysisInput) -> TradeoffsPart:
        from ragtrial.comparison.tradeoffs import weigh_costs

        return weigh_costs(given.contest)

    def warnings(self, part: TradeoffsPart) -> Sequence[WarningPart]:
        return part.warnings

    def blocks(self, part: TradeoffsPart | None, width: int, *, everything: bool) -> Iterator[str | Table]:
        if part:
            yield tradeoff_table(part)

    def page(self, given: ViewInput) -> PageSection | None:
        part = self.of(given.analysis)
        return PageSection("Quality against cost", data=part.model_dump(mode="json")) if part else None


def tradeoff_table(tradeoffs: TradeoffsPart) -> Table:
    """One row per setting, best first; no row where no cost is known.

    A * behind a cost: none is as good and as cheap, and better in one of the two; in the last column: the same for all
    costs together. What is not known is a dash. Bytes per vector are shown where they differ.
    """
    cutoff = "" if tradeoffs.k is None else f"@{tradeoffs.k}"
    titles: dict[CostName, str] = {
        "latency": "ms p50",
        "context": f"{tradeoffs.context_unit}{cutoff}",
        "index": "index MB",
    }
    marks = {True: "*", False: "", None: "-"}
    vectors = cells_if_different([part.vector_bytes for part in tradeoffs.settings])
    rows = [
        [
            part.setting,
            number(part.mean),
            *vector,
            *(_cost(part, cost) for cost in tradeoffs.costs),
            marks[part.undominated_in_all],
        ]
        for part, vector in zip(tradeoffs.settings, vectors, strict=True)
    ]
    own = ["B/vector"] if any(vectors) else []
    columns = ["quality and costs", tradeoffs.metric, *own, *(titles[cost] for cost in tradeoffs.costs), "all"]
    return Table.of(columns, rows if tradeoffs.costs else [])


def _cost(part: TradeoffPart, cost: CostName) -> str:
    shown = {
        "latency": None if part.latency is None else f"{part.latency * 1000:,.1f}",
        "context": None if part.context is None else f"{part.context:,.0f}",
        "index": None if part.index is None else f"{part.index / 1e6:,.1f}",
    }[cost]
    return "-" if shown is None else f"{shown}{'*' if part.undominated[cost] else ' '}"


def tradeoff_plot(given: ViewInput) -> Figure:
    """Quality against each cost that is known of two settings, the Pareto set joined by a line. Raises PlotError."""
    weighed = COSTS.of(given.analysis)
    drawable = [cost for cost in weighed.costs if len(_known(weighed, cost)) > 1] if weighed else []
    if not weighed or not drawable:
        raise PlotError("cannot plot the tradeoff: no cost (latency, context, index) is known for two settings.")
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


COSTS = registered(CostsView(tradeoff=Plot(tradeoff_plot)))
