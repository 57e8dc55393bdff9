"""Late chunking: the model reads whole documents, and a chunk's vector is the mean of its tokens' vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from ragtrial.cache.fingerprints import Digest, file_digest
from ragtrial.components.embedders.base import EMBEDDERS
from ragtrial.components.embedders.sentence_transformer import SentenceTransformerEmbedder


@EMBEDDERS.register("late-chunking")
class LateChunkingEmbedder(SentenceTransformerEmbedder):
    """A sentence-transformers model that reads whole documents, so that every chunk is embedded in its context.

    The model must use mean pooling. A document that is longer than the model reads is read in overlapping windows. All
    chunkings of the same documents share one pass. Queries are embedded as usual. Source: Günther et al. 2024, Late
    Chunking.
    """

    reads_documents: ClassVar[bool] = True

    kind: Literal["late-chunking"] = "late-chunking"  # type: ignore[assignment]  # a kind of its own
    """A model that reads whole documents; a chunk's vector is the mean of its tokens' vectors."""

    overlap: Annotated[int, Field(ge=0)] = 64
    """How many tokens neighbouring windows share when a document is longer than the model reads."""

    @model_validator(mode="after")
    def _runs_on_torch(self) -> Self:
        if self.backend != "torch":
            raise ValueError(
                f"backend is {self.backend}, which kind: late-chunking does not support; set backend: torch (with "
                "precision: float32 or bfloat16), or use kind: sentence-transformer."
            )
        return self

    @model_validator(mode="after")
    def _windows_advance(self) -> Self:
        if self.max_length is not None and self.overlap * 2 >= self.max_length:
            raise ValueError(f"overlap is {self.overlap}; it must be less than half of max_length, {self.max_length}.")
        return self

    def fingerprint_parts(self, digest: Digest = file_digest) -> dict[str, Any]:
        return {**super().fingerprint_parts(digest), "overlap": self.overlap, "pooling": "late chunking"}

    @property
    def folder(self) -> Path:
        """Where the model's files are. Raises ModelNotFoundError."""
        return self._folder

    def token_parts(self, digest: Digest = file_digest) -> dict[str, Any]:
        """Everything but the text that changes token vectors: the same for all overlaps and chunkings."""
        parts = super().fingerprint_parts(digest)
        return {name: value for name, value in parts.items() if name != "normalize"}
