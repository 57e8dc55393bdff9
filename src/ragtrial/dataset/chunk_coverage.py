"""What the chunks leave out: passages that no chunk holds whole, and text that is in no chunk. No search returns it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ragtrial.dataset.chunks import Chunks
from ragtrial.rankings import Counts
from ragtrial.records import Judgment, PromptQueries


@dataclass(frozen=True, slots=True)
class CutPassages:
    """How many of ``passages`` are ``cut``."""

    cut: int
    passages: int

    @property
    def share(self) -> float | None:
        """Cut passages over all, in [0, 1]; None without passages."""
        return self.cut / self.passages if self.passages else None


def cut_passages(chunks: Chunks, labels: PromptQueries) -> CutPassages:
    """How many labelled passages no single chunk holds from the first character to the last.

    A passage is a judgment with spans, of whatever grade; of a passage that is in several places of its document
    it is enough that one place is whole. ``labels`` are resolved.
    """
    judgments = [judgment for query in labels.queries for judgment in query.relevant_docs if judgment.spans]
    owners, whole = _whole(chunks, judgments)
    return CutPassages(len(judgments) - len(np.unique(owners[whole])), len(judgments))


def _whole(chunks: Chunks, judgments: Iterable[Judgment]) -> tuple[Counts, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """The number of the judgment of each span, and whether one chunk holds the span."""
    rows = [
        (number, chunks.library.positions[judgment.doc], span.start, span.end)
        for number, judgment in enumerate(judgments)
        for span in judgment.spans
    ]
    owners, documents, starts, ends = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    if not len(chunks):
        return owners, np.zeros(len(owners), dtype=bool)
    # Characters of all documents on one line: what begins in one of them ends before the next.
    room = max(int(chunks.end.max()), int(ends.max(initial=0))) + 1
    line = chunks.document.astype(np.int64) * room
    order = np.argsort(line + chunks.start, kind="stable")
    begins = (line + chunks.start)[order]
    # A chunk that begins no later than the span holds it if it ends no earlier: of all those the last end decides.
    last_end = np.maximum.accumulate((line + chunks.end)[order])
    before = np.searchsorted(begins, documents * room + starts, side="right") - 1
    return owners, (before >= 0) & (last_end[before] >= documents * room + ends)


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
