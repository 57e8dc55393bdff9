"""The targets of tables and runs: a file that appears whole, gzipped by its name, or standard output."""

from __future__ import annotations

import codecs
import gzip
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TextIO, cast

from ragtrial.cache.atomic import new_file
from ragtrial.cache.untrusted import for_terminal
from ragtrial.errors import Fault, InputError, RunError

Target = str | Path


_GZIP_LEVEL = 4  # the default, 9, takes three times as long for a twentieth of the size


def check_folder(target: Target) -> None:
    """Raises InputError if the folder that ``target`` shall be in is not there, or if ``target`` is a folder."""
    parent = Path(target).parent
    if str(target) != "-" and Path(target).is_dir():
        raise InputError(Fault(str(target), message="is a folder; name the file to write."))
    if str(target) != "-" and not parent.is_dir():
        message = f"cannot be written: there is no folder {parent}; make it, or name another place."
        raise InputError(Fault(str(target), message=message))


@contextmanager
def opened(target: Target) -> Iterator[IO[bytes]]:
    """``target``, open for writing bytes; ``-`` is standard output, names ending in ``.gz`` are compressed.

    A file is replaced if the block succeeds; a device or a pipe is written directly. Raises InputError if its folder
    does not exist, RunError if it cannot be written.
    """
    path = Path(target)
    check_folder(target)
    try:
        if str(target) == "-":
            sys.stdout.flush()
            yield cast("IO[bytes]", _Shown(sys.stdout)) if sys.stdout.isatty() else sys.stdout.buffer
            sys.stdout.flush()
        else:
            with new_file(path) as raw:
                if path.suffix == ".gz":
                    with gzip.GzipFile("", "wb", _GZIP_LEVEL, raw, mtime=0) as packed:
                        yield cast("IO[bytes]", packed)
                else:
                    yield raw
    except BrokenPipeError:
        _let_go(target)
        raise
    except OSError as error:
        _let_go(target)
        name = "standard output" if str(target) == "-" else str(target)
        raise RunError(Fault(name, message=f"cannot be written: {error.strerror or error}.")) from error


class _Shown(io.RawIOBase):
    """A terminal to write bytes to: it shows them, and they do not steer it."""

    def __init__(self, terminal: TextIO) -> None:
        self._terminal = terminal
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")

    def writable(self) -> bool:
        return True

    def write(self, content: Any, /) -> int:
        self._terminal.write(for_terminal(self._decoder.decode(bytes(content))))
        return len(content)


def _let_go(target: Target) -> None:
    """Discard the output that standard output did not take, so that it is not written again at exit."""
    if str(target) == "-":
        with suppress(OSError, ValueError):  # it may not be a file
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
