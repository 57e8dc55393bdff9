"""Run files and qrels files, TREC's and MS MARCO's, read and joined."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING

from ragtrial.errors import LabelsError, RunFileError
from ragtrial.runs.compiled import available
from ragtrial.runs.compiled.block_scans import BlockScan, Form, MergedScans, Rules
from ragtrial.runs.faults import Faults
from ragtrial.runs.qrels import Duplicates, Order, Qrels, RunHits
from ragtrial.runs.streams import Source, name_of
from ragtrial.runs.trec.blocks import BLOCK, Block, BlockReader
from ragtrial.runs.trec.exact_reader import exact_qrels, exact_run
from ragtrial.runs.trec.lines import add_line_faults

if TYPE_CHECKING:
    from concurrent.futures import Future

    from ragtrial.runs.compiled.calls import CompiledScanner

PART = 16 * 2**20


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
    part_size: int = PART,
) -> RunHits:
    """A run file, joined with qrels; ``-`` is standard input, gzip data are unpacked.

    ``form`` "trec" has the columns query, Q0, document, rank, score, tag; "msmarco" query, document, rank. White
    space separates them; blank lines and lines that start with ``#`` are ignored. ``lenient`` takes all that
    follows column 5 for the tag, and ranks that are no numbers unless they are what orders, as trec_eval does.

    ``duplicates`` says what a second row of a document for one query is: an error, or ("first") dropped; in the
    final order the first row counts, and the others are gone before anything is counted. ``tied`` and
    ``contradicted`` are about scores in any order; ``tie_first`` and ``tie_last`` are other than the hit's own rank
    only where scores order.

    With the compiled code memory stays at a few blocks of ``block_size``, if no query is larger, and, where the rows
    of a query are not consecutive, at parts of ``part_size``, written to temporary files. Without it all rows are
    held. Raises RunFileError with the faults of all lines, or when the file cannot be read or has no rows.
    """
    if form == "msmarco" and order not in ("rank", "file"):
        raise ValueError(f"an MS MARCO run has no scores to order by: order is {order!r}, not 'rank' or 'file'")
    rules = Rules.of_file(form, order, duplicates, lenient=lenient)
    reading = 0.0
    if available():
        from ragtrial.runs.compiled.calls import CompiledScanner

        with BlockReader(path, RunFileError) as file:
            merged = _merged(file, CompiledScanner(qrels, rules), threads, block_size, part_size)
            reading = file.seconds
    else:
        merged = MergedScans()
        merged.add(exact_run(path, qrels, rules))
    faults = Faults(name_of(path), RunFileError)
    add_line_faults(faults, merged.faults, merged.fault_count, "run", form)
    faults.raise_any()
    if not merged.rows:
        raise faults.fail("has no rows; a run has at least one.")
    return merged.hits(len(qrels), reading)


def read_qrels(path: Source, form: Form) -> Qrels:
    """The qrels of a file with the columns query, iteration, document and grade, queries in the order in which they
    first come. ``-`` is standard input, gzip data are unpacked.

    Grades are whole numbers of 32 bits, negative ones kept. Raises LabelsError with the faults of all lines (a pair
    of query and document that comes twice among them), or when the file cannot be read or judges nothing.
    """
    if available():
        from ragtrial.runs.compiled.calls import compiled_qrels

        with BlockReader(path, LabelsError) as file:
            qrels, found, count = compiled_qrels(*file.whole())
    else:
        qrels, found = exact_qrels(path, LabelsError)
        count = len(found)
    faults = Faults(name_of(path), LabelsError)
    add_line_faults(faults, found, count, "qrels", form)
    faults.raise_any()
    if not len(qrels):
        raise faults.fail("has no judgments; qrels have at least one.")
    return qrels


def _merged(
    file: BlockReader, scanner: CompiledScanner, threads: int, block_size: int, part_size: int
) -> MergedScans:  # fmt: skip
    """All blocks of a run file; of one whose queries are scattered, all parts."""
    from ragtrial.runs.compiled.calls import compiled_cut
    from ragtrial.runs.trec.scattered import parts

    merged = MergedScans()
    blocks = file.blocks(compiled_cut, block_size)
    for scan in _scanned(file, blocks, scanner, threads):
        merged.add(scan, merged.lines.__add__)
        if merged.is_known_scattered:
            break
    for block in blocks:  # only for the file's size, and to keep what cannot be read again
        file.reuse(block)
    if not merged.is_scattered():
        return merged
    merged = MergedScans()
    for part in parts(file, block_size, part_size):
        merged.add(scanner.scan(*part.block), part.line_of)
    return merged


def _scanned(file: BlockReader, blocks: Iterator[Block], scanner: CompiledScanner, threads: int) -> Iterator[BlockScan]:
    """The scan of each block, in the order of the file."""
    first = list(islice(blocks, 2))
    if threads > 1 and len(first) == 2:
        yield from _scanned_by_threads(file, chain(first, blocks), scanner, threads)
        return
    for block in chain(first, blocks):
        yield scanner.scan(*block)
        file.reuse(block)


def _scanned_by_threads(
    file: BlockReader, blocks: Iterable[Block], scanner: CompiledScanner, threads: int
) -> Iterator[BlockScan]:
    from concurrent.futures import ThreadPoolExecutor  # small files need no threads

    waiting: deque[tuple[Block, Future[BlockScan]]] = deque()

    def finished(most: int) -> Iterator[BlockScan]:
        while len(waiting) > most:
            block, future = waiting.popleft()
            yield future.result()
            file.reuse(block)

    with ThreadPoolExecutor(threads) as pool:
        for block in blocks:
            waiting.append((block, pool.submit(scanner.scan, *block)))
            yield from finished(threads)
        yield from finished(0)
