"""An oracle: runs joined with qrels row by row, in plain Python, as DESIGN.md describes it. Nothing of it is ours."""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from ragtrial.runs.qrels import Qrels, Run


class PlainRow(NamedTuple):
    """A row of a run; without scores ``score`` is 0, ``rank`` is None if there is none."""

    document: str
    line: int
    score: float
    rank: float | None


def rows_of(run: Run) -> dict[str, list[PlainRow]]:
    """The rows of each query that has any."""
    values = [0.0] * len(run.documents) if run.values is None else run.values.tolist()
    documents = list(run.documents)
    return {
        name: [PlainRow(documents[at], at, values[at], values[at] if run.by_rank else None) for at in range(start, end)]
        for name, (start, end) in zip(run.queries, pairwise(run.starts.tolist()), strict=True)
        if start < end
    }


def rows_in(content: bytes) -> dict[str, list[PlainRow]]:
    """The rows of a sound TREC run."""
    rows: dict[str, list[PlainRow]] = {}
    for number, line in enumerate(content.decode("utf-8", "surrogateescape").split("\n")):
        fields = line.split(None, 6)
        if fields and not fields[0].startswith("#"):
            row = PlainRow(fields[2], number, float(fields[4]), int(fields[3]))
            rows.setdefault(fields[0], []).append(row)
    return rows


def joined(rows: dict[str, list[PlainRow]], qrels: Qrels, order: str, *, has_scores: bool) -> dict[str, Any] | None:
    """The columns of RunHits, later rows of a document dropped, by name."""
    starts = qrels.judgments.starts.tolist()
    documents = list(qrels.documents)
    hits: list[tuple[int, int, int, int]] = []
    counts, lengths, tied, contradicted = [], [], [], []
    for query, name in enumerate(qrels.queries):
        judged = {documents[at]: at for at in range(starts[query], starts[query + 1])}
        kept = list(_first_of_each(_ordered(rows.get(name, []), order, has_scores=has_scores)))
        own = [
            (judged[row.document], rank, *_tie(kept, row, rank, by_score=has_scores and order in ("score", "trec")))
            for rank, row in enumerate(kept, 1)
            if row.document in judged
        ]
        hits += own
        counts.append(len(own))
        lengths.append(len(kept))
        tied.append(has_scores and len({row.score for row in kept}) < len(kept))
        contradicted.append(has_scores and _is_contradicted(kept))
    dropped = sum(len(own) - len({row.document for row in own}) for own in rows.values())
    judgments, ranks, tie_first, tie_last = map(list, zip(*hits, strict=True)) if hits else ([], [], [], [])
    return {
        "starts": [sum(counts[:query]) for query in range(len(counts) + 1)],
        "judgments": judgments, "ranks": ranks, "tie_first": tie_first, "tie_last": tie_last, "lengths": lengths,
        "tied": tied, "contradicted": contradicted, "rows": sum(map(len, rows.values())), "duplicates": dropped,
        "unknown": len(rows.keys() - set(qrels.queries)),
    }  # fmt: skip


def _ordered(rows: list[PlainRow], order: str, *, has_scores: bool) -> list[PlainRow]:
    if order == "rank":
        return sorted(rows, key=lambda row: row.rank or 0)
    if order == "file" or not has_scores:
        return rows
    if order == "trec":
        rows = sorted(rows, key=lambda row: row.document.encode("utf-8", "surrogateescape"), reverse=True)
    return sorted(rows, key=lambda row: -row.score)


def _first_of_each(rows: Iterable[PlainRow]) -> Iterator[PlainRow]:
    seen = set()
    for row in rows:
        if row.document not in seen:
            seen.add(row.document)
            yield row


def _tie(kept: list[PlainRow], row: PlainRow, rank: int, *, by_score: bool) -> tuple[int, int]:
    ranks = [place for place, other in enumerate(kept, 1) if other.score == row.score] if by_score else [rank]
    return min(ranks), max(ranks)


def _is_contradicted(rows: list[PlainRow]) -> bool:
    ranked = [(row.score, row.rank) for row in rows if row.rank is not None]
    return any(score < other and rank < above for score, rank in ranked for other, above in ranked)
