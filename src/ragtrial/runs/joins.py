"""Runs joined with qrels: rows put in order, checked, and looked up among the judgments, as arrays."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ragtrial.dataset.faults import Faults, shown
from ragtrial.errors import RunFileError
from ragtrial.rankings import Bools, Codes, Counts
from ragtrial.runs.lines import (
    FALLS_BACK,
    MAY_BE_JUDGED,
    MAY_REPEAT,
    NO_RANK,
    RISES,
    TIES,
    Bytes,
    Hashes,
    LineError,
    LineFault,
    RunRows,
    encoded,
    first_faults,
    hasher,
    places_of,
)  # fmt: skip
from ragtrial.runs.qrels import Duplicates, Order, Qrels, Run, RunHits

MOST_NAMES = 10
"""The most names that are kept of unjudged queries, and of documents."""

_ODD = np.uint64(0x9E3779B97F4A7C15)


class _SameHashError(Exception):
    """Two documents have the same hash."""


@dataclass(frozen=True)
class Rules:
    """How the rows of a run are ordered and checked.

    Without scores no two rows are tied, and nothing contradicts anything. With unique ranks, no two rows of a query
    may have the same.
    """

    order: Order
    duplicates: Duplicates
    has_scores: bool = True
    unique_ranks: bool = False


class Judged:
    """Qrels with the hashes of their documents."""

    def __init__(self, qrels: Qrels) -> None:
        self.qrels = qrels
        self.query = {encoded(name): query for query, name in enumerate(qrels.queries)}
        ids = qrels.documents
        self.at = np.concatenate(([0], ids.ends[:-1])).astype(np.int64)[: len(ids)]
        self.length = ids.ends - self.at
        self.hashes = hasher()(ids)
        self.bits = _bits_of(self.hashes)

    def exact(self, rows: RunRows) -> tuple[Hashes, Hashes]:
        """Numbers that differ if documents differ, for the judgments and for ``rows``."""
        codes: dict[bytes, int] = {}
        names = ([encoded(name) for name in ids] for ids in (self.qrels.documents, rows.documents()))
        judged, own = (
            np.array([codes.setdefault(name, len(codes)) for name in some], dtype=np.uint64) for some in names
        )
        return judged, own


class Seconds(NamedTuple):
    """Seconds of work, summed over threads: reading and parsing, checking and ordering, joining with the qrels."""

    read: float = 0.0
    check: float = 0.0
    join: float = 0.0


@dataclass(frozen=True, eq=False)
class JoinedRows:
    """Some queries of a run, joined: ``queries`` of the qrels or -1, in the order of the run, and columns of RunHits.

    ``hit_counts``, ``lengths``, ``tied`` and ``contradicted`` are one value per query; the others one per hit.
    """

    names: Sequence[bytes]
    queries: Counts
    hit_counts: Counts
    lengths: Counts
    tied: Bools
    contradicted: Bools
    judgments: Counts
    ranks: Codes
    tie_first: Codes
    tie_last: Codes
    rows: int
    duplicates: int
    lines: int
    faults: Sequence[LineFault]
    fault_count: int
    some_documents: tuple[str, ...]
    seconds: Seconds


def join(rows: RunRows, judged: Judged, rules: Rules) -> JoinedRows:
    """The ``rows`` of queries, each of which comes once, joined with their judgments."""
    try:
        return _Join(rows, judged, judged.hashes, rules).joined()
    except _SameHashError:
        hashes, own = judged.exact(rows)
        return _Join(replace(rows.unknown(), hashes=own), judged, hashes, rules).joined()


class _Join:
    """The ``rows`` are in their final order, without later rows of a document."""

    def __init__(self, rows: RunRows, judged: Judged, hashes: Hashes, rules: Rules) -> None:
        started = time.perf_counter()
        self._all, self._judged, self._hashes, self._rules = rows, judged, hashes, rules
        self._sorted = _in_order(rows, rules)
        self._later, self._earlier = _repeated(self._sorted)
        self.rows = self._sorted.without(self._later) if len(self._later) else self._sorted
        self._check = time.perf_counter() - started

    def joined(self) -> JoinedRows:
        started = time.perf_counter()
        queries = np.array([self._judged.query.get(name, -1) for name in self._all.queries], dtype=np.int64)
        hits, judgments = self._hits(queries)
        joined = time.perf_counter()
        tied, contradicted = self._flags()
        tie_first, tie_last = self._ties(hits)
        faults = list(self._pair_faults())
        check = self._check + time.perf_counter() - joined
        first = (self._all.document(row) for row in range(min(len(self._all), MOST_NAMES)))
        counts = np.bincount(self.rows.query_of(hits), minlength=len(queries))
        return JoinedRows(
            self._all.queries, queries, counts, np.diff(self.rows.starts), tied, contradicted, judgments,
            self.rows.place_of(hits), tie_first, tie_last, len(self._all), len(self._later), self._all.lines,
            first_faults(faults, self._all.faults), len(faults) + len(self._all.faults),
            tuple(name.decode("utf-8", "surrogateescape") for name in first), Seconds(0.0, check, joined - started),
        )  # fmt: skip

    def _hits(self, queries: Counts) -> tuple[Counts, Counts]:
        """The rows that are judged, and their judgments."""
        starts, known = self._judged.qrels.judgments.starts, np.flatnonzero(queries >= 0)
        begin, counts = starts[queries[known]], np.diff(starts)[queries[known]]
        judgments = places_of(begin, counts)
        keys = self._hashes[judgments] + np.repeat(_seeds(known), counts)
        by_key = np.argsort(keys)
        keys = keys[by_key]
        if (keys[1:] == keys[:-1]).any():
            raise _SameHashError
        if not len(keys):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        rows, judged, near = self.rows, self._judged, self.rows.with_flag(MAY_BE_JUDGED)
        wanted = rows.hashes[near] + _seeds(rows.query_of(near))
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        is_hit = keys[at] == wanted
        hits, judgments = near[is_hit], judgments[by_key[at[is_hit]]]
        texts = rows.text, rows.at[hits], rows.length[hits]
        if not _are_same(*texts, judged.qrels.documents.text, judged.at[judgments], judged.length[judgments]):
            raise _SameHashError
        return hits, judgments

    def _flags(self) -> tuple[Bools, Bools]:
        """Whether two rows of a query have one score, and whether ranks contradict the scores."""
        rows, is_tied, is_contradicted = self.rows, *np.zeros((2, len(self._all.queries)), dtype=np.bool_)
        if not self._rules.has_scores:
            return is_tied, is_contradicted
        if self._rules.order in ("rank", "file"):
            rows = _in_order(rows, Rules("score", "first"))
        is_tied[rows.query_of(rows.with_flag(TIES))] = True
        if not rows.any_has(FALLS_BACK):
            return is_tied, is_contradicted
        ranked = np.flatnonzero(rows.ranks != NO_RANK)
        query, ranks, scores = rows.query_of(ranked), rows.ranks[ranked], rows.scores[ranked]
        order = np.lexsort((ranks, -scores, query))
        query, ranks = query[order], ranks[order]
        is_contradicted[query[1:][(ranks[1:] < ranks[:-1]) & (query[1:] == query[:-1])]] = True
        return is_tied, is_contradicted

    def _ties(self, hits: Counts) -> tuple[Codes, Codes]:
        """The first and the last rank with the score of each hit."""
        rows = self.rows
        if not self._rules.has_scores or self._rules.order in ("rank", "file") or not rows.any_has(TIES):
            return rows.place_of(hits), rows.place_of(hits)
        tied = rows.with_flag(TIES)
        begins = np.flatnonzero(np.diff(tied, prepend=-1) > 1)
        first, last = tied[begins] - 1, tied[np.append(begins[1:], len(tied)) - 1]
        group = np.searchsorted(first, hits, side="right") - 1
        is_tied = np.append(last, -1)[group] >= hits
        return rows.place_of(np.where(is_tied, first[group], hits)), rows.place_of(np.where(is_tied, last[group], hits))

    def _pair_faults(self) -> Iterable[LineFault]:
        """Documents that a query retrieves twice, and ranks that it gives twice, if neither is allowed."""
        rows = self._sorted
        if self._rules.duplicates == "error":
            names = rows.query_of(self._later)
            for one, other, query in zip(self._earlier.tolist(), self._later.tolist(), names.tolist(), strict=True):
                earlier, later = sorted((int(rows.line[one]), int(rows.line[other])))
                yield LineFault(later, LineError.DUPLICATE, earlier, rows.document(one), rows.queries[query])
        if self._rules.unique_ranks:
            rows = self.rows
            of_row = np.repeat(np.arange(len(rows.queries)), np.diff(rows.starts))
            order = np.lexsort((rows.line, rows.ranks, of_row))
            queries, ranks, line = of_row[order], rows.ranks[order], rows.line[order]
            for at in np.flatnonzero((queries[1:] == queries[:-1]) & (ranks[1:] == ranks[:-1])).tolist():
                found, name = str(ranks[at]).encode(), rows.queries[queries[at]]
                yield LineFault(int(line[at + 1]), LineError.RANK_TAKEN, int(line[at]), found, name)


def _in_order(rows: RunRows, rules: Rules) -> RunRows:
    """The rows of each query best first, equal rows by document or in the order of the file."""
    if rules.order == "file" or (rules.order != "rank" and not rules.has_scores) or not len(rows):
        return rows
    if rows.any_has(FALLS_BACK if rules.order == "rank" else RISES):
        of_row = np.repeat(np.arange(len(rows.queries)), np.diff(rows.starts))
        rows = rows.of_rows(np.lexsort((rows.ranks if rules.order == "rank" else -rows.scores, of_row)))
    if rules.order != "trec" or not rows.any_has(TIES):
        return rows
    later = rows.with_flag(TIES)
    tied = np.union1d(later, later - 1).tolist()
    names = {row: rows.document(row) for row in tied}
    place = np.zeros(len(rows), dtype=np.int64)
    place[sorted(tied, key=names.__getitem__, reverse=True)] = np.arange(len(tied))
    of_row = np.repeat(np.arange(len(rows.queries)), np.diff(rows.starts))
    return rows.of_rows(np.lexsort((place, -rows.scores, of_row)))


def _repeated(rows: RunRows) -> tuple[Counts, Counts]:
    """The rows whose document an earlier one of the same query has, and the first such rows."""
    if not rows.any_has(MAY_REPEAT):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    keys = rows.hashes + np.repeat(_seeds(np.arange(len(rows.queries))), np.diff(rows.starts))
    in_order = np.sort(keys)
    if not (in_order[1:] == in_order[:-1]).any():
        return np.empty(0, np.int64), np.empty(0, np.int64)
    by_key = np.argsort(keys, kind="stable")
    begins = np.append(True, keys[by_key][1:] != keys[by_key][:-1])
    first = by_key[np.flatnonzero(begins)[np.cumsum(begins) - 1]]
    later, earlier = by_key[~begins], first[~begins]
    texts = rows.at[later], rows.length[later], rows.text, rows.at[earlier], rows.length[earlier]
    if not _are_same(rows.text, *texts) or (rows.query_of(later) != rows.query_of(earlier)).any():
        raise _SameHashError
    return later, earlier


def _seeds(queries: Counts) -> Hashes:
    """A number for each query; added to the hash of a document it makes a key for both."""
    return queries.astype(np.uint64) * _ODD


def _bits_of(hashes: Hashes) -> Bytes:
    """Bits that are set for the last bits of the ``hashes``, and for few others."""
    count = 1 << max(16, len(hashes).bit_length() + 3)
    bits = np.zeros(count, dtype=np.bool_)
    bits[hashes & np.uint64(count - 1)] = True
    return np.packbits(bits, bitorder="little")


def _are_same(
    text: npt.NDArray[Any], at: Counts, length: Counts, other: npt.NDArray[Any], other_at: Counts, other_length: Counts
) -> bool:
    """Whether the bytes of texts are equal."""
    if (length != other_length).any():
        return False
    return bool((text[places_of(at, length)] == other[places_of(other_at, length)]).all())


def all_hits(parts: Sequence[JoinedRows], count: int) -> RunHits:
    """The hits of ``count`` queries of the qrels, of parts in which each query comes once."""
    queries = _column(parts, "queries")
    known = queries >= 0
    order = np.argsort(np.repeat(queries, _column(parts, "hit_counts")), kind="stable")

    def of_queries(name: str) -> npt.NDArray[Any]:
        column = _column(parts, name)
        spread = np.zeros(count, dtype=column.dtype)
        spread[queries[known]] = column[known]
        return spread

    names = [name for part in parts for name, query in zip(part.names, part.queries.tolist(), strict=True) if query < 0]
    return RunHits(
        starts=np.concatenate(([0], np.cumsum(of_queries("hit_counts")))).astype(np.int64),
        **{name: _column(parts, name)[order] for name in ("ranks", "judgments", "tie_first", "tie_last")},
        **{name: of_queries(name) for name in ("lengths", "tied", "contradicted")},
        rows=sum(part.rows for part in parts),
        duplicates=sum(part.duplicates for part in parts),
        unknown=len(names),
        unknown_names=tuple(name.decode("utf-8", "surrogateescape") for name in names[:MOST_NAMES]),
        seconds={name: sum(getattr(part.seconds, name) for part in parts) for name in Seconds._fields},
        some_documents=parts[0].some_documents if parts else (),
    )


def _column(parts: Sequence[JoinedRows], name: str) -> npt.NDArray[Any]:
    return np.concatenate([getattr(part, name) for part in parts])


# --- runs in memory


def match(run: Run, qrels: Qrels, *, order: Order, duplicates: Duplicates) -> RunHits:
    """A run in memory, joined with qrels as ``read_run`` joins a file.

    Ranks are the order of a run that has them; a run with neither ranks nor scores is in order as it came. Raises
    RunFileError if a score or rank is NaN, two rows have one rank, or, if duplicates are errors, a query retrieves a
    document twice; places are hits of a query, counted from 1 as they came.
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
    joined = join(_rows_of(run), Judged(qrels), rules)
    for fault in joined.faults:
        found = f"retrieves document {shown(fault.found)}"
        if fault.error == LineError.RANK_TAKEN and run.values is not None:
            found = f"has rank {run.values[fault.line]:g}"
        earlier = fault.other - int(run.starts[_query_of(run, fault.other)]) + 1
        faults.add(f"{_place(run, fault.line)}: {found}, as hit {earlier:,} does.")
    faults.count = joined.fault_count
    faults.raise_any()
    return all_hits([joined], len(qrels))


