"""Runs in plain Python, line by line: where there is no compiled code, for queries whose rows lie apart, and
for runs that are kept whole.

Whatever the compiled code reads and joins, this reads and joins to the same values, with the same faults.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import IO

import numpy as np
import numpy.typing as npt

from ragtrial.dataset.faults import Faults
from ragtrial.errors import RunFileError
from ragtrial.runs.compiled.block_scans import (
    HIT_COLUMNS,
    MOST_UNKNOWN,
    SEGMENT_COLUMNS,
    BlockScan,
    Columns,
    Form,
    LineError,
    LineFault,
    Rules,
    Seconds,
)
from ragtrial.runs.qrels import PackedIds, Qrels, Run
from ragtrial.runs.streams import Source, name_of, opened
from ragtrial.runs.trec.lines import Row, add_line_faults, lines_of, row_of

_score, _rank, _document = map(attrgetter, ("score", "rank", "document"))


def encoded(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def _decoded(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def exact_run(lines: IO[bytes], qrels: Qrels, rules: Rules) -> BlockScan:
    """A run file, read and joined."""
    rows, faults = _rows_of(lines, rules)
    return scan_rows(rows.items(), qrels, rules, faults)


def load_run_file(path: Source, *, form: Form, name: str, lenient: bool = False) -> Run:
    """A run file in memory, its rows as they came. Raises RunFileError with the faults of all lines."""
    with opened(path, RunFileError) as lines:
        found, line_faults = _rows_of(lines, Rules.of_file(form, "file", "first", lenient=lenient))
    faults = Faults(name_of(path), RunFileError)
    add_line_faults(faults, line_faults, len(line_faults), form)
    faults.raise_any()
    if not found:
        raise faults.fail("has no rows; a run has at least one.")
    rows = [row for own in found.values() for row in own]
    return Run(
        name,
        tuple(map(_decoded, found)),
        np.cumsum([0, *map(len, found.values())], dtype=np.int64),
        PackedIds.of(_decoded(row.document) for row in rows),
        np.array([row.rank if form == "msmarco" else row.score for row in rows], dtype=np.float64),
        by_rank=form == "msmarco",
    )


def _rows_of(lines: IO[bytes], rules: Rules) -> tuple[dict[bytes, list[Row]], list[LineFault]]:
    """The rows of each query, and what is wrong with lines."""
    rows: dict[bytes, list[Row]] = {}
    faults: list[LineFault] = []
    for number, fields in lines_of(lines):
        row = row_of(number, fields, rules)
        if isinstance(row, Row):
            rows.setdefault(fields[0], []).append(row)
        else:
            faults.append(row)
    return rows, faults


def scan_rows(
    queries: Iterable[tuple[bytes, Sequence[Row]]], qrels: Qrels, rules: Rules, faults: Iterable[LineFault] = ()
) -> BlockScan:
    """The rows of queries, each of which comes once, joined with their judgments; ``faults`` is what is wrong already.

    The rows of a query come in the order of their lines.
    """
    index = {encoded(name): query for query, name in enumerate(qrels.queries)}
    documents, starts = [encoded(name) for name in qrels.documents], qrels.judgments.starts.tolist()
    segments: list[tuple[object, ...]] = []
    hits: list[tuple[int, int, int, int]] = []
    unknown: list[tuple[int, bytes]] = []
    found = list(faults)
    count = duplicates = 0
    for name, rows in queries:
        query = index.get(name, -1)
        if query < 0:
            unknown.append((rows[0].line, name))
        judged = {documents[at]: at for at in range(starts[query], starts[query + 1])} if query >= 0 else {}
        first: dict[bytes, Row] = {}  # in the final order the first row of a document counts
        pairs = [
            (first[row.document], row)
            for row in _ordered(rows, rules)
            if first.setdefault(row.document, row) is not row
        ]
        kept = list(first.values())
        found += _pair_faults(name, kept, pairs, rules)
        own = _hits(kept, judged, rules)
        segments.append((query, 0, len(kept), len(own), *_score_flags(kept, rules)))
        hits += own
        count, duplicates = count + len(rows), duplicates + len(pairs)
    return BlockScan(
        0,
        count,
        duplicates,
        _columns(segments, SEGMENT_COLUMNS),
        _columns(hits, HIT_COLUMNS),
        tuple(sorted(unknown)[:MOST_UNKNOWN]),
        tuple(found),
        len(found),
        Seconds(),
    )


def _columns(rows: Sequence[tuple[object, ...]], types: Mapping[str, npt.DTypeLike]) -> Columns:
    columns = zip(*rows, strict=True) if rows else [()] * len(types)
    return {name: np.array(column, dtype=kind) for (name, kind), column in zip(types.items(), columns, strict=True)}


def _ordered(rows: Sequence[Row], rules: Rules) -> Sequence[Row]:
    if rules.order == "rank":
        return sorted(rows, key=_rank)
    if rules.order == "file" or not rules.has_scores:
        return rows
    if rules.order == "trec":
        rows = sorted(rows, key=_document, reverse=True)
    return sorted(rows, key=_score, reverse=True)


def _pair_faults(query: bytes, kept: Sequence[Row], pairs: list[tuple[Row, Row]], rules: Rules) -> Iterator[LineFault]:
    """Documents that the query retrieves twice, and ranks that it gives twice, where neither may be."""
    for one, other in pairs if rules.duplicates == "error" else []:
        earlier, later = sorted((one.line, other.line))
        yield LineFault(later, LineError.DUPLICATE, earlier, one.document, query)
    by_rank = sorted(kept, key=lambda row: (row.rank, row.line)) if rules.unique_ranks else []
    for before, after in pairwise(by_rank):
        if before.rank == after.rank:
            yield LineFault(after.line, LineError.RANK_TAKEN, before.line, str(after.rank).encode(), query)


def _score_flags(rows: Sequence[Row], rules: Rules) -> tuple[bool, bool]:
    """Whether two rows are tied, and whether a row with a lower score has a smaller rank number than a higher one."""
    if not rules.has_scores:
        return False, False
    by_score = sorted((-row.score, row.rank) for row in rows if row.rank is not None)
    ranks = [rank for _, rank in by_score]
    return len({row.score for row in rows}) < len(rows), ranks != sorted(ranks)


def _hits(rows: Sequence[Row], judged: Mapping[bytes, int], rules: Rules) -> list[tuple[int, int, int, int]]:
    """Judgment, rank, first and last rank with the same score of each judged row."""
    if not rules.has_scores or rules.order in ("rank", "file"):
        return [(judged[row.document], at, at, at) for at, row in enumerate(rows, 1) if row.document in judged]
    first = {row.score: at for at, row in reversed(list(enumerate(rows, 1)))}
    last = {row.score: at for at, row in enumerate(rows, 1)}
    return [
        (judged[row.document], at, first[row.score], last[row.score])
        for at, row in enumerate(rows, 1)
        if row.document in judged
    ]
