"""Vectors under the hash of the text they represent: one SQLite file, safe for several processes at once.

SQLite gives each batch of vectors an atomic, durable commit, so a kill loses no vector that was embedded before it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from threading import RLock
from typing import Any, Self
from zlib import crc32

import numpy as np
import numpy.typing as npt

from ragtrial.cache.fingerprints import DIGEST_BYTES, text_key
from ragtrial.cache.seals import DamagedError, check_database, note_repair
from ragtrial.errors import WorkspaceError, counted
from ragtrial.rankings import Floats

Keys = npt.NDArray[np.uint8]
"""Hashes of texts, shape (texts, 16)."""

Costs = npt.NDArray[np.float64]
"""The cost of each text: seconds, and billed tokens, shape (texts, 2); NaN if unknown."""

_checked: set[tuple[Path, int]] = set()
"""Files whose structure was checked in this process, with their inodes."""

_TABLES = (
    "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB NOT NULL, crc INTEGER NOT NULL, "
    "cost BLOB NOT NULL DEFAULT x'')",
    "CREATE TABLE IF NOT EXISTS probes (text BLOB NOT NULL, vector BLOB NOT NULL, crc INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS model (name TEXT NOT NULL, what TEXT NOT NULL)",
)
"""The tables of a file: rows, the probe that identifies the model, its fingerprint and its description."""

MOUNTS = Path("/proc/self/mounts")
"""The list of mounted file systems, in the form of fstab(5)."""

_NETWORK = ("nfs", "cifs", "smb", "9p", "afs", "ceph", "lustre", "gpfs", "beegfs", "glusterfs", "fuse.")
"""The first letters of the names of network file systems."""

_KEYS_PER_READ = 500  # below SQLite's default limit of 999 variables in old builds
_LOG_PAGES = 4_096  # 64 MB: pages of the index, which most batches change, are written less often
_CACHE_PAGES = 2_048  # 32 MB, taken as they are needed: with 128 MB, 1.5 million keys are written no faster
_VECTOR_BYTES = np.dtype(np.float32).itemsize


_SAME_MODEL = 0.01
"""The largest distance (1 - cosine) of two vectors of one text: hosted models vary in the fourth digit."""


def are_of_one_model(one: Floats, other: Floats) -> bool:
    """True if two vectors of one text can be from the same model."""
    lengths = float(np.linalg.norm(one)) * float(np.linalg.norm(other))
    return one.shape == other.shape and (lengths == 0 or 1 - float(one @ other) / lengths <= _SAME_MODEL)


def text_keys(texts: Iterable[str]) -> Keys:
    """The key of every text, shape (texts, 16)."""
    return keys_in(b"".join(map(text_key, texts)))


def keys_in(content: bytes) -> Keys:
    """The keys in ``content``, one after another."""
    return np.frombuffer(content, dtype=np.uint8).reshape(-1, DIGEST_BYTES)


class VectorCache:
    """float32 vectors of one dimension by 16-byte key. Close it, or use it as a context manager. Safe for threads.

    ``description`` is of the model, whose fingerprint is the name of the file; both are written when the file is
    created. A file that is not a whole database, or has the vectors of another model, is created again, unless
    ``as_it_is``.
    """

    def __init__(self, path: Path, description: str = "", *, as_it_is: bool = False) -> None:
        from filelock import FileLock

        self.path = path
        self._lock = RLock()  # a connection has one transaction for all threads
        with self._errors():
            path.parent.mkdir(parents=True, exist_ok=True)
            if not as_it_is:
                with FileLock(f"{path}.lock"):
                    _remove_if_damaged(path)
            if _is_in_wal_mode(path):  # only a file that was made to its end, and is on no network file system
                self._open(description)
            else:
                with FileLock(f"{path}.lock"):  # the change to WAL fails at once if another process makes it, too
                    self.path.touch()  # with the user's umask, which SQLite heeds only in part
                    self._open(description, is_new=True)

    def _open(self, description: str, *, is_new: bool = False) -> None:
        self._connection = sqlite3.connect(self.path, timeout=60, isolation_level=None, check_same_thread=False)
        try:
            if is_new:
                self._connection.execute("PRAGMA page_size = 16384")  # of 384 floats a third of the default's space
                journal = "DELETE" if is_on_network(self.path) else "WAL"  # WAL needs memory that processes share
                self._connection.execute(f"PRAGMA journal_mode = {journal}")
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._connection.execute(f"PRAGMA cache_size = {_CACHE_PAGES}")
            self._connection.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")
            for table in _TABLES:
                self._connection.execute(table)
            if is_new:
                statement = "INSERT INTO model SELECT ?, '' WHERE NOT EXISTS (SELECT 1 FROM model)"
                self._connection.execute(statement, (self.path.stem,))
            self.describe(description)
        except BaseException:
            self._connection.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    @property
    def description(self) -> str:
        """The description of the model."""
        with self._errors():
            row = self._connection.execute("SELECT CAST(what AS BLOB) FROM model LIMIT 1").fetchone()
        return row[0].decode(errors="replace") if row else ""

    def probe(self) -> tuple[str, Floats] | None:
        """The text and vector, float32 (dimension,), that identify the model."""
        with self._errors():
            rows = self._connection.execute("SELECT text, vector, crc FROM probes").fetchall()
        sound = ((text, vector) for text, vector, crc in rows if self._crc(text, vector) == crc)
        return next(((text.decode(), np.frombuffer(vector, dtype=np.float32)) for text, vector in sound), None)

    def keep_probe(self, text: str, vector: Floats) -> None:
        """Keep ``text`` and its vector as the probe, unless there is one."""
        with self._lock:
            if self.probe() is None:
                row = text.encode(), vector.tobytes()
                self._change("INSERT INTO probes VALUES (?, ?, ?)", [(*row, self._crc(*row))])

    def __len__(self) -> int:
        with self._errors():
            (count,) = self._connection.execute("SELECT count(*) FROM vectors").fetchone()
        return int(count)

    def dimension(self) -> int | None:
        """The dimension of the vectors, None while there are none."""
        with self._errors():
            row = self._connection.execute("SELECT length(vector) FROM vectors LIMIT 1").fetchone()
        return int(row[0]) // _VECTOR_BYTES if row else None

    def keys(self) -> Keys:
        """The keys of all vectors, in no order."""
        with self._errors():
            return keys_in(b"".join(key for (key,) in self._connection.execute("SELECT key FROM vectors")))

    def describe(self, description: str) -> None:
        """Describe the model, unless the file has a description."""
        if description and not self.description:
            self._change("UPDATE model SET what = ?", [(description,)])

    def missing(self, keys: Keys, *, unchecked: bool = False) -> npt.NDArray[np.bool_]:
        """True for each key without a vector, shape (keys,); damaged vectors are removed unless ``unchecked``."""
        absent = np.ones(len(keys), dtype=np.bool_)
        for start, block in _blocks(keys):
            known = {key for (key,) in self._rows("key", block)} if unchecked else self._sound_rows(block)
            absent[start : start + len(block)] = [key not in known for key in block]
        return absent

    def read(self, keys: Keys) -> Floats:
        """The vectors of ``keys``, float32 (keys, dimension), in their order. KeyError if one is missing or damaged."""
        content = b"".join(self.read_each(keys))
        return np.frombuffer(content, dtype=np.float32).reshape(len(keys), -1 if content else 0)

    def read_each(self, keys: Keys) -> list[bytes]:
        """The bytes under each of ``keys``, which may be of several lengths. KeyError as ``read``."""
        parts: list[bytes] = []
        for _, block in _blocks(keys):
            rows = self._sound_rows(block)
            parts += (rows[key][0] for key in block)
        return parts

    def costs(self, keys: Keys) -> Costs:
        """The costs of the vectors of ``keys``, as they were when each was computed."""
        costs = np.full((len(keys), 2), np.nan)
        for start, block in _blocks(keys):
            rows = self._sound_rows(block)
            for position, key in enumerate(block, start):
                if key in rows and rows[key][1]:
                    costs[position] = np.frombuffer(rows[key][1])
        return costs

    def write(self, keys: Keys, vectors: Floats | Sequence[npt.NDArray[Any]], costs: Costs | None = None) -> None:
        """Keep ``vectors``, float32 (keys, dimension), under ``keys``: all of them, or none if the process dies.

        They may be arrays of several lengths, whose bytes are kept. ``costs`` are kept with them, if they are known.
        """
        known = [b""] * len(keys) if costs is None else [b"" if np.isnan(row).all() else row.tobytes() for row in costs]
        rows = [(key.tobytes(), row.tobytes(), cost) for key, row, cost in zip(keys, vectors, known, strict=True)]
        statement = "INSERT OR REPLACE INTO vectors (key, vector, cost, crc) VALUES (?, ?, ?, ?)"
        self._change(statement, ((*row, self._crc(*row)) for row in rows))

    def drop_damaged(self) -> int:
        """Remove the vectors whose bytes were changed; how many they were. Reads them all."""
        with self._errors():
            rows = self._connection.execute("SELECT key, vector, cost, crc FROM vectors")
            damaged = [key for key, vector, cost, crc in rows if self._crc(key, vector, cost) != crc]
        self._drop(damaged)
        return len(damaged)

    def _sound_rows(self, keys: list[bytes]) -> dict[bytes, tuple[bytes, bytes]]:
        """The vectors and costs of those ``keys`` that have a vector; damaged rows are removed."""
        found, damaged = dict[bytes, tuple[bytes, bytes]](), list[bytes]()
        for key, vector, cost, crc in self._rows("key, vector, cost, crc", keys):
            if self._crc(key, vector, cost) == crc:
                found[key] = vector, cost
            else:
                damaged.append(key)
        if damaged:
            note_repair(self.path, f"{counted(len(damaged), 'row')} of other bytes, or of another model")
            self._drop(damaged)
        return found

    def _crc(self, key: bytes, vector: bytes, cost: bytes = b"") -> int:
        """The checksum of a row, which no other model's row has."""
        return crc32(cost, crc32(vector, crc32(key, crc32(self.path.stem.encode()))))

    def _drop(self, keys: list[bytes]) -> None:
        self._change("DELETE FROM vectors WHERE key = ?", ((key,) for key in keys))

    def _change(self, statement: str, rows: Iterable[tuple[object, ...]]) -> None:
        with self._errors():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                self._connection.executemany(statement, rows)
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:  # a full disk has ended it already
                    self._connection.execute("ROLLBACK")
                raise

    def _rows(self, columns: str, keys: list[bytes]) -> list[Any]:
        with self._errors():
            marks = ",".join("?" * len(keys))
            return self._connection.execute(f"SELECT {columns} FROM vectors WHERE key IN ({marks})", keys).fetchall()  # noqa: S608 - all of it is ours

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            with self._lock:
                yield
        except (sqlite3.Error, OSError) as error:
            raise WorkspaceError(
                f"the embedding cache {self.path} cannot be used: {error}. "
                "Free space or mend permissions; if the file is damaged, `ragtrial cache verify` removes it."
            ) from error


