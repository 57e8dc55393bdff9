"""PostgreSQL with pgvector: a table for each index that is built, and tables that exist, which are never written."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from queue import Empty, LifoQueue
from typing import Annotated, Any, ClassVar, Literal, get_args
from urllib.parse import parse_qs, urlsplit

import numpy as np
from pydantic import AfterValidator, Field, JsonValue

from ragtrial.engines import collection
from ragtrial.engines.base import STORES, FlatIndex, IndexUse, OtherIndex, Space, Vectors, failing_as
from ragtrial.engines.filters import ALL, Comparison, Conditions, parsed, translated
from ragtrial.engines.servers import Engine, Server, SettlingStore, server_url
from ragtrial.errors import InputError, StoreError, StoreServerError, did_you_mean, listed
from ragtrial.options import Options, Secret
from ragtrial.rankings import Floats


def postgres_url(value: str) -> str:
    """``value`` if it names a database without a password. Raises ValueError."""
    parts = urlsplit(value)
    if parts.scheme not in ("postgresql", "postgres"):
        raise ValueError(f"is {value!r}; it must be like postgresql://user@localhost:5432/database.")
    on_a_socket = not parts.hostname and "host" in parse_qs(parts.query)
    if "password" in parse_qs(parts.query):
        raise ValueError("a password must not be in a url, which is in every report; set password.")
    return value if on_a_socket and not parts.password else server_url(value)


PostgresUrl = Annotated[str, AfterValidator(postgres_url)]
"""The address of a database, without a password."""


class PostgresLogin(Server):
    """The options for reaching a database."""

    url: PostgresUrl
    """The URL of the database, like `postgresql://user@localhost:5432/database`, without a password."""

    password: Secret | None = None
    """The user's password, like `${PGPASSWORD}`."""


class Postgres:
    """A connection to a database with pgvector; ``address`` names it in messages.

    Methods raise PostgreSQL's errors within ``failing``, which turns them into ours.
    """

    def __init__(self, login: PostgresLogin, address: str) -> None:
        import psycopg

        self.address, timeout = address, login.timeout
        more: dict[str, Any] = {"password": login.password.get_secret_value()} if login.password else {}
        with self.failing():
            self.connection: psycopg.Connection[Any] = psycopg.connect(
                login.url, autocommit=True, connect_timeout=max(2, int(min(timeout, 10))), **more
            )
            self.run(f"SET statement_timeout = {int(timeout * 1000)}")

    def extension(self) -> str:
        """The version of pgvector. Raises StoreServerError if it is not installed in the database."""
        found = self.ask("SELECT extversion FROM pg_extension WHERE extname = %s", "vector")
        if not found:
            raise StoreServerError(f"{self.address} lacks the extension: run CREATE EXTENSION vector there.")
        return str(found[0][0])

    def version(self) -> str:
        ((server,),) = self.ask("SELECT current_setting(%s)", "server_version")
        return f"PostgreSQL {str(server).split()[0]}, pgvector {self.extension()}"

    def run(self, statement: str) -> None:
        self.connection.execute(statement.encode())

    def ask(self, query: str, *values: Any, prepare: bool | None = None) -> list[Any]:
        """All rows. With ``values`` the server accepts only a single statement."""
        return self.connection.execute(query.encode(), values or None, prepare=prepare).fetchall()

    def set(self, settings: Mapping[str, Any]) -> None:
        for name, value in settings.items():
            self.ask("SELECT set_config(%s, %s, false)", name, str(value))

    def use_of(self, index: str, query: str, *values: Any) -> IndexUse:
        """The use of the ``index`` by the query."""
        ((plan,),) = self.ask(f"EXPLAIN (FORMAT JSON) {query}", *values)
        if index in json.dumps(plan):
            return IndexUse(is_used=True, evidence=f"EXPLAIN names the index {index}.")
        return IndexUse(is_used=False, evidence=f"EXPLAIN shows a scan of the whole table, not the index {index}.")

    def failing(self) -> AbstractContextManager[None]:
        """Turns PostgreSQL's errors into ours, with the address."""
        import psycopg

        def error_of(error: BaseException) -> StoreError:
            kind = StoreServerError if isinstance(error, psycopg.OperationalError) else StoreError
            lines = str(error).strip().splitlines()  # the lines after the first repeat the statement
            return kind(f"{self.address}: {lines[0].rstrip('.') + '.' if lines else type(error).__name__}")

        return failing_as(error_of, lambda error: isinstance(error, psycopg.Error))


