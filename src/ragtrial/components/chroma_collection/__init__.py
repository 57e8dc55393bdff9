"""A Chroma collection that is there already, as it is: someone else's ids, metadata and vectors."""

from ragtrial.components.chroma_collection.collection import Collection, CollectionItems, CollectionOptions, Found
from ragtrial.components.chroma_collection.holding import held_collection

__all__ = ["Collection", "CollectionItems", "CollectionOptions", "Found", "held_collection"]
