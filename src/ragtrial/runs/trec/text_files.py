"""Run files, TREC's and MS MARCO's, read and joined."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, NamedTuple

import numpy as np

from ragtrial.dataset.faults import Faults
from ragtrial.errors import LabelsError, RunFileError
from ragtrial.records import MOST_GRADE
from ragtrial.runs.compiled import available
from ragtrial.runs.compiled.block_scans import BlockScan, Bytes, Form, MergedScans, Rules
from ragtrial.runs.qrels import Duplicates, Order, Qrels, RunHits
from ragtrial.runs.streams import Source, name_of, opened
from ragtrial.runs.trec.exact_reader import exact_run
from ragtrial.runs.trec.lines import BOM, add_line_faults

if TYPE_CHECKING:
    from concurrent.futures import Future

    from ragtrial.runs.compiled.calls import CompiledScanner

BLOCK = 4 * 2**20
PADDING = 64
"""So many bytes beyond the end of a block may be read, but mean nothing."""
_MOST = 2**31


def read_sound_qrels(path: Source) -> Qrels | None:
    """Qrels of four columns by the compiled reader; None without it, and where anything is wrong with a line.

    ``-`` is standard input, gzip data are unpacked. Raises LabelsError if the file cannot be read.
    """
    if not available():
        return None
    from ragtrial.runs.compiled.calls import compiled_qrels

    with opened(path, LabelsError, keeps=True) as stream:
        content = stream.read().removeprefix(BOM)
    qrels = compiled_qrels(np.frombuffer(bytearray(content + bytes(PADDING)), dtype=np.uint8), len(content))
    return qrels if qrels and np.abs(qrels.judgments.grades.astype(np.int64)).max() <= MOST_GRADE else None


def read_run(
    path: Source,
    qrels: Qrels,
    *,
    form: Form,
    order: Order,
    duplicates: Duplicates,
    lenient: bool = False,
    threads: int = 2,
    block_size: int = BLOCK,
) -> RunHits:
    """A run file, joined with qrels; ``-`` is standard input, gzip data are unpacked.

    ``form`` "trec" has the columns query, Q0, document, rank, score, tag; "msmarco" query, document, rank. White
    space separates them; blank lines and lines that start with ``#`` are ignored. ``lenient`` takes all that
    follows column 5 for the tag, and ranks that are no numbers unless they are what orders, as trec_eval does.

    ``duplicates`` says what a second row of a document for one query is: an error, or ("first") dropped; in the
    final order the first row counts, and the others are gone before anything is counted. ``tied`` and
    ``contradicted`` are about scores in any order; ``tie_first`` and ``tie_last`` are other than the hit's own rank
    only where scores order.

    With the compiled code memory stays at a few blocks of ``block_size``, if no query is larger. Without it, and
    where the rows of a query are not consecutive, all rows are held. Raises RunFileError with the faults of all
    lines, or when the file cannot be read or has no rows.
    """
    if form == "msmarco" and order not in ("rank", "file"):
        raise ValueError(f"an MS MARCO run has no scores to order by: order is {order!r}, not 'rank' or 'file'")
    rules = Rules.of_file(form, order, duplicates, lenient=lenient)
    faults = Faults(name_of(path), RunFileError)
    with opened(path, RunFileError) as stream:
        merged = MergedScans(_scans(stream, faults, qrels, rules, threads, block_size) if available() else ())
        if not available() or merged.is_scattered():
            stream.seek(0)
            merged = MergedScans([exact_run(stream, qrels, rules)])
    add_line_faults(faults, merged.faults, merged.fault_count, form)
    faults.raise_any()
    if not merged.rows:
        raise faults.fail("has no rows; a run has at least one.")
    return merged.hits(len(qrels))


def _scans(
    stream: IO[bytes], faults: Faults, qrels: Qrels, rules: Rules, threads: int, block_size: int
) -> Iterator[BlockScan]:
    """The scan of each block, in the order of the file."""
    from concurrent.futures import ThreadPoolExecutor

    from ragtrial.runs.compiled.calls import CompiledScanner

    scanner: CompiledScanner = CompiledScanner(qrels, rules)
    waiting: deque[Future[BlockScan]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for block in _blocks(stream, faults, threads + 1, block_size):
            waiting.append(pool.submit(scanner.scan, *block))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        for future in waiting:
            yield future.result()


class Block(NamedTuple):
    """The first ``size`` bytes of ``buffer``, which has room for PADDING more."""

    buffer: Bytes
    size: int


def _blocks(stream: IO[bytes], faults: Faults, buffers: int, size: int) -> Iterator[Block]:
    """The file in blocks of whole lines, each query's lines in one block as far as they are consecutive.

    A block's buffer is written over once ``buffers`` more have been asked for. A query that fills a buffer gets
    larger ones.
    """
    rooms = [np.empty(size + PADDING, dtype=np.uint8) for _ in range(buffers)]
    carried = np.frombuffer(stream.read(len(BOM)).removeprefix(BOM), dtype=np.uint8)
    index = 0
    while True:
        if len(carried) + PADDING >= len(rooms[index]):
            rooms[index] = np.empty(2 * len(carried) + PADDING, dtype=np.uint8)
        buffer = rooms[index]
        buffer[: len(carried)] = carried
        room, end = memoryview(buffer.data)[: len(buffer) - PADDING], len(carried)
        while end < len(room) and (count := stream.readinto(room[end:])):  # type: ignore[attr-defined]
            end += count
        is_last = end < len(room)
        cut = end if is_last else _cut(buffer, end)
        carried = buffer[cut:end].copy()
        if cut:
            yield Block(buffer, cut)
            index = (index + 1) % buffers
        if is_last:
            return
        if len(carried) > _MOST:
            raise faults.fail("has a query of more than 2 GiB; is it text with line ends?")


def _cut(buffer: Bytes, end: int) -> int:
    from ragtrial.runs.compiled.calls import compiled_cut

    return compiled_cut(buffer, end)
