"""Collections of every kind, filled with given items as another program would: what the contract runs on.

Whoever adds a kind adds a function here, and its line in FILLERS.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import numpy as np
from pydantic import SecretStr

from chroma_databases import Item, write_collection
from qdrant_double import qdrant_double
from ragtrial.engines import CollectionOptions
from ragtrial.engines.base import Space
from ragtrial.engines.chroma import ChromaCollectionOptions
from ragtrial.engines.faiss import FaissCollectionOptions
from ragtrial.engines.milvus import folder_client
from ragtrial.engines.milvus_collection import MilvusCollectionOptions
from ragtrial.engines.pgvector import PgvectorCollectionOptions
from ragtrial.engines.qdrant import QdrantCollectionOptions
from store_kinds import postgres_url

SECRET = "s3cr3t"


@dataclass(frozen=True)
class Stored:
    """An item, and its vector."""

    id: str
    text: str | None
    metadata: Mapping[str, Any]
    vector: Sequence[float]


@dataclass(frozen=True)
class Filled:
    """Options of a collection that has items; ``state`` is all that a search must not change, bytes or counts.

    ``elsewhere`` are options of one that is not there; ``secret`` such with SECRET in each of their secrets, None for
    a kind that has none. ``cuts_fractions`` is a fault of the engine: it compares whole numbers with 2024.5 as with
    2024.
    """

    options: CollectionOptions
    state: Callable[[], object]
    elsewhere: CollectionOptions
    secret: CollectionOptions | None = None
    cuts_fractions: bool = False


Filler = Callable[[Path, Sequence[Stored], Space], AbstractContextManager[Filled]]
"""Fills a new collection under a folder; its search is to be exact, if its engine can be made to."""


def bytes_below(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@contextmanager
def chroma(folder: Path, items: Sequence[Stored], space: Space) -> Iterator[Filled]:
    vectors = {item.text or item.id: item.vector for item in items}
    wide = {"ef_search": 500, "ef_construction": 500, "max_neighbors": 64}
    rows = [Item(item.id, item.text, item.metadata) for item in items]
    write_collection(folder / "db", rows, space=space, vector=vectors.__getitem__, graph=wide)
    path = str(folder / "db")
    secret = ChromaCollectionOptions(
        name="docs", url="http://127.0.0.1:9", headers={"Authorization": SecretStr(f"Bearer {SECRET}")}
    )
    yield Filled(
        ChromaCollectionOptions(name="docs", path=path), lambda: bytes_below(folder / "db"),
        ChromaCollectionOptions(name="dosc", path=path), secret,
        cuts_fractions=True,  # https://github.com/chroma-core/chroma/issues/7491
    )  # fmt: skip


@contextmanager
def faiss(folder: Path, items: Sequence[Stored], space: Space) -> Iterator[Filled]:
    import faiss as library

    vectors = np.array([one.vector for one in items], dtype=np.float32)
    index = library.IndexFlatL2(vectors.shape[1]) if space == "l2" else library.IndexFlatIP(vectors.shape[1])
    if space == "cosine":
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    index.add(vectors)
    folder.mkdir(exist_ok=True)
    library.write_index(index, str(folder / "docs.index"))
    rows = [{"id": one.id, "text": one.text, "metadata": one.metadata} for one in items]
    (folder / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    options = FaissCollectionOptions(kind="faiss", path=str(folder / "docs.index"), items=str(folder / "items.jsonl"))
    yield Filled(
        options, lambda: bytes_below(folder), options.model_copy(update={"path": str(folder / "elsewhere.index")})
    )


@contextmanager
def milvus(folder: Path, items: Sequence[Stored], space: Space) -> Iterator[Filled]:
    """In a folder of Milvus Lite: `lang` and `year` are fields of the schema, all other metadata are dynamic."""
    from pymilvus import DataType

    folder.mkdir(exist_ok=True)
    path = folder / "docs.db"
    client, close = folder_client(path)
    schema = client.create_schema(auto_id=False, enable_dynamic_field=True)
    schema.add_field("id", DataType.VARCHAR, is_primary=True, max_length=100)
    for name in ("text", "lang"):
        schema.add_field(name, DataType.VARCHAR, max_length=100, nullable=True)
    schema.add_field("year", DataType.INT64, nullable=True)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=len(items[0].vector))
    index = client.prepare_index_params()
    index.add_index("vector", index_type="FLAT", metric_type={"cosine": "COSINE", "ip": "IP", "l2": "L2"}[space])
    client.create_collection("docs", schema=schema, index_params=index)
    rows = [{"id": one.id, "text": one.text, "vector": list(one.vector), **one.metadata} for one in items]
    client.insert("docs", rows)
    client.flush("docs")
    close()
    options = MilvusCollectionOptions(kind="milvus", name="docs", path=str(path))
    place: Any = {"kind": "milvus", "name": "docs", "url": "http://127.0.0.1:9"}
    secret = MilvusCollectionOptions(**place, token=SecretStr(f"me:{SECRET}"))
    yield Filled(options, lambda: bytes_below(path), options.model_copy(update={"name": "dosc"}), secret)


@contextmanager
def pgvector(folder: Path, items: Sequence[Stored], space: Space) -> Iterator[Filled]:
    import psycopg

    url, name = postgres_url(), f"docs_{uuid4().hex[:8]}"
    with psycopg.connect(url, autocommit=True) as database:
        dimension = len(items[0].vector)
        columns = "id text PRIMARY KEY, body text, embedding vector(%d), lang text, year int, score float8, draft bool"
        database.execute(f'CREATE TABLE "{name}" ({columns % dimension})'.encode())
        for one in items:
            row = [one.id, one.text, str(list(one.vector)), *(one.metadata.get(key) for key in _METADATA)]
            database.execute(f'INSERT INTO "{name}" VALUES (%s, %s, %s, %s, %s, %s, %s)'.encode(), row)

    def state() -> object:
        with psycopg.connect(url) as database:
            return database.execute(f'SELECT * FROM "{name}" ORDER BY id'.encode()).fetchall()

    options = PgvectorCollectionOptions(
        kind="pgvector", url=url, name=name, text="body", vector="embedding", space=space
    )
    away = "postgresql://postgres@127.0.0.1:9/postgres"
    secret = options.model_copy(update={"url": away, "password": SecretStr(SECRET)})
    yield Filled(options, state, options.model_copy(update={"name": f"{name}s"}), secret)


_METADATA = ("lang", "year", "score", "draft")


@contextmanager
def qdrant(
    folder: Path, items: Sequence[Stored], space: Space, sent: list[tuple[str, dict[str, Any]]] | None = None
) -> Iterator[Filled]:
    from qdrant_client import QdrantClient, models

    distances = {"cosine": models.Distance.COSINE, "ip": models.Distance.DOT, "l2": models.Distance.EUCLID}

    def state() -> object:
        """The local mode of the client, which is behind the double, rounds lengths anew with each search."""
        points = client.scroll("docs", limit=1_000, with_vectors=True)[0]
        return {one.id: (one.payload, np.round(cast("list[float]", one.vector), 2).tolist()) for one in points}

    with qdrant_double(sent) as url:
        client = QdrantClient(url=url, check_compatibility=False)
        params = models.VectorParams(size=len(items[0].vector), distance=distances[space])
        client.create_collection("docs", vectors_config=params)
        ids: list[Any] = list(range(len(items)))
        payloads = [
            {"key": one.id, **one.metadata, **({} if one.text is None else {"text": one.text})} for one in items
        ]
        client.upsert("docs", models.Batch(ids=ids, vectors=[list(one.vector) for one in items], payloads=payloads))
        options = QdrantCollectionOptions(kind="qdrant", url=url, name="docs", id="key")
        secret = options.model_copy(update={"url": "http://127.0.0.1:9", "api_key": SecretStr(SECRET)})
        yield Filled(options, state, options.model_copy(update={"name": "dosc"}), secret)
        client.close()


FILLERS: Mapping[str, Filler] = {
    "chroma": chroma, "faiss": faiss, "milvus": milvus, "pgvector": pgvector, "qdrant": qdrant,
}  # fmt: skip
