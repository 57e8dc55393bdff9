"""What a config names: chunkers, embedders, stores, retrievers, refiners, and what they share."""
