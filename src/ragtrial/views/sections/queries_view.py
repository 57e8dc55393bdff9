"""Two settings query by query."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any, NamedTuple

from ragtrial.comparison.number_text import number, signed
from ragtrial.comparison.query_differences import (
    QueryDifference,
    QueryDifferences,
    SharedQueries,
    SharedQuery,
    query_differences,
    shared_queries,
)
from ragtrial.views.sections.base import AnalysisInput, View, registered
from ragtrial.views.table import Table

MOST_SHOWN = 10


class QueriesPart(NamedTuple):
    """Between the two settings of the first row, and over all settings."""

    won_and_lost: QueryDifferences
    shared_queries: SharedQueries


class QueriesView(View[QueriesPart]):
    """Queries won and lost by the first row, and queries that no setting can answer."""

    name, order = "queries", 60
    help = "Queries won and lost by the first row, and those that none can answer."

    def compute(self, given: AnalysisInput) -> QueriesPart:
        return QueriesPart(query_differences(given.inputs, given.pair), shared_queries(given.inputs))

    def as_json(self, part: QueriesPart | None) -> dict[str, Any]:
        return {name: getattr(part, name).model_dump(mode="json") if part else None for name in QueriesPart._fields}

    def blocks(self, part: QueriesPart | None, width: int, *, everything: bool) -> Iterator[str | Table]:
        if part:
            yield "\n" + differences_line(part.won_and_lost)
            yield differences_table(part.won_and_lost, None if everything else MOST_SHOWN)
            yield "\n" + "\n".join(shared_lines(part.shared_queries))


def differences_line(differences: QueryDifferences) -> str:
    """One line: how many queries a setting wins and loses."""
    counts = f"{differences.won:,} won, {differences.lost:,} lost, {differences.tied:,} tied"
    left_out = f"; {differences.not_counted:,} not counted" if differences.not_counted else ""
    return f"{differences.setting} against {differences.baseline} by {differences.metric}: {counts}{left_out}"


def differences_table(differences: QueryDifferences, most: int | None = MOST_SHOWN) -> Table:
    """One row per query: the ``most`` largest losses, then the ``most`` largest gains, or all.

    Ties are left out, unless all are wanted.
    """
    kinds, queries = ("lost", "won", "tied"), differences.queries
    by_outcome = {kind: [query for query in queries if query.outcome == kind] for kind in kinds}
    shown = [*by_outcome["lost"][:most], *by_outcome["won"][::-1][:most], *(by_outcome["tied"] if most is None else ())]
    titles = ["query", differences.baseline, differences.setting, "difference", ""]
    rows = [
        [query.id, *(number(value, 3) for value in (query.baseline, query.setting)), signed(query.difference),
         _beside_id(query, 60)]
        for query in shown
    ]  # fmt: skip
    return Table.of(titles, rows, texts=(0, -1), prose=-1)


def shared_lines(shared: SharedQueries, most: int = 5) -> list[str]:
    """The queries that all settings fail, and the queries on which all are equal, up to ``most`` of each by name."""
    lines, more = [], ""
    if shared.failed_count is not None:
        count, more = f"{shared.failed_count:,} of {shared.queries:,}", " more"
        lines = [f"Queries that fail with all settings ({shared.metric}): {count}"]
    lines += [f"  {query.id}  {_beside_id(query)}".rstrip() for query in shared.failed[:most]]
    if shared.settings > 1:
        lines.append(f"Queries on which all settings score the same: {shared.equal_count:,}{more}")
        for query in shared.equal[:most]:
            lines.append(f"  {number(query.value, 3)}  {query.id}  {_beside_id(query)}".rstrip())
    return lines


def _beside_id(query: QueryDifference | SharedQuery, width: int = 56) -> str:
    """The text in short; empty where it is the id, as of a table without ids."""
    return "" if query.text.split() == query.id.split() else textwrap.shorten(query.text, width, placeholder=" ...")


QUERIES = registered(QueriesView())
