"""Rows on disk in a file that only grows, each kept the moment it is appended."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ragtrial.cache.atomic import write_bytes
from ragtrial.cache.fingerprints import text_key
from ragtrial.cache.seals import say_repaired
from ragtrial.cache.untrusted import load_json
from ragtrial.errors import WorkspaceError, counted


def read_rows(path: Path) -> Iterator[Any]:
    """The JSON values that were appended to ``path``, in their order; none without a file.

    A line whose checksum is wrong, as of a process that was killed, is passed over; so are lines of a file of another
    name, which are reported. Raises WorkspaceError.
    """
    foreign = 0
    for is_own, content in _contents(path):
        if is_own:
            yield load_json(content)
        foreign += not is_own
    if foreign:
        say_repaired(path, f"{counted(foreign, 'line')} of another file")


def drop_foreign_rows(path: Path) -> int:
    """Remove the lines of files of other names; returns their number. No other process may write to the file."""
    contents = list(_contents(path))
    foreign = sum(not is_own for is_own, _ in contents)
    if foreign:
        write_bytes(path, b"".join(_line(path, content) for is_own, content in contents if is_own))
    return foreign


def _contents(path: Path) -> Iterator[tuple[bool, bytes]]:
    """The content of each whole line, and whether it was written to a file of this name."""
    try:
        lines = path.read_bytes().split(b"\n") if path.exists() else []
    except OSError as error:
        raise WorkspaceError(f"{path} cannot be read: {error.strerror}.") from error
    for line in lines:
        checksum, _, named = line.partition(b" ")
        if named and checksum == b"%08x" % zlib.crc32(named):
            name, _, content = named.partition(b" ")
            yield name == _name(path), content


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
            written = file.write(line)
    except OSError as error:
        raise WorkspaceError(f"{path} cannot be written: {error.strerror}.") from error
    if written != len(line):
        raise WorkspaceError(f"{path} cannot be written: is the disk full?")
