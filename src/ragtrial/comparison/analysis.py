"""A comparison with all that helps to act on it: the winner's luck, unjudged hits, slices, axes, costs, queries."""

from __future__ import annotations

from dataclasses import dataclass

from ragtrial.comparison.comparing import Aim, close_comparisons, compare_settings
from ragtrial.comparison.comparison_parts import Comparison
from ragtrial.comparison.contest import Contest, Pair
from ragtrial.comparison.queries.moves import QueryDifferences, SharedQueries, query_differences, shared_queries
from ragtrial.comparison.queries.side_by_side import SideBySide, side_by_side
from ragtrial.comparison.queries.slices import SlicesPart, compare_slices
from ragtrial.comparison.statistics.selection import SelectionPart, select_winner
from ragtrial.comparison.sweeps.effects import EffectsPart, sweep_effects
from ragtrial.comparison.tradeoffs import TradeoffsPart, weigh_costs
from ragtrial.comparison.unjudged.sensitivity import UnjudgedPart, unjudged_parts

MOST_LOOKED_AT = 10_000
"""Of how many queries, over all comparisons, unjudged hits are weighed unasked: 10,000 take some seconds."""


@dataclass(frozen=True)
class Wanted:
    """What is looked into beside the comparison; ``query`` is the id of one to show side by side."""

    slices: bool = False
    axes: bool = False
    costs: bool = False
    queries: bool = False
    query: str | None = None
    unjudged: bool = False


class Analysis(Comparison):
    """A comparison, and what was looked into beside it; null where it was not asked for, or there is nothing."""

    selection: SelectionPart | None
    """What the best setting may be expected to score; null where reports are compared name by name."""

    unjudged: list[UnjudgedPart]
    """By the primary metric, of all comparisons, or of many those with the best setting; of those that claim something
    first, as long as there are no more than MOST_LOOKED_AT queries in them, or ``unjudged`` is wanted."""

    slices: SlicesPart | None = None
    axes: EffectsPart | None = None
    costs: TradeoffsPart | None = None
    won_and_lost: QueryDifferences | None = None
    """Query by query, between the two settings of the first of ``close_comparisons``."""

    shared_queries: SharedQueries | None = None
    query: SideBySide | None = None


def analyse(contest: Contest, aim: Aim, wanted: Wanted) -> Analysis:
    """All of it. Raises ComparisonError or ReportError where the baseline or the query is not there."""
    made = compare_settings(contest, aim)
    close = close_comparisons(made)
    pair = Pair(contest.place(close[0].baseline), contest.place(close[0].setting))
    looked_at = sorted(close, key=lambda part: part.verdict in ("cannot tell", "identical", "too few differences"))
    if not wanted.unjudged:
        looked_at = looked_at[: max(1, MOST_LOOKED_AT // len(contest.queries))]
    by_name = aim.baseline in contest.report_names and aim.baseline not in contest.names
    return Analysis(
        **dict(made),
        selection=None if by_name else select_winner(contest, seed=aim.procedure.seed),
        unjudged=unjudged_parts(contest, looked_at, aim.margin),
        slices=compare_slices(contest, close, aim.procedure) if wanted.slices else None,
        axes=sweep_effects(contest, aim.procedure) if wanted.axes else None,
        costs=weigh_costs(contest) if wanted.costs else None,
        won_and_lost=query_differences(contest, pair) if wanted.queries else None,
        shared_queries=shared_queries(contest) if wanted.queries else None,
        query=None if wanted.query is None else side_by_side(contest, pair, wanted.query),
    )
