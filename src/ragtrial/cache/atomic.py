"""Files and folders that appear whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import IO

TEMPORARY_PREFIX = ".partial-"
_NAMED = 40
"""Characters of a file's name that its temporary file keeps: the whole name may be as long as a name can be."""

_LEFT_AFTER = 3600.0
"""Seconds after which a temporary file is no longer being written."""

MayGo = Callable[[Path], bool]
"""Asked before a folder is removed: False keeps it, unfinished, as it names what could not be removed elsewhere."""

_UMASK = os.umask(0o022)
os.umask(_UMASK)  # it cannot be read otherwise; here, no other thread makes files


def _always(_folder: Path) -> bool:
    return True


@contextmanager
def new_folder(target: Path, may_go: MayGo = _always) -> Iterator[Path]:
    """A temporary folder next to ``target``. It is renamed to ``target`` if the block succeeds, and removed if not.

    Raises FileExistsError if ``target`` exists when the block ends.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f"{TEMPORARY_PREFIX}{target.name}-", dir=target.parent))
    try:
        yield temporary
        for path in temporary.rglob("*"):
            if path.is_file():
                _sync(path)
        temporary.chmod(0o777 & ~_UMASK)
        if target.exists():
            raise FileExistsError(f"{target} is already there")
        temporary.rename(target)
        _sync(target.parent)
    except BaseException:
        if may_go(temporary):
            shutil.rmtree(temporary, ignore_errors=True)
        raise


def remove_folder(path: Path, may_go: MayGo = _always) -> None:
    """Remove a folder after moving it out of the way in one step, so that a half-removed folder is never taken for a
    whole one.

    If ``may_go`` refuses, since a server cannot be asked, the folder stays as an unfinished one. Raises
    FileNotFoundError if it does not exist, OSError if it cannot be removed.
    """
    gone = Path(tempfile.mkdtemp(prefix=f"{TEMPORARY_PREFIX}{path.name}-", dir=path.parent))
    is_free = True
    try:
        path.rename(gone / path.name)
        is_free = may_go(gone)
    finally:
        if is_free:
            shutil.rmtree(gone)


def remove_partial(folder: Path, name: str = "", may_go: MayGo = _always) -> None:
    """Remove unfinished files and folders in ``folder``; with ``name`` only those meant to become ``name``.

    No process may be writing there.
    """
    begin = f"{TEMPORARY_PREFIX}{name}-" if name else TEMPORARY_PREFIX
    for path in folder.glob(f"{escape(begin)}*"):
        if path.is_dir():
            if may_go(path):
                shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(OSError):
                path.unlink()


@contextmanager
def new_file(path: Path) -> Iterator[IO[bytes]]:
    """A temporary file, open for writing, that replaces ``path`` if the block succeeds, and is removed if not.

    A reader of ``path`` sees the old bytes or the new bytes, never a part. Permissions stay. A device is written
    directly. Temporary files of killed processes are removed after an hour.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        with path.open("wb") as device:
            yield device
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    prefix = f"{TEMPORARY_PREFIX}{path.name[:_NAMED]}-"
    for left in path.parent.glob(f"{escape(prefix)}*"):
        with suppress(OSError):  # it may have just been finished
            if time.time() - left.stat().st_mtime > _LEFT_AFTER:
                left.unlink()
    handle, temporary = tempfile.mkstemp(prefix=prefix, dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(path.stat().st_mode & 0o777 if path.is_file() else 0o666 & ~_UMASK)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    _sync(path.parent)


def write_bytes(path: Path, content: bytes) -> None:
    """Replace ``path`` by ``content``, as ``new_file`` does."""
    with new_file(path) as file:
        file.write(content)


def write_text(path: Path, content: str) -> None:
    """Replace ``path`` by ``content`` in UTF-8, as ``write_bytes`` does."""
    write_bytes(path, content.encode("utf-8"))


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
