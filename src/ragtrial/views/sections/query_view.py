"""What two settings found for one query, side by side, and why."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ragtrial.comparison.figures import signed
from ragtrial.views.sections.base import AnalysisInput, View, registered
from ragtrial.views.table import Table, number

if TYPE_CHECKING:
    from ragtrial.comparison.queries.part_ranks import PartRank
    from ragtrial.comparison.queries.side_by_side import RankedHit, SideBySide


_GAP = "   "


class QueryView(View["SideBySide"]):
    """One query, of the two settings of the first row."""

    name, order = "query", 70
    help = "What the two settings of the first row found for one query, and why."
    metavar = "ID"
    alone = "one query"

    def compute(self, given: AnalysisInput) -> SideBySide:
        from ragtrial.comparison.queries.side_by_side import side_by_side

        return side_by_side(given.contest, given.pair, str(given.options[self.name]))

    def blocks(self, part: SideBySide | None, width: int, *, everything: bool) -> Iterator[str | Table]:
        if part:
            yield side_text(part, width)


def side_text(side: SideBySide, width: int) -> str:
    """Both rankings beside one another, what moved, and why."""
    values = f"{number(side.value_baseline)} -> {number(side.value)}"
    change = "" if side.difference is None else f" ({signed(side.difference)})"
    lines = [f"query {side.id}: {side.text}" if side.text else f"query {side.id}"]
    lines += [f"{side.baseline} -> {side.setting}: {side.metric} {values}{change}", ""]
    lines += _columns(side, width)
    lines += ["", *_move_lines(side)]
    lines += [f"  not found by either: grade {label.relevance}  {label.doc}" for label in side.not_found]
    if side.passages is not None:
        lines += [
            f"  passage of grade {one.relevance} in {one.doc}: found at "
            f"{_rank(one.found_baseline)} -> {_rank(one.found)}"
            for one in side.passages
            if one.relevance > 0
        ]
    if side.why_no_shares:
        lines.append(f"The difference is not split among documents: {side.why_no_shares}")
    return "\n".join([*lines, *side.notes])


def _columns(side: SideBySide, width: int) -> Iterator[str]:
    """The two rankings, rank by rank, each hit with the beginning of its text below it where there is room."""
    column = max(30, (width - len(_GAP)) // 2)
    yield _beside(side.baseline, side.setting, column)
    for place in range(max(len(side.hits_baseline), len(side.hits))):
        pair = [hits[place] if place < len(hits) else None for hits in (side.hits_baseline, side.hits)]
        blocks = [_hit_lines(hit, column) if hit else [] for hit in pair]
        for line in range(max(map(len, blocks))):
            first, second = (block[line] if line < len(block) else "" for block in blocks)
            yield _beside(first, second, column)


def _beside(first: str, second: str, column: int) -> str:
    return f"{first[:column]:<{column}}{_GAP}{second[:column]}".rstrip()


def _hit_lines(hit: RankedHit, column: int) -> list[str]:
    score = "" if hit.score is None else f" {hit.score:.4f}"
    head = f"{hit.rank:>3} {_grade(hit.grade)}{score} "
    place = "" if hit.start is None else f" [{hit.start}:{hit.end}]"
    room = column - len(head)
    name = hit.doc + place if len(hit.doc + place) <= room else f"...{(hit.doc + place)[-max(1, room - 3) :]}"
    text = [] if not hit.text else [" " * 4 + textwrap.shorten(hit.text, column - 4, placeholder=" ...")]
    return [head + name, *text]


def _move_lines(side: SideBySide) -> Iterator[str]:
    """What moved, and what is worth something; hits that stayed where they are and bring no difference are left out."""
    for move in side.moves:
        if move.movement == "same" and not move.share:
            continue
        share = f"  {signed(move.share)}" if move.share else ""
        place = "" if move.start is None else f" [{move.start}:{move.end}]"
        ranks = f"{_rank(move.rank_baseline)} -> {_rank(move.rank)}"
        yield f"  {ranks:<10} {_grade(move.grade)}{share}  {move.doc}{place}"
        for name, parts in ((side.baseline, move.parts_baseline), (side.setting, move.parts)):
            if parts:
                yield f"             {name}: {', '.join(map(_part, parts))}"


def _part(part: PartRank) -> str:
    if part.rank is None:
        return f"{part.part} not in its first {part.kept:,}"
    score = "" if part.score is None else f" ({part.score:.4f})"
    return f"{part.part} {part.rank}{score}"


def _rank(rank: int | None) -> str:
    return "-" if rank is None else str(rank)


def _grade(grade: int | None) -> str:
    return f"grade {'-' if grade is None else grade}"


QUERY = registered(QueryView())
