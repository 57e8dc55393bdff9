"""Chroma databases as other programs leave them, and servers of them."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from experiments import EMBEDDING
from local_servers import local_server
from ragtrial.engines.base import Space

if TYPE_CHECKING:
    from chromadb.api.client import Client

Vector = Callable[[str], Sequence[float]]


def word_counts(text: str) -> list[float]:
    """The vector that the function of small experiments makes of a text."""
    names: dict[str, Any] = {"__file__": __file__}
    exec(EMBEDDING, names)
    return cast("list[float]", names["vector"](text))


@dataclass(frozen=True)
class Item:
    """What a program puts into a collection."""

    id: str
    text: str | None
    metadata: Mapping[str, Any] | None = None


def write_collection(
    folder: Path,
    items: Sequence[Item],
    name: str = "docs",
    space: Space = "cosine",
    vector: Vector = word_counts,
    graph: Mapping[str, int] | None = None,
) -> Path:
    """Add a collection to the database in ``folder``; items without a text get the vector of their id."""
    import chromadb
    from chromadb.config import Settings

    settings = Settings.model_construct(anonymized_telemetry=False)
    with cast("Client", chromadb.PersistentClient(path=str(folder), settings=settings)) as client:
        made = client.create_collection(
            name, configuration=cast("Any", {"hnsw": {"space": space, **(graph or {})}}), embedding_function=None
        )
        with_text, without = [one for one in items if one.text], [one for one in items if not one.text]
        for some in filter(None, (with_text, without)):
            metadatas: list[Any] = [dict(one.metadata) if one.metadata else None for one in some]
            made.add(
                ids=[one.id for one in some],
                embeddings=np.array([vector(one.text or one.id) for one in some], dtype=np.float32),
                documents=[str(one.text) for one in some] if some is with_text else None,
                metadatas=metadatas if any(metadatas) else None,
            )
    return folder


def free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])


@contextmanager
def chroma_server(folder: Path) -> Iterator[int]:
    """The port of a Chroma server of ``folder`` on this machine."""
    chroma = [str(Path(sys.executable).with_name("chroma")), "run", "--host", "127.0.0.1", "--path", str(folder)]
    log = folder.parent / "chroma-server.log"
    with local_server(lambda port: [*chroma, "--port", str(port)], log, answers="api/v2/heartbeat") as address:
        yield int(address.rpartition(":")[2])
