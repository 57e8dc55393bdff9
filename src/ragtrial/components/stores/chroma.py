"""Chroma's local index (HNSW): what most prototypes ship with, and approximate."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, cast

import numpy as np
from pydantic import Field

from ragtrial.components.stores.base import STORES, Index, Space, Store, Vectors
from ragtrial.errors import StoreError
from ragtrial.options import Options
from ragtrial.rankings import Floats, Rankings, unfilled

if TYPE_CHECKING:
    from chromadb.api.client import Client
    from chromadb.api.collection_configuration import CreateHNSWConfiguration
    from chromadb.api.models.Collection import Collection

_COLLECTION = "chunks"
_ADD_BATCH = 5_000  # Chroma refuses more than 5,461 at once
_QUERY_BATCH = 256
_BYTES_OF_A_ROW = 500  # in its database and its log, about
_FEWEST_SYNCED = 2  # Chroma's lowest sync_threshold
_OWN_NEIGHBOURS = 1_000
"""How many hits a vector is looked for among when it is itself the query; more only if as many are equal to it."""


class HnswOptions(Options):
    """How Chroma builds and searches its graph; all of it is part of the index's identity."""

    ef_construction: Annotated[int, Field(ge=1)] = 100
    """Candidates considered while building; more is slower to build and more exact."""

    max_neighbors: Annotated[int, Field(ge=2)] = 16
    """Links per vector; more takes memory and is more exact."""

    ef_search: Annotated[int, Field(ge=1)] = 100
    """Candidates considered while searching; more is slower and more exact. Never below the hits asked for: what a
    refiner wants deeper than this is searched for apart, so that no setting is searched more widely for another's
    sake."""


@STORES.register("chroma")
class ChromaStore(Store):
    """A local Chroma collection, one directory per index."""

    advice_for_low_recall: ClassVar[str] = "Raise store.hnsw.ef_search or max_neighbors, or set store.kind: exact."
    advice_for_unreachable: ClassVar[str] = (
        "Raise store.hnsw.max_neighbors or ef_construction, or set store.kind: exact."
    )

    kind: Literal["chroma"] = "chroma"
    """A local Chroma collection: approximate search, as most prototypes ship it."""

    hnsw: HnswOptions = HnswOptions()
    """How the graph is built and searched."""

    def width(self, depth: int) -> int:
        return max(self.hnsw.ef_search, depth)

    def bytes_of(self, vectors: int, dimension: int) -> int:
        return vectors * (3 * 4 * dimension + _BYTES_OF_A_ROW)

    def build(self, vectors: Vectors, folder: Path, advance: Callable[[int], None]) -> None:
        # Set when the collection is made: changing ef_search on a loaded one has no effect in this process.
        options = {"space": self.space, **self.hnsw.model_dump(), **_synced(len(vectors))}
        hnsw = cast("CreateHNSWConfiguration", options)
        try:
            (folder / "chroma.sqlite3").touch()  # with the user's umask, which SQLite heeds only in part
            with _client(folder) as client:
                collection = client.create_collection(
                    _COLLECTION, configuration={"hnsw": hnsw}, embedding_function=None
                )
                for start, end in pairwise(_batches(len(vectors))):
                    batch = np.asarray(vectors.matrix[start:end])
                    collection.add(ids=[str(code) for code in range(start, end)], embeddings=batch)
                    advance(end - start)
                if collection.count() != len(vectors):
                    raise StoreError(f"Chroma kept {collection.count()} of {len(vectors)} vectors in {folder}.")
            _remove_unfilled(folder)
        except StoreError:
            raise
        except BaseException as error:
            if not is_chroma_error(error):
                raise
            need = f"It needs about {3 * vectors.matrix.nbytes / 1e6:,.0f} MB of disk and as much memory"
            message = f"Chroma could not build the index in {folder}: {error}. {need}; store.kind: exact needs neither."
            raise StoreError(message) from error

    def open(self, vectors: Vectors, folder: Path) -> Index:
        return ChromaIndex(self, vectors, folder)


