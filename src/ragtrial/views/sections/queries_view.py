"""Two settings query by query, and side by side for one query."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any, NamedTuple

from ragtrial.comparison.number_text import signed
from ragtrial.comparison.side_by_side import (
    PartRank,
    QueryDifferences,
    RankedHit,
    SharedQueries,
    SideBySide,
    query_differences,
    shared_queries,
    side_by_side,
)
from ragtrial.views.sections.base import AnalysisInput, View, registered
from ragtrial.views.table import Table, number

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
        return QueriesPart(query_differences(given.contest, given.pair), shared_queries(given.contest))

    def as_json(self, part: QueriesPart | None) -> dict[str, Any]:
        return {name: getattr(part, name).model_dump(mode="json") if part else None for name in QueriesPart._fields}

    def blocks(self, part: QueriesPart | None, width: int, *, everything: bool) -> Iterator[str | Table]:
        if part:
            yield "\n" + differences_line(part.won_and_lost)
            yield differences_table(part.won_and_lost, None if everything else MOST_SHOWN)
            yield "\n" + "\n".join(shared_lines(part.shared_queries))


def differences_line(found: QueryDifferences) -> str:
    """One line: how many queries a setting wins and loses."""
    counts = f"{found.won:,} won, {found.lost:,} lost, {found.tied:,} tied"
    left_out = f"; {found.not_counted:,} not counted" if found.not_counted else ""
    return f"{found.setting} against {found.baseline} by {found.metric}: {counts}{left_out}"


def differences_table(found: QueryDifferences, most: int | None = MOST_SHOWN) -> Table:
    """One row per query: the ``most`` largest losses, then the ``most`` largest gains, or all.

    Ties are left out, unless all are wanted.
    """
    by_outcome = {kind: [query for query in found.queries if query.outcome == kind] for kind in ("lost", "won", "tied")}
    shown = [*by_outcome["lost"][:most], *by_outcome["won"][::-1][:most], *(by_outcome["tied"] if most is None else ())]
    titles = ["query", found.baseline, found.setting, "difference", ""]
    rows = [
        [query.id, *(number(value, 3) for value in (query.baseline, query.setting)), signed(query.difference),
         _short(query.text, 60)]
        for query in shown
    ]  # fmt: skip
    return Table.of(titles, rows, texts=(0, -1), prose=-1)


def shared_lines(shared: SharedQueries, most: int = 5) -> list[str]:
    """The queries that all settings fail, and the queries on which all are equal, up to ``most`` of each by name."""
    lines = [f"Queries that fail with all settings ({shared.metric}): {shared.failed_count:,} of {shared.queries:,}"]
    lines += [f"  {query.id}  {_short(query.text)}".rstrip() for query in shared.failed[:most]]
    if shared.settings > 1:
        lines.append(f"Queries on which all settings score the same: {shared.equal_count:,} more")
        lines += [
            f"  {number(query.value, 3)}  {query.id}  {_short(query.text)}".rstrip() for query in shared.equal[:most]
        ]
    return lines


def _short(text: str, width: int = 56) -> str:
    return textwrap.shorten(text, width, placeholder=" ...")


QUERIES = registered(QueriesView())


class QueryView(View[SideBySide]):
    """One query, of the two settings of the first row."""

    name, order = "query", 70
    help = "Hits of the two settings of the first row for one query, and why."
    metavar = "ID"
    alone = "one query"

    def compute(self, given: AnalysisInput) -> SideBySide:
        return side_by_side(given.contest, given.pair, str(given.options[self.name]))

    def blocks(self, part: SideBySide | None, width: int, *, everything: bool) -> Iterator[str | Table]:
        if part:
            yield from side_blocks(part, width)


def side_blocks(side: SideBySide, width: int) -> Iterator[str | Table]:
    """Both rankings side by side, with moves and reasons."""
    change = "" if side.difference is None else f" ({signed(side.difference)})"
    values = f"{number(side.value_baseline, 3)} -> {number(side.value, 3)}{change}"
    yield f"query {side.id}: {side.text}" if side.text else f"query {side.id}"
    yield f"{side.baseline} -> {side.setting}: {side.metric} {values}\n"
    yield _rankings(side, width)
    lines = ["", *_move_lines(side)]
    lines += [f"  not found by either: grade {label.relevance}  {label.doc}" for label in side.not_found]
    for one in side.passages or ():
        if one.relevance > 0:
            found = f"{number(one.found_baseline, 0)} -> {number(one.found, 0)}"
            lines.append(f"  passage of grade {one.relevance} in {one.doc}: found at {found}")
    if side.why_no_shares:
        lines.append(f"The difference is not split among documents: {side.why_no_shares}")
    yield "\n".join([*lines, *side.notes])


def _rankings(side: SideBySide, width: int) -> Table:
    """The two rankings, rank by rank, each hit with the beginning of its text below it."""
    column = max(30, (width - 6) // 2)
    rows = []
    for rank, pair in enumerate(zip_longest(side.hits_baseline, side.hits), 1):
        rows.append([str(rank), *(_hit(hit, column) if hit else "" for hit in pair)])
        texts = ["" if hit is None else textwrap.shorten(hit.text or "", column, placeholder=" ...") for hit in pair]
        rows += [["", *texts]] if any(texts) else []
    return Table.of(["", side.baseline, side.setting], rows, texts=(1, 2))


def _hit(hit: RankedHit, column: int) -> str:
    """``grade 1 0.8312 guides/setup.md [0:212]``; of a long name the end."""
    head = f"grade {number(hit.grade, 0)} " + ("" if hit.score is None else f"{hit.score:.4f} ")
    name = hit.doc if hit.start is None else f"{hit.doc} [{hit.start}:{hit.end}]"
    room = column - len(head)
    return head + (name if len(name) <= room else f"...{name[-max(1, room - 3) :]}")


def _move_lines(side: SideBySide) -> Iterator[str]:
    """The moves and their gains; hits at the same rank without a difference are left out."""
    for move in side.moves:
        if move.movement == "same" and not move.share:
            continue
        share = f"  {signed(move.share)}" if move.share else ""
        place = "" if move.start is None else f" [{move.start}:{move.end}]"
        ranks = f"{number(move.rank_baseline, 0)} -> {number(move.rank, 0)}"
        yield f"  {ranks:<10} grade {number(move.grade, 0)}{share}  {move.doc}{place}"
        for name, parts in ((side.baseline, move.parts_baseline), (side.setting, move.parts)):
            if parts:
                yield f"             {name}: {', '.join(map(_part, parts))}"


def _part(part: PartRank) -> str:
    if part.rank is None:
        return f"{part.part} not in its first {part.kept:,}"
    score = "" if part.score is None else f" ({part.score:.4f})"
    return f"{part.part} {part.rank}{score}"


QUERY = registered(QueryView())
