"""The bytes of what is read: a file, a gzipped one, or standard input."""

from __future__ import annotations

import gzip
import sys
import zlib
from pathlib import Path

from ragtrial.dataset.texts import decoded, read_bytes
from ragtrial.errors import Fault, InputError

Source = str | Path

_HEAD = 65_536
_STANDARD_INPUT = "-"


def is_standard_input(source: Source) -> bool:
    return str(source) == _STANDARD_INPUT


def name_of(source: Source) -> str:
    """How messages call the source."""
    return "standard input" if is_standard_input(source) else str(source)


def stem_of(source: Source) -> str:
    """The name of a run that nobody named: that of its file, without folders and endings."""
    if is_standard_input(source):
        return "stdin"
    path = Path(source)
    return (path.with_suffix("") if path.suffix == ".gz" else path).stem


def content_of(source: Source, error: type[InputError]) -> bytes:
    """All bytes, unpacked if the name ends in ``.gz``. Raises ``error`` if they cannot be read, or there are none."""
    content = sys.stdin.buffer.read() if is_standard_input(source) else read_bytes(Path(source), error)
    if not content.strip(b" \t\r\n"):
        raise error(Fault(name_of(source), message="is empty."))
    return content


def text_of(source: Source, error: type[InputError]) -> str:
    """The text of a UTF-8 source. Raises ``error`` as ``content_of`` does, and with the line of the first bad byte."""
    return decoded(content_of(source, error), name_of(source), error)


def head_of(source: Source, error: type[InputError]) -> bytes:
    """The first bytes, unpacked, 64 KiB at most; of standard input those that are there, and they can be read again."""
    if is_standard_input(source):
        peek = getattr(sys.stdin.buffer, "peek", None)
        return peek(_HEAD)[:_HEAD] if peek else b""
    path = Path(source)
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            return file.read(_HEAD)
    except FileNotFoundError:
        raise error(Fault(str(path), message="there is no such file.")) from None
    except (OSError, EOFError, zlib.error) as failure:
        reason = getattr(failure, "strerror", None) or failure
        raise error(Fault(str(path), message=f"cannot be read: {reason}.")) from failure
