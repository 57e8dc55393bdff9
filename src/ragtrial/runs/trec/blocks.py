"""Files as blocks: whole lines, and all lines of a query in one block, whatever the file is.

A file is read in pieces of a few MiB into buffers that are used again, so memory stays flat. What cannot be read
twice (standard input, a pipe) is kept in a temporary file on the way.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import IO, NamedTuple, Self

import numpy as np

from ragtrial.errors import Fault, InputError
from ragtrial.runs.compiled.found import Bytes
from ragtrial.runs.trec.streams import UNREADABLE, is_read_once, opened, reason_of

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


def _cut_nothing(_buffer: Bytes, begin: int, _end: int) -> int:
    return begin


class Block(NamedTuple):
    """Bytes ``begin`` to ``end`` of ``buffer``, which has room for PADDING more."""

    buffer: Bytes
    begin: int
    end: int


class Source:
    """A file that can be read, and read again. ``-`` is standard input. Gzip data are unpacked.

    ``name`` is what messages call it, ``size`` the bytes read last, ``seconds`` what reading has taken so far.
    Whatever cannot be read raises ``error``.
    """

    def __init__(self, path: Path | str, error: type[InputError]) -> None:
        self._path, self._error = Path(path), error
        self.seconds = 0.0
        self.size = 0
        self.name = "standard input" if str(path) == "-" else str(path)
        self._spool: IO[bytes] | None = None
        self._stack = ExitStack()
        self._free: list[Bytes] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()

    def blocks(self, cut: Cut, size: int = BLOCK) -> Iterator[Block]:
        """The file from its start, each query's lines in one block as far as they stand together.

        Give a block's buffer back (``reuse``) when it is done with. Without any content there is no block.
        """
        self._free = [buffer for buffer in self._free if len(buffer) == size + PADDING]
        self.size = 0
        try:
            with self._opened() as stream:
                yield from self._cut_blocks(stream, cut, size)
        except UNREADABLE as failure:
            raise self._error(Fault(self.name, message=reason_of(failure))) from failure

    def reuse(self, block: Block) -> None:
        self._free.append(block.buffer)

    def whole(self) -> Block:
        """All of the file in one block."""
        return next(self.blocks(_cut_nothing), Block(np.zeros(PADDING, dtype=np.uint8), 0, 0))

    def _opened(self) -> _Stream:
        if self._spool is not None:
            self._spool.seek(0)
            return _Stream(self._spool, closes=False)
        once = is_read_once(self._path)
        reads = self._stack.enter_context(opened(self._path))
        if not once:
            return _Stream(reads)
        self._spool = self._stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - the stack closes it
        return _Stream(reads, self._spool)

    def _cut_blocks(self, stream: _Stream, cut: Cut, size: int) -> Iterator[Block]:
        carried, first = np.empty(0, dtype=np.uint8), True
        while True:
            buffer = self._buffer(size, len(carried))
            buffer[: len(carried)] = carried
            end, ended = self._fill(stream, buffer, len(carried))
            begin = 3 if first and buffer[:3].tobytes() == _BOM and end >= 3 else 0
            at = end if ended else cut(buffer, begin, end)
            while at == begin and not ended:  # one query fills the buffer: it needs a larger one
                buffer = self._grown(buffer, end)
                end, ended = self._fill(stream, buffer, end)
                at = end if ended else cut(buffer, begin, end)
            carried, first = buffer[at:end].copy(), False
            if at > begin:
                yield Block(buffer, begin, at)
            if ended:
                return

    def _fill(self, stream: _Stream, buffer: Bytes, begin: int) -> tuple[int, bool]:
        started = perf_counter()
        end, ended = stream.fill(buffer, begin)
        self.seconds += perf_counter() - started
        self.size += end - begin
        return end, ended

    def _buffer(self, size: int, carried: int) -> Bytes:
        if carried < size:
            return self._free.pop() if self._free else np.empty(size + PADDING, dtype=np.uint8)
        return np.empty(2 * carried + PADDING, dtype=np.uint8)

    def _grown(self, buffer: Bytes, end: int) -> Bytes:
        if 2 * len(buffer) > _MOST:
            raise self._error(Fault(self.name, message="has a query of more than 2 GiB; is it text with line ends?"))
        grown = np.empty(2 * (len(buffer) - PADDING) + PADDING, dtype=np.uint8)
        grown[:end] = buffer[:end]
        return grown


class _Stream:
    """What is read from, and the temporary file that keeps it."""

    def __init__(self, reads: IO[bytes], spool: IO[bytes] | None = None, *, closes: bool = True) -> None:
        self._reads, self._spool, self._closes = reads, spool, closes

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None) -> None:
        if self._closes:
            self._reads.close()

    def fill(self, buffer: Bytes, begin: int) -> tuple[int, bool]:
        """Reads into ``buffer`` from ``begin`` on: where it ends now, and whether the file has ended."""
        room = memoryview(buffer.data)[: len(buffer) - PADDING]
        at = begin
        while at < len(room):
            count = self._reads.readinto(room[at:])  # type: ignore[attr-defined]
            if not count:
                return at, True
            if self._spool is not None:
                self._spool.write(room[at : at + count])
            at += count
        return at, False
