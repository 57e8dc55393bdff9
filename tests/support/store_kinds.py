"""Stores as the tests have them: in a folder, or on a server that is started here and ends with the tests."""

import atexit
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from chroma_databases import chroma_server
from milvus_servers import milvus_server
from qdrant_double import qdrant_double
from ragtrial.engines import STORES, Index, Store, Vectors
from ragtrial.engines.base import Space
from ragtrial.rankings import Floats, Rankings

SPACES: tuple[Space, ...] = get_args(Space)
Server = Callable[[Path], AbstractContextManager[dict[str, Any]]]


@dataclass(frozen=True)
class StoreKind:
    """A kind of store in one place. ``server`` starts one in an empty folder and gives the options that reach it.

    ``exact`` are options with which it compares all vectors, or searches a graph so widely that it reaches all;
    ``starved`` those of a poor graph that is searched narrowly, ``wide`` what changes of them for a wide search; None
    where it has no graph to starve.
    """

    kind: str
    exact: Mapping[str, Any]
    server: Server | None = None
    starved: Mapping[str, Any] | None = None
    wide: Mapping[str, Any] = field(default_factory=dict)

    def store(self, reached: Mapping[str, Any], **options: Any) -> Store:
        """Such a store; ``reached`` are the options of its server."""
        return STORES[self.kind].model_validate({"kind": self.kind, **reached, **options})


@contextmanager
def _chroma(folder: Path) -> Iterator[dict[str, Any]]:
    with chroma_server(folder) as port:
        yield {"url": f"http://127.0.0.1:{port}"}


@contextmanager
def _qdrant(_folder: Path) -> Iterator[dict[str, Any]]:
    with qdrant_double() as url:
        yield {"url": url}


@cache
def postgres_url() -> str:
    """PostgreSQL with pgvector as a package brings it, on a socket in a folder of its own, until this process ends."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a runtime folder that this machine may lack
        from pgserver.postgres_server import get_server

        folder = tempfile.mkdtemp(prefix="postgres-")
        server = get_server(folder)

    def end() -> None:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(end)
    server.psql("CREATE EXTENSION IF NOT EXISTS vector;")
    return str(server.get_uri())


_FLAT = {"index": {"kind": "flat"}}
_EXHAUSTIVE_CHROMA = {"hnsw": {"max_neighbors": 64, "ef_construction": 400, "ef_search": 10_000}}
_STARVED_CHROMA = {"hnsw": {"max_neighbors": 4, "ef_construction": 10, "ef_search": 10}}
_WIDE_CHROMA = {"hnsw": {"max_neighbors": 4, "ef_construction": 10, "ef_search": 400}}
_STARVED = {"index": {"kind": "hnsw", "m": 4, "ef_construction": 10, "ef_search": 10}}
_WIDE = {"index": {**_STARVED["index"], "ef_search": 400}}
_STARVED_QDRANT = {**_STARVED["index"], "full_scan_threshold": 10, "indexing_threshold": 1}

KINDS: dict[str, StoreKind] = {
    "exact": StoreKind("exact", {}),
    "chroma": StoreKind("chroma", _EXHAUSTIVE_CHROMA, starved=_STARVED_CHROMA, wide=_WIDE_CHROMA),
    "chroma-server": StoreKind("chroma", _EXHAUSTIVE_CHROMA, _chroma, starved=_STARVED_CHROMA, wide=_WIDE_CHROMA),
    "faiss": StoreKind("faiss", {"factory": "Flat"},
     starved={"factory": "HNSW4", "ef_construction": 10, "ef_search": 1}, wide={"ef_search": 400}),
    "milvus": StoreKind("milvus", _FLAT, starved=_STARVED, wide=_WIDE),
    "milvus-server": StoreKind("milvus", _FLAT, milvus_server, starved=_STARVED, wide=_WIDE),
    "qdrant": StoreKind(
        "qdrant", _FLAT, starved={"index": _STARVED_QDRANT}, wide={"index": {**_STARVED_QDRANT, "ef_search": 400}}
    ),
    "qdrant-server": StoreKind("qdrant", _FLAT, _qdrant),
    "pgvector": StoreKind("pgvector", _FLAT, lambda _: nullcontext({"url": postgres_url()}),
                          starved={**_STARVED, "enable_seqscan": False}, wide=_WIDE),
}  # fmt: skip
"""By a name for tests. Every kind that is registered is here, in each place where it can be."""


def nothing(count: int) -> None:
    """No one is reported."""


@contextmanager
def opened(store: Store, vectors: Vectors, folder: Path) -> Iterator[Index]:
    """The index, built if ``folder`` is empty."""
    if not any(folder.iterdir()):
        store.build(vectors, folder, nothing)
    index = store.open(vectors, folder)
    try:
        yield index
    finally:
        index.close()


def found_by(store: Store, vectors: Vectors, queries: npt.ArrayLike, depth: int, folder: Path) -> Rankings:
    with opened(store, vectors, folder) as index:
        return index.search(np.asarray(queries, dtype=np.float32), depth)


def assert_same(one: Rankings, other: Rankings) -> None:
    np.testing.assert_array_equal(one.codes, other.codes)
    np.testing.assert_array_equal(one.scores, other.scores)


def recall(found: Floats | npt.NDArray[Any], true: npt.NDArray[Any]) -> float:
    """The mean share of each row of ``true`` that is in the row of ``found``."""
    return float(np.mean([len(set(row) & set(other)) / len(other) for row, other in zip(found, true, strict=True)]))
