"""Vector databases: indexes that are built, and collections that exist. One file per engine, named as its kind."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import BeforeValidator

from ragtrial.engines.base import STORES, Index, IndexUse, Store, Vectors
from ragtrial.engines.collection import COLLECTIONS, DEFAULT_KIND, Collection, CollectionOptions, Item, open_collection
from ragtrial.engines.filters import ALL, Conditions
from ragtrial.registry import AnyOf


def _of_a_kind(value: object) -> object:
    return {"kind": DEFAULT_KIND, **value} if isinstance(value, Mapping) and "kind" not in value else value


AnyStore = Annotated[Store, AnyOf(STORES)]
AnyCollection = Annotated[CollectionOptions, AnyOf(COLLECTIONS), BeforeValidator(_of_a_kind)]

__all__ = [
    "ALL", "COLLECTIONS", "STORES", "AnyCollection", "AnyStore", "Collection", "CollectionOptions", "Conditions",
    "Index", "IndexUse", "Item", "Store", "Vectors", "open_collection",
]  # fmt: skip
