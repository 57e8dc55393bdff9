"""Run files and qrels files, TREC's and MS MARCO's, read and joined."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from ragtrial.compiled.found import Duplicates, Form, Found, Reading
from ragtrial.errors import Fault, LabelsError, RunFileError
from ragtrial.judgments import Order, Qrels, RunHits
from ragtrial.matching.blocks import BLOCK, Block, Source, cut_lines
from ragtrial.matching.engines import Engine, engine_for, parsed_qrels
from ragtrial.matching.faults import Faults
from ragtrial.matching.merging import Merger
from ragtrial.matching.scattered import PART, parts

if TYPE_CHECKING:
    from concurrent.futures import Future


def read_run(
    path: Path | str,
    qrels: Qrels,
    *,
    form: Form,
    order: Order,
    duplicates: Duplicates,
    lenient: bool = False,
    threads: int = 2,
    block_size: int = BLOCK,
    part_size: int = PART,
) -> RunHits:
    """A run file, joined with qrels; ``-`` is standard input, names that end in ``.gz`` are unpacked.

    ``form`` "trec" has the columns query, Q0, document, rank, score, tag; "msmarco" query, document, rank. White
    space lies between them, blank lines and lines that start with ``#`` are passed over. ``lenient`` takes all that
    follows column 5 for the tag, and ranks that are no numbers unless they are what orders, as trec_eval does.

    ``duplicates`` says what a second row of a document for one query is: an error, or ("first") dropped; in the
    final order the first row counts, and the others are gone before anything is counted. ``tied`` and
    ``contradicted`` tell about scores in any order; ``tie_first`` and ``tie_last`` are other than the hit's own rank
    only where scores order. Memory stays at a few blocks of ``block_size``, if no query is larger, and, where the
    rows of a query do not stand together, at parts of ``part_size``, written to temporary files.

    Raises RunFileError with the faults of all lines, or when the file cannot be read or has no rows.
    """
    if form == "msmarco" and order not in ("rank", "file"):
        raise ValueError(f"an MS MARCO run has no scores to order by: order is {order!r}, not 'rank' or 'file'")
    engine = engine_for(qrels, Reading(form, order, duplicates, lenient))
    with Source(path, RunFileError) as source:
        faults, merger, total, lines = Faults(source.name, "run", form), Merger(), 0, 0
        for block, found in _scanned(source, engine, threads, block_size):
            at = lines
            faults.add((fault.placed(at.__add__) for fault in found.faults), found.fault_count)
            merger.add(found, [(line + at, name) for line, name in found.unknown])
            lines, total = lines + found.lines, total + block.end - block.begin
        if merger.is_scattered():
            faults, merger = Faults(source.name, "run", form), Merger()
            blocks = source.blocks(cut_lines, block_size)
            for part in parts(blocks, source.reuse, engine, total, part_size):
                found = engine.scan(*part.block)
                faults.add((fault.placed(part.line_of) for fault in found.faults), found.fault_count)
                merger.add(found, [(part.line_of(line), name) for line, name in found.unknown])
    faults.raise_any(RunFileError)
    if not merger.rows:
        raise RunFileError(Fault(source.name, message="has no rows; a run has at least one."))
    return merger.hits(len(qrels))


def read_qrels(path: Path | str, form: Form) -> Qrels:
    """The qrels of a file with the columns query, iteration, document and grade, queries in the order in which they
    first come. ``-`` is standard input, names that end in ``.gz`` are unpacked.

    Grades are whole numbers of 32 bits, negative ones kept. Raises LabelsError with the faults of all lines (a pair
    of query and document that comes twice among them), or when the file cannot be read or judges nothing.
    """
    with Source(path, LabelsError) as source:
        buffer, begin, end = source.whole()
        qrels, found, count = parsed_qrels(buffer, begin, end)
        faults = Faults(source.name, "qrels", form)
        faults.add(found, count)
        faults.raise_any(LabelsError)
    if not len(qrels):
        raise LabelsError(Fault(source.name, message="has no judgments; qrels have at least one."))
    return qrels


def _scanned(source: Source, engine: Engine, threads: int, size: int) -> Iterator[tuple[Block, Found]]:
    """Each block with what was found in it, in the order of the file; the block may be used until the next one."""
    blocks = source.blocks(engine.cut, size)
    first = next(blocks, None)
    if first is None:
        return
    second = next(blocks, None)
    if threads == 1 or second is None:
        for block in chain([first] if second is None else [first, second], blocks):
            yield block, engine.scan(*block)
            source.reuse(block)
        return
    yield from _scanned_by_threads(source, engine, threads, chain([first, second], blocks))


def _scanned_by_threads(
    source: Source, engine: Engine, threads: int, blocks: Iterable[Block]
) -> Iterator[tuple[Block, Found]]:
    from concurrent.futures import ThreadPoolExecutor  # small files need no threads

    waiting: deque[tuple[Block, Future[Found]]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for block in blocks:
            waiting.append((block, pool.submit(engine.scan, *block)))
            if len(waiting) > threads:
                yield from _first_of(waiting, source)
        while waiting:
            yield from _first_of(waiting, source)


def _first_of(waiting: deque[tuple[Block, Future[Found]]], source: Source) -> Iterator[tuple[Block, Found]]:
    block, future = waiting.popleft()
    yield block, future.result()
    source.reuse(block)
