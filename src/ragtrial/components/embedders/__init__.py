"""Texts in, float32 vectors out. One file per kind, named as the kind, registers it."""

from typing import Annotated

from ragtrial.components.embedders.base import EMBEDDERS, Embedder, Encode
from ragtrial.registry import AnyOf

AnyEmbedder = Annotated[Embedder, AnyOf(EMBEDDERS)]

__all__ = ["EMBEDDERS", "AnyEmbedder", "Embedder", "Encode"]
