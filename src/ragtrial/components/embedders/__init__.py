"""Texts in, float32 vectors out. One file per kind, named as the kind, registers it."""

from typing import TYPE_CHECKING, Annotated, Any

from ragtrial.components.embedders.base import EMBEDDERS, Embedder, Encode
from ragtrial.registry import AnyOf

if TYPE_CHECKING:
    AnyEmbedder = Embedder
else:
    AnyEmbedder = Annotated[Any, AnyOf(EMBEDDERS)]

__all__ = ["EMBEDDERS", "AnyEmbedder", "Embedder", "Encode"]
