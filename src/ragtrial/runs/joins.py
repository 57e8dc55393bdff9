"""Runs joined with qrels: rows put in order, checked, and looked up among the judgments, as arrays."""

from __future__ import annotations

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


@dataclass(frozen=True, eq=False)
class JoinedRows:
    """Some queries of a run, joined: for each query of ``hits`` its place in the qrels, or -1, and its name.

    ``hits`` are in the order of the run, of all queries; ``lines`` counts the lines of its text.
    """

    names: Sequence[bytes]
    queries: Counts
    hits: RunHits
    lines: int
    faults: Sequence[LineFault]
    fault_count: int


class Ordered(NamedTuple):
    """The ``best`` rows are in their final order, each document of a query once; ``every`` row is in this order.

    The ``later`` rows have the document of an ``earlier`` one, as numbers of ``every`` row.
    """

    best: RunRows
    every: RunRows
    later: Counts
    earlier: Counts


def _ordered(rows: RunRows, rules: Rules) -> Ordered:
    every = _in_order(rows, rules)
    later, earlier = _repeated(every)
    return Ordered(every.without(later) if len(later) else every, every, later, earlier)


def join(rows: RunRows, judged: Judged, rules: Rules) -> JoinedRows:
    """The ``rows`` of queries, each of which comes once, joined with their judgments.

    Raises RunFileError if two documents have the same hash.
    """
    ordered = _ordered(rows, rules)
    best = ordered.best
    queries = np.array([judged.query.get(name, -1) for name in rows.queries], dtype=np.int64)
    hits, judgments = _hits(best, queries, judged)
    tie_first, tie_last = _ties(best, hits, rules)
    faults = list(_pair_faults(ordered, rules))
    first = (rows.document(row) for row in range(min(len(rows), MOST_NAMES)))
    ends = np.cumsum(np.bincount(best.query_of(hits), minlength=len(queries)))
    found = RunHits(
        np.append(0, ends), best.place_of(hits), judgments, tie_first, tie_last, np.diff(best.starts),
        *_flags(best, rules), len(rows), len(ordered.later), int((queries < 0).sum()), (), _decoded(first),
    )  # fmt: skip
    faults_seen = first_faults(faults, rows.faults)
    return JoinedRows(rows.queries, queries, found, rows.lines, faults_seen, len(faults) + len(rows.faults))


def _decoded(names: Iterable[bytes]) -> tuple[str, ...]:
    return tuple(name.decode("utf-8", "surrogateescape") for name in names)


def _hits(rows: RunRows, queries: Counts, judged: Judged) -> tuple[Counts, Counts]:
    """The rows that are judged, and their judgments."""
    starts, known = judged.qrels.judgments.starts, np.flatnonzero(queries >= 0)
    begin, counts = starts[queries[known]], np.diff(starts)[queries[known]]
    judgments = places_of(begin, counts)
    keys = judged.hashes[judgments] + np.repeat(_seeds(known), counts)
    by_key = np.argsort(keys)
    keys = keys[by_key]
    _check_hashes(are_sound=bool((keys[1:] != keys[:-1]).all()))
    if not len(keys):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    near = rows.with_flag(MAY_BE_JUDGED)
    wanted = rows.hashes[near] + _seeds(rows.query_of(near))
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    is_hit = keys[at] == wanted
    hits, judgments = near[is_hit], judgments[by_key[at[is_hit]]]
    texts = rows.text, rows.at[hits], rows.length[hits]
    ids = judged.qrels.documents.text, judged.at[judgments], judged.length[judgments]
    _check_hashes(are_sound=_are_same(*texts, *ids))
    return hits, judgments


def _flags(rows: RunRows, rules: Rules) -> tuple[Bools, Bools]:
    """Whether two rows of a query have one score, and whether ranks contradict the scores."""
    is_tied, is_contradicted = np.zeros((2, len(rows.queries)), dtype=np.bool_)
    if not rules.has_scores:
        return is_tied, is_contradicted
    if rules.order in ("rank", "file"):
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


def _ties(rows: RunRows, hits: Counts, rules: Rules) -> tuple[Codes, Codes]:
    """The first and the last rank with the score of each hit."""
    if not rules.has_scores or rules.order in ("rank", "file") or not rows.any_has(TIES):
        return rows.place_of(hits), rows.place_of(hits)
    tied = rows.with_flag(TIES)
    begins = np.flatnonzero(np.diff(tied, prepend=-1) > 1)
    first, last = tied[begins] - 1, tied[np.append(begins[1:], len(tied)) - 1]
    group = np.searchsorted(first, hits, side="right") - 1
    is_tied = np.append(last, -1)[group] >= hits
    return rows.place_of(np.where(is_tied, first[group], hits)), rows.place_of(np.where(is_tied, last[group], hits))


