"""Chroma's local index (HNSW): what most prototypes ship with, and approximate."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import numpy as np
from pydantic import Field

from ragtrial.errors import StoreError
from ragtrial.options import Options
from ragtrial.rankings import Floats, Rankings, unfilled
from ragtrial.stores.base import STORES, Index, Space, Store, Vectors

if TYPE_CHECKING:
    from chromadb.api.client import Client
    from chromadb.api.collection_configuration import CreateHNSWConfiguration
    from chromadb.api.models.Collection import Collection

_COLLECTION = "chunks"
_ADD_BATCH = 5_000  # Chroma refuses more than 5,461 at once
_QUERY_BATCH = 256
_FINISHED = "finished.json"


class HnswOptions(Options):
    """How Chroma builds and searches its graph; all of it is part of the index's identity."""

    ef_construction: Annotated[int, Field(ge=1)] = 100
    """Candidates considered while building; more is slower to build and more exact."""

    max_neighbors: Annotated[int, Field(ge=2)] = 16
    """Links per vector; more takes memory and is more exact."""

    ef_search: Annotated[int, Field(ge=1)] = 100
    """Candidates considered while searching; more is slower and more exact. Never below the hits asked for."""


@STORES.register("chroma")
class ChromaStore(Store):
    """A local Chroma collection, one directory per index."""

    kind: Literal["chroma"] = "chroma"
    """A local Chroma collection: approximate search, as most prototypes ship it."""

    hnsw: HnswOptions = HnswOptions()
    """How the graph is built and searched."""

    def build(self, vectors: Vectors, folder: Path, advance: Callable[[int], None]) -> None:
        # Set when the collection is made: changing ef_search on a loaded one has no effect in this process.
        hnsw = cast("CreateHNSWConfiguration", {"space": self.space, **self.hnsw.model_dump()})
        try:
            with _client(folder) as client:
                collection = client.create_collection(
                    _COLLECTION, configuration={"hnsw": hnsw}, embedding_function=None
                )
                for start in range(0, len(vectors.ids), _ADD_BATCH):
                    ids = vectors.ids[start : start + _ADD_BATCH]
                    collection.add(ids=ids, embeddings=np.asarray(vectors.matrix[start : start + _ADD_BATCH]))
                    advance(len(ids))
                if collection.count() != len(vectors.ids):
                    raise StoreError(f"Chroma kept {collection.count()} of {len(vectors.ids)} vectors in {folder}.")
        except StoreError:
            raise
        except Exception as error:  # Chroma's own errors share no base with its Rust core's
            raise StoreError(f"Chroma could not build the index in {folder}: {error}") from error
        finished = {"id": uuid.uuid4().hex, "vectors": len(vectors.ids), "files": _sizes(folder)}
        (folder / _FINISHED).write_text(json.dumps(finished))

    def built_id(self, folder: Path) -> str:
        return str(_finished(folder)["id"])

    def open(self, vectors: Vectors, folder: Path) -> Index:
        return ChromaIndex(self, vectors, folder)


class ChromaIndex:
    """A built collection. Its process must be the only one that has the directory open."""

    def __init__(self, store: ChromaStore, vectors: Vectors, folder: Path) -> None:
        self._store = store
        self._codes = {name: code for code, name in enumerate(vectors.ids)}
        self._folder = folder
        self._id = store.built_id(folder)
        _check_files(folder)
        try:
            self._client = _client(folder)
        except Exception as error:
            raise _damaged(folder, error) from error
        try:
            self._collection: Collection = self._client.get_collection(_COLLECTION, embedding_function=None)
            count = self._collection.count()
        except Exception as error:
            self.close()
            raise _damaged(folder, error) from error
        if count != len(vectors.ids):
            self.close()
            raise _damaged(folder, f"it has {count} of {len(vectors.ids)} vectors")

    def search(self, queries: Floats, depth: int) -> Rankings:
        depth = min(depth, len(self._codes))
        made = unfilled(len(queries), depth)
        if not depth:
            return made
        for start in range(0, len(queries), _QUERY_BATCH):
            batch = np.asarray(queries[start : start + _QUERY_BATCH], dtype=np.float32)
            try:
                found = self._collection.query(query_embeddings=batch, n_results=depth, include=["distances"])
            except Exception as error:
                raise _damaged(self._folder, error) from error
            for row, (ids, distances) in enumerate(zip(found["ids"], found["distances"] or [], strict=True), start):
                made.codes[row, : len(ids)] = [self._codes[name] for name in ids]
                made.scores[row, : len(ids)] = _score(np.asarray(distances, dtype=np.float32), self._store.space)
        return made

    def describe(self) -> dict[str, Any]:
        options = self._store.hnsw.model_dump()
        return {
            "kind": "chroma",
            "id": self._id,
            "space": self._store.space,
            "vectors": len(self._codes),
            "hnsw": options,
            "bytes": sum(_sizes(self._folder).values()),
        }

    def close(self) -> None:
        self._client.close()


def _damaged(folder: Path, why: object) -> StoreError:
    return StoreError(f"the Chroma index in {folder} cannot be read ({why}); delete the folder: it is built again.")


def _finished(folder: Path) -> dict[str, Any]:
    """What was noted of the index in ``folder`` when it was finished: its id, and the sizes of its files."""
    try:
        finished = json.loads((folder / _FINISHED).read_text())
        return {"id": finished["id"], "files": dict(finished["files"])}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _damaged(folder, f"{_FINISHED}: {error}") from error


def _check_files(folder: Path) -> None:
    """Raise StoreError if a file is missing or cut short: Chroma answers from what is left, and says nothing."""
    sizes = _sizes(folder)
    for name, size in _finished(folder)["files"].items():
        if sizes.get(name, -1) < size:
            raise _damaged(folder, f"{name} is missing or cut short")


def _sizes(folder: Path) -> dict[str, int]:
    """The bytes of every file in ``folder``."""
    return {path.relative_to(folder).as_posix(): path.stat().st_size for path in folder.rglob("*") if path.is_file()}


def _score(distances: Floats, space: Space) -> Floats:
    return -distances if space == "l2" else 1 - distances


def _client(folder: Path) -> Client:
    """A client of one directory, deaf to what the environment and the .env file of the working directory say."""
    import chromadb
    from chromadb.api.shared_system_client import SharedSystemClient
    from chromadb.config import Settings

    settings = Settings.model_construct(anonymized_telemetry=False)
    try:
        return cast("Client", chromadb.PersistentClient(path=str(folder), settings=settings))
    except Exception:
        # Chroma keeps a client that failed to start, and would hand it out when the path is opened again.
        SharedSystemClient._identifier_to_system.pop(str(folder), None)  # noqa: SLF001
        raise
