"""Vectors under the hash of what they stand for: one SQLite file, safe for several processes at once.

SQLite gives each batch of vectors an atomic, durable commit, so whatever was embedded before a kill is there after it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import numpy as np
from filelock import FileLock

from ragtrial.errors import WorkspaceError
from ragtrial.rankings import Floats

_KEYS_PER_READ = 500  # below SQLite's default limit of 999 variables in old builds


class VectorCache:
    """float32 vectors of one dimension by 16-byte key. Close it, or use it as a context manager."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._errors():
            path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(f"{path}.lock"):  # the change to WAL fails at once if another process makes it, too
                self._open()

    def _open(self) -> None:
        self._connection = sqlite3.connect(self.path, timeout=60, isolation_level=None)
        try:
            self._connection.execute("PRAGMA page_size = 16384")  # a third of the space of the default for 384 floats
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = NORMAL")
            self._connection.execute("CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB NOT NULL)")
        except BaseException:
            self._connection.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def dimension(self) -> int | None:
        """The dimension of the vectors, None while there are none."""
        with self._errors():
            row = self._connection.execute("SELECT length(vector) FROM vectors LIMIT 1").fetchone()
        return int(row[0]) // np.dtype(np.float32).itemsize if row else None

    def missing(self, keys: Sequence[bytes]) -> set[bytes]:
        """Those of ``keys`` that have no vector yet."""
        return set(keys).difference(key for key, _ in self._rows("key, NULL", keys))

    def read(self, keys: Sequence[bytes]) -> Floats:
        """The vectors of ``keys``, float32 (keys, dimension), in their order. KeyError if one is missing."""
        found = dict(self._rows("key, vector", keys))
        if not keys:
            return np.empty((0, 0), dtype=np.float32)
        return np.frombuffer(b"".join(found[key] for key in keys), dtype=np.float32).reshape(len(keys), -1)

    def write(self, keys: Sequence[bytes], vectors: Floats) -> None:
        """Keep ``vectors``, float32 (keys, dimension), under ``keys``: all of them, or none if the process dies."""
        rows = [(key, vector.tobytes()) for key, vector in zip(keys, vectors, strict=True)]
        with self._errors():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                self._connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)
                self._connection.execute("COMMIT")
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise

    def _rows(self, columns: str, keys: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
        with self._errors():
            for start in range(0, len(keys), _KEYS_PER_READ):
                block = keys[start : start + _KEYS_PER_READ]
                marks = ",".join("?" * len(block))
                query = f"SELECT {columns} FROM vectors WHERE key IN ({marks})"  # noqa: S608 - all of it is ours
                yield from self._connection.execute(query, block)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise WorkspaceError(
                f"the embedding cache {self.path} cannot be used: {error}. "
                "Free space or mend permissions; if the file is damaged, delete it: it is made again."
            ) from error
