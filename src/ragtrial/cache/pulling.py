"""Fetching what others have pushed: anyone may have written it, so an entry that is wrong is named and skipped."""

from __future__ import annotations

import re
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from ragtrial.cache.atomic import TEMPORARY_PREFIX, new_folder, remove_partial
from ragtrial.cache.fingerprints import DIGEST_BYTES, checksum, fingerprint, text_key
from ragtrial.cache.journal import append_row, read_rows
from ragtrial.cache.remote import REMOTE
from ragtrial.cache.seals import SEAL, DamagedError, check_bytes
from ragtrial.cache.shared_files import SharedFiles
from ragtrial.cache.untrusted import load_json
from ragtrial.cache.upkeep import ANSWERS, GROWING, ROW_CACHES
from ragtrial.cache.vectors import TABLES, Keys, VectorCache, keys_in, row_checksum
from ragtrial.cache.workspace import Workspace
from ragtrial.rankings import Floats

STAY = {"latency": "a measurement of this machine", "unfinished": "not finished"}
_NO_STAGES = frozenset({*STAY, *GROWING, "uses", "locks"})
_STAGE = re.compile(r"stages/([a-z0-9_-]{1,40})/([0-9a-f]{32}(?:-[0-9]{1,10}){0,4})\.json")
_ROWS = re.compile(r"rows/([a-z0-9_-]{1,40})/([0-9A-Za-z_-]{1,100})/([0-9a-f]{32})\.(sqlite|jsonl)")
_MOST_LINE_BYTES = 4_000_000
_ANSWERS = ({"key", "reply"}, {"query", "hits", "asked", "unlocated"})
"""The keys of the rows of answers: of chat models, and of custom retrievers."""


@dataclass
class Transfer:
    """The result of a push or a pull.

    ``moved`` and ``present`` describe the entries that were copied and those already there; ``left`` the entries that
    were not copied, with the reason; ``damaged`` the damaged entries, with the fault. ``bytes`` counts copied bytes.
    """

    moved: list[str] = field(default_factory=list)
    present: list[str] = field(default_factory=list)
    left: list[tuple[str, str]] = field(default_factory=list)
    damaged: list[tuple[str, str]] = field(default_factory=list)
    bytes: int = 0


