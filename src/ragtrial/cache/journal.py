"""Rows on disk in a file that only grows, each kept the moment it is appended."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ragtrial.errors import WorkspaceError


def read_rows(path: Path) -> Iterator[Any]:
    """The JSON values that were appended to ``path``, in their order; none without a file.

    A line whose checksum is wrong, as of a process that was killed, is passed over. Raises WorkspaceError.
    """
    try:
        lines = path.read_bytes().split(b"\n") if path.exists() else []
    except OSError as error:
        raise WorkspaceError(f"{path} cannot be read: {error.strerror}.") from error
    for line in lines:
        checksum, _, content = line.partition(b" ")
        if content and checksum == b"%08x" % zlib.crc32(content):
            yield json.loads(content)


def append_row(path: Path, row: Any) -> None:
    """Write ``row``, a JSON value, as one line: all of it is in the file when this returns.

    Several processes may append; one that is killed leaves at most a part of a line. Raises WorkspaceError.
    """
    content = json.dumps(row).encode()
    # A line break before it: what another one left half-written does not swallow it.
    line = b"\n%08x %s" % (zlib.crc32(content), content)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab", buffering=0) as file:
            written = file.write(line)
    except OSError as error:
        raise WorkspaceError(f"{path} cannot be written: {error.strerror}.") from error
    if written != len(line):
        raise WorkspaceError(f"{path} cannot be written: is the disk full?")
