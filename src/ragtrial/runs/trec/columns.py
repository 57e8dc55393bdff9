"""Runs in memory, joined with qrels: packed ids, or integer codes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from ragtrial.errors import Fault, RunFileError
from ragtrial.rankings import Counts
from ragtrial.runs.compiled import available
from ragtrial.runs.compiled.found import MOST_FAULTS, Duplicates, Found, LineFault, Ranks, Wrong
from ragtrial.runs.qrels import Names, Order, Qrels, Run, RunHits
from ragtrial.runs.trec.engines import compiled_judged, plain_judged
from ragtrial.runs.trec.gathered_blocks import Merger
from ragtrial.runs.trec.line_faults import shown
from ragtrial.runs.trec.plain_runs import Tally, encoded
from ragtrial.runs.trec.query_rows import Row, Rules

Codes = npt.NDArray[np.int32]
Result = TypeVar("Result")
_MUCH = 200_000
"""From so many hits on, a second thread is worth its start."""


class CodeHits(NamedTuple):
    """The judged hits of coded rankings: ``starts``, ``ranks`` and ``judgments`` as in RunHits."""

    starts: Counts
    ranks: Ranks
    judgments: Counts


def match(run: Run, qrels: Qrels, *, order: Order, duplicates: Duplicates) -> RunHits:
    """A run in memory, joined with qrels as ``read_run`` joins a file.

    Where the run has ranks they are the order; where it has neither ranks nor scores it is in order as it came.
    Raises RunFileError where a score or rank is NaN, two rows have one rank, or, if duplicates are errors, a query
    retrieves a document twice; places are hits of a query, counted from 1 as they came.
    """
    rules = _rules(run, order, duplicates)
    _refuse_nan(run)
    merger, faults, count = Merger(), list[LineFault](), 0
    for found in _compiled_found(run, qrels, rules) if available() else [_plain_found(run, qrels, rules)]:
        faults, count = sorted([*faults, *found.faults])[:MOST_FAULTS], count + found.fault_count
        merger.add(found, [(row, encoded(run.queries[_query_of(run, row)])) for row, _ in found.unknown])
    _refuse_faults(run, faults, count)
    return merger.hits(len(qrels))


def _rules(run: Run, order: Order, duplicates: Duplicates) -> Rules:
    if run.values is None:
        return Rules("file", duplicates, has_scores=False, unique_ranks=False)
    if run.by_rank:
        return Rules("rank", duplicates, has_scores=False, unique_ranks=True)
    if order == "rank":
        raise ValueError(f"run {run.name!r} has scores, not ranks: order cannot be 'rank'")
    return Rules(order, duplicates, has_scores=True, unique_ranks=False)


def _refuse_nan(run: Run) -> None:
    if run.values is None:
        return
    wrong = np.flatnonzero(np.isnan(run.values))
    what = "rank" if run.by_rank else "score"
    if len(wrong):
        told = [f"{_place(run, row)}: the {what} is not a number (NaN)." for row in wrong[:MOST_FAULTS].tolist()]
        _raise(run, told, len(wrong))


def _refuse_faults(run: Run, faults: list[LineFault], count: int) -> None:
    told = []
    for row, wrong, other, document, _ in faults:
        said = f"retrieves document {shown(document)}"
        if wrong == Wrong.RANK_TAKEN and run.values is not None:
            said = f"has rank {run.values[row]:g}"
        earlier = other - int(run.starts[_query_of(run, other)]) + 1
        told.append(f"{_place(run, row)}: {said}, as hit {earlier:,} does.")
    _raise(run, told, count)


def _raise(run: Run, told: list[str], count: int) -> None:
    if count > len(told):
        told.append(f"{count - len(told):,} more hits are wrong.")
    if told:
        raise RunFileError(*(Fault(run.name, message=message) for message in told))


def _place(run: Run, row: int) -> str:
    query = _query_of(run, row)
    return f"query {run.queries[query]!r}, hit {row - int(run.starts[query]) + 1:,}"


def _query_of(run: Run, row: int) -> int:
    return int(np.searchsorted(run.starts, row, side="right")) - 1


def _compiled_found(run: Run, qrels: Qrels, rules: Rules) -> list[Found]:
    from ragtrial.runs.compiled.calls import CompiledScanner

    scanner = CompiledScanner.of_rules(
        compiled_judged(qrels), rules.order, rules.duplicates, scores=rules.has_scores, ranks=rules.unique_ranks
    )
    names = Names.of(run.queries)
    return in_two(lambda first, last: scanner.match(run, names, first, last), len(run), len(run.documents))


def _plain_found(run: Run, qrels: Qrels, rules: Rules) -> Found:
    tally, judged = Tally(), plain_judged(qrels)
    documents = [encoded(name) for name in run.documents]
    values = [0.0] * len(documents) if run.values is None else run.values.tolist()
    starts = run.starts.tolist()
    for name, begin, end in zip(run.queries, starts, starts[1:], strict=False):
        if begin == end:
            continue
        if run.by_rank:
            rows = [Row(documents[at], at, 0.0, values[at]) for at in range(begin, end)]
        else:
            rows = [Row(documents[at], at, values[at], None) for at in range(begin, end)]
        tally.add(encoded(name), begin, rows, judged, rules)
    return tally.found(len(documents))


def match_codes(codes: Codes, judged: Codes, starts: Counts) -> CodeHits:
    """Rankings of integer codes, joined with judgments in the same codes.

    ``codes`` is int32 (queries, depth), best first, each code once in a row, rows filled up with -1. ``judged`` is
    int32 (judgments,), those of query ``i`` at ``starts[i]:starts[i + 1]``, each code once; negative ones (documents
    that have no code) match nothing.
    """
    if not available():
        return _plain_match_codes(codes, judged, starts)
    from ragtrial.runs.compiled.calls import compiled_match_codes

    codes, judged = np.ascontiguousarray(codes, dtype=np.int32), np.ascontiguousarray(judged, dtype=np.int32)
    starts = np.ascontiguousarray(starts, dtype=np.int64)
    found = in_two(lambda first, last: compiled_match_codes(codes, judged, starts, first, last), len(codes), codes.size)
    counts, ranks, judgments = (np.concatenate(part) for part in zip(*found, strict=True))
    return CodeHits(np.concatenate(([0], np.cumsum(counts))).astype(np.int64), ranks, judgments)


def in_two(work: Callable[[int, int], Result], queries: int, size: int) -> list[Result]:
    """What ``work`` gives for queries from one to another: all at once, or, if there is much of it, by two threads."""
    if size < _MUCH or queries < 2:
        return [work(0, queries)]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(work, (0, queries // 2), (queries // 2, queries)))


def _plain_match_codes(codes: Codes, judged: Codes, starts: Counts) -> CodeHits:
    queries, depth = codes.shape
    rows = np.repeat(np.arange(queries), np.diff(starts))
    keys = (rows << 32) + judged
    having = np.flatnonzero(judged >= 0)
    order = having[np.argsort(keys[having], kind="stable")]
    keys = keys[order]
    wanted = ((np.arange(queries) << 32)[:, None] + codes).ravel()
    if not len(keys):
        none = np.zeros(0, dtype=np.int64)
        return CodeHits(np.zeros(queries + 1, dtype=np.int64), none.astype(np.int32), none)
    at = np.searchsorted(keys, wanted)
    at[at == len(keys)] = 0
    hits = np.flatnonzero((keys[at] == wanted) & (codes.ravel() >= 0))
    query, place = np.divmod(hits, depth)
    ends = np.cumsum(np.bincount(query, minlength=queries))
    return CodeHits(np.concatenate(([0], ends)).astype(np.int64), (place + 1).astype(np.int32), order[at[hits]])