class Pull:
    """A pull from ``files``, which hold what ``there`` lists by size, into ``workspace``; ``done`` has its outcome."""

    def __init__(self, files: SharedFiles, there: Mapping[str, int], workspace: Workspace) -> None:
        self._files = files
        self._there = there
        self._workspace = workspace
        self.done = Transfer()
        self.experiments: set[str] = set()
        """The experiments that used the stages that there are."""

    def take(self, name: str, experiment: str | None) -> None:
        """Fetch the entry that is the file ``name``, if it is one, and of ``experiment``, if that is given.

        An entry that is not as a push writes it is noted as damaged. Raises RunError if the other side fails.
        """
        what = name
        try:
            if found := _STAGE.fullmatch(name):
                what = f"{found[1]} {found[2]}"
                self._take_stage(found[1], found[2], name, experiment)
            elif (found := _ROWS.fullmatch(name)) and experiment is None:
                what = f"{found[1]} {found[2]}"
                self._take_rows(found[1], found[2], name, found[3])
        except DamagedError as error:
            self.done.damaged.append((what, str(error)))

    def _manifest(self, name: str) -> Manifest:
        return read_manifest(self._files.read(name))

    def _take_stage(self, kind: str, key: str, name: str, experiment: str | None) -> None:
        if kind in _NO_STAGES:
            raise DamagedError("no stage of this kind is shared")
        manifest = self._manifest(name)
        self.experiments.update(manifest.experiments)
        if experiment is not None and experiment not in manifest.experiments:
            return
        with self._workspace.lock(f"{kind}-{key}", manifest.what):
            if self._workspace.has(kind, key):
                self.done.present.append(manifest.what)
                return
            if self._workspace.damage(kind, key):
                self._workspace.drop(kind, key)
            self._fetch_folder(self._workspace.path(kind, key), manifest)

    def _fetch_folder(self, target: Path, manifest: Manifest) -> None:
        objects = {digest: size for size, digest in manifest.files.values()}
        again = "`ragtrial cache push --verify` from a machine that has it"
        for digest, size in objects.items():
            listed = self._there.get(f"objects/{digest}")
            if listed != size:
                what_is = "is missing" if listed is None else "has other bytes than were sent"
                raise DamagedError(f"objects/{digest} {what_is}; {again}")
        try:
            with new_folder(target) as folder:
                for path, (size, digest) in manifest.files.items():
                    self._files.get(f"objects/{digest}", folder / path, size, digest)
                self.done.bytes += check_bytes(folder, stands=target).size
        except DamagedError as error:
            raise DamagedError(f"{error}; {again}") from error
        self.done.moved.append(manifest.what)

    def _take_rows(self, kind: str, cache: str, name: str, digest: str) -> None:
        if kind == ANSWERS and name.endswith(".jsonl"):
            is_new = self._take_answers(cache, name)
        elif kind in ROW_CACHES and name.endswith(".sqlite"):
            if keys_of(name) not in self._there:
                return  # a push was stopped
            is_new = self._take_pack(kind, cache, name, digest)
        else:
            raise DamagedError("no rows of this kind are shared")
        (self.done.moved if is_new else self.done.present).append(f"{kind} {cache}")

    def _take_answers(self, cache: str, name: str) -> bool:
        target = self._workspace.root / ANSWERS / f"{cache}.jsonl"
        rows = read_answers(self._files, name)
        known = {fingerprint(row) for row in read_rows(target)}
        new = [row for row in rows if fingerprint(row) not in known]
        for row in new:
            append_row(target, row)
        self.done.bytes += sum(len(str(row)) for row in new)
        return bool(new)

    def _take_pack(self, kind: str, cache: str, name: str, digest: str) -> bool:
        folder = self._workspace.root / kind
        keys = _keys(self._files.read(keys_of(name)))
        with VectorCache(folder / f"{cache}.sqlite") as rows:
            if not rows.missing(keys, unread=True).any():
                return False
            remove_partial(folder, digest, left=True)  # of a pull that was killed
            with tempfile.TemporaryDirectory(prefix=f"{TEMPORARY_PREFIX}{digest}-", dir=folder) as scratch:
                path = Path(scratch) / "rows.sqlite"
                self._files.get(name, path, min(self._there[name], (len(keys) + 1) * MOST_ROW_BYTES), digest)
                pack = Pack(path, cache, len(keys), has_vectors=kind == "vectors")
                self._copy(pack, rows, kind)
                self.done.bytes += path.stat().st_size
        return True

    @staticmethod
    def _copy(pack: Pack, cache: VectorCache, kind: str) -> None:
        again = "its rows are made again where they are needed"
        if kind == "vectors":
            why = _why_not_beside(cache, pack.dimension)
            if why is None and pack.is_of_another_model(cache):
                why = "a text has another vector there: its vectors are of another model of the same name"
            if why is not None:
                raise DamagedError(f"{why}; {again}")
        cache.name(pack.what)
        pack.copy_into(cache)
        if pack.probe is not None:
            cache.keep_probe(*pack.probe)


def read_answers(files: SharedFiles, name: str) -> list[Any]:
    """The rows of a file of answers. Raises DamagedError if its checksum is wrong, or a row is not an answer."""
    content = files.read(name)
    if checksum(content) != PurePosixPath(name).stem:
        raise DamagedError(f"{name} has other bytes than were sent")
    rows = []
    for line in content.splitlines():
        try:
            row = load_json(line) if len(line) <= _MOST_LINE_BYTES else None
        except ValueError as error:
            raise DamagedError(f"{name} has a line that is no answer: {error}") from error
        if not isinstance(row, dict) or set(row) not in _ANSWERS:
            raise DamagedError(f"{name} has a line that is no answer")
        rows.append(row)
    return rows


def keys_of(pack: str) -> str:
    """The file of the keys of a pack of rows."""
    return pack.removesuffix(".sqlite") + ".keys"


