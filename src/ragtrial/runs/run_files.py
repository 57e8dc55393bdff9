"""Run files and qrels as TREC and MS MARCO write them: read block by block, and joined."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import accumulate
from typing import IO, NamedTuple

import numpy as np

from ragtrial.dataset.faults import Faults
from ragtrial.errors import LabelsError, RunFileError
from ragtrial.records import MOST_GRADE
from ragtrial.runs.compiled import compiled_library
from ragtrial.runs.compiled.library import PADDING, Room, cut_of
from ragtrial.runs.joins import JoinedRows, Judged, Rules, all_hits, join
from ragtrial.runs.lines import BOM, Bytes, LineForm, add_line_faults, first_faults, padded, split, split_qrels
from ragtrial.runs.qrels import Duplicates, Judgments, Order, Qrels, Run, RunHits
from ragtrial.runs.streams import Source, name_of, opened

BLOCK = 2**20
_MOST = 2**31


def read_sound_qrels(path: Source) -> Qrels | None:
    """Qrels of four columns by the compiled code; None without it, and if anything is wrong with a line.

    ``-`` is standard input, gzip data are unpacked. Raises LabelsError if the file cannot be read.
    """
    if compiled_library() is None:
        return None
    with opened(path, LabelsError, keeps=True) as stream:
        block = _whole(stream)
    rows = split_qrels(block.buffer, block.size)
    if rows is None or not len(rows) or np.abs(rows.ranks).max() > MOST_GRADE:
        return None
    rows = rows.gathered()
    names = tuple(name.decode("utf-8", "surrogateescape") for name in rows.queries)
    judgments = Judgments(rows.starts, rows.ranks.astype(np.int32), np.zeros(len(names), dtype=np.bool_))
    qrels = Qrels(names, rows.documents(), judgments)
    return None if join(rows, Judged(Qrels.of([])), Rules("file", "first", has_scores=False)).hits.duplicates else qrels


def read_run(
    path: Source,
    qrels: Qrels,
    *,
    form: LineForm,
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
        rows = split(
            block.buffer, block.size, form, lenient=lenient, needs_ranks=order == "rank" or not lenient,
            room=block.room, judged_bits=judged.bits,
        )  # fmt: skip
        return join(rows.gathered(), judged, rules)

    with opened(path, RunFileError) as stream, ThreadPoolExecutor(threads) as pool:
        blocks = [_whole(stream)] if compiled_library() is None else _blocks(stream, faults, threads + 1, block_size)
        parts = list(_in_turn(pool, joined, blocks, threads))
        names = [name for part in parts for name in part.names]
        if len(set(names)) < len(names):  # the rows of a query are not consecutive
            stream.seek(0)
            parts = [joined(_whole(stream))]
    before = accumulate((part.lines for part in parts), initial=0)
    placed = (fault.below(lines) for part, lines in zip(parts, before, strict=False) for fault in part.faults)
    add_line_faults(faults, first_faults(placed), sum(part.fault_count for part in parts), form)
    faults.raise_any()
    if not sum(part.hits.rows for part in parts):
        raise faults.fail("has no rows; a run has at least one.")
    return all_hits(parts, len(qrels))


def load_run_file(path: Source, *, form: LineForm, name: str, lenient: bool = False) -> Run:
    """A run file in memory, its rows as they came. Raises RunFileError with the faults of all lines."""
    with opened(path, RunFileError) as stream:
        block = _whole(stream)
    rows = split(block.buffer, block.size, form, lenient=lenient, needs_ranks=not lenient).gathered()
    faults = Faults(name_of(path), RunFileError)
    add_line_faults(faults, first_faults(rows.faults), len(rows.faults), form)
    faults.raise_any()
    if not len(rows):
        raise faults.fail("has no rows; a run has at least one.")
    queries = tuple(query.decode("utf-8", "surrogateescape") for query in rows.queries)
    by_rank = form == "msmarco"
    values = rows.ranks.astype(np.float64) if by_rank else rows.scores
    return Run(name, queries, rows.starts, rows.documents(), values, by_rank=by_rank)


class Block(NamedTuple):
    """The first ``size`` bytes of ``buffer``, which has room for ``PADDING`` more, and room for its columns."""

    buffer: Bytes
    size: int
    room: Room


def _whole(stream: IO[bytes]) -> Block:
    content = stream.read().removeprefix(BOM)
    return Block(padded(content), len(content), Room())


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
    carried = np.frombuffer(stream.read(len(BOM)).removeprefix(BOM), dtype=np.uint8)
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