OPERATORS = {"cosine": "<=>", "ip": "<#>", "l2": "<->"}
_COPY_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_COPY_END = b"\xff\xff"


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


PgvectorIndexOptions = Annotated[HnswIndex | OtherIndex | FlatIndex, Field(discriminator="kind")]


@STORES.register("pgvector")
class PgvectorStore(PostgresLogin, SettlingStore):
    """A table of PostgreSQL with the extension pgvector."""

    advice_for_low_recall = "Raise store.index.ef_search, m or ef_construction, or set store.index.kind: flat."
    advice_for_unused = (
        "PostgreSQL scans small tables. Set store.enable_seqscan: false to measure the index all the same, or "
        "store.index.kind: flat to say what is measured."
    )
    advice_for_few_hits = (
        "store.index.ef_search is the most hits that a search returns: raise it, or set hnsw.iterative_scan (pgvector "
        "0.8) in the search of store.index.kind: other."
    )

    packages: ClassVar[Mapping[str, str]] = {"psycopg": "pgvector"}
    connected_by = ("url", "password")
    search_options = frozenset({"index.ef_search", "index.search", "enable_seqscan"})

    kind: Literal["pgvector"] = "pgvector"
    """PostgreSQL with pgvector, on the server at `url`."""

    index: PgvectorIndexOptions = HnswIndex()
    """The index of the table."""

    column: Literal["vector", "halfvec"] = "vector"
    """The type of the vector column: vector (4 bytes per number) or halfvec (2 bytes; needs pgvector 0.7)."""

    enable_seqscan: bool = True
    """Let the planner scan the table instead of searching the index, as it does for small tables."""

    def width(self, depth: int) -> None:
        """A search considers as many candidates as its settings say, however many hits are requested."""

    def other_index(self) -> OtherIndex | None:
        """The index in PostgreSQL's words; None for a table without one."""
        index = self.index
        if not isinstance(index, HnswIndex):
            return index if isinstance(index, OtherIndex) else None
        build: dict[str, JsonValue] = {"m": index.m, "ef_construction": index.ef_construction}
        return OtherIndex(type="hnsw", build=build, search={"hnsw.ef_search": index.ef_search})

    def engine(self, folder: Path | None = None) -> PgvectorEngine:
        return PgvectorEngine(self)


