"""PostgreSQL with pgvector: a table per index, searched as applications search it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from queue import Empty, LifoQueue
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal
from urllib.parse import parse_qs, urlsplit

import numpy as np
from pydantic import AfterValidator, Field, SecretStr, model_validator

from ragtrial.engines.base import STORES, Index, IndexUse, Vectors, count_unreachable, ranked
from ragtrial.engines.batching import in_batches
from ragtrial.engines.servers import Engine, SettlingStore, server_url
from ragtrial.errors import InputError, StoreError, StoreServerError
from ragtrial.options import Options, Secret
from ragtrial.rankings import Floats, Rankings

if TYPE_CHECKING:
    from psycopg import Connection


def postgres_url(value: str) -> str:
    """``value`` if it names a database without a password. Raises ValueError."""
    parts = urlsplit(value)
    if parts.scheme not in ("postgresql", "postgres"):
        raise ValueError(f"is {value!r}; it must be like postgresql://user@localhost:5432/database.")
    on_a_socket = not parts.hostname and "host" in parse_qs(parts.query)
    if "password" in parse_qs(parts.query):
        raise ValueError("a password must not be in a url, which is in every report; set password.")
    return value if on_a_socket and not parts.password else server_url(value)


class Postgres:
    """A connection to a database with pgvector; ``address`` names it in messages, ``timeout`` limits each statement."""

    def __init__(self, url: str, password: SecretStr | None, timeout: float, address: str) -> None:
        import psycopg

        self.address = address
        more: dict[str, Any] = {"password": password.get_secret_value()} if password else {}
        with self.failing():
            self.connection: Connection[Any] = psycopg.connect(
                url, autocommit=True, connect_timeout=max(2, int(min(timeout, 10))), **more
            )
        self.run(f"SET statement_timeout = {int(timeout * 1000)}")

    def extension(self) -> tuple[int, ...]:
        """The version of pgvector. Raises StoreServerError if it is not installed in the database."""
        found = self.ask("SELECT extversion FROM pg_extension WHERE extname = %s", "vector")
        if not found:
            raise StoreServerError(f"{self.address} lacks the extension: run CREATE EXTENSION vector there.")
        return tuple(int(part) for part in str(found[0][0]).split("."))

    def version(self) -> str:
        ((server,),) = self.ask("SELECT current_setting(%s)", "server_version")
        return f"PostgreSQL {str(server).split()[0]}, pgvector {'.'.join(map(str, self.extension()))}"

    def ping(self) -> None:
        self.ask("SELECT %s", 1)

    def close(self) -> None:
        self.connection.close()

    def run(self, statement: str) -> None:
        with self.failing():
            self.connection.execute(statement.encode())

    def ask(self, query: str, *values: Any, prepare: bool | None = None) -> list[Any]:
        """All rows. With ``values`` the server accepts only a single statement."""
        with self.failing():
            return self.connection.execute(query.encode(), values or None, prepare=prepare).fetchall()

    def copy(self, statement: str, rows: bytes) -> None:
        with self.failing(), self.connection.cursor() as cursor, cursor.copy(statement.encode()) as copy:
            copy.write(rows)

    @contextmanager
    def failing(self) -> Iterator[None]:
        """Turns PostgreSQL's errors into ours, with the address."""
        import psycopg

        try:
            yield
        except psycopg.OperationalError as error:
            raise StoreServerError(f"{self.address}: {_said(error)}") from error
        except psycopg.Error as error:
            raise StoreError(f"{self.address}: {_said(error)}") from error


def _said(error: BaseException) -> str:
    """The first line of PostgreSQL's message; the others repeat the statement."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") + "." if lines else type(error).__name__


OPERATORS = {"cosine": "<=>", "ip": "<#>", "l2": "<->"}
_COPY_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_COPY_END = b"\xff\xff"
_HALF_SINCE, _ITERATIVE_SINCE = (0, 7), (0, 8)


class HnswIndex(Options):
    """A graph. Source: pgvector's README, "HNSW"."""

    kind: Literal["hnsw"] = "hnsw"
    """A graph: slower to build than inverted lists, and more exact at the same search speed."""

    m: Annotated[int, Field(ge=2, le=100)] = 16
    """Links per vector and layer; a higher value takes more memory and is more exact."""

    ef_construction: Annotated[int, Field(ge=4, le=1_000)] = 64
    """Candidates considered while building, at least 2 * m; a higher value is slower and more exact."""

    ef_search: Annotated[int, Field(ge=1, le=1_000)] = 40
    """Candidates considered while searching (`hnsw.ef_search`). A search never returns more hits than this."""

    iterative_scan: Literal["off", "strict_order", "relaxed_order"] | None = None
    """Keep searching until there are enough hits (`hnsw.iterative_scan`); needs pgvector 0.8 (default: the server's
    setting)."""

    @model_validator(mode="after")
    def _builds_at_all(self) -> HnswIndex:
        if self.ef_construction < 2 * self.m:
            raise ValueError(f"ef_construction is {self.ef_construction}; it must be at least 2 * m ({2 * self.m}).")
        return self


