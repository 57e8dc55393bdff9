"""The texts that are embedded or indexed for chunks: one source for every kind of index."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragtrial.cache.fingerprints import fingerprint
from ragtrial.components.contextual_text.surroundings import Surroundings
from ragtrial.dataset.chunks import Chunks
from ragtrial.records import Span


class IndexedTexts:
    """What is indexed for each of ``chunks``, by position: title, headings, prefix, and the text with its neighbours.

    The parts that are there are joined by one space; nothing is changed in the document's own text, from the first
    sentence before the chunk to the last one after it. ``name`` tells these texts from all others: it is that of the
    chunks where nothing but the title is added.
    """

    def __init__(self, chunks: Chunks, *, title: bool = True, surroundings: Surroundings | None = None) -> None:
        self.chunks = chunks
        self.surroundings = surroundings
        self._has_title = title
        self.name = name_of_texts(chunks.name, title=title, digest=surroundings.digest if surroundings else None)

    def __len__(self) -> int:
        return len(self.chunks)

    def indexed_texts(self, positions: Sequence[int] | None = None) -> Iterator[str]:
        """What is indexed for all chunks, or for some in that order."""
        for title, rest in self.titled_texts(positions):
            yield f"{title} {rest}" if title and rest else title or rest

    def titled_texts(self, positions: Sequence[int] | None = None) -> Iterator[tuple[str, str]]:
        """The title that is indexed for each chunk, and all else: for those who weigh the two otherwise."""
        last, text, title = -1, "", ""
        for position in range(len(self)) if positions is None else positions:
            document = int(self.chunks.document[position])
            if document != last:
                last, text, title = document, self.chunks.library.text(document), self._title(document)
            stretch = self._stretch(position)
            parts = (self._lead(position), text[stretch.start : stretch.end])
            yield title, " ".join(part for part in parts if part)

    def around(self, position: int) -> tuple[str, str]:
        """What is indexed before the text of a chunk, and after it: with the text between them, all that is."""
        (indexed,) = self.indexed_texts([position])
        span, stretch = self.chunks.span(position), self._stretch(position)
        after = len(indexed) - (stretch.end - span.end)
        return indexed[: after - (span.end - span.start)], indexed[after:]

    def _title(self, document: int) -> str:
        return self.chunks.library.titles[document] if self._has_title else ""

    def _lead(self, position: int) -> str:
        return self.surroundings.lead(position) if self.surroundings else ""

    def _stretch(self, position: int) -> Span:
        if self.surroundings is None:
            return self.chunks.span(position)
        return Span(int(self.surroundings.start[position]), int(self.surroundings.end[position]))


def name_of_texts(chunks: str, *, title: bool, digest: str | None) -> str:
    """The name of what is indexed for the chunks of that name, with surroundings of that digest, if any."""
    return chunks if title and digest is None else fingerprint(["indexed texts", chunks, title, digest])
