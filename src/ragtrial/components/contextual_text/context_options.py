"""What a config says about the text around a chunk."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from ragtrial.options import Options, PathText

VERSION = 1
"""Part of the fingerprint of what surrounds chunks: raise it whenever the same options would put something else."""


class ContextOptions(Options):
    """What is indexed for a chunk besides its own text; spans, sizes of hits and what is shown stay the chunk's.

    A chunker's `size` counts the title and a model's special tokens; all else comes on top of it.
    """

    title: bool = True
    """The document's title, before the chunk. If false, a chunk's size does not count it either."""

    headings: bool = False
    """The headings that the chunk stands below, like `Setup > Install`; without the title and those in the chunk."""

    sentences: Annotated[int, Field(ge=0)] = 0
    """So many sentences before the chunk and after it; one that the chunk cuts is completed, and counts."""

    prefixes: PathText | None = None
    """A JSONL file with a text for each chunk, made from what `ragtrial chunks` writes (default: none)."""

    @property
    def is_bare(self) -> bool:
        """Whether a chunk's own text and its title say all that is indexed."""
        return not self.headings and not self.sentences and self.prefixes is None

    def identity(self) -> dict[str, Any]:
        """What is hashed; of ``prefixes`` the content counts, which is no option."""
        return {**self.model_dump(mode="json", exclude={"prefixes"}), "version": VERSION}
