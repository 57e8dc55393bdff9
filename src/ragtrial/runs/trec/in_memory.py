"""Runs in memory, joined with qrels: packed ids, or integer codes; and put in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ragtrial.dataset.faults import Faults, shown
from ragtrial.errors import RunFileError
from ragtrial.rankings import Counts
from ragtrial.runs.compiled import available
from ragtrial.runs.compiled.block_scans import BlockScan, LineError, MergedScans, Rules
from ragtrial.runs.qrels import Duplicates, Order, PackedIds, Qrels, Run, RunHits
from ragtrial.runs.trec.exact_reader import encoded, scan_rows
from ragtrial.runs.trec.lines import Row

Codes = npt.NDArray[np.int32]


class CodeHits(NamedTuple):
    """The judged hits of coded rankings: ``starts``, ``ranks`` and ``judgments`` as in RunHits."""

    starts: Counts
    ranks: npt.NDArray[np.int32]
    judgments: Counts


def match(run: Run, qrels: Qrels, *, order: Order, duplicates: Duplicates) -> RunHits:
    """A run in memory, joined with qrels as ``read_run`` joins a file.

    Where the run has ranks they are the order; where it has neither ranks nor scores it is in order as it came.
    Raises RunFileError where a score or rank is NaN, two rows have one rank, or, if duplicates are errors, a query
    retrieves a document twice; places are hits of a query, counted from 1 as they came.
    """
    if order == "rank" and run.values is not None and not run.by_rank:
        raise ValueError(f"run {run.name!r} has scores, not ranks: order cannot be 'rank'")
    own: Order = "file" if run.values is None else "rank" if run.by_rank else order
    rules = Rules(own, duplicates, has_scores=run.values is not None and not run.by_rank, unique_ranks=run.by_rank)
    faults = Faults(run.name, RunFileError)
    wrong = np.zeros(0, dtype=np.bool_) if run.values is None else np.isnan(run.values)
    for row in np.flatnonzero(wrong).tolist():
        faults.add(f"{_place(run, row)}: the {'rank' if run.by_rank else 'score'} is not a number (NaN).")
    faults.raise_any()
    merged = MergedScans([_named(_scan(run, qrels, rules), run)])
    for fault in merged.faults:
        found = f"retrieves document {shown(fault.found)}"
        if fault.error == LineError.RANK_TAKEN and run.values is not None:
            found = f"has rank {run.values[fault.line]:g}"
        earlier = fault.other - int(run.starts[_query_of(run, fault.other)]) + 1
        faults.add(f"{_place(run, fault.line)}: {found}, as hit {earlier:,} does.")
    faults.count = merged.fault_count
    faults.raise_any()
    return merged.hits(len(qrels))


def _scan(run: Run, qrels: Qrels, rules: Rules) -> BlockScan:
    if not available():
        return scan_rows(_rows(run), qrels, rules)
    from ragtrial.runs.compiled.calls import CompiledScanner

    return CompiledScanner(qrels, rules).match(run, PackedIds.of(run.queries), 0, len(run))


def _named(scan: BlockScan, run: Run) -> BlockScan:
    """The scan with the ids of queries that nobody judged: the compiled code knows their rows alone."""
    names = tuple((row, encoded(run.queries[_query_of(run, row)])) for row, _ in scan.unknown)
    return replace(scan, unknown=names)


def _place(run: Run, row: int) -> str:
    query = _query_of(run, row)
    return f"query {run.queries[query]!r}, hit {row - int(run.starts[query]) + 1:,}"


def _query_of(run: Run, row: int) -> int:
    return int(np.searchsorted(run.starts, row, side="right")) - 1


def _rows(run: Run) -> Iterator[tuple[bytes, list[Row]]]:
    """The rows of each query that has any."""
    documents = [encoded(name) for name in run.documents]
    values = [0.0] * len(documents) if run.values is None else run.values.tolist()
    starts = run.starts.tolist()
    for name, (begin, end) in zip(run.queries, pairwise(starts), strict=True):
        if begin < end:
            rows = ((documents[at], at, values[at]) for at in range(begin, end))
            yield encoded(name), [Row(doc, at, value, value if run.by_rank else None) for doc, at, value in rows]


def in_order(run: Run, order: Order) -> Run:
    """The rows of each query best first, each document once: the first of those that come twice."""
    documents = list(run.documents)
    keys = np.zeros(0) if run.values is None else run.values if run.by_rank else -run.values
    kept: list[int] = []
    starts = [0]
    for start, end in pairwise(run.starts.tolist()):
        rows = list(range(start, end))
        if run.values is not None:
            if order == "trec":
                rows.sort(key=lambda row: encoded(documents[row]), reverse=True)
            rows.sort(key=keys.__getitem__)
        first: dict[str, int] = {}
        for row in rows:
            first.setdefault(documents[row], row)
        kept += first.values()
        starts.append(len(kept))
    values = None if run.values is None else run.values[kept]
    ids = PackedIds.of(documents[row] for row in kept)
    return replace(run, starts=np.array(starts, dtype=np.int64), documents=ids, values=values, of_chunks=False)


def match_codes(codes: Codes, judged: Codes, starts: Counts) -> CodeHits:
    """Rankings of integer codes, joined with judgments in the same codes, by one sorted search.

    ``codes`` is int32 (queries, depth), best first, each code once in a row, rows filled up with -1. ``judged`` is
    int32 (judgments,), those of query ``i`` at ``starts[i]:starts[i + 1]``, each code once; negative ones (documents
    that have no code) match nothing.
    """
    queries, depth = codes.shape
    keys = (np.repeat(np.arange(queries), np.diff(starts)) << 32) + judged  # query and code in one number
    having = np.flatnonzero(judged >= 0)
    order = having[np.argsort(keys[having], kind="stable")]
    keys = np.append(keys[order], -1)  # nothing is found at the end
    is_judged = np.zeros(max(codes.max(initial=-1), judged.max(initial=-1)) + 2, dtype=np.bool_)  # the last: for -1
    is_judged[judged[having]] = True
    known = np.flatnonzero(is_judged[codes.ravel()])  # few of many: judged for any query
    wanted = (known // max(depth, 1) << 32) + codes.ravel()[known]
    at = np.searchsorted(keys[:-1], wanted)
    hits = known[keys[at] == wanted]
    at = at[keys[at] == wanted]
    query, place = np.divmod(hits, max(depth, 1))
    ends = np.cumsum(np.bincount(query, minlength=queries))
    return CodeHits(np.concatenate(([0], ends)).astype(np.int64), (place + 1).astype(np.int32), order[at])
