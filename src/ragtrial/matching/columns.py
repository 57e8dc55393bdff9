"""Runs in memory, joined with qrels: packed ids, or integer codes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ragtrial.compiled.found import MOST_FAULTS, Duplicates, Found, Ranks, Wrong
from ragtrial.errors import Fault, RunFileError
from ragtrial.judgments import Order, Qrels, Run, RunHits
from ragtrial.matching.engines import plain_judged
from ragtrial.matching.faults import shown
from ragtrial.matching.merging import Merger
from ragtrial.matching.plain import Tally, encoded
from ragtrial.matching.ranking import Row, Rules
from ragtrial.rankings import Counts

Codes = npt.NDArray[np.int32]


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
    found = _plain_found(run, qrels, rules)
    _refuse_faults(run, found)
    merger = Merger()
    merger.add(found, found.unknown)
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


def _refuse_faults(run: Run, found: Found) -> None:
    told = []
    for line, wrong, other, text, _ in found.faults:
        said = "retrieves document" if wrong == Wrong.DUPLICATE else "has rank"
        earlier = other - int(run.starts[np.searchsorted(run.starts, other, side="right") - 1]) + 1
        told.append(f"{_place(run, line)}: {said} {shown(text)}, as hit {earlier:,} does.")
    _raise(run, told, found.fault_count)


def _raise(run: Run, told: list[str], count: int) -> None:
    if count > len(told):
        told.append(f"{count - len(told):,} more hits are wrong.")
    if told:
        raise RunFileError(*(Fault(run.name, message=message) for message in told))


def _place(run: Run, row: int) -> str:
    query = int(np.searchsorted(run.starts, row, side="right")) - 1
    return f"query {run.queries[query]!r}, hit {row - int(run.starts[query]) + 1:,}"


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
    return _plain_match_codes(codes, judged, starts)


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
