"""Which setting is really better: differences over the same queries, how sure one can be of them, and what to do."""