class PgvectorEngine(Engine):
    """A connection to the database of a store, and more of them, as a connection serves one thread at a time."""

    store: PgvectorStore

    def __init__(self, store: PgvectorStore) -> None:
        super().__init__(store)
        self.database = self._connection()
        self._connections = [self.database]
        self._idle: LifoQueue[Postgres] = LifoQueue()
        self._idle.put(self.database)
        self._settings: Mapping[str, Any] = {}

    def _connection(self) -> Postgres:
        return Postgres(self.store, self.store.address)

    @contextmanager
    def idle(self) -> Iterator[Postgres]:
        """A connection that no other thread uses meanwhile; if none is idle, a new one, which stays open."""
        try:
            connection = self._idle.get_nowait()
        except Empty:
            try:
                connection = self._connection()
            except StoreServerError as error:
                raise StoreServerError(f"{error} If it limits connections, lower store.concurrency.") from error
            self._connections.append(connection)
            connection.set(self._settings)
        try:
            yield connection
        finally:
            self._idle.put(connection)

    def failing(self) -> AbstractContextManager[None]:
        return self.database.failing()

    def close(self) -> None:
        for connection in self._connections:
            connection.connection.close()

    def version(self) -> str:
        return self.database.version()

    def check(self) -> None:
        """Raises StoreError in the server's words for a type or a setting that it lacks."""
        self.database.extension()
        self.database.run(f"SELECT '[1]'::{self.store.column}")  # loads pgvector, which then knows its settings
        self.prepare("")

    def create(self, name: str, count: int, dimension: int) -> None:
        self.database.run(f'CREATE TABLE "{name}" (id integer PRIMARY KEY, embedding vector({dimension}) NOT NULL)')

    def insert(self, name: str, start: int, batch: Floats) -> None:
        statement = f'COPY "{name}" (id, embedding) FROM STDIN (FORMAT BINARY)'.encode()
        with self.idle() as database, database.connection.cursor() as cursor, cursor.copy(statement) as copy:
            copy.write(_COPY_HEADER + _rows_of(batch, start) + _COPY_END)

    def finish(self, name: str, count: int, dimension: int) -> Mapping[str, Any]:
        store, database = self.store, self.database
        database.run("SET statement_timeout = 0")  # a build has a separate limit
        if store.column == "halfvec":
            database.run(f'ALTER TABLE "{name}" ALTER COLUMN embedding TYPE halfvec({dimension})')
        if (index := store.other_index()) is not None:
            settings = ", ".join(f"{key} = {value}" for key, value in index.build.items())
            options = f" WITH ({settings})" if settings else ""
            operators = f"{store.column}_{store.space}_ops"
            database.run(f"SET statement_timeout = {int(store.settle_within * 1000)}")
            database.run(f'CREATE INDEX "{name}_index" ON "{name}" USING {index.type} (embedding {operators}){options}')
        database.run(f'ANALYZE "{name}"')
        found = database.ask("SELECT indexdef FROM pg_indexes WHERE indexname = %s", f"{name}_index")
        return {"index": str(found[0][0]) if found else "none"}

    def count(self, name: str) -> int | None:
        if self.database.ask("SELECT to_regclass(%s)", f'"{name}"')[0][0] is None:
            return None
        return int(self.database.ask(f'SELECT count(*) FROM "{name}"')[0][0])  # noqa: S608 - the name is ours

    def stored(self, name: str, codes: list[int]) -> Mapping[int, Any]:
        query = f'SELECT id, embedding::vector::real[] FROM "{name}" WHERE id = ANY(%s)'  # noqa: S608 - as above
        return dict(self.database.ask(query, codes))

    def size(self, name: str) -> int | None:
        return int(self.database.ask("SELECT pg_total_relation_size(%s::regclass)", f'"{name}"')[0][0])

    def drop(self, name: str) -> None:
        self.database.run(f'DROP TABLE IF EXISTS "{name}"')

    def prepare(self, name: str) -> None:
        """Set the search options of all connections, as an application would."""
        index = self.store.other_index()
        self._settings = {} if index is None else index.search
        if not self.store.enable_seqscan:
            self._settings = {**self._settings, "enable_seqscan": "off"}
        self.database.set(self._settings)

    def queries_at_once(self, depth: int) -> int:
        return 1

    def nearest(self, name: str, queries: Floats, depth: int) -> Iterator[tuple[list[int], Floats]]:
        query = self._query(name)
        for text in map(vector_text, queries):
            with self.idle() as database:
                rows = database.ask(query, text, text, depth, prepare=True)
            yield [code for code, _ in rows], scores_of([distance for _, distance in rows], self.store.space)

    def use(self, name: str, vectors: Vectors) -> IndexUse:
        if isinstance(self.store.index, FlatIndex):
            return IndexUse(is_used=True, evidence="The table has no index: PostgreSQL compares every row, as chosen.")
        text = vector_text(np.asarray(vectors.matrix[0])) if len(vectors) else "[0]"
        return self.database.use_of(f"{name}_index", self._query(name), text, text, 10)

    def _query(self, name: str) -> str:
        near = f"embedding {OPERATORS[self.store.space]} %s::{self.store.column}"
        return f'SELECT id, {near} FROM "{name}" ORDER BY {near} LIMIT %s'  # noqa: S608 - as above


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


_SQL = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
Sql = tuple[str, tuple[Any, ...]]
"""A piece of a statement, and the values of its parameters."""


