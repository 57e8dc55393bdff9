"""Rows of a growing cache as somebody else has sent them: a database that is read with care, and never written."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path

import numpy as np

from ragtrial.cache.fingerprints import DIGEST_BYTES, text_key
from ragtrial.cache.seals import DamagedError
from ragtrial.cache.vectors import TABLES, VectorCache, keys_in, row_checksum
from ragtrial.rankings import Floats

MOST_ROW_BYTES = 2**26
"""Of one row: the vectors of all tokens of a document that fills the longest model."""

_INSTRUCTIONS = 100_000  # of SQLite's machine between two looks at the budget
_BYTES_AT_ONCE = 8_000_000
_SAME_MODEL = 0.01
"""How far (1 - cosine) two vectors of one text may be from each other: hosted models vary in the fourth digit."""

Row = tuple[bytes, bytes, bytes]
"""A key, what is kept under it, and what that took."""


class Pack:
    """The rows of the cache ``name`` in the file ``path``, at most ``most_rows``, all of them checked.

    ``has_vectors``: they are vectors of one dimension. Raises DamagedError for whatever `cache push` does not write.
    """

    def __init__(self, path: Path, name: str, most_rows: int, *, has_vectors: bool) -> None:
        self._path = path
        self._name = name
        self._most_rows = most_rows
        self.dimension: int | None = None
        with self._database() as database:
            self._check_tables(database)
            (said,) = database.execute("PRAGMA quick_check(1)").fetchone()
            if said != "ok":
                raise DamagedError(f"its table is damaged: {said}")
            if database.execute("SELECT name FROM model LIMIT 2").fetchall() != [(name,)]:
                raise DamagedError("its rows are of another model")
            row = database.execute("SELECT what FROM about LIMIT 1").fetchone()
            self.what = str(row[0]) if row else ""
            probes = database.execute("SELECT text, vector, crc FROM probes LIMIT 1").fetchall()
        sound = [(text, vector) for text, vector, crc in probes if row_checksum(name, text, vector) == crc]
        self.probe = next(((text.decode(), np.frombuffer(vector, np.float32)) for text, vector in sound), None)
        for _, vector, _ in self.rows():
            if has_vectors:
                self._check_vector(vector)

    def rows(self) -> Iterator[Row]:
        """Each row, once."""
        with self._database() as database:
            found = database.execute("SELECT key, vector, cost, crc FROM vectors LIMIT ?", (self._most_rows + 1,))
            for number, (key, vector, cost, crc) in enumerate(found):
                if number >= self._most_rows:
                    raise DamagedError("it has more rows than its list of keys")
                if not all(isinstance(part, bytes) for part in (key, vector, cost)):
                    raise DamagedError("a row has a value that is not bytes")
                if len(key) != DIGEST_BYTES or row_checksum(self._name, key, vector, cost) != crc:
                    raise DamagedError("a row has other bytes than were sent")
                yield key, vector, cost

    def copy_into(self, cache: VectorCache) -> int:
        """Write the rows that ``cache`` lacks; how many they were."""
        total, size, block = 0, 0, list[Row]()
        for row in self.rows():
            block.append(row)
            size += len(row[1])
            if size > _BYTES_AT_ONCE:
                total, size, block = total + _write_new(cache, block), 0, []
        return total + _write_new(cache, block)

    def is_of_another_model(self, cache: VectorCache) -> bool:
        """Whether a text has one vector here and another one in ``cache``, as after an endpoint changed its model."""
        probe = cache.probe()
        wanted = {text_key(text): vector for text, vector in filter(None, (probe, self.probe))}
        for key, vector, _ in self.rows():
            if key in wanted and _differ(wanted[key], np.frombuffer(vector, np.float32)):
                return True
        for key, probe_vector in wanted.items():
            array = keys_in(key)
            if not cache.missing(array, unread=True)[0] and _differ(probe_vector, cache.read(array)[0]):
                return True
        return False

    def _check_vector(self, vector: bytes) -> None:
        dimension, left = divmod(len(vector), 4)
        if left or not dimension or self.dimension not in (None, dimension):
            raise DamagedError("its vectors are not of one dimension")
        if not np.isfinite(np.frombuffer(vector, np.float32)).all():
            raise DamagedError("a vector has a number that is not finite")
        self.dimension = dimension

    def _check_tables(self, database: sqlite3.Connection) -> None:
        """Views, triggers and computed columns would be run when they are read."""
        with closing(sqlite3.connect(":memory:")) as own:
            for table in TABLES:
                own.execute(table)
            expected = own.execute(_SCHEMA).fetchall()
        if database.execute(f"{_SCHEMA} LIMIT {len(expected) + 1}").fetchall() != expected:
            raise DamagedError("it has other tables than a cache")

    @contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        uri = f"{self._path.absolute().as_uri()}?mode=ro&immutable=1"
        try:
            with closing(sqlite3.connect(uri, uri=True)) as database:
                database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_ROW_BYTES)
                database.execute("PRAGMA trusted_schema = OFF")
                done, most = count(), 100 + self._most_rows // 10
                database.set_progress_handler(lambda: next(done) > most, _INSTRUCTIONS)
                yield database
        except (sqlite3.Error, UnicodeDecodeError, OverflowError) as error:
            raise DamagedError(f"it cannot be read: {error}") from error


_SCHEMA = "SELECT type, name, sql FROM sqlite_master ORDER BY name"


def _write_new(cache: VectorCache, rows: list[Row]) -> int:
    if not rows:
        return 0
    keys = keys_in(b"".join(key for key, _, _ in rows))
    absent = np.flatnonzero(cache.missing(keys, unread=True)).tolist()
    cache.write_rows([rows[place] for place in absent])
    return len(absent)


def _differ(one: Floats, other: Floats) -> bool:
    lengths = float(np.linalg.norm(one)) * float(np.linalg.norm(other))
    return one.shape != other.shape or (lengths > 0 and 1 - float(one @ other) / lengths > _SAME_MODEL)
