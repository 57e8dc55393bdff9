"""Vectors in, the nearest out. One file per kind; each registers itself."""

import sys
from typing import TYPE_CHECKING

from ragtrial.components.stores.base import STORES, Index, IndexUse, Store, Vectors
from ragtrial.options import union_of
from ragtrial.registry import import_members

import_members(sys.modules[__name__])

if TYPE_CHECKING:
    AnyStore = Store
else:
    AnyStore = union_of(STORES)

__all__ = ["STORES", "AnyStore", "Index", "IndexUse", "Store", "Vectors"]
