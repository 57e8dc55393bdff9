"""The whole document as one chunk."""

from __future__ import annotations

from typing import Literal

from ragtrial.components.chunkers.base import CHUNKERS, Chunker, LengthFunction, trimmed
from ragtrial.records import Span


@CHUNKERS.register("document")
class DocumentChunker(Chunker):
    """One chunk per document: for short documents, and for benchmarks that are defined that way."""

    kind: Literal["document"] = "document"
    """One chunk per document."""

    def split(self, text: str, ruler: LengthFunction) -> list[Span]:
        span = trimmed(text, 0, len(text))
        return [span] if span else []
