"""The .jsonl.gz files of a report: one JSON object per line, which can be read without the other lines.

A file is a series of gzip members (RFC 1952) of ``ROWS_IN_MEMBER`` rows each, so any gzip reader reads it as one. The
header of a member has the member's length in an extra field, which lets a reader skip it.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from pathlib import Path
from typing import Any, BinaryIO

from pydantic_core import from_json, to_json

from ragtrial.cache.untrusted import inflated, lines_of, load_json, usual_bytes
from ragtrial.errors import Fault, ReportError

Row = dict[str, Any]

ROWS_IN_MEMBER = 100
_LEVEL = 2  # level 4 takes half as long again for a tenth of the size, the default, 9, five times as long
_HEADER = struct.Struct("<4sIHH2sHI")
"""Magic number, method and flags; time; extra flags and system; then the extra field: its length and one subfield."""

_MAGIC = b"\x1f\x8b\x08\x04"  # deflate, with an extra field
_NO_SYSTEM = 0xFF00
_SUBFIELD = b"RT"


def write_rows(path: Path, rows: Iterable[Row]) -> int:
    """Write ``rows`` as a new file; how many bytes they are before they are packed. Raises OSError."""
    size = 0
    lines = (to_json(row, inf_nan_mode="null") + b"\n" for row in rows)
    with path.open("wb") as file:
        while text := b"".join(islice(lines, ROWS_IN_MEMBER)):
            file.write(_member(text))
            size += len(text)
    return size


def read_rows(path: Path, size: int | None = None) -> Iterator[Row]:
    """All rows, in order. ``size`` is their number of bytes before packing, None if unknown.

    Raises ReportError if the file cannot be read, is damaged, or holds more.
    """
    try:
        with path.open("rb") as file:
            yield from map(_row, lines_of(inflated(file, _most(path, size))))
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise _unreadable(path, error) from error


def read_numbered(path: Path, numbers: Sequence[int], size: int | None = None) -> Iterator[Row]:
    """The rows with these ``numbers``, counted from 0, in ascending order; only their members are read.

    ``size`` as in ``read_rows``. Raises ReportError if the file cannot be read, is damaged, holds more, or has no such
    row.
    """
    try:
        with path.open("rb") as file:
            start = member = 0
            for wanted, group in groupby(numbers, key=lambda number: number // ROWS_IN_MEMBER):
                while member < wanted:
                    start, member = start + _length(file, start), member + 1
                length = _length(file, start)
                file.seek(start)
                places = [number % ROWS_IN_MEMBER for number in group]
                lines = lines_of(inflated(io.BytesIO(file.read(length)), _most(path, size)))
                asked = {index: line for index, line in enumerate(lines) if index in places}
                yield from (_row(asked[index]) for index in places)
    except (OSError, EOFError, ValueError, LookupError, struct.error, zlib.error) as error:
        raise _unreadable(path, error) from error


def _member(text: bytes) -> bytes:
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = packer.compress(text) + packer.flush() + struct.pack("<II", zlib.crc32(text), len(text) & 0xFFFFFFFF)
    length = _HEADER.size + len(body)
    return _HEADER.pack(_MAGIC, 0, _NO_SYSTEM, 8, _SUBFIELD, 4, length) + body


def _length(file: BinaryIO, start: int) -> int:
    """The number of bytes of the member at ``start``."""
    file.seek(start)
    magic, *_, name, _, length = _HEADER.unpack(file.read(_HEADER.size))
    if (magic, name) != (_MAGIC, _SUBFIELD) or length <= _HEADER.size:
        raise ValueError("it was not written by ragtrial")
    return int(length)


def _most(path: Path, size: int | None) -> int:
    """The most bytes that a file may have after unpacking."""
    return usual_bytes(path.stat().st_size) if size is None else size


def _row(line: bytes) -> Row:
    row = from_json(line, allow_inf_nan=False)  # in a third of the time that json takes, and as deep as we allow
    if b"Infinity" in to_json(row, inf_nan_mode="constants"):
        row = load_json(line)  # says which number it is; a text may have that word
    if not isinstance(row, dict):
        raise ValueError("a row is not an object")  # noqa: TRY004 - damage, not a caller's mistake
    return row


def _unreadable(path: Path, error: Exception) -> ReportError:
    return ReportError(Fault(str(path), message=f"cannot be read: {getattr(error, 'strerror', None) or error}."))