class ChromaIndex:
    """A built collection. Its process must be the only one that has the directory open."""

    def __init__(self, store: ChromaStore, vectors: Vectors, folder: Path) -> None:
        self._store = store
        self._vectors = vectors
        self._folder = folder
        with self._errors():
            self._client = _client(folder)
        try:
            with self._errors():
                self._collection: Collection = self._client.get_collection(_COLLECTION, embedding_function=None)
                count = self._collection.count()
            if count != len(vectors):
                raise _damaged(folder, f"it has {count} of {len(vectors)} vectors")
        except BaseException:
            self.close()
            raise

    def search(self, queries: Floats, depth: int) -> Rankings:
        depth = min(depth, len(self._vectors))
        made = unfilled(len(queries), depth)
        if not depth:
            return made
        for start in range(0, len(queries), _QUERY_BATCH):
            batch = np.asarray(queries[start : start + _QUERY_BATCH], dtype=np.float32)
            with self._errors():
                found = self._collection.query(query_embeddings=batch, n_results=depth, include=["distances"])
            names, distances = found["ids"], found["distances"] or []
            lengths = np.fromiter(map(len, names), np.int64, len(names))
            is_hit, count = np.arange(depth) < lengths[:, None], int(lengths.sum())
            rows = slice(start, start + len(names))
            made.codes[rows][is_hit] = np.fromiter(map(int, chain.from_iterable(names)), np.int32, count)
            found_at = np.fromiter(chain.from_iterable(distances), np.float32, count)
            made.scores[rows][is_hit] = score_of(found_at, self._store.space)
        return made

    def unreachable(self) -> int:
        """Vectors that are neither in a listing of everything, nor among the thousand nearest of any such vector."""
        count = len(self._vectors)
        if not count:
            return 0
        reached = np.zeros(count + 1, dtype=np.bool_)  # the last one stands for the padding
        reached[self.search(self._vectors.matrix[:1], count).codes] = True
        missing = np.flatnonzero(~reached[:count])
        for start in range(0, len(missing), _QUERY_BATCH):
            block = self._vectors.matrix[missing[start : start + _QUERY_BATCH]]
            reached[self.search(block, _OWN_NEIGHBOURS).codes] = True
        return int(np.count_nonzero(~reached[:count]))

    def close(self) -> None:
        self._client.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            if not is_chroma_error(error):
                raise
            raise _damaged(self._folder, error) from error


def _batches(count: int) -> list[int]:
    """Where batches of equal size start, and the end of the last."""
    parts = -(-count // _ADD_BATCH)
    return [count * part // parts for part in range(parts + 1)] if parts else []


def _synced(count: int) -> dict[str, int]:
    """Options under which the last batch is written into the graph at once.

    Chroma leaves fewer than 1,000 new vectors in its log, and adds them to the graph anew each time it is opened:
    each time another graph.
    """
    threshold = max(_FEWEST_SYNCED, min(1_000, count))
    return {"sync_threshold": threshold, "batch_size": min(100, threshold)}


def _remove_unfilled(folder: Path) -> None:
    """Remove the files of a graph that holds nothing: Chroma makes them anew, with other bytes, at every opening."""
    for header in folder.glob("*/header.bin"):
        if not (header.parent / "index_metadata.pickle").exists():
            shutil.rmtree(header.parent)


def _damaged(folder: Path, why: object) -> StoreError:
    return StoreError(
        f"the Chroma index in {folder} cannot be read ({why}). `ragtrial cache verify` removes what is damaged; if "
        "memory was short, free some, or set store.kind: exact."
    )


def is_chroma_error(error: BaseException) -> bool:
    """Whether Chroma failed: its own errors share no base with its Rust core's, whose panics are no Exceptions."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def score_of(distances: Floats, space: Space) -> Floats:
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
