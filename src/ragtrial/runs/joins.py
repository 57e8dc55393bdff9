"""Runs joined with qrels: rows put in order, checked, and looked up among the judgments, as arrays."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ragtrial.dataset.faults import Faults, shown
from ragtrial.errors import LabelsError, RunFileError
from ragtrial.rankings import Bools, Codes, Counts
from ragtrial.records import MOST_GRADE
from ragtrial.runs import lines
from ragtrial.runs.compiled import compiled_library
from ragtrial.runs.compiled.library import PADDING, Block, Room, cut_of
from ragtrial.runs.qrels import Duplicates, Judgments, Order, Qrels, Run, RunHits
from ragtrial.runs.streams import Source, name_of, open_source, release

MOST_NAMES = 10
"""The most names that are kept of unjudged queries, and of documents."""

_ODD = np.uint64(0x9E3779B97F4A7C15)
_ONCE = "a query may retrieve a document once (duplicates 'first' drops the later ones)."


@dataclass(frozen=True)
class Rules:
    """The order and the checks of the rows of a run.

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
        self.query = {lines.encoded(name): query for query, name in enumerate(qrels.queries)}
        ids = qrels.documents
        self.at, self.length = ids.starts, ids.ends - ids.starts
        self.hashes = lines.hasher()(ids)
        self.bits = _bits_of(self.hashes)


@dataclass(frozen=True, eq=False)
class JoinedRows:
    """Some queries of a run, joined: for each query of ``hits`` its place in the qrels, or -1, and its name.

    ``hits`` are in the order of the run, of all queries; ``lines`` counts the lines of its text.
    """

    names: Sequence[bytes]
    queries: Counts
    hits: RunHits
    faults: Sequence[lines.LineFault]
    fault_count: int
    lines: int


class Ordered(NamedTuple):
    """The ``best`` rows are in their final order, each document of a query once; ``every`` row is in this order.

    The ``later`` rows have the document of an ``earlier`` one, as numbers of ``every`` row.
    """

    best: lines.RunRows
    every: lines.RunRows
    later: Counts
    earlier: Counts


def _ordered(rows: lines.RunRows, rules: Rules) -> Ordered:
    every = _in_order(rows, rules)
    later, earlier = _repeated(every)
    return Ordered(every.without(later) if len(later) else every, every, later, earlier)


def join(rows: lines.RunRows, judged: Judged, rules: Rules) -> JoinedRows:
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
    run_hits = RunHits(
        np.append(0, ends), best.place_of(hits), judgments, tie_first, tie_last, np.diff(best.starts),
        *_flags(best, rules), len(rows), len(ordered.later), int((queries < 0).sum()), (), _decoded(first),
    )  # fmt: skip
    faults_seen = lines.first_faults(faults, rows.faults)
    return JoinedRows(rows.queries, queries, run_hits, faults_seen, len(faults) + len(rows.faults), rows.lines)


def _decoded(names: Iterable[bytes]) -> tuple[str, ...]:
    return tuple(name.decode("utf-8", "surrogateescape") for name in names)


def _hits(rows: lines.RunRows, queries: Counts, judged: Judged) -> tuple[Counts, Counts]:
    """The rows that are judged, and their judgments."""
    starts, known = judged.qrels.judgments.starts, np.flatnonzero(queries >= 0)
    begin, counts = starts[queries[known]], np.diff(starts)[queries[known]]
    judgments = lines.places_of(begin, counts)
    keys = judged.hashes[judgments] + np.repeat(_seeds(known), counts)
    by_key = np.argsort(keys)
    keys = keys[by_key]
    _check_hashes(are_sound=bool((keys[1:] != keys[:-1]).all()))
    if not len(keys):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    near = rows.with_flag(lines.MAY_BE_JUDGED)
    wanted = rows.hashes[near] + _seeds(rows.query_of(near))
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    is_hit = keys[at] == wanted
    hits, judgments = near[is_hit], judgments[by_key[at[is_hit]]]
    texts = rows.text, rows.at[hits], rows.length[hits]
    ids = judged.qrels.documents.text, judged.at[judgments], judged.length[judgments]
    _check_hashes(are_sound=_are_same(*texts, *ids))
    return hits, judgments


