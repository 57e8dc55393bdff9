"""Vectors in, the nearest out. One file per kind, named as the kind, registers it."""

from typing import TYPE_CHECKING, Annotated, Any

from ragtrial.components.stores.base import STORES, Index, IndexUse, Store, Vectors
from ragtrial.registry import AnyOf

if TYPE_CHECKING:
    AnyStore = Store
else:
    AnyStore = Annotated[Any, AnyOf(STORES)]

__all__ = ["STORES", "AnyStore", "Index", "IndexUse", "Store", "Vectors"]