@collection.COLLECTIONS.register("pgvector")
class PgvectorCollectionOptions(PostgresLogin, collection.NamedCollectionOptions, collection.VectorFieldNames):
    """A table or view of PostgreSQL with a column of pgvector. The session is read-only."""

    engine = "PostgreSQL"
    filter_type = str
    advice_for_low_recall = "Raise ef_search or ivfflat.probes, or build the index with larger m or more lists."
    advice_for_few_hits = (
        "ef_search is the most hits that a search returns, and a filter is applied after it: raise it, or set "
        "hnsw.iterative_scan (pgvector 0.8) in settings."
    )
    advice_for_unused = "PostgreSQL scans small tables: the scores are those of exact search."
    search_options = frozenset({"ef_search", "settings"})
    packages: ClassVar[Mapping[str, str]] = {"psycopg": "pgvector"}

    kind: Literal["pgvector"]
    """A PostgreSQL table with pgvector."""

    db_schema: str = Field(default="public", alias="schema")
    """The table's schema."""

    metadata: str | None = None
    """A JSON column with the metadata (default: all other columns are metadata)."""

    space: Space | None = None
    """The similarity measure (default: the measure of the column's index, or cosine without an index)."""

    ef_search: Annotated[int, Field(ge=1, le=1_000)] | None = None
    """`hnsw.ef_search` for the connection (default: the server's setting)."""

    settings: dict[str, JsonValue] = Field(default={})
    """Further settings of PostgreSQL for the connection, like `{ivfflat.probes: 10}` (default: the server's)."""

    def connect(self, stack: ExitStack) -> PgvectorCollection:
        database = Postgres(self, f"PostgreSQL at {self.url}")
        stack.callback(database.connection.close)
        with database.failing():
            return PgvectorCollection(self, database)


