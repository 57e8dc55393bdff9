"""Questions in, rankings out. A file for each kind, of its name, registers it."""

from ragtrial.components.retrievers.base import (
    RETRIEVERS,
    Candidates,
    ChunkRetriever,
    Facts,
    OpenRetriever,
    Ranker,
    Retriever,
    RetrieverContext,
    VectorRetriever,
)

__all__ = [
    "RETRIEVERS",
    "Candidates",
    "ChunkRetriever",
    "Facts",
    "OpenRetriever",
    "Ranker",
    "Retriever",
    "RetrieverContext",
    "VectorRetriever",
]
