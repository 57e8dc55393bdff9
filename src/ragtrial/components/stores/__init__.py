"""Vectors in, the nearest out. A file for each kind, of its name, registers it."""

from typing import TYPE_CHECKING, Annotated, Any

from ragtrial.components.stores.base import STORES, Index, IndexUse, Store, Vectors
from ragtrial.registry import AnyOf

if TYPE_CHECKING:
    AnyStore = Store
else:
    AnyStore = Annotated[Any, AnyOf(STORES)]

__all__ = ["STORES", "AnyStore", "Index", "IndexUse", "Store", "Vectors"]
