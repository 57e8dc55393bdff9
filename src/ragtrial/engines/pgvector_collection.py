"""An existing PostgreSQL table with pgvector, read and never written."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np
from pydantic import AfterValidator, Field

from ragtrial.engines.base import IndexUse, Space
from ragtrial.engines.collection import (
    COLLECTIONS,
    PAGE,
    Collection,
    Fact,
    Found,
    Item,
    NamedCollectionOptions,
    VectorFieldNames,
    not_there,
    opening,
)
from ragtrial.engines.filters import ALL, Comparison, Conditions, parsed, translated
from ragtrial.engines.pgvector import OPERATORS, Postgres, postgres_url, scores_of, vector_text
from ragtrial.errors import InputError, did_you_mean, listed
from ragtrial.options import Secret
from ragtrial.rankings import Floats

_SQL = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
Sql = tuple[str, tuple[Any, ...]]
"""A piece of a statement, and the values of its parameters."""


class _ColumnIndex(NamedTuple):
    name: str
    definition: str


@COLLECTIONS.register("pgvector")
class PgvectorCollectionOptions(NamedCollectionOptions, VectorFieldNames):
    """A table or view of PostgreSQL with a column of pgvector. The session is read-only."""

    engine: ClassVar[str] = "PostgreSQL"
    filter_type: ClassVar[type[str | dict[str, Any]] | None] = str
    advice_for_low_recall: ClassVar[str] = "Raise ef_search or probes, or build the index with larger m or more lists."
    advice_for_few_hits: ClassVar[str] = (
        "ef_search is the most hits that a search returns, and a filter is applied after it: raise it, or set "
        "iterative_scan (pgvector 0.8)."
    )
    advice_for_unused: ClassVar[str] = "PostgreSQL scans small tables: the scores are those of exact search."
    search_options: ClassVar[frozenset[str]] = frozenset({"ef_search", "probes", "iterative_scan"})
    unhashed: ClassVar[frozenset[str]] = frozenset({"check", "password", "timeout"})
    packages: ClassVar[Mapping[str, str]] = {"psycopg": "pgvector"}

    kind: Literal["pgvector"] = "pgvector"
    """A PostgreSQL table with pgvector."""

    url: Annotated[str, AfterValidator(postgres_url)]
    """The URL of the database, like `postgresql://user@localhost:5432/database`, without a password."""

    password: Secret | None = None
    """The user's password, like `${PGPASSWORD}`."""

    db_schema: str = Field(default="public", alias="schema")
    """The table's schema."""

    metadata: str | None = None
    """A JSON column with the metadata (default: all other columns are metadata)."""

    space: Space | None = None
    """The similarity measure (default: the measure of the column's index, or cosine without an index)."""

    ef_search: Annotated[int, Field(ge=1, le=1_000)] | None = None
    """`hnsw.ef_search` for the connection (default: the server's setting)."""

    probes: Annotated[int, Field(ge=1, le=32_768)] | None = None
    """`ivfflat.probes` for the connection (default: the server's setting)."""

    iterative_scan: Literal["off", "strict_order", "relaxed_order"] | None = None
    """`hnsw.iterative_scan` for the connection; needs pgvector 0.8 (default: the server's setting)."""

    timeout: Annotated[float, Field(gt=0)] = 60.0
    """The time limit for a request, in seconds."""

    @property
    def address(self) -> str:
        return self.url

    def open(self) -> PgvectorCollection:
        with opening(self.kind) as stack:
            database = Postgres(self.url, self.password, self.timeout, f"PostgreSQL at {self.url}")
            stack.callback(database.close)
            return PgvectorCollection(self, database, stack.pop_all())


