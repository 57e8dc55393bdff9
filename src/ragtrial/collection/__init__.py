"""A Chroma collection that is there already, as it is: someone else's ids, metadata and vectors."""

from ragtrial.collection.collection import Collection, Found, Items
from ragtrial.collection.holding import held_collection
from ragtrial.collection.options import CollectionOptions

__all__ = ["Collection", "CollectionOptions", "Found", "Items", "held_collection"]
