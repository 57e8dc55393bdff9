"""Documents in, chunks with exact spans out. One file per kind; each registers itself."""

import sys
from typing import TYPE_CHECKING

from ragtrial.components.chunkers.base import (
    CHUNKERS,
    Chunker,
    EmbeddingChunker,
    LengthFunction,
    MeasuredChunker,
    SizedChunker,
)
from ragtrial.options import union_of
from ragtrial.registry import import_members

import_members(sys.modules[__name__])

if TYPE_CHECKING:
    AnyChunker = Chunker
else:
    AnyChunker = union_of(CHUNKERS)

__all__ = ["CHUNKERS", "AnyChunker", "Chunker", "EmbeddingChunker", "LengthFunction", "MeasuredChunker", "SizedChunker"]
