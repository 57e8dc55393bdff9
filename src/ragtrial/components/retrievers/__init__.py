"""Questions in, rankings out. One file per kind; each registers itself."""

import sys

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
from ragtrial.registry import import_members

import_members(sys.modules[__name__])

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