def _keys(content: bytes) -> Keys:
    if len(content) % DIGEST_BYTES:
        raise DamagedError("a list of keys is cut")
    return keys_in(content)


def _why_not_beside(cache: VectorCache, dimension: int | None) -> str | None:
    """The reason why ``cache`` cannot take vectors of ``dimension``; None if it can."""
    own = cache.dimension()
    if own is None or dimension is None or own == dimension:
        return None
    return f"its vectors have {dimension:,} dimensions and those here {own:,}: they are of another model"


_DIGEST = re.compile(r"[0-9a-f]{32}")
_MOST_PART, _MOST_PATH = 255, 1_000
"""Bytes of a name and of a path, as file systems allow them."""


@dataclass(frozen=True)
class Manifest:
    """``files`` has the size and the checksum of each file by its path."""

    what: str
    files: Mapping[str, tuple[int, str]]
    experiments: tuple[str, ...] = ()
    content: Mapping[str, Any] = field(default_factory=dict)
    """All of it, as it was sent."""


def read_manifest(content: bytes) -> Manifest:
    """The manifest that `cache push` wrote. Raises DamagedError if it is invalid, or lists a forbidden file."""
    try:
        found = load_json(content)
        own = found.pop("checksum")
        if own != fingerprint(found):
            raise ValueError("it has another checksum")
        what, experiments = found["what"], found.get("experiments", [])
        files = {path: (size, digest) for path, (size, digest) in found["files"].items()}
        texts = [what, *experiments, *(digest for _, digest in files.values())]
        numbers = [size for size, _ in files.values()]
        if not all(isinstance(text, str) for text in texts) or any(type(number) is not int for number in numbers):
            raise TypeError("it has a value of another type")
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise DamagedError("its list of files is damaged; push it again") from error
    for path, (size, digest) in files.items():
        check_path(path)
        if size < 0 or not _DIGEST.fullmatch(digest):
            raise DamagedError("its list of files is damaged; push it again")
    _refuse_clashes(files)
    if SEAL not in files:
        raise DamagedError(f"it has no {SEAL}")
    return Manifest(what, files, tuple(experiments), found)


def check_path(path: str) -> None:
    """Raise DamagedError if ``path`` is not a valid name of a file in a stage, or names a server."""
    found = PurePosixPath(path)
    if found.is_absolute() or ".." in found.parts or "\\" in path:
        raise DamagedError(f"{path[:80]!r} is outside of the stage")
    sizes = [len(part.encode("utf-8", "surrogatepass")) for part in found.parts]
    is_long = sum(sizes) > _MOST_PATH or any(size > _MOST_PART for size in sizes)
    if not found.parts or str(found) != path or not path.isprintable() or is_long:
        raise DamagedError(f"{path[:80]!r} is no name of a file")
    if any(part.casefold() == REMOTE for part in found.parts):
        raise DamagedError("it is an index on a server, which nobody else may name")


def _refuse_clashes(files: Mapping[str, object]) -> None:
    """Raise DamagedError if a file would be a folder, too, or two are one where the case of letters is nothing."""
    folders = {str(parent).casefold() for path in files for parent in PurePosixPath(path).parents}
    names = [path.casefold() for path in files]
    if folders & set(names) or len(set(names)) < len(names):
        raise DamagedError("two of its files have one name")


MOST_ROW_BYTES = 2**26
"""The most bytes of a row: the vectors of all tokens of a document that fills the longest model."""

_INSTRUCTIONS = 100_000  # of SQLite's machine between two looks at the budget
_BYTES_AT_ONCE = 8_000_000
_SAME_MODEL = 0.01
"""How far (1 - cosine) two vectors of one text may be from each other: hosted models vary in the fourth digit."""

Row = tuple[bytes, bytes, bytes]
"""A key, its bytes, and the cost of computing them."""


class Pack:
    """The checked rows of the cache ``name`` in the file ``path``, at most ``most_rows``.

    ``has_vectors``: they are vectors of one dimension. Raises DamagedError for anything that `cache push` does not
    write.
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
        """Whether a text has different vectors here and in ``cache``, since an endpoint changed its model."""
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
