"""Quality against costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ragtrial.views.sections.base import AnalysisInput, PageSection, View, ViewInput, registered
from ragtrial.views.table import Table, cells_if_different, mean_number

if TYPE_CHECKING:
    from ragtrial.comparison.tradeoffs import CostName, TradeoffPart, TradeoffsPart
    from ragtrial.report.schema import WarningPart


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
    """One row per setting, best first; no row if no cost is known.

    A * behind a cost: no other setting is as good and as cheap, and better in one of the two; in the last column: the
    same for all costs together. An unknown cost is a dash. Bytes per vector are shown if they differ.
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
            mean_number(part.mean, 0),
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


COSTS = registered(CostsView())
