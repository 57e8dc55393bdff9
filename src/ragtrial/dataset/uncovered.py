"""Text that is in no chunk: no search can return it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ragtrial.dataset.chunks import Chunks


@dataclass(frozen=True, slots=True)
class Uncovered:
    """How many of ``characters``, white space not counted, are in no chunk, and the documents that they are of."""

    uncovered: int
    characters: int
    documents: tuple[str, ...]

    @property
    def share(self) -> float:
        """Uncovered characters over all, in [0, 1]; 0 without any."""
        return self.uncovered / self.characters if self.characters else 0.0


def uncovered(chunks: Chunks) -> Uncovered:
    """What ``chunks`` leave out of their documents. Chunks of a document are ascending in start and in end."""
    library = chunks.library
    edges = np.searchsorted(chunks.document, np.arange(len(library) + 1)).tolist()
    left_out = whole = 0
    documents = []
    for position in range(len(library)):
        text = library.text(position)
        lacking = after = 0
        for row in range(edges[position], edges[position + 1]):
            span = chunks.span(row)
            lacking += _visible(text[after : span.start])
            after = max(after, span.end)
        lacking += _visible(text[after:])
        left_out += lacking
        whole += _visible(text)
        if lacking:
            documents.append(library.ids[position])
    return Uncovered(left_out, whole, tuple(documents))


def _visible(text: str) -> int:
    return sum(map(len, text.split()))
