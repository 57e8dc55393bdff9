"""Texts in, float32 vectors out. One file per kind; each registers itself."""

import sys
from typing import TYPE_CHECKING

from ragtrial.components.embedders.base import EMBEDDERS, Embedder, Encode
from ragtrial.options import union_of
from ragtrial.registry import import_members

import_members(sys.modules[__name__])

if TYPE_CHECKING:
    AnyEmbedder = Embedder
else:
    AnyEmbedder = union_of(EMBEDDERS)

__all__ = ["EMBEDDERS", "AnyEmbedder", "Embedder", "Encode"]