class PgvectorCollection(Collection):
    """A table, open for reading."""

    options: PgvectorCollectionOptions

    def __init__(self, options: PgvectorCollectionOptions, database: Postgres, resources: ExitStack) -> None:
        super().__init__(options, resources)
        self._database = database
        database.run("SET default_transaction_read_only = on")
        found = database.ask("SELECT to_regclass(%s)::oid", self._table)
        if found[0][0] is None:
            tables = "SELECT relname FROM pg_class WHERE relkind IN (%s, %s, %s) AND relnamespace = %s::regnamespace"
            names = [str(name) for (name,) in database.ask(tables, "r", "v", "m", options.db_schema)]
            raise not_there(options, names)
        self.id = str(found[0][0])
        self._check_columns()
        self._index = self._index_of_column()
        self.space = options.space or self._space_of_index()
        self._database.extension()
        for name, value in (("hnsw.ef_search", options.ef_search), ("ivfflat.probes", options.probes),
                            ("hnsw.iterative_scan", options.iterative_scan)):  # fmt: skip
            if value is not None:
                database.run(f"SET {name} = {value}")

    @property
    def _table(self) -> str:
        return f"{_quoted(self.options.db_schema)}.{_quoted(self.options.name)}"

    def _check_columns(self) -> None:
        query = "SELECT attname FROM pg_attribute WHERE attrelid = %s::oid AND attnum > 0 AND NOT attisdropped"
        self._columns = [str(name) for (name,) in self._database.ask(query, self.id)]
        wanted = {key: getattr(self.options, key) for key in ("id", "text", "vector", "metadata")}
        missing = {key: name for key, name in wanted.items() if name is not None and name not in self._columns}
        if missing:
            said = ", ".join(f"{key}: {name}{did_you_mean(name, self._columns)}" for key, name in missing.items())
            raise InputError(f"{self} has no such column: {said} It has: {listed(self._columns)}.")

    def _index_of_column(self) -> _ColumnIndex | None:
        """The index on the vectors; None without one."""
        query = (
            "SELECT c.relname, pg_get_indexdef(i.indexrelid) FROM pg_index i "
            "JOIN pg_attribute a ON a.attrelid = i.indexrelid "
            "JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am m ON m.oid = c.relam "
            "WHERE i.indrelid = %s::oid AND i.indisvalid AND m.amname IN (%s, %s)"
        )
        indexes = [_ColumnIndex(*map(str, row)) for row in self._database.ask(query, self.id, "hnsw", "ivfflat")]
        columns = (self.options.vector, _quoted(self.options.vector))
        return next((index for index in indexes if any(f"({name} " in index.definition for name in columns)), None)

    def _space_of_index(self) -> Space:
        definition = self._index.definition if self._index else ""
        spaces: tuple[Space, ...] = get_args(Space)
        return next((space for space in spaces if f"_{space}_ops" in definition), "cosine")

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

    @cached_property
    def count(self) -> int:
        return int(self._database.ask(f"SELECT count(*) FROM {self._table}")[0][0])  # noqa: S608 - a quoted name

    @cached_property
    def dimension(self) -> int:
        vector = _quoted(self.options.vector)
        query = f"SELECT vector_dims({vector}::vector) FROM {self._table} WHERE {vector} IS NOT NULL LIMIT %s"  # noqa: S608 - as above
        found = self._database.ask(query, 1)
        return int(found[0][0]) if found else 0

    @property
    def _definition(self) -> str | None:
        return self._index.definition if self._index else None

    def inputs(self) -> Mapping[str, Any]:
        return {**super().inputs(), "index": self._definition, "space": self.space}

    def facts(self) -> Mapping[str, Fact]:
        return {"index": self._definition or "none", "server": self._database.version()}

    def pages(self, conditions: Conditions = ALL) -> Iterator[list[Item]]:
        where, values = self._where(conditions)
        query = f"SELECT {self._row} FROM {self._table}{where} ORDER BY {_quoted(self.options.id)} LIMIT %s OFFSET %s"  # noqa: S608 - as above
        offset = 0
        while rows := self._database.ask(query, *values, PAGE, offset):
            yield [_item(*row) for row in rows]
            offset += PAGE

    def get(self, ids: Sequence[str]) -> tuple[list[Item], Floats]:
        vector = f"{_quoted(self.options.vector)}::vector::real[]"
        query = f"SELECT {self._row}, {vector} FROM {self._table} WHERE {_quoted(self.options.id)}::text = ANY(%s)"  # noqa: S608 - as above
        rows = self._database.ask(query, list(ids))
        vectors = np.array([row[3] for row in rows], dtype=np.float32).reshape(len(rows), self.dimension)
        return [_item(*row[:3]) for row in rows], vectors

    def search(self, queries: Floats, depth: int, conditions: Conditions) -> Iterator[Found]:
        statement, values = self._search(conditions)
        for query in queries:
            text = vector_text(query)
            rows = self._database.ask(statement, text, *values, text, depth, prepare=True)
            yield Found([_item(*row[:3]) for row in rows], scores_of([row[3] for row in rows], self.space))

    def use(self) -> IndexUse:
        if self._index is None:
            return IndexUse(is_used=False, evidence="The column has no index of pgvector: every row is compared.")
        query, values = self._search(ALL)
        text = vector_text(np.ones(self.dimension, dtype=np.float32))
        ((plan,),) = self._database.ask(f"EXPLAIN (FORMAT JSON) {query}", text, *values, text, 10)
        name = self._index.name
        if name in json.dumps(plan):
            return IndexUse(is_used=True, evidence=f"EXPLAIN names the index {name}.")
        return IndexUse(is_used=False, evidence=f"EXPLAIN shows a scan of the whole table, not the index {name}.")

    def width(self, depth: int) -> None:
        """None: the connection sets how many candidates a search considers."""

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
        values = tuple(one.values)
        if self.options.metadata is None:
            if one.field not in self._columns:
                return ("true" if one.operator in ("$ne", "$nin") else "false"), ()
            field, holder = _quoted(one.field), "%s"
        else:
            field, holder = f"({_quoted(self.options.metadata)}::jsonb -> {_literal(one.field)})", "%s::jsonb"
            values = tuple(json.dumps(value) for value in values)
        if one.operator in _SQL:
            text = f"{field} {_SQL[one.operator]} {holder}"
            is_number = f"jsonb_typeof({field}) = 'number' AND " if self.options.metadata is not None else ""
            return f"COALESCE({is_number}{text}, false)", values
        text = " OR ".join(f"{field} = {holder}" for _ in values)
        is_among = f"COALESCE({text}, false)"
        return (f"NOT {is_among}" if one.operator in ("$ne", "$nin") else is_among), values


def _joined(every: bool, parts: Sequence[Sql]) -> Sql:  # noqa: FBT001 - as `translated` calls it
    text = (" AND " if every else " OR ").join(f"({text})" for text, _ in parts)
    return f"({text})", tuple(value for _, values in parts for value in values)


def _item(name: str, metadata: Any, text: str | None) -> Item:
    found = metadata if isinstance(metadata, Mapping) else {}
    return Item(name, {key: value for key, value in found.items() if value is not None}, text)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""').replace("%", "%%") + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''").replace("%", "%%") + "'"
