"""Files as blocks: whole lines, and all lines of a query in one block, as far as they are consecutive.

A file is read in pieces of a few MiB into buffers that are used again, so memory stays flat. What cannot be read
twice (standard input, a pipe) is kept in a temporary file on the way.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from time import perf_counter
from types import TracebackType
from typing import IO, NamedTuple, Self

import numpy as np

from ragtrial.errors import Fault, InputError
from ragtrial.runs.compiled.block_scans import Bytes
from ragtrial.runs.streams import Source, is_read_once, name_of, opened

BLOCK = 4 * 2**20
PADDING = 64
"""So many bytes beyond the end of a block may be read, but mean nothing."""
_MOST = 2**32 - 2**20
_BOM = b"\xef\xbb\xbf"

Cut = Callable[[Bytes, int, int], int]
"""Where the last query that a buffer has from one byte to another begins; the first byte if it is the only one."""


def cut_lines(buffer: Bytes, begin: int, end: int) -> int:
    """Where the line begins that is not yet whole."""
    return begin + buffer[begin:end].tobytes().rfind(b"\n") + 1


class Block(NamedTuple):
    """Bytes ``begin`` to ``end`` of ``buffer``, which has room for PADDING more."""

    buffer: Bytes
    begin: int
    end: int


class BlockReader:
    """A file that can be read in blocks, and read again. ``-`` is standard input. Gzip data are unpacked.

    ``size`` is the bytes read last, ``seconds`` what reading has taken so far. Raises ``error`` if the file cannot be
    read.
    """

    def __init__(self, path: Source, error: type[InputError]) -> None:
        self._path, self._error = path, error
        self.seconds = 0.0
        self.size = 0
        self._spool: IO[bytes] | None = None
        self._stack = ExitStack()
        self._free: list[Bytes] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()

    def blocks(self, cut: Cut, size: int = BLOCK) -> Iterator[Block]:
        """The file from its start, each query's lines in one block as far as they are consecutive.

        Give a block's buffer back (``reuse``) when it is done with. Without any content there is no block.
        """
        self._free = [buffer for buffer in self._free if len(buffer) == size + PADDING]
        self.size = 0
        if self._spool is not None:
            self._spool.seek(0)
            yield from self._cut_blocks(self._spool, None, cut, size)
            return
        if is_read_once(self._path):
            self._spool = self._stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - the stack closes it
        with opened(self._path, self._error) as stream:
            yield from self._cut_blocks(stream, self._spool, cut, size)

    def reuse(self, block: Block) -> None:
        self._free.append(block.buffer)

    def whole(self) -> Block:
        """All of the file in one block."""
        return next(self.blocks(lambda _buffer, begin, _end: begin), Block(np.zeros(PADDING, dtype=np.uint8), 0, 0))

    def _cut_blocks(self, stream: IO[bytes], spool: IO[bytes] | None, cut: Cut, size: int) -> Iterator[Block]:
        carried, first, ended = np.empty(0, dtype=np.uint8), True, False
        while not ended:
            buffer = self._buffer(size, len(carried))
            buffer[: len(carried)] = carried
            end, ended = self._fill(stream, spool, buffer, len(carried))
            begin = 3 if first and buffer[:3].tobytes() == _BOM and end >= 3 else 0
            at = end if ended else cut(buffer, begin, end)
            while at == begin and not ended:  # one query fills the buffer: it needs a larger one
                buffer = self._grown(buffer, end)
                end, ended = self._fill(stream, spool, buffer, end)
                at = end if ended else cut(buffer, begin, end)
            carried, first = buffer[at:end].copy(), False
            if at > begin:
                yield Block(buffer, begin, at)

    def _fill(self, stream: IO[bytes], spool: IO[bytes] | None, buffer: Bytes, begin: int) -> tuple[int, bool]:
        """Reads into ``buffer`` from ``begin`` on, and into ``spool``: where it ends now, and if the file has ended."""
        started = perf_counter()
        room = memoryview(buffer.data)[: len(buffer) - PADDING]
        end, count = begin, 1
        while end < len(room) and count:
            count = stream.readinto(room[end:])  # type: ignore[attr-defined]
            if spool is not None:
                spool.write(room[end : end + count])
            end += count
        self.seconds += perf_counter() - started
        self.size += end - begin
        return end, not count

    def _buffer(self, size: int, carried: int) -> Bytes:
        if carried < size:
            return self._free.pop() if self._free else np.empty(size + PADDING, dtype=np.uint8)
        return np.empty(2 * carried + PADDING, dtype=np.uint8)

    def _grown(self, buffer: Bytes, end: int) -> Bytes:
        if 2 * len(buffer) > _MOST:
            message = "has a query of more than 2 GiB; is it text with line ends?"
            raise self._error(Fault(name_of(self._path), message=message))
        grown = np.empty(2 * (len(buffer) - PADDING) + PADDING, dtype=np.uint8)
        grown[:end] = buffer[:end]
        return grown
