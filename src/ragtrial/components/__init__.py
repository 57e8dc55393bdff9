"""What a config names: chunkers, embedders, stores, retrievers, refiners, executors, and what they share."""