def _flags(rows: lines.RunRows, rules: Rules) -> tuple[Bools, Bools]:
    """For each query: two rows have the same score; the ranks contradict the scores."""
    is_tied, is_contradicted = np.zeros((2, len(rows.queries)), dtype=np.bool_)
    if not rules.has_scores:
        return is_tied, is_contradicted
    if rules.order in ("rank", "file"):
        rows = _in_order(rows, Rules("score", "first"))
    is_tied[rows.query_of(rows.with_flag(lines.TIES))] = True
    if not rows.any_has(lines.FALLS_BACK):
        return is_tied, is_contradicted
    ranked = np.flatnonzero(rows.ranks != lines.NO_RANK)
    query, ranks, scores = rows.query_of(ranked), rows.ranks[ranked], rows.scores[ranked]
    order = np.lexsort((ranks, -scores, query))
    query, ranks = query[order], ranks[order]
    is_contradicted[query[1:][(ranks[1:] < ranks[:-1]) & (query[1:] == query[:-1])]] = True
    return is_tied, is_contradicted


def _ties(rows: lines.RunRows, hits: Counts, rules: Rules) -> tuple[Codes, Codes]:
    """The first and the last rank with the score of each hit."""
    if not rules.has_scores or rules.order in ("rank", "file") or not rows.any_has(lines.TIES):
        return rows.place_of(hits), rows.place_of(hits)
    tied = rows.with_flag(lines.TIES)
    begins = np.flatnonzero(np.diff(tied, prepend=-1) > 1)
    first, last = tied[begins] - 1, tied[np.append(begins[1:], len(tied)) - 1]
    group = np.searchsorted(first, hits, side="right") - 1
    is_tied = np.append(last, -1)[group] >= hits
    return rows.place_of(np.where(is_tied, first[group], hits)), rows.place_of(np.where(is_tied, last[group], hits))


def _pair_faults(ordered: Ordered, rules: Rules) -> Iterable[lines.LineFault]:
    """Documents that a query retrieves twice, and ranks that it gives twice, if neither is allowed."""
    best, rows, later, earlier = ordered
    if rules.duplicates == "error":
        for one, other, query in zip(earlier.tolist(), later.tolist(), rows.query_of(later).tolist(), strict=True):
            first, second = sorted((int(rows.line[one]), int(rows.line[other])))
            message = f"retrieves document {shown(rows.document(one))}"
            yield lines.LineFault(second, message, first, shown(rows.queries[query]), _ONCE)
    if rules.unique_ranks:
        order = np.lexsort((best.line, best.ranks, best.query_of_each()))
        queries, ranks, line = best.query_of_each()[order], best.ranks[order], best.line[order]
        for at in np.flatnonzero((queries[1:] == queries[:-1]) & (ranks[1:] == ranks[:-1])).tolist():
            message, query = f"has rank {ranks[at]:g}", shown(best.queries[queries[at]])
            yield lines.LineFault(int(line[at + 1]), message, int(line[at]), query, "give each document its own.")


def _in_order(rows: lines.RunRows, rules: Rules) -> lines.RunRows:
    """The rows of each query best first, equal rows by document or in the order of the file."""
    if rules.order == "file" or (rules.order != "rank" and not rules.has_scores) or not len(rows):
        return rows
    if rows.any_has(lines.FALLS_BACK if rules.order == "rank" else lines.RISES):
        values = rows.ranks if rules.order == "rank" else -rows.scores
        rows = rows.of_rows(np.lexsort((values, rows.query_of_each())))
    if rules.order != "trec" or not rows.any_has(lines.TIES):
        return rows
    later = rows.with_flag(lines.TIES)
    tied = np.union1d(later, later - 1).tolist()
    names = {row: rows.document(row) for row in tied}
    rank_by_name = np.zeros(len(rows), dtype=np.int64)
    rank_by_name[sorted(tied, key=names.__getitem__, reverse=True)] = np.arange(len(tied))
    return rows.of_rows(np.lexsort((rank_by_name, -rows.scores, rows.query_of_each())))


def _repeated(rows: lines.RunRows) -> tuple[Counts, Counts]:
    """The rows whose document an earlier one of the same query has, and the first such rows."""
    if not rows.any_has(lines.MAY_REPEAT):
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
            "two documents have the same hash of 64 bits, so ragtrial cannot distinguish them; score the files again "
            "with the environment variable RAGTRIAL_COMPILED=0, which makes other hashes."
        )


