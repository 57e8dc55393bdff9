"""Documents in, chunks with exact spans out. One file per kind, named as the kind, registers it."""

from typing import TYPE_CHECKING, Annotated, Any

from ragtrial.components.chunkers.base import (
    CHUNKERS,
    Chunker,
    EmbeddingChunker,
    LengthFunction,
    MeasuredChunker,
    SizedChunker,
)
from ragtrial.registry import AnyOf

if TYPE_CHECKING:
    AnyChunker = Chunker
else:
    AnyChunker = Annotated[Any, AnyOf(CHUNKERS)]

__all__ = ["CHUNKERS", "AnyChunker", "Chunker", "EmbeddingChunker", "LengthFunction", "MeasuredChunker", "SizedChunker"]
