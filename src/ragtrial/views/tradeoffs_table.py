"""Quality against costs, as a table for the terminal."""

from __future__ import annotations

from ragtrial.comparison.tradeoffs import CostName, TradeoffPart, TradeoffsPart


def tradeoff_table(tradeoffs: TradeoffsPart) -> list[list[str]]:
    """A header and one row per setting, best first; nothing where no cost is known.

    A * behind a cost: none is as good and as cheap, and better in one of the two; in the last column: the same for all
    costs together. What is not known is a dash.
    """
    if not tradeoffs.costs:
        return []
    cutoff = "" if tradeoffs.k is None else f"@{tradeoffs.k}"
    titles: dict[CostName, str] = {
        "latency": "ms p50",
        "context": f"{tradeoffs.context_unit}{cutoff}",
        "index": "index MB",
    }
    rows = [["quality and costs", tradeoffs.metric, *(titles[cost] for cost in tradeoffs.costs), "all"]]
    for part in tradeoffs.settings:
        mean = "-" if part.mean is None else f"{part.mean:.4f}"
        cells = [_cost(part, cost) for cost in tradeoffs.costs]
        rows.append([part.setting, mean, *cells, {True: "*", False: "", None: "-"}[part.undominated_in_all]])
    return rows


def _cost(part: TradeoffPart, cost: CostName) -> str:
    shown = {
        "latency": None if part.latency is None else f"{part.latency * 1000:,.1f}",
        "context": None if part.context is None else f"{part.context:,.0f}",
        "index": None if part.index is None else f"{part.index / 1e6:,.1f}",
    }[cost]
    return "-" if shown is None else f"{shown}{'*' if part.undominated[cost] else ' '}"
