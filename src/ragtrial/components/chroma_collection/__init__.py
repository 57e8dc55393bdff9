"""A Chroma collection that is there already, as it is: someone else's ids, metadata and vectors."""

from ragtrial.components.chroma_collection.collection import Collection, Found, Items
from ragtrial.components.chroma_collection.collection_options import CollectionOptions
from ragtrial.components.chroma_collection.holding import held_collection

__all__ = ["Collection", "CollectionOptions", "Found", "Items", "held_collection"]
