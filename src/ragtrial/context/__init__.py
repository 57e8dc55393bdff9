"""What is indexed for a chunk: its text, and what is put around it."""

from ragtrial.context.options import ContextOptions
from ragtrial.context.surroundings import Surroundings
from ragtrial.context.texts import IndexedTexts

__all__ = ["ContextOptions", "IndexedTexts", "Surroundings"]