def _rows_of(run: Run) -> RunRows:
    """The rows of a run in memory, for queries that have any."""
    filled = np.flatnonzero(np.diff(run.starts))
    ends = run.documents.ends
    at, rows = np.concatenate(([0], ends[:-1])).astype(np.int64)[: len(ends)], len(ends)
    scores = np.zeros(rows) if run.values is None or run.by_rank else run.values
    ranks = run.values if run.by_rank and run.values is not None else np.full(rows, NO_RANK)
    return RunRows(
        [encoded(run.queries[query]) for query in filled.tolist()], np.append(run.starts[:-1][filled], run.starts[-1]),
        run.documents.text, at, ends - at, hasher()(run.documents), np.arange(rows), scores, ranks,
        np.zeros(rows, dtype=np.uint8),
    ).unknown().compared()  # fmt: skip


def in_order(run: Run, order: Order) -> Run:
    """The rows of each query best first, each document once, at its best place."""
    has_scores = run.values is not None and not run.by_rank
    rules = Rules("file" if run.values is None else "rank" if run.by_rank else order, "first", has_scores)
    rows, nothing = _rows_of(run), Judged(Qrels.of([]))
    try:
        best = _Join(rows, nothing, nothing.hashes, rules).rows
    except _SameHashError:
        best = _Join(replace(rows.unknown(), hashes=nothing.exact(rows)[1]), nothing, nothing.hashes, rules).rows
    counts = np.zeros(len(run) + 1, dtype=np.int64)
    counts[1:][np.diff(run.starts) > 0] = np.diff(best.starts)
    values = None if run.values is None else run.values[best.line]
    return replace(run, starts=np.cumsum(counts), documents=best.documents(), values=values, of_chunks=False)


def _place(run: Run, row: int) -> str:
    query = _query_of(run, row)
    return f"query {run.queries[query]!r}, hit {row - int(run.starts[query]) + 1:,}"


def _query_of(run: Run, row: int) -> int:
    return int(np.searchsorted(run.starts, row, side="right")) - 1


# --- rankings of codes


class CodeHits(NamedTuple):
    """The judged hits of coded rankings: ``starts``, ``ranks`` and ``judgments`` as in RunHits."""

    starts: Counts
    ranks: npt.NDArray[np.int32]
    judgments: Counts


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
