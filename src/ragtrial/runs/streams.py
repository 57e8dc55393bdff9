"""The bytes of files, pipes and standard input, unpacked if they are gzip data; and the targets of tables and runs.

A pipe gives its bytes once. It is copied to a temporary file at the first look, and kept until it is read.
"""

from __future__ import annotations

import gzip
import io
import os
import shutil
import stat
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, cast

from ragtrial.cache.atomic import new_file
from ragtrial.cache.untrusted import for_terminal
from ragtrial.dataset.texts import as_utf8, decoded
from ragtrial.errors import Fault, InputError, RunError

Source = str | Path
"""A file, or ``-``: standard input."""

HEAD = 65_536
"""The number of bytes that a look at a source reads."""

_GZIP = b"\x1f\x8b"
_copies: dict[tuple[int, int], IO[bytes]] = {}


def is_standard_input(source: Source) -> bool:
    return str(source) == "-"


def name_of(source: Source) -> str:
    """The name of the source in messages."""
    return "standard input" if is_standard_input(source) else str(source)


def stem_of(source: Source) -> str:
    """The name of an unnamed run: the name of its file, without folders and endings."""
    if is_standard_input(source):
        return "stdin"
    path = Path(source)
    return (path.with_suffix("") if path.suffix == ".gz" else path).stem


def is_read_once(source: Source) -> bool:
    """True if the bytes can be read only once, as from standard input, a pipe or a device."""
    return is_standard_input(source) or (Path(source).exists() and _key(source) is not None)


@contextmanager
def open_source(source: Source, error: type[InputError], *, keeps: bool = False) -> Iterator[IO[bytes]]:
    """The bytes from the start, unpacked, as ``as_utf8`` gives them; they can be read again after ``seek(0)``.

    ``keeps`` says that a pipe will be opened again. Raises ``error`` if they cannot be opened or, in the block, be
    read.
    """
    try:
        with _raw(source, keeps=keeps) as raw:
            magic = raw.read(len(_GZIP))
            raw.seek(0)
            if magic == _GZIP or (magic and Path(source).suffix == ".gz"):
                with gzip.open(raw) as unpacked:
                    yield as_utf8(cast("IO[bytes]", unpacked), name_of(source), error)
            else:
                yield as_utf8(raw, name_of(source), error)
    except (OSError, EOFError, zlib.error) as failure:
        raise error(Fault(name_of(source), message=_reason_of(failure))) from failure


def head_of(source: Source, error: type[InputError]) -> bytes:
    """The first bytes, unpacked, 64 KiB at most, which can be read again even of a pipe. Raises ``error``."""
    with open_source(source, error, keeps=True) as stream:
        return stream.read(HEAD)


def release(source: Source) -> None:
    """Closes a source that was looked at and will not be read."""
    key = _key(source)
    if key in _copies:
        _copies.pop(key).close()


def content_of(source: Source, error: type[InputError]) -> bytes:
    """All bytes, unpacked. Raises ``error`` if they cannot be read, or there are none."""
    with open_source(source, error) as stream:
        content = stream.read()
    if not content.strip(b" \t\r\n"):
        raise error(Fault(name_of(source), message="is empty."))
    return content


def text_of(source: Source, error: type[InputError]) -> str:
    """The text of a UTF-8 source. Raises ``error`` as ``content_of`` does, and with the line of the first bad byte."""
    return decoded(content_of(source, error), name_of(source), error)


def _reason_of(failure: Exception) -> str:
    """The reason why something cannot be read, and the next step."""
    if isinstance(failure, FileNotFoundError):
        return "there is no such file."
    if isinstance(failure, IsADirectoryError):
        return "is a folder; a file is needed here."
    if isinstance(failure, EOFError):
        return "ends in the middle of its gzip data; it was cut off, fetch it again."
    if isinstance(failure, gzip.BadGzipFile | zlib.error):
        return f"has no sound gzip data ({failure}); fetch it again, or name it without .gz."
    return f"cannot be read: {getattr(failure, 'strerror', None) or failure}."


def _key(source: Source) -> tuple[int, int] | None:
    """Identifies a source that can be read only once; None for a file."""
    if is_standard_input(source):
        return (-1, id(sys.stdin.buffer))
    status = Path(source).stat()
    if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):
        return None
    return (status.st_dev, status.st_ino)


@contextmanager
def _raw(source: Source, *, keeps: bool) -> Iterator[IO[bytes]]:
    """A file as it is, or the copy of a pipe, which goes when the block ends unless it is kept."""
    key = _key(source)
    if key is None:
        with Path(source).open("rb") as file:
            yield file
        return
    copy = _copies.pop(key, None) or _copied(source)
    copy.seek(0)
    with ExitStack() as stack:
        stack.callback(copy.close)
        yield copy
        if keeps:
            stack.pop_all()
            _copies[key] = copy


def _copied(source: Source) -> IO[bytes]:
    copy = tempfile.TemporaryFile()  # noqa: SIM115 - open until it is read
    if is_standard_input(source):
        shutil.copyfileobj(sys.stdin.buffer, copy)
    else:
        with Path(source).open("rb", buffering=0) as pipe:
            shutil.copyfileobj(pipe, copy)
    return copy


# --- targets

Target = str | Path
_GZIP_LEVEL = 4  # the default, 9, takes three times as long for a twentieth of the size


def check_folder(target: Target) -> None:
    """Raises InputError if the folder that ``target`` shall be in is not there, or if ``target`` is a folder."""
    parent, message = Path(target).parent, ""
    if Path(target).is_dir():
        message = "is a folder; name the file to write."
    elif not parent.is_dir():
        message = f"cannot be written: there is no folder {parent}; make it, or name another place."
    if message and str(target) != "-":
        raise InputError(Fault(str(target), message=message))


@contextmanager
def written(target: Target) -> Iterator[IO[bytes]]:
    """``target``, open for writing bytes; ``-`` is standard output, names ending in ``.gz`` are compressed.

    A file is replaced if the block succeeds; a device or a pipe is written directly. A terminal shows all of it at the
    end, and is not steered by it. Raises InputError if its folder does not exist, RunError if it cannot be written.
    """
    path, is_output, output = Path(target), str(target) == "-", sys.stdout
    check_folder(target)
    try:
        if is_output and output.isatty():
            yield (content := io.BytesIO())
            output.write(for_terminal(content.getvalue().decode("utf-8", "backslashreplace")))
        elif is_output:
            output.flush()
            yield output.buffer
            output.flush()
        else:
            with new_file(path) as raw, ExitStack() as stack:
                is_packed = path.suffix == ".gz"
                packed = stack.enter_context(gzip.GzipFile("", "wb", _GZIP_LEVEL, raw, mtime=0)) if is_packed else raw
                yield cast("IO[bytes]", packed)
    except OSError as error:
        if is_output:  # discard what standard output did not take, so that it is not written again at exit
            with suppress(OSError, ValueError):  # it may not be a file
                os.dup2(os.open(os.devnull, os.O_WRONLY), output.fileno())
        if isinstance(error, BrokenPipeError):
            raise
        name = "standard output" if is_output else str(target)
        raise RunError(Fault(name, message=f"cannot be written: {error.strerror or error}.")) from error
