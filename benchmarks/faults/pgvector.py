"""PostgreSQL with pgvector, as the package pgserver brings it (0.6.2)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from pydantic import ValidationError

from faults.base import QUERIES, ROWS, NotHereError, Seen, fault, recall, said_by_a_run
from ragtrial.engines.pgvector import PgvectorStore, vector_text
from ragtrial.errors import InputError
from ragtrial.rankings import Floats
from store_kinds import postgres_url

HNSW = {"kind": "hnsw", "m": 8, "ef_construction": 32, "ef_search": 40}
NO_SCANS = "&options=-c%20enable_seqscan%3Doff"
"""For a url: the planner takes the index, as it does by itself in larger tables."""


@contextmanager
def table(rows: Floats) -> Iterator[Any]:
    """The database, with the table `docs` and its index as tutorials make them; a row in fifty is in Welsh."""
    with psycopg.connect(postgres_url(), autocommit=True) as database:
        database.execute("DROP TABLE IF EXISTS docs")
        database.execute(
            f"CREATE TABLE docs (id text, text text, lang text, embedding vector({rows.shape[1]}))".encode()
        )
        with database.cursor().copy("COPY docs FROM STDIN") as copy:
            for code, row in enumerate(rows):
                copy.write_row((str(code), str(code), "en" if code % 50 else "cy", vector_text(row)))
        database.execute("CREATE INDEX docs_index ON docs USING hnsw (embedding vector_l2_ops) WITH (m = 8)")
        database.execute("ANALYZE docs")
        yield database


def found(database: Any, limit: int, where: str = "true") -> list[list[int]]:
    query = f"SELECT id FROM docs WHERE {where} ORDER BY embedding <-> %s LIMIT {limit}".encode()
    return [[int(one) for (one,) in database.execute(query, [vector_text(row)]).fetchall()] for row in QUERIES]


def store(**options: Any) -> dict[str, Any]:
    return {"kind": "pgvector", "space": "l2", "url": postgres_url(), "index": HNSW, **options}


@fault("pgvector", "ef_search is the most hits that a search returns")
def capped_limit(folder: Path) -> Seen:
    """A search returns at most ef_search hits, whatever LIMIT says."""
    with table(ROWS) as database:
        database.execute("SET enable_seqscan = off")
        lengths = {len(one) for one in found(database, 100)}
    said = said_by_a_run(folder, {"store": store(enable_seqscan=False), "top_k": 100})
    return Seen(max(lengths) < 100, f"LIMIT 100 returns {max(lengths)} rows at ef_search 40", said)


@fault("pgvector", "fewer-hits: one: 30 queries")
def starved_filter(folder: Path) -> Seen:
    """A filter is applied to what the index found, and leaves fewer hits than there are."""
    with table(ROWS) as database:
        database.execute("SET enable_seqscan = off")
        lengths = [len(one) for one in found(database, 10, "lang = 'cy'")]
    collection = {"kind": "pgvector", "url": postgres_url() + NO_SCANS, "name": "docs", "id": "id"}
    names = {"text": "text", "vector": "embedding"}
    said = said_by_a_run(folder, {"collection": {**collection, **names}, "where": {"lang": "cy"}})
    mean, passes = sum(lengths) / len(lengths), len(ROWS[::50])
    return Seen(mean < 10, f"LIMIT 10 returns {mean:.1f} rows on average, though {passes} pass the condition", said)


@fault("pgvector", "index-not-used: one: searches do not use the index")
def sequential_scan(folder: Path) -> Seen:
    """The planner scans small tables instead of searching the index."""
    rows = ROWS[:100]
    with table(rows) as database:
        ((plan,),) = database.execute(
            "EXPLAIN (FORMAT JSON) SELECT id FROM docs ORDER BY embedding <-> %s LIMIT 10", [vector_text(QUERIES[0])]
        ).fetchall()
        database.execute("SET hnsw.ef_search = 1")
        share = recall(found(database, 10), QUERIES, rows)
    scan = plan[0]["Plan"]["Plans"][0]["Plans"][0]["Node Type"]
    happens = f"recall {share:.3f} at ef_search 1 with {len(rows)} rows; EXPLAIN shows a {scan}"
    return Seen(share == 1, happens, said_by_a_run(folder, {"store": store()}, rows))


@fault("pgvector", "refused: ef_serach")
def misspelt_setting(_folder: Path) -> Seen:
    """A misspelt setting of a new connection is accepted and ignored."""
    with psycopg.connect(postgres_url(), autocommit=True) as database:  # in which nothing of pgvector is loaded yet
        database.execute("SET hnsw.ef_serach = 400")
        database.execute("SELECT '[1]'::vector")
        ((width,),) = database.execute("SHOW hnsw.ef_search").fetchall()
    try:
        PgvectorStore.model_validate(store(index={**HNSW, "ef_serach": 400}))
        said = ""
    except ValidationError as error:
        said = f"refused: {error.errors()[0]['loc'][-1]}: {error.errors()[0]['msg']}"
    return Seen(width == "40", f"SET hnsw.ef_serach = 400 succeeds; ef_search is {width}", said)


@fault("pgvector", "needs pgvector 0.8")
def setting_of_a_newer_version(_folder: Path) -> Seen:
    """A setting that this version does not have is accepted and ignored."""
    with psycopg.connect(postgres_url(), autocommit=True) as database:
        database.execute("SET hnsw.iterative_scan = strict_order")
        ((version,),) = database.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchall()
    if tuple(map(int, version.split("."))) >= (0, 8):
        raise NotHereError(f"pgvector {version} has iterative_scan")
    try:
        PgvectorStore.model_validate(store(index={**HNSW, "iterative_scan": "strict_order"})).check()
        said = ""
    except InputError as error:
        said = str(error)
    return Seen(is_there=True, happens=f"SET hnsw.iterative_scan succeeds in pgvector {version}", said=said)
