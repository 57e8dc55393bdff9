"""The seal of a finished folder: size and hash of each file, so that damage is noticed; and reports of repairs."""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from ragtrial.cache.fingerprints import file_checksum, fingerprint
from ragtrial.cache.untrusted import load_json

SEAL = "stage.json"
_DATABASE = ".sqlite3"
"""The end of the names of databases, whose bytes change when they are opened; their rows are hashed instead."""

_CHANGED_BY_OPENING = "acquire_write"
"""The table in which Chroma writes that it has opened a database."""

_OF_ENGINES = ("-wal", "-shm", "-journal", ".lock", "LOCK")
"""The ends of the names of files that engines create while they are open."""

SMALL = 100_000
"""Bytes of a file that may be read unasked."""


MadeOf = Mapping[str, Any]
"""The inputs of a stage: JSON values by the dotted name of an option, hashes by a description of the content."""


class DamagedError(Exception):
    """A finished folder has changed; the message names the change."""


@dataclass(frozen=True)
class Seal:
    """The seal of a finished folder.

    ``kind`` and ``key`` name the stage: the folder's parent and the folder itself, wherever a copy of it is. ``id`` is
    unique: two builds of one stage have different ids. ``what`` describes the stage. ``files`` has the size in bytes
    and the checksum of each file by its path below the folder. ``seconds`` is the time of the build; ``made_of`` its
    inputs.
    """

    kind: str
    key: str
    what: str
    files: dict[str, tuple[int, str]]
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    made: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    seconds: float | None = None
    made_of: MadeOf = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(size for size, _ in self.files.values())


def seal(
    folder: Path, what: str, seconds: float | None = None, made_of: MadeOf | None = None, *, stands: Path | None = None
) -> None:
    """Write the seal of ``folder``, which is then finished; ``stands`` is the path under which it will be found."""
    stands = stands or folder
    files = {path.relative_to(folder).as_posix(): (path.stat().st_size, _hashed(path)) for path in _files(folder)}
    written = vars(Seal(stands.parent.name, stands.name, what, files, seconds=seconds, made_of=dict(made_of or {})))
    (folder / SEAL).write_text(json.dumps({**written, "checksum": fingerprint(written)}), encoding="utf-8")


def read_seal(folder: Path, stands: Path | None = None) -> Seal:
    """The seal of ``folder``, read again only if its file was touched.

    Raises DamagedError, also if it is the seal of a stage other than ``stands``, by default ``folder``.
    """
    path, stage = folder / SEAL, stands or folder
    try:
        now = path.stat()
        sealed = _seal_in(path, now.st_ino, now.st_mtime_ns, now.st_ctime_ns, now.st_size)
    except FileNotFoundError:
        raise DamagedError(f"{SEAL} is missing") from None
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise DamagedError(f"{SEAL} cannot be read: {error}") from error
    if (sealed.kind, sealed.key) != (stage.parent.name, stage.name):
        raise DamagedError(f"it is another stage: {sealed.kind} {sealed.key}")
    return sealed


@lru_cache(maxsize=1000)
def _seal_in(path: Path, *_stat: int) -> Seal:
    content = load_json(path.read_bytes())
    if content.pop("checksum") != fingerprint(content):
        raise ValueError("it has other bytes than it had")
    texts = {name: str(content[name]) for name in ("kind", "key", "what", "id", "made")}
    datetime.fromisoformat(texts["made"])
    files = {str(name): (int(size), str(digest)) for name, (size, digest) in content["files"].items()}
    seconds = content["seconds"]
    return Seal(**texts, files=files, seconds=seconds and float(seconds), made_of=dict(content["made_of"]))


def check_sizes(folder: Path, stands: Path | None = None) -> Seal:
    """The seal of ``folder``, whose files are all there and as long as they were. Raises DamagedError. Quick."""
    sealed = read_seal(folder, stands)
    for name, (size, _) in sealed.files.items():
        try:
            now = os.stat(os.path.join(folder, name)).st_size  # noqa: PTH116, PTH118 - asked so often that paths cost
        except OSError:
            raise DamagedError(f"{name} is missing") from None
        if now < size or (now != size and not name.endswith(_DATABASE)):
            raise DamagedError(f"{name} has {now:,} bytes and had {size:,}")
    return sealed


def check_bytes(folder: Path, largest: int | None = None, *, stands: Path | None = None) -> Seal:
    """The seal of ``folder``, whose bytes are unchanged and which has no other files. Raises DamagedError.

    Reads all files, or files up to ``largest`` bytes.
    """
    sealed = check_sizes(folder, stands)
    for name in (path.relative_to(folder).as_posix() for path in _files(folder)):
        if name not in sealed.files and name != SEAL and not name.endswith(_OF_ENGINES):
            raise DamagedError(f"{name} does not belong to it")
    for name, (size, digest) in sealed.files.items():
        if largest is None or size <= largest:
            if name.endswith(_DATABASE):
                check_database(folder / name)
            if _hashed(folder / name) != digest:
                raise DamagedError(f"{name} has other bytes than it had")
    return sealed


def _hashed(path: Path) -> str:
    return _rows_checksum(path) if path.name.endswith(_DATABASE) else file_checksum(path)


def _rows_checksum(path: Path) -> str:
    """The checksum of all rows of a database, except the table that changes when it is opened."""
    import xxhash

    hashed = xxhash.xxh3_128()
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            database.text_factory = bytes
            tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
            for table in (name.decode() for (name,) in tables):
                if table != _CHANGED_BY_OPENING:
                    hashed.update(table.encode())
                    for row in database.execute(f'SELECT * FROM "{table}"'):  # noqa: S608 - the database's own name
                        hashed.update(repr(row).encode())
    except sqlite3.Error as error:
        raise DamagedError(f"{path.name}: {error}") from error
    return str(hashed.hexdigest())


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


def check_database(path: Path, *, quick: bool = False) -> None:
    """Raise DamagedError if SQLite finds its file damaged; a ``quick`` check does not compare indexes with rows."""
    # For writing, if that may be: a process that was killed in a transaction leaves a journal to be rolled back.
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)) as database:
            (said,) = database.execute(f"PRAGMA {'quick' if quick else 'integrity'}_check(1)").fetchone()
    except sqlite3.Error as error:
        raise DamagedError(f"{path.name}: {error}") from error
    if said != "ok":
        raise DamagedError(f"{path.name}: {said}")


logger = logging.getLogger(__name__)


REPAIRS: list[tuple[Path, str]] = []
"""The paths that this process found damaged, each with a sentence."""


def note_repair(path: Path, why: str) -> None:
    """Report that ``path`` is damaged, and is built again."""
    message = f"{path} is damaged ({why}); it is made again."
    logger.warning(message)
    REPAIRS.append((path, message))
