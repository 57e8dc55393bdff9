"""What every retriever owes, and how its chunks become the units that are scored."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any, ClassVar, Protocol, Self

import numpy as np
from pydantic import Field

from ragtrial.chunkers import AnyChunker
from ragtrial.context import ContextOptions
from ragtrial.embedders import AnyEmbedder
from ragtrial.options import Options
from ragtrial.rankings import Codes, Collapsed, Counts, Floats, Rankings, collapse, unfilled
from ragtrial.registry import Registry
from ragtrial.stores import AnyStore, Index


class Materials(Protocol):
    """What a retriever may ask for; nothing is made before it is asked."""

    def index(self) -> Index: ...

    def embed_queries(self, texts: Sequence[str]) -> Floats: ...


class OpenRetriever(Protocol):
    """A retriever at work."""

    def search(self, queries: Sequence[str], depth: int) -> Rankings:
        """Chunks for each query, at most ``depth``, best first; fewer when no more are found."""
        ...


class Retriever(Options):
    """A way from queries to rankings, and what reaches it when it differs from the rest of the config."""

    version: ClassVar[int] = 1
    """Part of the rankings' fingerprint: raise it whenever the same options would rank otherwise."""

    kind: str

    top_k: Annotated[int, Field(ge=1)] = 10
    """How many hits of each ranking are kept and scored: documents, or chunks under `unit: span`."""

    chunker: AnyChunker | None = None
    """This retriever's own chunker (default: the config's)."""

    context: ContextOptions | None = None
    """What this retriever's chunks are indexed with (default: the config's)."""

    embedder: AnyEmbedder | None = None
    """This retriever's own embedder (default: the config's)."""

    store: AnyStore | None = None
    """This retriever's own store (default: the config's)."""

    @abstractmethod
    def open(self, materials: Materials) -> OpenRetriever:
        """The retriever, ready to search."""

    def identity(self) -> dict[str, Any]:
        return {**self.model_dump(mode="json", exclude=REACHING), "version": self.version}


REACHING = {"chunker", "context", "embedder", "store"}
"""The options that say what reaches a retriever; all others are its own."""

RETRIEVERS: Registry[type[Retriever]] = Registry("retriever")
_FILE = "rankings.npz"


@dataclass(frozen=True, eq=False)
class Retrieved:
    """Ranked documents or chunks of many queries, the chunks that brought them, and how many were read for each."""

    collapsed: Collapsed
    read: Counts

    def save(self, folder: Path) -> None:
        """Write the rankings to a file of ``folder``."""
        with (folder / _FILE).open("wb") as file:
            np.savez(
                file,
                documents=self.collapsed.rankings.codes,
                scores=self.collapsed.rankings.scores,
                chunks=self.collapsed.units,
                dropped=self.collapsed.dropped,
                read=self.read,
            )

    @classmethod
    def load(cls, folder: Path) -> Self:
        """The rankings that were saved in ``folder``."""
        with np.load(BytesIO((folder / _FILE).read_bytes()), allow_pickle=False) as columns:
            rankings = Rankings(columns["documents"], columns["scores"])
            return cls(Collapsed(rankings, columns["chunks"], columns["dropped"]), columns["read"])


def retrieve_units(retriever: OpenRetriever, queries: Sequence[str], top_k: int, unit_of: Codes) -> Retrieved:
    """The best ``top_k`` units of each query: chunks collapsed to their documents, first one wins; or chunks.

    ``unit_of`` maps a chunk's code to its document's, or to itself. A query whose first ``top_k`` chunks hold fewer
    units is asked again for twice as many chunks, until it has ``top_k`` units, all there are, or no more chunks come.
    """
    wanted = min(top_k, len(np.unique(unit_of)))
    units = unfilled(len(queries), wanted)
    chunks = units.codes.copy()
    dropped = np.zeros(len(queries), dtype=np.int64)
    read = np.zeros(len(queries), dtype=np.int64)
    pending = np.arange(len(queries))
    depth = max(wanted, 1)
    while len(pending):
        found = retriever.search([queries[index] for index in pending.tolist()], depth)
        collapsed = collapse(found, unit_of)
        before = read[pending]
        read[pending], dropped[pending] = found.lengths, collapsed.dropped
        done = (collapsed.rankings.lengths >= wanted) | (found.lengths <= before) | (depth >= len(unit_of))
        kept = collapsed.cut(wanted)
        rows, width = pending[done], kept.rankings.depth
        units.codes[rows, :width] = kept.rankings.codes[done]
        chunks[rows, :width] = kept.units[done]
        units.scores[rows, :width] = kept.rankings.scores[done]
        pending = pending[~done]
        depth = min(2 * depth, max(len(unit_of), 1))
    return Retrieved(Collapsed(units, chunks, dropped), read)
