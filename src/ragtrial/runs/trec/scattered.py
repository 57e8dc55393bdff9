"""Run files in which the rows of a query are not consecutive: put together again, in parts, by the compiled code.

The lines of the file are dealt out, by a hash of their query's id, to temporary files of which each fits into
memory; then the lines of each part are put in order by query. Every line keeps its number for messages.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import IO, NamedTuple

import numpy as np

from ragtrial.rankings import Counts
from ragtrial.runs.compiled.calls import compiled_gather, compiled_groups, compiled_segments
from ragtrial.runs.trec.blocks import PADDING, Block, BlockReader, cut_lines

_MOST_PARTS = 128


class FilePart(NamedTuple):
    """A block in which the rows of each query are consecutive, and where its segments came from.

    Segment ``i`` begins at line ``begins[i]`` of the block, which is line ``lines[i]`` of the file.
    """

    block: Block
    begins: Counts
    lines: Counts

    def line_of(self, line: int) -> int:
        """The line of the file that a line of the block was. Both count from 0."""
        at = int(np.searchsorted(self.begins, line, side="right")) - 1
        return int(self.lines[at]) + line - int(self.begins[at])


def parts(file: BlockReader, block_size: int, part_size: int) -> Iterator[FilePart]:
    """The file, which was read once already, in parts in which the rows of each query are consecutive."""
    count = min(_MOST_PARTS, max(1, -(-file.size // part_size)))
    with ExitStack() as stack:
        texts = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(count)]
        places = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(count)]
        _deal(file, block_size, texts, places)
        for text, place in zip(texts, places, strict=True):
            if text.tell():
                yield _together(_read(text), np.frombuffer(_read(place), dtype=np.int64).reshape(-1, 3))


def _deal(file: BlockReader, block_size: int, texts: Sequence[IO[bytes]], places: Sequence[IO[bytes]]) -> None:
    """Writes each segment to its part, and beside it its size in bytes, its size in lines, and its line."""
    before = 0
    for block in file.blocks(cut_lines, block_size):
        buffer, begin, end = block
        if buffer[end - 1] != ord("\n"):
            buffer[end], end = ord("\n"), end + 1
        found = compiled_segments(buffer, begin, end)
        in_block = int(np.count_nonzero(buffer[begin:end] == ord("\n")))
        line_counts = np.diff(found.lines, append=in_block)
        sizes = np.column_stack((found.ends - found.begins, line_counts, found.lines + before))
        share = found.shares % len(texts)
        for number in np.unique(share).tolist():
            mine = np.flatnonzero(share == number)
            texts[number].write(compiled_gather(buffer, found.begins[mine], found.ends[mine]).data)
            places[number].write(sizes[mine].astype(np.int64).tobytes())
        before += in_block
        file.reuse(block)


def _read(file: IO[bytes]) -> bytes:
    file.seek(0)
    content = file.read()
    file.close()
    return content


def _together(text: bytes, places: Counts) -> FilePart:
    buffer = np.frombuffer(text, dtype=np.uint8)
    ends = np.cumsum(places[:, 0])
    begins = ends - places[:, 0]
    order = np.argsort(compiled_groups(buffer, begins, ends), kind="stable")
    gathered = compiled_gather(buffer, begins[order], ends[order])
    padded = np.empty(len(gathered) + PADDING, dtype=np.uint8)
    padded[: len(gathered)] = gathered
    counts = places[order, 1]
    return FilePart(Block(padded, 0, len(gathered)), np.cumsum(counts) - counts, places[order, 2])
