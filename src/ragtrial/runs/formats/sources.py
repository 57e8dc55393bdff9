"""The bytes of what is read: a file, a gzipped one, a pipe, or standard input."""

from __future__ import annotations

from pathlib import Path

from ragtrial.dataset.texts import decoded
from ragtrial.errors import Fault, InputError
from ragtrial.runs.trec import streams

Source = str | Path

HEAD = 65_536
"""So many bytes are looked at."""

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


def is_read_once(source: Source) -> bool:
    """Whether the bytes are gone once they are read: of standard input, a pipe, a device."""
    return is_standard_input(source) or (Path(source).exists() and streams.is_read_once(source))


def content_of(source: Source, error: type[InputError]) -> bytes:
    """All bytes, gzip data unpacked. Raises ``error`` if they cannot be read, or there are none."""
    try:
        with streams.opened(source) as stream:
            content = stream.read()
    except streams.UNREADABLE as failure:
        raise error(Fault(name_of(source), message=streams.reason_of(failure))) from failure
    if not content.strip(b" \t\r\n"):
        raise error(Fault(name_of(source), message="is empty."))
    return content


def text_of(source: Source, error: type[InputError]) -> str:
    """The text of a UTF-8 source. Raises ``error`` as ``content_of`` does, and with the line of the first bad byte."""
    return decoded(content_of(source, error), name_of(source), error)


def head_of(source: Source, error: type[InputError]) -> bytes:
    """The first bytes, unpacked, 64 KiB at most, which can be read again even of a pipe. Raises ``error``."""
    try:
        return streams.head(source, HEAD)
    except streams.UNREADABLE as failure:
        let_go(source)
        raise error(Fault(name_of(source), message=streams.reason_of(failure))) from failure


def let_go(source: Source) -> None:
    """What was looked at will not be read."""
    streams.let_go(source)