class PgvectorCollection(collection.Collection):
    """A table, open for reading."""

    options: PgvectorCollectionOptions
    ef = None  # the connection sets how many candidates a search considers

    def __init__(self, options: PgvectorCollectionOptions, database: Postgres) -> None:
        super().__init__(options)
        self.database = database
        database.run("SET default_transaction_read_only = on")
        self._table, vector = f"{_quoted(options.db_schema)}.{_quoted(options.name)}", _quoted(options.vector)
        found = database.ask("SELECT to_regclass(%s)::oid", self._table)
        if found[0][0] is None:
            tables = "SELECT relname FROM pg_class WHERE relkind IN (%s, %s, %s) AND relnamespace = %s::regnamespace"
            names = [str(name) for (name,) in database.ask(tables, "r", "v", "m", options.db_schema)]
            raise options.missing(names)
        self.id = str(found[0][0])
        self._check_columns()
        self._index, definition = self._index_of_column()
        spaces: tuple[Space, ...] = get_args(Space)
        of_index: list[Space] = [space for space in spaces if f"_{space}_ops" in definition]
        self.space = options.space or (of_index[0] if of_index else "cosine")
        self.index_inputs = {"index": definition or None, "space": self.space}
        self.facts = {"index": definition or "none", "server": database.version()}
        self.count = int(database.ask(f"SELECT count(*) FROM {self._table}")[0][0])  # noqa: S608 - a quoted name
        query = f"SELECT vector_dims({vector}::vector) FROM {self._table} WHERE {vector} IS NOT NULL LIMIT 1"  # noqa: S608 - as above
        self.dimension = next((int(dimension) for (dimension,) in database.ask(query)), 0)
        chosen = {} if options.ef_search is None else {"hnsw.ef_search": options.ef_search}
        database.set({**chosen, **options.settings})  # after a query that loads pgvector, which knows its settings

    def failing(self) -> AbstractContextManager[None]:
        return self.database.failing()

    def _check_columns(self) -> None:
        query = "SELECT attname FROM pg_attribute WHERE attrelid = %s::oid AND attnum > 0 AND NOT attisdropped"
        self._columns = [str(name) for (name,) in self.database.ask(query, self.id)]
        wanted = {key: getattr(self.options, key) for key in ("id", "text", "vector", "metadata")}
        missing = {key: name for key, name in wanted.items() if name is not None and name not in self._columns}
        if missing:
            said = ", ".join(f"{key}: {name}{did_you_mean(name, self._columns)}" for key, name in missing.items())
            raise InputError(f"{self} has no such column: {said} It has: {listed(self._columns)}.")

    def _index_of_column(self) -> tuple[str, str]:
        """Name and definition of the index on the vectors; empty without one."""
        query = (
            "SELECT c.relname, pg_get_indexdef(i.indexrelid) FROM pg_index i "
            "JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am m ON m.oid = c.relam "
            "WHERE i.indrelid = %s::oid AND i.indisvalid AND m.amname IN (%s, %s)"
        )
        names = (f"({self.options.vector} ", f"({_quoted(self.options.vector)} ")
        for name, definition in self.database.ask(query, self.id, "hnsw", "ivfflat"):
            if any(column in definition for column in names):
                return str(name), str(definition)
        return "", ""

    @cached_property
    def _row(self) -> str:
        """The columns of an item: its id, its metadata and its text."""
        options = self.options
        if options.metadata is not None:
            metadata = _quoted(options.metadata)
        else:
            others = [name for name in self._columns if name not in (options.id, options.text, options.vector)]
            pairs = ", ".join(f"{_literal(name)}, {_quoted(name)}" for name in others)
            metadata = f"json_build_object({pairs})"
        return f"{_quoted(options.id)}::text, {metadata}, {_quoted(options.text)}"

    def read(self, conditions: Conditions) -> Iterator[list[collection.Item]]:
        where, values = self._where(conditions)
        query = f"SELECT {self._row} FROM {self._table}{where} ORDER BY {_quoted(self.options.id)} LIMIT %s OFFSET %s"  # noqa: S608 - as above
        for offset in range(0, self.count, collection.PAGE):
            yield [_item(*row) for row in self.database.ask(query, *values, collection.PAGE, offset)]

    def fetch(self, ids: Sequence[str]) -> tuple[list[collection.Item], list[Any]]:
        vector = f"{_quoted(self.options.vector)}::vector::real[]"
        query = f"SELECT {self._row}, {vector} FROM {self._table} WHERE {_quoted(self.options.id)}::text = ANY(%s)"  # noqa: S608 - as above
        rows = self.database.ask(query, list(ids))
        return [_item(*row[:3]) for row in rows], [row[3] for row in rows]

    def search(self, queries: Floats, depth: int, conditions: Conditions) -> Iterator[collection.Found]:
        statement, values = self._search(conditions)
        for text in map(vector_text, queries):
            rows = self.database.ask(statement, text, *values, text, depth, prepare=True)
            yield collection.Found([_item(*row[:3]) for row in rows], scores_of([row[3] for row in rows], self.space))

    def use(self) -> IndexUse:
        if not self._index:
            return IndexUse(is_used=False, evidence="The column has no index of pgvector: every row is compared.")
        query, values = self._search(ALL)
        text = vector_text(np.ones(self.dimension, dtype=np.float32))
        with self.failing():
            return self.database.use_of(self._index, query, text, *values, text, 10)

    def _search(self, conditions: Conditions) -> Sql:
        where, values = self._where(conditions)
        near = f"{_quoted(self.options.vector)} {OPERATORS[self.space]} %s::vector"
        return f"SELECT {self._row}, {near} FROM {self._table}{where} ORDER BY {near} LIMIT %s", values  # noqa: S608 - as above

    def _where(self, conditions: Conditions) -> Sql:
        parts, values = list[str](), tuple[Any, ...]()
        if conditions.where is not None:
            text, values = translated(parsed(conditions.where), self._comparison, _joined)
            parts.append(text)
        if conditions.filter is not None:
            parts.append("(" + str(conditions.filter).replace("%", "%%") + ")")
        return (f" WHERE {' AND '.join(parts)}" if parts else ""), values

    def _comparison(self, one: Comparison) -> Sql:
        """A comparison: false where the field is missing, except for `$ne` and `$nin`."""
        values, is_not = tuple(one.values), one.operator in ("$ne", "$nin")
        if self.options.metadata is None:
            if one.field not in self._columns:
                return ("true" if is_not else "false"), ()
            field, holder, is_number = _quoted(one.field), "%s", ""
        else:
            field, holder = f"({_quoted(self.options.metadata)}::jsonb -> {_literal(one.field)})", "%s::jsonb"
            values, is_number = tuple(map(json.dumps, values)), f"jsonb_typeof({field}) = 'number' AND "
        if one.operator in _SQL:
            return f"COALESCE({is_number}{field} {_SQL[one.operator]} {holder}, false)", values
        is_among = f"COALESCE({' OR '.join(f'{field} = {holder}' for _ in values)}, false)"
        return (f"NOT {is_among}" if is_not else is_among), values


def _joined(every: bool, parts: Sequence[Sql]) -> Sql:  # noqa: FBT001 - as `translated` calls it
    text = (" AND " if every else " OR ").join(f"({text})" for text, _ in parts)
    return f"({text})", tuple(value for _, values in parts for value in values)


def _item(name: str, metadata: Any, text: str | None) -> collection.Item:
    found = metadata if isinstance(metadata, Mapping) else {}
    return collection.Item(name, {key: value for key, value in found.items() if value is not None}, text)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""').replace("%", "%%") + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''").replace("%", "%%") + "'"
