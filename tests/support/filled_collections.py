"""Collections of every kind, filled with given items as another program would: what the contract runs on.

Whoever adds a kind adds a function here, and its line in FILLERS.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from pydantic import SecretStr

from ragtrial.components.collections import CollectionOptions
from ragtrial.components.collections.chroma import ChromaCollectionOptions
from ragtrial.components.collections.faiss import FaissCollectionOptions
from ragtrial.components.stores.base import Space

if TYPE_CHECKING:
    from chromadb.api.client import Client

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
    import chromadb
    from chromadb.config import Settings

    settings = Settings.model_construct(anonymized_telemetry=False)
    with cast("Client", chromadb.PersistentClient(path=str(folder / "db"), settings=settings)) as client:
        wide: Any = {"space": space, "ef_search": 500, "ef_construction": 500, "max_neighbors": 64}
        made = client.create_collection("docs", configuration={"hnsw": wide}, embedding_function=None)
        for has_text in (True, False):
            some = [one for one in items if (one.text is not None) == has_text]
            if some:
                metadatas: list[Any] = [dict(one.metadata) or None for one in some]
                made.add(
                    ids=[one.id for one in some],
                    embeddings=np.array([one.vector for one in some], dtype=np.float32),
                    documents=[str(one.text) for one in some] if has_text else None,
                    metadatas=metadatas if any(metadatas) else None,
                )
    path = str(folder / "db")
    secret = ChromaCollectionOptions(
        name="docs", host="127.0.0.1", port=9, headers={"Authorization": SecretStr(f"Bearer {SECRET}")}
    )
    yield Filled(
        ChromaCollectionOptions(name="docs", path=path),
        lambda: bytes_below(folder / "db"),
        ChromaCollectionOptions(name="dosc", path=path),
        secret,
        cuts_fractions=True,  # https://github.com/chroma-core/chroma/issues/7491
    )


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
    options = FaissCollectionOptions(path=str(folder / "docs.index"), items=str(folder / "items.jsonl"))
    yield Filled(
        options, lambda: bytes_below(folder), options.model_copy(update={"path": str(folder / "elsewhere.index")})
    )


FILLERS: Mapping[str, Filler] = {"chroma": chroma, "faiss": faiss}
