"""Two settings query by query, as tables and text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from ragtrial.comparison.figures import signed
from ragtrial.comparison.queries.moves import QueryDifference, QueryDifferences, SharedQueries, SharedQuery
from ragtrial.comparison.queries.part_ranks import PartRank
from ragtrial.comparison.queries.side_by_side import RankedHit, SideBySide
from ragtrial.comparison.unjudged.sensitivity import UnjudgedPart

_GAP = "   "


def differences_line(found: QueryDifferences) -> str:
    """One line: how many queries a setting wins and loses."""
    counts = f"{found.won:,} won, {found.lost:,} lost, {found.tied:,} tied"
    left_out = f"; {found.not_counted:,} do not count" if found.not_counted else ""
    return f"{found.setting} against {found.baseline} by {found.metric}: {counts}{left_out}"


def differences_table(found: QueryDifferences, most: int | None = 10) -> list[list[str]]:
    """A header and one row per query: the ``most`` largest losses, then the ``most`` largest gains, or all.

    Ties are left out, unless all are wanted. Nothing where no query is left.
    """
    lost = [query for query in found.queries if query.outcome == "lost"]
    won = [query for query in reversed(found.queries) if query.outcome == "won"]
    tied = [query for query in found.queries if query.outcome == "tied"]
    shown = [*lost[:most], *won[:most]] if most is not None else [*lost, *won, *tied]
    if not shown:
        return []
    return [["query", found.baseline, found.setting, "difference", ""], *map(_difference_row, shown)]


def shared_lines(shared: SharedQueries, most: int = 5) -> list[str]:
    """The queries that all settings fail, and those that none separates, up to ``most`` of each by name."""
    if not shared.queries:
        return []
    count = "the setting" if shared.settings == 1 else f"all {shared.settings:,} settings"
    lines = [f"{shared.failed_count:,} of {shared.queries:,} queries fail with {count} ({shared.metric})"]
    lines += [f"  {_named(query)}" for query in shared.failed[:most]]
    lines += _more(shared.failed_count, most)
    if shared.settings > 1:
        lines.append(f"{shared.equal_count:,} more have one value with all of them, and separate none")
        lines += [f"  {_value(query.value)}  {_named(query)}" for query in shared.equal[:most]]
        lines += _more(shared.equal_count, most)
    return lines


def side_text(side: SideBySide, width: int) -> str:
    """Both rankings beside one another, what moved, and why."""
    values = f"{_value(side.value_baseline)} -> {_value(side.value)}"
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


def unjudged_table(parts: Sequence[UnjudgedPart]) -> list[list[str]]:
    """A header and one row per comparison: how far the difference could go if unjudged hits were judged."""
    rows = [["if all hits were judged", "against", "lowest", "difference", "highest", "unjudged", "verdict"]]
    for part in parts:
        marks = ("", "") if part.is_exact or part.low is None else (">= ", "<= ")
        ends = [mark + signed(end) for mark, end in zip(marks, (part.low, part.high), strict=True)]
        hangs = {None: "", True: "hangs on them", False: "holds"}[part.hangs_on_unjudged]
        names = [part.setting, part.baseline]
        rows.append([*names, ends[0], signed(part.difference), ends[1], f"{part.unjudged:,}", hangs])
    return rows if len(rows) > 1 else []


def unjudged_reasons(parts: Sequence[UnjudgedPart]) -> list[str]:
    """Each reason once why a comparison has no such range."""
    reasons = dict.fromkeys((part.metric, part.why_not_known) for part in parts if part.why_not_known)
    return [f"{metric}: what unjudged hits could change is not known: {why}" for metric, why in reasons]


def _difference_row(query: QueryDifference) -> list[str]:
    text = textwrap.shorten(query.text, 60, placeholder=" ...")
    return [query.id, _value(query.baseline), _value(query.setting), signed(query.difference), text]


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


def _more(count: int, most: int) -> list[str]:
    return [f"  and {count - most:,} more"] if count > most else []


def _named(query: SharedQuery) -> str:
    return f"{query.id}  {textwrap.shorten(query.text, 80, placeholder=' ...')}".rstrip()


def _rank(rank: int | None) -> str:
    return "-" if rank is None else str(rank)


def _grade(grade: int | None) -> str:
    return f"grade {'-' if grade is None else grade}"


def _value(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
