"""Questions in, rankings out. One file per kind, named as the kind, registers it."""

from ragtrial.components.interfaces import (
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