class IvfflatIndex(Options):
    """Lists of vectors around centres. Source: pgvector's README, "IVFFlat"."""

    kind: Literal["ivfflat"] = "ivfflat"
    """Inverted lists: fast to build."""

    lists: Annotated[int, Field(ge=1, le=32_768)] = 100
    """The number of lists. pgvector recommends a thousandth of the number of vectors, and its square root above a
    million."""

    probes: Annotated[int, Field(ge=1, le=32_768)] = 1
    """Lists to search (`ivfflat.probes`); searching all of them is exact."""

    iterative_scan: Literal["off", "relaxed_order"] | None = None
    """Keep searching until there are enough hits (`ivfflat.iterative_scan`); needs pgvector 0.8 (default: the server's
    setting)."""


class FlatIndex(Options):
    """No index."""

    kind: Literal["flat"] = "flat"
    """No index: every row is compared, which is exact."""


PgvectorIndexOptions = Annotated[HnswIndex | IvfflatIndex | FlatIndex, Field(discriminator="kind")]


@STORES.register("pgvector")
class PgvectorStore(SettlingStore):
    """A table of PostgreSQL with the extension pgvector."""

    advice_for_low_recall: ClassVar[str] = (
        "Raise store.index.ef_search (or probes), m or ef_construction, or set store.index.kind: flat."
    )
    advice_for_unreachable: ClassVar[str] = "Raise store.index.m or ef_construction, or set store.index.kind: flat."
    advice_for_unused: ClassVar[str] = (
        "PostgreSQL scans small tables. Set store.enable_seqscan: false to measure the index all the same, or "
        "store.index.kind: flat to say what is measured."
    )
    advice_for_few_hits: ClassVar[str] = (
        "store.index.ef_search is the most hits that a search returns, and probes limits them: raise it, or set "
        "iterative_scan (pgvector 0.8)."
    )

    packages: ClassVar[Mapping[str, str]] = {"psycopg": "pgvector"}
    connected_by: ClassVar[tuple[str, ...]] = ("url", "password")
    unhashed: ClassVar[frozenset[str]] = SettlingStore.unhashed | {"password"}
    search_options: ClassVar[frozenset[str]] = frozenset(
        {"index.ef_search", "index.probes", "index.iterative_scan", "enable_seqscan"}
    )

    kind: Literal["pgvector"] = "pgvector"
    """PostgreSQL with pgvector, on the server at `url`."""

    url: Annotated[str, AfterValidator(postgres_url)] | None = None
    """The URL of the database, like `postgresql://user@localhost:5432/database`, without a password."""

    password: Secret | None = None
    """The user's password, like `${PGPASSWORD}`."""

    index: PgvectorIndexOptions = HnswIndex()
    """The index of the table."""

    column: Literal["vector", "halfvec"] = "vector"
    """The type of the vector column: vector (4 bytes per number) or halfvec (2 bytes; needs pgvector 0.7)."""

    enable_seqscan: bool = True
    """Let the planner scan the table instead of searching the index, as it does for small tables."""

    @model_validator(mode="after")
    def _has_a_server(self) -> PgvectorStore:
        if self.url is None:
            raise ValueError("url is missing; set it to the database, like postgresql://user@localhost:5432/database.")
        return self

    @property
    def is_exclusive(self) -> bool:
        return False

    def width(self, depth: int) -> None:
        """A search considers ``ef_search`` candidates or ``probes`` lists, however many hits are requested."""

    def check(self) -> None:
        super().check()
        engine = _PgvectorEngine(self)
        try:
            has = engine.extension()
        finally:
            engine.close()
        iterative = getattr(self.index, "iterative_scan", None) is not None
        for option, since, is_chosen in (
            ("column: halfvec", _HALF_SINCE, self.column == "halfvec"),
            ("index.iterative_scan", _ITERATIVE_SINCE, iterative),
        ):
            if is_chosen and has < since:
                needs = ".".join(map(str, since))
                raise InputError(
                    f"store.{option} needs pgvector {needs}; {self.address} has {'.'.join(map(str, has))}."
                )

    def engine(self) -> Engine:
        return _PgvectorEngine(self)


