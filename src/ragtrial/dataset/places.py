"""Places in documents as they come: what is found elsewhere, and has no chunker, gets its codes here."""

from __future__ import annotations

from ragtrial.dataset.chunks import Chunks
from ragtrial.dataset.library import Library


class ForeignPlaces:
    """Stretches of documents, and whole documents, by code: the order in which they were first named.

    Codes never change, so that chunks made later begin with those made before.
    """

    def __init__(self, library: Library) -> None:
        self.library = library
        self._codes: dict[tuple[int, int, int], int] = {}
        self._whole: dict[int, int] = {}
        self._made: Chunks | None = None

    def __len__(self) -> int:
        return len(self._codes)

    def code(self, document: int, start: int | None = None, end: int | None = None) -> int:
        """The code of characters ``start`` to ``end`` of the document at that position; without them, of all of it."""
        if start is None or end is None:
            code = self._whole.get(document)
            if code is None:
                code = self._whole[document] = self.code(document, 0, len(self.library.text(document)))
            return code
        return self._codes.setdefault((document, start, end), len(self._codes))

    def chunks(self) -> Chunks:
        """All places so far, by code."""
        if self._made is None or len(self._made) != len(self):
            self._made = Chunks.of(self.library, self._codes)
        return self._made