def _pair_faults(ordered: Ordered, rules: Rules) -> Iterable[LineFault]:
    """Documents that a query retrieves twice, and ranks that it gives twice, if neither is allowed."""
    best, rows, later, earlier = ordered
    if rules.duplicates == "error":
        for one, other, query in zip(earlier.tolist(), later.tolist(), rows.query_of(later).tolist(), strict=True):
            first, second = sorted((int(rows.line[one]), int(rows.line[other])))
            yield LineFault(second, LineError.DUPLICATE, first, rows.document(one), rows.queries[query])
    if rules.unique_ranks:
        order = np.lexsort((best.line, best.ranks, best.query_of_each()))
        queries, ranks, line = best.query_of_each()[order], best.ranks[order], best.line[order]
        for at in np.flatnonzero((queries[1:] == queries[:-1]) & (ranks[1:] == ranks[:-1])).tolist():
            found, name = str(ranks[at]).encode(), best.queries[queries[at]]
            yield LineFault(int(line[at + 1]), LineError.RANK_TAKEN, int(line[at]), found, name)


def _in_order(rows: RunRows, rules: Rules) -> RunRows:
    """The rows of each query best first, equal rows by document or in the order of the file."""
    if rules.order == "file" or (rules.order != "rank" and not rules.has_scores) or not len(rows):
        return rows
    if rows.any_has(FALLS_BACK if rules.order == "rank" else RISES):
        values = rows.ranks if rules.order == "rank" else -rows.scores
        rows = rows.of_rows(np.lexsort((values, rows.query_of_each())))
    if rules.order != "trec" or not rows.any_has(TIES):
        return rows
    later = rows.with_flag(TIES)
    tied = np.union1d(later, later - 1).tolist()
    names = {row: rows.document(row) for row in tied}
    place = np.zeros(len(rows), dtype=np.int64)
    place[sorted(tied, key=names.__getitem__, reverse=True)] = np.arange(len(tied))
    return rows.of_rows(np.lexsort((place, -rows.scores, rows.query_of_each())))


def _repeated(rows: RunRows) -> tuple[Counts, Counts]:
    """The rows whose document an earlier one of the same query has, and the first such rows."""
    if not rows.any_has(MAY_REPEAT):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    keys = rows.hashes + _seeds(rows.query_of_each())
    in_order = np.sort(keys)
    if not (in_order[1:] == in_order[:-1]).any():
        return np.empty(0, np.int64), np.empty(0, np.int64)
    by_key = np.argsort(keys, kind="stable")
    begins = np.append(True, keys[by_key][1:] != keys[by_key][:-1])
    first = by_key[np.flatnonzero(begins)[np.cumsum(begins) - 1]]
    later, earlier = by_key[~begins], first[~begins]
    texts = rows.at[later], rows.length[later], rows.text, rows.at[earlier], rows.length[earlier]
    is_same_query = bool((rows.query_of(later) == rows.query_of(earlier)).all())
    _check_hashes(are_sound=is_same_query and _are_same(rows.text, *texts))
    return later, earlier


def _check_hashes(*, are_sound: bool) -> None:
    if not are_sound:
        raise RunFileError(
            "two documents have the same hash of 64 bits, so they cannot be told apart; score the files again with the "
            "environment variable RAGTRIAL_COMPILED=0, which makes other hashes."
        )


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
    queries = np.concatenate([part.queries for part in parts])
    known = queries >= 0

    def column(name: str) -> npt.NDArray[Any]:
        return np.concatenate([getattr(part.hits, name) for part in parts])

    def of_queries(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        spread = np.zeros(count, dtype=values.dtype)
        spread[queries[known]] = values[known]
        return spread

    hit_counts = np.concatenate([np.diff(part.hits.starts) for part in parts])
    order = np.argsort(np.repeat(queries, hit_counts), kind="stable")
    names = [name for part in parts for name, query in zip(part.names, part.queries.tolist(), strict=True) if query < 0]
    hits = parts[0].hits
    return replace(
        hits,
        starts=np.append(0, np.cumsum(of_queries(hit_counts))).astype(np.int64),
        **{name: column(name)[order] for name in ("ranks", "judgments", "tie_first", "tie_last")},  # type: ignore[arg-type]
        **{name: of_queries(column(name)) for name in ("lengths", "tied", "contradicted")},  # type: ignore[arg-type]
        **{name: sum(getattr(part.hits, name) for part in parts) for name in ("rows", "duplicates", "unknown")},
        unknown_names=_decoded(names[:MOST_NAMES]),
    )


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
    best = _ordered(_rows_of(run), rules).best
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
