"""ragtrial runs retrieval experiments for RAG from a config file, and says which setting is really better."""

__version__ = "0.1.0"