class _PgvectorEngine(Postgres):
    """A connection to the database of a store, and more of them, as a connection serves one thread at a time."""

    def __init__(self, store: PgvectorStore) -> None:
        super().__init__(str(store.url), store.password, store.timeout, store.address)
        self.store = store
        self._is_prepared = False
        self._more: list[_PgvectorEngine] = []
        self._idle: LifoQueue[_PgvectorEngine] = LifoQueue()
        self._idle.put(self)

    @contextmanager
    def idle(self) -> Iterator[_PgvectorEngine]:
        """A connection that no other thread uses meanwhile; if none is idle, a new one, which stays open."""
        try:
            engine = self._idle.get_nowait()
        except Empty:
            engine = self._another()
        try:
            yield engine
        finally:
            self._idle.put(engine)

    def _another(self) -> _PgvectorEngine:
        try:
            made = _PgvectorEngine(self.store)
        except StoreServerError as error:
            raise StoreServerError(f"{error} If it limits connections, lower store.concurrency.") from error
        self._more.append(made)
        if self._is_prepared:
            made.prepare()
        return made

    def close(self) -> None:
        for one in self._more:
            one.close()
        super().close()

    def fill(self, name: str, vectors: Vectors, advance: Callable[[int], None]) -> Mapping[str, Any]:
        store, dimension = self.store, vectors.matrix.shape[1]
        self.run(f'CREATE TABLE "{name}" (id integer PRIMARY KEY, embedding vector({dimension}) NOT NULL)')
        statement = f'COPY "{name}" (id, embedding) FROM STDIN (FORMAT BINARY)'

        def send(rows: slice) -> None:
            batch = np.asarray(vectors.matrix[rows], dtype=np.float32)
            with self.idle() as engine:
                engine.copy(statement, _COPY_HEADER + _rows_of(batch, rows.start) + _COPY_END)

        in_batches(send, len(vectors), store.rows_at_once(dimension), store.at_once, advance)
        self.run("SET statement_timeout = 0")  # a build has a separate limit
        if store.column == "halfvec":
            self.run(f'ALTER TABLE "{name}" ALTER COLUMN embedding TYPE halfvec({dimension})')
        if not isinstance(store.index, FlatIndex):
            options = {key: value for key, value in store.index.model_dump().items() if key in _BUILT_WITH}
            settings = ", ".join(f"{key} = {value}" for key, value in options.items())
            operators = f"{store.column}_{store.space}_ops"
            self.run(f"SET statement_timeout = {int(store.settle_within * 1000)}")
            self.run(
                f'CREATE INDEX "{name}_index" ON "{name}" USING {store.index.kind} (embedding {operators}) '
                f"WITH ({settings})"
            )
        self.run(f'ANALYZE "{name}"')
        found = self.ask("SELECT indexdef FROM pg_indexes WHERE indexname = %s", f"{name}_index")
        return {"index": str(found[0][0]) if found else "none"}

    def count(self, name: str) -> int | None:
        if self.ask("SELECT to_regclass(%s)", f'"{name}"')[0][0] is None:
            return None
        return int(self.ask(f'SELECT count(*) FROM "{name}"')[0][0])  # noqa: S608 - the name is ours

    def rows(self, name: str, codes: list[int]) -> Floats:
        query = f'SELECT id, embedding::vector::real[] FROM "{name}" WHERE id = ANY(%s)'  # noqa: S608 - as above
        found = self.ask(query, codes)
        by_code = {int(code): vector for code, vector in found}
        return np.array([by_code[code] for code in codes if code in by_code], dtype=np.float32)

    def size(self, name: str) -> int | None:
        return int(self.ask("SELECT pg_total_relation_size(%s::regclass)", f'"{name}"')[0][0])

    def drop(self, name: str) -> None:
        self.run(f'DROP TABLE IF EXISTS "{name}"')

    def open(self, name: str, vectors: Vectors) -> Index:
        return _PgvectorIndex(self, name, vectors)

    def prepare(self) -> None:
        """Set the search options of the connection, and of more of them, as an application would."""
        self._is_prepared = True
        index, settings = self.store.index, dict[str, Any]()
        if isinstance(index, HnswIndex):
            settings["hnsw.ef_search"] = index.ef_search
        elif isinstance(index, IvfflatIndex):
            settings["ivfflat.probes"] = index.probes
        if (scan := getattr(index, "iterative_scan", None)) is not None:
            settings[f"{index.kind}.iterative_scan"] = scan
        for key, value in settings.items():
            self.run(f"SET {key} = {value}")
        if not self.store.enable_seqscan:
            self.run("SET enable_seqscan = off")


