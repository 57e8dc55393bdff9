"""The bytes of files, pipes and standard input, unpacked if they are gzip data; a look at the first uses none up.

A pipe gives its bytes once. One that was looked at stays open, with what was seen of it, until it is read.
"""

from __future__ import annotations

import gzip
import io
import stat
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from ragtrial.dataset.texts import decoded
from ragtrial.errors import Fault, InputError

Source = str | Path
"""A file, or ``-``: standard input."""

HEAD = 65_536
"""So many bytes are looked at."""

_GZIP = b"\x1f\x8b"
_Key = tuple[int, int]


class _NotGzipError(gzip.BadGzipFile):
    """The name says gzip; the first bytes do not."""


class PeekableStream(io.RawIOBase):
    """A stream of which the first bytes can be looked at before they are read.

    An end that was seen is final: of a terminal, or a pipe with a new writer, more could be read behind it. Closing
    it closes ``raw`` and then ``beneath``, the stream that ``raw`` reads from in turn, if there is one.
    """

    def __init__(self, raw: IO[bytes], *, closes: bool = True, beneath: PeekableStream | None = None) -> None:
        self.raw, self._closes, self._beneath = raw, closes, beneath
        self._seen, self._ended = b"", False

    def readable(self) -> bool:
        return True

    def look(self, size: int) -> bytes:
        """The first ``size`` bytes, or all if there are fewer; waits for them as reading does."""
        while len(self._seen) < size and not self._ended:
            piece = self.raw.read(size - len(self._seen))
            self._ended = not piece
            self._seen += piece
        return self._seen[:size]

    def readinto(self, room: Any) -> int:
        if not self._seen:
            count = 0 if self._ended else int(self.raw.readinto(room) or 0)  # type: ignore[attr-defined]
            self._ended = not count and len(room) > 0
            return count
        piece = self._seen[: len(room)]
        room[: len(piece)] = piece
        self._seen = self._seen[len(piece) :]
        return len(piece)

    def readall(self) -> bytes:
        seen, self._seen = self._seen, b""
        return seen if self._ended else seen + self.raw.read()

    def close(self) -> None:
        if self._closes and not self.closed:
            self.raw.close()
            if self._beneath:
                self._beneath.close()
        super().close()


_looked_at: dict[_Key, PeekableStream] = {}


def is_standard_input(source: Source) -> bool:
    return str(source) == "-"


def name_of(source: Source) -> str:
    """How messages call the source."""
    return "standard input" if is_standard_input(source) else str(source)


def stem_of(source: Source) -> str:
    """The name of a run that nobody named: that of its file, without folders and endings."""
    if is_standard_input(source):
        return "stdin"
    path = Path(source)
    return (path.with_suffix("") if path.suffix == ".gz" else path).stem


def is_read_once(source: Source) -> bool:
    """Whether the bytes are gone once they are read: of standard input, a pipe, a device."""
    return is_standard_input(source) or (Path(source).exists() and _key(source) is not None)


@contextmanager
def opened(source: Source, error: type[InputError]) -> Iterator[IO[bytes]]:
    """The bytes from the start, unpacked. Raises ``error`` if they cannot be opened or, in the block, be read.

    The file or the pipe is closed at the end, but never standard input.
    """
    with _readable(source, error):
        key = _key(source)
        if key is None:
            stream = _opened_file(Path(source))
        else:
            stream = cast("IO[bytes]", _looked_at.pop(key) if key in _looked_at else _opened_once(source))
        with stream:
            yield stream


def head_of(source: Source, error: type[InputError]) -> bytes:
    """The first bytes, unpacked, 64 KiB at most, which can be read again even of a pipe. Raises ``error``."""
    with _readable(source, error):
        key = _key(source)
        if key is None:
            with _opened_file(Path(source)) as file:
                return file.read(HEAD)
        try:
            if key not in _looked_at:
                _looked_at[key] = _opened_once(source)
            return _looked_at[key].look(HEAD)
        except BaseException:
            release(source)
            raise


def release(source: Source) -> None:
    """Closes what was looked at and will not be read."""
    try:
        key = _key(source)
    except OSError:
        return
    stream = _looked_at.pop(key, None) if key else None
    if stream:
        stream.close()


def content_of(source: Source, error: type[InputError]) -> bytes:
    """All bytes, unpacked. Raises ``error`` if they cannot be read, or there are none."""
    with opened(source, error) as stream:
        content = stream.read()
    if not content.strip(b" \t\r\n"):
        raise error(Fault(name_of(source), message="is empty."))
    return content


def text_of(source: Source, error: type[InputError]) -> str:
    """The text of a UTF-8 source. Raises ``error`` as ``content_of`` does, and with the line of the first bad byte."""
    return decoded(content_of(source, error), name_of(source), error)


@contextmanager
def _readable(source: Source, error: type[InputError]) -> Iterator[None]:
    try:
        yield
    except (OSError, EOFError, zlib.error) as failure:
        raise error(Fault(name_of(source), message=_reason_of(failure))) from failure


def _reason_of(failure: Exception) -> str:
    """Why something cannot be read, and what to do."""
    if isinstance(failure, FileNotFoundError):
        return "there is no such file."
    if isinstance(failure, IsADirectoryError):
        return "is a folder; a file is needed here."
    if isinstance(failure, _NotGzipError):
        begin = ascii(failure.args[0].decode("latin-1"))
        return f"is named .gz but is no gzip data: it begins {begin}; name it without .gz, or pack it."
    if isinstance(failure, EOFError):
        return "ends in the middle of its gzip data; it was cut off, fetch it again."
    if isinstance(failure, gzip.BadGzipFile | zlib.error):
        return f"has damaged gzip data ({failure}); fetch it again."
    return f"cannot be read: {getattr(failure, 'strerror', None) or failure}."


def _key(source: Source) -> _Key | None:
    """What tells apart the streams that are read once; None for a file, which can be read again."""
    if is_standard_input(source):
        return (-1, id(sys.stdin.buffer))
    found = Path(source).stat()
    if stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode):
        return None
    return (found.st_dev, found.st_ino)


def _opened_file(path: Path) -> IO[bytes]:
    file = path.open("rb", buffering=0)
    try:
        is_packed = _is_gzip(file.read(len(_GZIP)), path)
        file.seek(0)
    except BaseException:
        file.close()
        raise
    if not is_packed:
        return cast("IO[bytes]", file)
    file.close()
    return cast("IO[bytes]", gzip.open(path))


def _opened_once(source: Source) -> PeekableStream:
    is_standard = is_standard_input(source)
    raw = sys.stdin.buffer if is_standard else Path(source).open("rb", buffering=0)  # noqa: SIM115 - held open
    stream = PeekableStream(raw, closes=not is_standard)
    try:
        is_packed = _is_gzip(stream.look(len(_GZIP)), Path(source))
    except BaseException:
        stream.close()
        raise
    if not is_packed:
        return stream
    return PeekableStream(gzip.GzipFile(fileobj=stream, mode="rb"), beneath=stream)  # type: ignore[arg-type]


def _is_gzip(magic: bytes, path: Path) -> bool:
    if path.suffix == ".gz" and magic and magic != _GZIP:
        raise _NotGzipError(magic)
    return magic == _GZIP
