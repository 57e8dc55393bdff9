"""Run files in which the rows of a query do not stand together: put together again, in parts.

The lines of the file are dealt out, by a hash of their query's id, to temporary files of which each fits into
memory; then the lines of each part are put in order by query. Every line keeps its number for messages.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import IO, NamedTuple, Protocol

import numpy as np

from ragtrial.rankings import Counts
from ragtrial.runs.compiled.found import Bytes, Stretches
from ragtrial.runs.trec.blocks import PADDING, Block

PART = 16 * 2**20
_MOST_PARTS = 128


class Kernel(Protocol):
    """The steps, compiled or in plain Python."""

    def stretches(self, buffer: Bytes, begin: int, end: int) -> Stretches: ...
    def gather(self, buffer: Bytes, begins: Counts, ends: Counts) -> Bytes: ...
    def groups(self, buffer: Bytes, begins: Counts, ends: Counts) -> Counts: ...


class Part(NamedTuple):
    """A block in which each query stands together, and where its stretches came from.

    Stretch ``i`` begins at line ``begins[i]`` of the block, which is line ``lines[i]`` of the file.
    """

    block: Block
    begins: Counts
    lines: Counts

    def line_of(self, line: int) -> int:
        """The line of the file that a line of the block was. Both count from 0."""
        at = int(np.searchsorted(self.begins, line, side="right")) - 1
        return int(self.lines[at]) + line - int(self.begins[at])


def parts(
    blocks: Iterator[Block], reuse: Callable[[Block], None], kernel: Kernel, total: int, part_size: int = PART
) -> Iterator[Part]:
    """The file of these blocks (whole lines, ``total`` bytes) in parts in which each query stands together."""
    count = min(_MOST_PARTS, max(1, -(-total // part_size)))
    with ExitStack() as stack:
        texts = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(count)]
        places = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(count)]
        _deal(blocks, reuse, kernel, texts, places)
        for text, place in zip(texts, places, strict=True):
            if text.tell():
                yield _together(_read(text), np.frombuffer(_read(place), dtype=np.int64).reshape(-1, 3), kernel)


def _deal(
    blocks: Iterator[Block],
    reuse: Callable[[Block], None],
    kernel: Kernel,
    texts: Sequence[IO[bytes]],
    places: Sequence[IO[bytes]],
) -> None:
    """Writes each stretch to its part, and beside it its size in bytes, its size in lines, and its line."""
    before = 0
    for block in blocks:
        buffer, begin, end = block
        if buffer[end - 1] != ord("\n"):
            buffer[end], end = ord("\n"), end + 1
        found = kernel.stretches(buffer, begin, end)
        in_block = int(np.count_nonzero(buffer[begin:end] == ord("\n")))
        sizes = np.column_stack(
            (found.ends - found.begins, np.diff(found.lines, append=in_block), found.lines + before)
        )  # fmt: skip
        share = found.shares % len(texts)
        for number in np.unique(share).tolist():
            mine = np.flatnonzero(share == number)
            texts[number].write(kernel.gather(buffer, found.begins[mine], found.ends[mine]).data)
            places[number].write(sizes[mine].astype(np.int64).tobytes())
        before += in_block
        reuse(block)


def _read(file: IO[bytes]) -> bytes:
    file.seek(0)
    content = file.read()
    file.close()
    return content


def _together(text: bytes, places: Counts, kernel: Kernel) -> Part:
    buffer = np.frombuffer(text, dtype=np.uint8)
    ends = np.cumsum(places[:, 0])
    begins = ends - places[:, 0]
    order = np.argsort(kernel.groups(buffer, begins, ends), kind="stable")
    gathered = kernel.gather(buffer, begins[order], ends[order])
    padded = np.empty(len(gathered) + PADDING, dtype=np.uint8)
    padded[: len(gathered)] = gathered
    counts = places[order, 1]
    return Part(Block(padded, 0, len(gathered)), np.cumsum(counts) - counts, places[order, 2])