def is_on_network(path: Path) -> bool:
    """True if ``path`` is on a network file system; False if the system does not list its mounts (not on Linux)."""
    try:
        mounts = [line.split() for line in MOUNTS.read_text(encoding="utf-8").splitlines()]
    except OSError:
        return False
    kinds = {Path(mount[1].replace("\\040", " ")): mount[2] for mount in mounts}
    whole = path.absolute()
    return next((kinds[folder] for folder in (whole, *whole.parents) if folder in kinds), "").startswith(_NETWORK)


def _remove_if_damaged(path: Path) -> None:
    """Remove a file that SQLite cannot read to its end, or that is of another model, once in a process."""
    if path.exists() and (known := (path, path.stat().st_ino)) not in _checked:
        try:
            check_model(path)
            _checked.add(known)
        except DamagedError as error:
            note_repair(path, str(error))
            for part in ("", "-wal", "-shm", "-journal"):
                Path(f"{path}{part}").unlink(missing_ok=True)


def check_model(path: Path) -> None:
    """Raise DamagedError for a file that SQLite cannot read to its end, or that has the vectors of another model."""
    check_database(path, quick=True)
    is_made = _is_in_wal_mode(path)  # else it may be that of a process that was killed while it made the file
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            models = database.execute("SELECT name, what FROM model LIMIT 2").fetchall()
    except sqlite3.Error as error:
        if is_made:
            raise DamagedError(f"it does not say whose vectors it has ({error})") from error
        return
    if (models or is_made) and [model for model, _ in models] != [path.stem]:
        known = " ".join(str(what) for _, what in models)
        raise DamagedError(f"it has the vectors of another model, {known or 'which is not named'}")


def _is_in_wal_mode(path: Path) -> bool:
    """True if the header is that of a database in WAL mode (https://sqlite.org/fileformat.html, 1.3.3)."""
    try:
        with path.open("rb") as file:
            return file.read(20)[18:] == b"\x02\x02"
    except FileNotFoundError:
        return False


def _blocks(keys: Keys) -> Iterator[tuple[int, list[bytes]]]:
    for start in range(0, len(keys), _KEYS_PER_READ):
        block = np.ascontiguousarray(keys[start : start + _KEYS_PER_READ])
        yield start, block.view(f"V{DIGEST_BYTES}").ravel().tolist()
