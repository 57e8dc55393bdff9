"""A copy of an embedded Chroma to search in: opening the folder itself would change its files.

Chroma 1.5.9 writes to chroma.sqlite3 whenever a folder is opened, upgrades the tables of older versions, and writes the
graph of a collection anew at its first query while fewer than sync_threshold vectors were added. Two processes that
write to a folder damage it. So nothing but a copy is ever opened.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from ragtrial.errors import InputError, StoreError

DATABASE = "chroma.sqlite3"
_JOURNAL = f"{DATABASE}-journal"
_TRIES = 3
Stamp = tuple[tuple[str, int, int], ...]
"""Names, sizes and times of files: equal while nobody writes to them."""


def stamp_of(folder: Path) -> Stamp:
    """The stamp of a folder of Chroma's. Raises InputError if it is none."""
    if not (folder / DATABASE).is_file():
        raise InputError(_not_one(folder))
    files = [folder / DATABASE, *folder.glob("*/*.bin"), *folder.glob("*/*.pickle")]
    found = ((path, path.stat()) for path in sorted(files) if path.exists())
    return tuple((str(path.relative_to(folder)), stat.st_size, stat.st_mtime_ns) for path, stat in found)


def copied(folder: Path, name: str) -> Path:
    """A new folder with what Chroma needs of ``folder`` for the collection ``name``; its caller removes it.

    Nothing is written to ``folder``. Raises InputError if it is no folder of Chroma's or is being written to, and
    StoreError if it cannot be copied.
    """
    try:
        target = Path(tempfile.mkdtemp(prefix="ragtrial-chroma-"))
    except OSError as error:
        raise _not_copied(folder, error) from error
    try:
        for _ in range(_TRIES):
            before = stamp_of(folder)
            _copy(folder, target, name)
            if stamp_of(folder) == before:
                return target
        raise InputError(
            f"{folder} is being written to, so that no copy of it is sound. Stop the program that writes, or serve the "
            f"folder (`chroma run --path {folder}`) and give host in place of path."
        )
    except (OSError, sqlite3.OperationalError) as error:
        shutil.rmtree(target, ignore_errors=True)
        raise _not_copied(folder, error) from error
    except sqlite3.DatabaseError as error:
        shutil.rmtree(target, ignore_errors=True)
        raise InputError(f"{folder / DATABASE} cannot be read: {error}.") from error
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise


def _copy(folder: Path, target: Path, name: str) -> None:
    _copy_database(folder, target)
    with closing(sqlite3.connect(target / DATABASE)) as made:
        segments = _segments(made, name)
    for segment in folder.iterdir():
        if segment.is_dir() and (segments is None or segment.name in segments):
            shutil.copytree(segment, target / segment.name, dirs_exist_ok=True)


def _copy_database(folder: Path, target: Path) -> None:
    for name in (DATABASE, _JOURNAL):
        (target / name).unlink(missing_ok=True)
    database = f"{(folder / DATABASE).absolute().as_uri()}?mode=ro"
    try:
        with (
            closing(sqlite3.connect(database, uri=True, timeout=10)) as source,
            closing(sqlite3.connect(target / DATABASE)) as made,
        ):
            source.backup(made)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_READONLY_ROLLBACK:
            raise
        # Whoever wrote to it last was killed: what is half-done is taken back, in the copy.
        for name in (DATABASE, _JOURNAL):
            shutil.copyfile(folder / name, target / name)


def _segments(database: sqlite3.Connection, name: str) -> set[str] | None:
    """The folders of the collection's graph; None where the tables are of a version that has them otherwise."""
    sought = "SELECT s.id FROM segments s JOIN collections c ON s.collection = c.id WHERE c.name = ?"
    try:
        return {str(row[0]) for row in database.execute(sought, (name,))}
    except sqlite3.OperationalError:
        return None


def _not_one(folder: Path) -> str:
    if not folder.is_dir():
        return f"there is no folder {folder}. It is not made: path must name that of an existing Chroma."
    near = sorted(path.parent for path in folder.glob(f"*/{DATABASE}"))
    hint = f" There is one in {near[0]}." if near else ""
    return f"{folder} is no folder of Chroma's: there is no {DATABASE} in it.{hint}"


def _not_copied(folder: Path, error: Exception) -> StoreError:
    return StoreError(
        f"{folder} cannot be copied to {tempfile.gettempdir()}, where it is searched: {error}. Set TMPDIR to a place "
        f"with more room, or serve the folder (`chroma run --path {folder}`) and give host in place of path."
    )
