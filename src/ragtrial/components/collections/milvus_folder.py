"""Folders of Milvus Lite, of which only copies are opened."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from ragtrial.errors import InputError, StoreError

Stamp = Sequence[tuple[str, int, int]]


def stamp_of(folder: Path) -> Stamp:
    """Names, sizes and times of the files in ``folder``. Raises InputError if it is no folder of Milvus Lite."""
    if folder.is_file():
        raise InputError(
            f"{folder} is a file, the format of Milvus Lite before version 3; export it with that version "
            "(milvus-lite dump), and insert it into a folder or a server."
        )
    if not (folder / "collections").is_dir():
        raise InputError(f"{folder} is not a folder of Milvus Lite: it has no folder named collections.")
    stats = ((path, path.stat()) for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "LOCK")
    return [(str(path.relative_to(folder)), stat.st_size, stat.st_mtime_ns) for path, stat in stats]


def copied(folder: Path, stack: ExitStack) -> Path:
    """A copy of ``folder``, which ``stack`` removes. Raises InputError if the folder changes meanwhile."""
    before = stamp_of(folder)
    made = tempfile.TemporaryDirectory(prefix="ragtrial-milvus-", ignore_cleanup_errors=True)
    target = Path(stack.enter_context(made)) / "copy.db"
    try:
        shutil.copytree(folder, target, ignore=shutil.ignore_patterns("LOCK"))
    except (OSError, shutil.Error) as error:
        raise StoreError(f"{folder} cannot be copied to {target.parent}, where it is searched: {error}.") from error
    if stamp_of(folder) != before:
        raise InputError(f"{folder} is being written to, so it cannot be copied; stop the program that writes.")
    return target
