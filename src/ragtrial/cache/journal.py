"""Rows on disk in a file that only grows, each kept the moment it is appended."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ragtrial.cache.atomic import write_bytes
from ragtrial.cache.fingerprints import text_key
from ragtrial.cache.seals import note_repair
from ragtrial.cache.untrusted import load_json
from ragtrial.errors import WorkspaceError, counted


def read_rows(path: Path) -> Iterator[Any]:
    """The JSON values that were appended to ``path``, in their order; none without a file.

    A line whose checksum is wrong, as of a process that was killed, is passed over; so are lines of a file of another
    name, which are reported. Raises WorkspaceError.
    """
    own, foreign = _contents(path)
    yield from map(load_json, own)
    if foreign:
        note_repair(path, f"{counted(foreign, 'line')} of another file")


def drop_foreign_rows(path: Path) -> int:
    """Remove the lines of files of other names; returns their number. No other process may write to the file."""
    own, foreign = _contents(path)
    if foreign:
        write_bytes(path, b"".join(_line(path, content) for content in own))
    return foreign


def _contents(path: Path) -> tuple[list[bytes], int]:
    """The content of each whole line that was written to a file of this name, and the number of the others."""
    try:
        lines = path.read_bytes().split(b"\n") if path.exists() else []
    except OSError as error:
        raise WorkspaceError(f"{path} cannot be read: {error.strerror}.") from error
    checked = (line.partition(b" ") for line in lines)
    named = [content for crc, _, content in checked if content and crc == b"%08x" % zlib.crc32(content)]
    begin = _name(path) + b" "
    own = [content.removeprefix(begin) for content in named if content.startswith(begin)]
    return own, len(named) - len(own)


def _line(path: Path, content: bytes) -> bytes:
    # A line break before it: what another process left half-written does not swallow it.
    named = _name(path) + b" " + content
    return b"\n%08x %s" % (zlib.crc32(named), named)


def _name(path: Path) -> bytes:
    return text_key(path.stem).hex()[:8].encode()


def append_row(path: Path, row: Any) -> None:
    """Append ``row``, a JSON value, as one line; the line is in the file when this returns.

    Several processes may append; a killed process leaves at most part of a line. Raises WorkspaceError.
    """
    line = _line(path, json.dumps(row).encode())
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab", buffering=0) as file:
            if file.write(line) != len(line):
                raise WorkspaceError(f"{path} cannot be written: is the disk full?")
    except OSError as error:
        raise WorkspaceError(f"{path} cannot be written: {error.strerror}.") from error
