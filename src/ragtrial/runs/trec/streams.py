"""The bytes of files, pipes and standard input, unpacked if they are gzip data; a look at the first uses none up.

A pipe gives its bytes once. One that was looked at stays open, with what was seen of it, until it is read.
"""

from __future__ import annotations

import gzip
import io
import stat
import sys
import zlib
from pathlib import Path
from typing import IO, Any, cast

UNREADABLE = (OSError, EOFError, zlib.error)
"""What opening and reading raise; ``reason_of`` says it in words."""

_MAGIC = b"\x1f\x8b"
_Key = tuple[int, int]


class _NotPackedError(gzip.BadGzipFile):
    """The name says gzip; the first bytes do not."""


class Ahead(io.RawIOBase):
    """A stream of which the first bytes can be looked at before they are read.

    An end that was seen is one: of a terminal, or a pipe with a new writer, more could be read behind it. Closing it
    closes ``reads`` and then ``beneath``, what that reads from in turn, if there is such.
    """

    def __init__(self, reads: IO[bytes], *, closes: bool = True, beneath: Ahead | None = None) -> None:
        self.reads, self._closes, self._beneath = reads, closes, beneath
        self._seen, self._ended = b"", False

    def readable(self) -> bool:
        return True

    def look(self, size: int) -> bytes:
        """The first ``size`` bytes, or all if there are fewer; waits for them as reading does."""
        pieces = [self._seen]
        missing = size - len(self._seen)
        while missing > 0 and not self._ended:
            piece = self.reads.read(missing)
            self._ended = not piece
            pieces.append(piece)
            missing -= len(piece)
        self._seen = b"".join(pieces)
        return self._seen[:size]

    def readinto(self, room: Any) -> int:
        if not self._seen:
            count = 0 if self._ended else int(self.reads.readinto(room) or 0)  # type: ignore[attr-defined]
            self._ended = not count and len(room) > 0
            return count
        piece = self._seen[: len(room)]
        room[: len(piece)] = piece
        self._seen = self._seen[len(piece) :]
        return len(piece)

    def readall(self) -> bytes:
        seen, self._seen = self._seen, b""
        return seen if self._ended else seen + self.reads.read()

    def close(self) -> None:
        if self._closes and not self.closed:
            self.reads.close()
            if self._beneath:
                self._beneath.close()
        super().close()


_held: dict[_Key, Ahead] = {}


def is_read_once(path: Path | str) -> bool:
    """Whether the bytes are gone once they are read: of standard input (``-``), a pipe, a device."""
    return _key(path) is not None


def opened(path: Path | str) -> IO[bytes]:
    """The bytes from the start, unpacked. Raises UNREADABLE, as reading does.

    Closing closes the file or the pipe, but never standard input.
    """
    key = _key(path)
    if key is None:
        return _opened_file(Path(path))
    return cast("IO[bytes]", _held.pop(key) if key in _held else _opened_once(path))


def head(path: Path | str, size: int) -> bytes:
    """The first ``size`` bytes of what ``opened`` gives; it gives them still. Raises UNREADABLE."""
    key = _key(path)
    if key is None:
        with _opened_file(Path(path)) as file:
            return file.read(size)
    if key not in _held:
        _held[key] = _opened_once(path)
    return _held[key].look(size)


def let_go(path: Path | str) -> None:
    """Closes what was looked at and will not be read."""
    try:
        key = _key(path)
    except OSError:
        return
    held = _held.pop(key, None) if key else None
    if held:
        held.close()


def reason_of(failure: Exception) -> str:
    """Why something of UNREADABLE was raised, and what to do."""
    if isinstance(failure, FileNotFoundError):
        return "there is no such file."
    if isinstance(failure, IsADirectoryError):
        return "is a folder; a file is needed here."
    if isinstance(failure, _NotPackedError):
        begin = ascii(failure.args[0].decode("latin-1"))
        return f"is named .gz but is no gzip data: it begins {begin}; name it without .gz, or pack it."
    if isinstance(failure, EOFError):
        return "ends in the middle of its gzip data; it was cut off, fetch it again."
    if isinstance(failure, gzip.BadGzipFile | zlib.error):
        return f"has damaged gzip data ({failure}); fetch it again."
    return f"cannot be read: {getattr(failure, 'strerror', None) or failure}."


def _key(path: Path | str) -> _Key | None:
    """What tells apart the streams that are read once; None for a file, which can be read again."""
    if str(path) == "-":
        return (-1, id(sys.stdin.buffer))
    found = Path(path).stat()
    if stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode):
        return None
    return (found.st_dev, found.st_ino)


def _opened_file(path: Path) -> IO[bytes]:
    file = path.open("rb", buffering=0)
    try:
        packed = _is_packed(file.read(len(_MAGIC)), path)
        file.seek(0)
    except BaseException:
        file.close()
        raise
    if not packed:
        return cast("IO[bytes]", file)
    file.close()
    return cast("IO[bytes]", gzip.open(path))


def _opened_once(path: Path | str) -> Ahead:
    standard = str(path) == "-"
    reads = sys.stdin.buffer if standard else Path(path).open("rb", buffering=0)  # noqa: SIM115 - held open
    raw = Ahead(reads, closes=not standard)
    try:
        packed = _is_packed(raw.look(len(_MAGIC)), Path(path))
    except BaseException:
        raw.close()
        raise
    return Ahead(gzip.GzipFile(fileobj=raw, mode="rb"), beneath=raw) if packed else raw  # type: ignore[arg-type]


def _is_packed(magic: bytes, path: Path) -> bool:
    if path.suffix == ".gz" and magic and magic != _MAGIC:
        raise _NotPackedError(magic)
    return magic == _MAGIC
