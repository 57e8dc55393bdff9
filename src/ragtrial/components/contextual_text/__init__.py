"""What is indexed for a chunk: its text, and what is put around it."""

from ragtrial.components.contextual_text.context_options import ContextOptions
from ragtrial.components.contextual_text.indexed_texts import IndexedTexts
from ragtrial.components.contextual_text.surroundings import Surroundings

__all__ = ["ContextOptions", "IndexedTexts", "Surroundings"]
