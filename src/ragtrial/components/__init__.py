"""The parts that a config names (chunkers, embedders, retrievers, refiners, executors), and their shared code."""
