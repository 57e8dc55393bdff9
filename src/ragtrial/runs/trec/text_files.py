"""Run files and qrels files, TREC's and MS MARCO's, read and joined."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

from ragtrial.errors import Fault, LabelsError, RunFileError
from ragtrial.runs.compiled.found import Duplicates, Form, Found, Reading
from ragtrial.runs.qrels import Order, Qrels, RunHits
from ragtrial.runs.trec.blocks import BLOCK, Block, Source, cut_lines
from ragtrial.runs.trec.engines import Engine, engine_for, parsed_qrels
from ragtrial.runs.trec.gathered_blocks import Merger
from ragtrial.runs.trec.line_faults import Faults
from ragtrial.runs.trec.scattered import PART, parts

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
    """A run file, joined with qrels; ``-`` is standard input, gzip data are unpacked.

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
        gathered = _Gathered(Faults(source.name, "run", form), Merger())
        blocks = source.blocks(engine.cut, block_size)
        for found in _scanned(source, blocks, engine, threads):
            gathered.add(found, gathered.lines.__add__)
            if gathered.merger.is_known_scattered:
                break
        for block in blocks:  # only for the file's size, and to keep what cannot be read again
            source.reuse(block)
        if gathered.merger.is_scattered():
            gathered = _Gathered(Faults(source.name, "run", form), Merger())
            lines = source.blocks(cut_lines, block_size)
            for part in parts(lines, source.reuse, engine, source.size, part_size):
                gathered.add(engine.scan(*part.block), part.line_of)
        seconds = source.seconds
    gathered.faults.raise_any(RunFileError)
    if not gathered.merger.rows:
        raise RunFileError(Fault(source.name, message="has no rows; a run has at least one."))
    return gathered.merger.hits(len(qrels), seconds)


@dataclass
class _Gathered:
    """What the blocks so far gave."""

    faults: Faults
    merger: Merger
    lines: int = 0

    def add(self, found: Found, line_of: Callable[[int], int]) -> None:
        """One block more, and where in the file its lines are."""
        self.faults.add((fault.placed(line_of) for fault in found.faults), found.fault_count)
        self.merger.add(found, [(line_of(line), name) for line, name in found.unknown])
        self.lines += found.lines


def read_qrels(path: Path | str, form: Form) -> Qrels:
    """The qrels of a file with the columns query, iteration, document and grade, queries in the order in which they
    first come. ``-`` is standard input, gzip data are unpacked.

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


def _scanned(source: Source, blocks: Iterator[Block], engine: Engine, threads: int) -> Iterator[Found]:
    """What was found in each block, in the order of the file."""
    some = list(islice(blocks, 2))
    if threads > 1 and len(some) == 2:
        yield from _scanned_by_threads(source, chain(some, blocks), engine, threads)
        return
    for block in chain(some, blocks):
        yield engine.scan(*block)
        source.reuse(block)


def _scanned_by_threads(source: Source, blocks: Iterable[Block], engine: Engine, threads: int) -> Iterator[Found]:
    from concurrent.futures import ThreadPoolExecutor  # small files need no threads

    waiting: deque[tuple[Block, Future[Found]]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for block in blocks:
            waiting.append((block, pool.submit(engine.scan, *block)))
            if len(waiting) > threads:
                yield from _first_of(waiting, source)
        while waiting:
            yield from _first_of(waiting, source)


def _first_of(waiting: deque[tuple[Block, Future[Found]]], source: Source) -> Iterator[Found]:
    block, future = waiting.popleft()
    yield future.result()
    source.reuse(block)