class _PgvectorIndex:
    """A table, open for search, one query at a time on each connection."""

    def __init__(self, engine: _PgvectorEngine, name: str, vectors: Vectors) -> None:
        self._engine = engine
        self._name = name
        self._vectors = vectors
        store = engine.store
        near = f"embedding {OPERATORS[store.space]} %s::{store.column}"
        self._query = f'SELECT id, {near} FROM "{name}" ORDER BY {near} LIMIT %s'  # noqa: S608 - as above
        engine.prepare()

    def search(self, queries: Floats, depth: int) -> Rankings:
        store = self._engine.store

        def nearest(batch: Floats, limit: int) -> Iterator[tuple[list[int], Floats]]:
            for query in batch:
                text = vector_text(query)
                with self._engine.idle() as engine:
                    rows = engine.ask(self._query, text, text, limit, prepare=True)
                yield [code for code, _ in rows], scores_of([distance for _, distance in rows], store.space)

        return ranked(nearest, queries, min(depth, len(self._vectors)), 1, store.at_once)

    def unreachable(self) -> int:
        return count_unreachable(self.search, self._vectors.matrix)

    def use(self) -> IndexUse:
        if isinstance(self._engine.store.index, FlatIndex):
            return IndexUse(is_used=True, evidence="The table has no index: PostgreSQL compares every row, as chosen.")
        text = vector_text(np.asarray(self._vectors.matrix[0])) if len(self._vectors) else "[0]"
        ((plan,),) = self._engine.ask(f"EXPLAIN (FORMAT JSON) {self._query}", text, text, 10)
        name = f"{self._name}_index"
        if name in json.dumps(plan):
            return IndexUse(is_used=True, evidence="EXPLAIN names the index.")
        count = f"{len(self._vectors):,} rows"
        return IndexUse(is_used=False, evidence=f"EXPLAIN shows a scan of the whole table ({count}), not the index.")

    def close(self) -> None:
        self._engine.close()


_BUILT_WITH = ("m", "ef_construction", "lists")


def vector_text(vector: Floats) -> str:
    """A vector as pgvector reads it, in the shortest numbers that are the same float32."""
    return "[" + ",".join(map(str, vector.astype(np.float32))) + "]"


def scores_of(column: Sequence[float | None], space: str) -> Floats:
    """Scores, larger for nearer rows, from the cosine distance, minus the inner product, or the distance."""
    distances = np.array(column, dtype=np.float64)  # null, of a vector of zeros, becomes NaN
    scores = {"cosine": 1 - distances, "ip": -distances, "l2": -np.square(distances)}[space]
    return np.asarray(np.nan_to_num(scores, nan=0.0), dtype=np.float32)  # a cosine with a vector of zeros is 0


def _rows_of(batch: Floats, start: int) -> bytes:
    """Rows of a binary COPY: https://www.postgresql.org/docs/current/sql-copy.html, "Binary Format"."""
    dimension = batch.shape[1]
    rows = np.empty(
        len(batch),
        dtype=[("fields", ">i2"), ("size", ">i4"), ("id", ">i4"), ("bytes", ">i4"), ("dimension", ">i2"),
               ("unused", ">i2"), ("vector", ">f4", (dimension,))],
    )  # fmt: skip
    rows["fields"], rows["size"], rows["bytes"] = 2, 4, 4 + 4 * dimension
    rows["id"], rows["dimension"], rows["unused"] = np.arange(start, start + len(batch)), dimension, 0
    rows["vector"] = batch
    return rows.tobytes()
