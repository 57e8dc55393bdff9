"""Some of the documents: all that are judged, and others at random."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ragtrial.dataset.library import Library
from ragtrial.records import Query


@dataclass(frozen=True)
class DocumentSamples:
    """The positions of the documents that are ``judged``, ascending, and of the ``others``, in the order drawn."""

    judged: Sequence[int]
    others: Sequence[int]

    def of(self, others: int) -> list[int]:
        """All that are judged and ``others`` of the rest, ascending; a larger sample has all of a smaller one."""
        return sorted([*self.judged, *self.others[:others]])


def document_samples(library: Library, queries: Iterable[Query], seed: int) -> DocumentSamples:
    """The samples of ``library``; ``queries`` are resolved in it."""
    judged = {library.positions[judgment.doc] for query in queries for judgment in query.relevant_docs}
    others = [position for position in range(len(library)) if position not in judged]
    random.Random(seed).shuffle(others)  # noqa: S311 - not a secret
    return DocumentSamples(sorted(judged), others)