def _seeds(queries: Counts) -> lines.Hashes:
    """A number for each query; added to the hash of a document it makes a key for both."""
    return queries.astype(np.uint64) * _ODD


def _bits_of(hashes: lines.Hashes) -> lines.Bytes:
    """Bits that are set for the last bits of the ``hashes``, and for few others."""
    count = 1 << max(16, len(hashes).bit_length() + 3)
    bits = np.zeros(count, dtype=np.bool_)
    bits[hashes & np.uint64(count - 1)] = True
    return np.packbits(bits, bitorder="little")


def _are_same(
    text: npt.NDArray[Any], at: Counts, length: Counts, other: npt.NDArray[Any], other_at: Counts, other_length: Counts
) -> bool:
    """True if the bytes of all texts are equal."""
    if (length != other_length).any():
        return False
    return bool((text[lines.places_of(at, length)] == other[lines.places_of(other_at, length)]).all())


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
        earlier = fault.earlier - int(run.starts[_query_of(run, fault.earlier)]) + 1
        faults.add(f"{_place(run, fault.line)}: {fault.message}, as hit {earlier:,} does.")
    faults.count = joined.fault_count
    faults.raise_any()
    return replace(all_hits([joined], len(qrels)), note=run.note)


def _rows_of(run: Run) -> lines.RunRows:
    """The rows of a run in memory, for queries that have any."""
    filled = np.flatnonzero(np.diff(run.starts))
    ids, rows = run.documents, len(run.documents)
    scores = np.zeros(rows) if run.values is None or run.by_rank else run.values
    ranks = run.values if run.by_rank and run.values is not None else np.full(rows, lines.NO_RANK)
    return lines.RunRows(
        [lines.encoded(run.queries[query]) for query in filled.tolist()],
        np.append(run.starts[:-1][filled], run.starts[-1]),
        ids.text, ids.starts, ids.ends - ids.starts, lines.hasher()(ids), np.arange(rows), scores, ranks,
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


# --- run files and qrels as TREC and MS MARCO write them

BLOCK = 2**21
"""Smaller blocks spend more time between them, larger ones need more memory for little."""
_MOST = 2**31


def read_sound_qrels(path: Source) -> Qrels | None:
    """Qrels of four columns by the compiled code; None without it, and if anything is wrong with a line.

    ``-`` is standard input, gzip data are unpacked. Raises LabelsError if the file cannot be read.
    """
    if compiled_library() is None:
        return None
    with open_source(path, LabelsError, keeps=True) as stream:
        block = lines.whole(stream)
    rows = lines.split_qrels(block)
    if rows is None or not len(rows) or np.abs(rows.ranks).max() > MOST_GRADE:
        return None
    rows = rows.gathered()
    names = tuple(name.decode("utf-8", "surrogateescape") for name in rows.queries)
    judgments = Judgments(rows.starts, rows.ranks.astype(np.int32), np.zeros(len(names), dtype=np.bool_))
    if join(rows, Judged(Qrels.of([])), Rules("file", "first", has_scores=False)).hits.duplicates:
        return None
    release(path)
    return Qrels(names, rows.documents(), judgments)


def read_run(
    path: Source,
    qrels: Qrels,
    *,
    form: lines.LineForm,
    order: Order,
    duplicates: Duplicates,
    lenient: bool = False,
    threads: int = 2,
    block_size: int = BLOCK,
) -> RunHits:
    """A run file, joined with qrels; ``-`` is standard input, gzip data are unpacked.

    ``form`` "trec" has the columns query, Q0, document, rank, score, tag; "msmarco" query, document, rank. White
    space separates them; blank lines and lines that start with ``#`` are ignored. ``lenient`` reads lines as trec_eval
    does: all that follows column 5 is the tag, and ranks may be no numbers unless they are the order.

    ``duplicates`` says what a second row of a document for one query is: an error, or ("first") dropped; in the
    final order the first row counts, and the others are gone before anything is counted. ``tied`` and
    ``contradicted`` are about scores in any order; ``tie_first`` and ``tie_last`` differ from the rank of the hit
    only if scores order.

    Memory stays at a few blocks of ``block_size``, if no query is larger. If the rows of a query are not consecutive,
    the whole file is held. Raises RunFileError with the faults of all lines, or if the file cannot be read or has no
    rows.
    """
    if form == "msmarco" and order not in ("rank", "file"):
        raise ValueError(f"an MS MARCO run has no scores to order by: order is {order!r}, not 'rank' or 'file'")
    rules = Rules(order, duplicates, has_scores=form == "trec", unique_ranks=form == "msmarco")
    faults, judged = Faults(name_of(path), RunFileError), Judged(qrels)

    def joined(block: Block) -> JoinedRows:
        needs_ranks = order == "rank" or not lenient
        rows = lines.split(block, form, lenient=lenient, needs_ranks=needs_ranks, judged_bits=judged.bits)
        return join(rows.gathered(), judged, rules)

    with open_source(path, RunFileError) as stream, ThreadPoolExecutor(threads) as pool:
        blocks = _blocks(stream, faults, threads + 1, block_size) if compiled_library() else [lines.whole(stream)]
        parts = list(_in_turn(pool, joined, blocks, threads))
        names = [name for part in parts for name in part.names]
        if len(set(names)) < len(names):  # the rows of a query are not consecutive
            stream.seek(0)
            parts = [joined(lines.whole(stream))]
    before = accumulate((part.lines for part in parts), initial=0)
    placed = (fault.below(above) for part, above in zip(parts, before, strict=False) for fault in part.faults)
    lines.add_line_faults(faults, lines.first_faults(placed), sum(part.fault_count for part in parts))
    faults.raise_any()
    if not sum(part.hits.rows for part in parts):
        raise faults.fail("has no rows; a run has at least one.")
    return all_hits(parts, len(qrels))


def load_run_file(path: Source, *, form: lines.LineForm, name: str, lenient: bool = False) -> Run:
    """A run file in memory, its rows as they came. Raises RunFileError with the faults of all lines."""
    with open_source(path, RunFileError) as stream:
        block = lines.whole(stream)
    rows = lines.split(block, form, lenient=lenient, needs_ranks=not lenient).gathered()
    faults = Faults(name_of(path), RunFileError)
    lines.add_line_faults(faults, lines.first_faults(rows.faults), len(rows.faults))
    faults.raise_any()
    if not len(rows):
        raise faults.fail("has no rows; a run has at least one.")
    queries = tuple(query.decode("utf-8", "surrogateescape") for query in rows.queries)
    by_rank = form == "msmarco"
    values = rows.ranks.astype(np.float64) if by_rank else rows.scores
    return Run(name, queries, rows.starts, rows.documents(), values, by_rank=by_rank)


def _in_turn(
    pool: ThreadPoolExecutor, work: Callable[[Block], JoinedRows], blocks: Iterable[Block], at_once: int
) -> Iterator[JoinedRows]:
    """The result of each block, in the order of the file; a block is asked for when a thread is free for it."""
    waiting: deque[Future[JoinedRows]] = deque()
    for block in blocks:
        waiting.append(pool.submit(work, block))
        if len(waiting) > at_once:
            yield waiting.popleft().result()
    for future in waiting:
        yield future.result()


def _blocks(stream: IO[bytes], faults: Faults, buffers: int, size: int) -> Iterator[Block]:
    """The file in blocks of whole lines. Consecutive lines of a query are in one block.

    A buffer is used again once ``buffers`` more blocks have been asked for. A query that fills a buffer gets a
    larger one.
    """
    texts, rooms = [np.empty(size + PADDING, dtype=np.uint8) for _ in range(buffers)], [Room() for _ in range(buffers)]
    carried = np.frombuffer(stream.read(len(lines.BOM)).removeprefix(lines.BOM), dtype=np.uint8)
    index = 0
    while True:
        if len(carried) + PADDING >= len(texts[index]):
            texts[index] = np.empty(2 * len(carried) + PADDING, dtype=np.uint8)
        buffer = texts[index]
        buffer[: len(carried)] = carried
        free, end = memoryview(buffer.data)[: len(buffer) - PADDING], len(carried)
        while end < len(free) and (count := stream.readinto(free[end:])):  # type: ignore[attr-defined]
            end += count
        is_last = end < len(free)
        cut = end if is_last else cut_of(buffer, end)
        carried = buffer[cut:end].copy()
        if cut:
            yield Block(buffer, cut, rooms[index])
            index = (index + 1) % buffers
        if is_last:
            return
        if len(carried) > _MOST:
            raise faults.fail("has a query of more than 2 GiB; is it text with line ends?")
