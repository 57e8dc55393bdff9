"""A Chroma collection that is there already, as it is: someone else's ids, metadata and vectors."""

from ragtrial.components.chroma_collection.collection import Collection, CollectionOptions, Conditions, Item
from ragtrial.components.chroma_collection.opening import held_collection

__all__ = ["Collection", "CollectionOptions", "Conditions", "Item", "held_collection"]
