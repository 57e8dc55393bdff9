"""Hits placed in the documents: which document each names, and which characters of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ragtrial.components.external_retrievers.hits import LARGEST_SCORE, NO_SCORE, Hit, shown
from ragtrial.dataset.library import Library
from ragtrial.dataset.texts import normalised
from ragtrial.errors import RetrieverError, did_you_mean

_MOST = 3


class Placed(NamedTuple):
    """A hit in the documents: the position of one, and characters of its text; None for all of it."""

    document: int
    start: int | None
    end: int | None
    score: float


@dataclass(frozen=True, slots=True)
class Answer:
    """The hits of one question, as they were returned, best first.

    ``asked`` is how many were asked for; None where the retriever takes no number. ``unlocated`` counts the hits whose
    text is not in their document as it stands, which became the whole document.
    """

    hits: tuple[Placed, ...]
    asked: int | None
    unlocated: int = 0

    def serves(self, depth: int) -> bool:
        """Whether it has what a question for ``depth`` hits would bring."""
        return self.asked is None or self.asked >= depth

    def cut(self, depth: int) -> Answer:
        """What a question for ``depth`` hits would have brought: an answer to a deeper one is cut there."""
        if self.asked is None or self.asked <= depth:
            return self
        return Answer(self.hits[:depth], depth, self.unlocated)


def place_plain(hits: Sequence[object], library: Library, asked: int | None) -> Answer | None:
    """The answer where all ``hits`` are ids of documents, or (id, score) pairs: most are, and this is quick.

    None where any is something else, or is wrong; then they need a closer look.
    """
    positions, placed = library.positions, list[Placed]()
    new = tuple.__new__  # a named tuple's own takes twice as long, and there is one for each hit
    for hit in hits:
        name, score = hit if isinstance(hit, tuple) and len(hit) == 2 else (hit, None)
        position = positions.get(name) if isinstance(name, str) else None
        if position is None:
            return None
        if score is None:
            placed.append(new(Placed, (position, None, None, NO_SCORE)))
        elif isinstance(score, float) and -LARGEST_SCORE <= score <= LARGEST_SCORE:
            placed.append(new(Placed, (position, None, None, float(score))))
        else:
            return None
    return Answer(tuple(placed), asked)


def place(hits: Sequence[Hit], library: Library, asked: int | None) -> Answer:
    """The hits of one question in ``library``. Raises RetrieverError with those that have no place in it."""
    faults = [_unknown(hit, library) for hit in hits if hit.document not in library.positions]
    if faults:
        more = f" And {len(faults) - _MOST:,} more." if len(faults) > _MOST else ""
        raise RetrieverError(" ".join(dict.fromkeys(faults[:_MOST])) + more)
    placed, unlocated = [], 0
    for number, hit in enumerate(hits, 1):
        document = library.positions[hit.document]
        start = end = None
        if hit.text or hit.start is not None:
            start, end = _stretch(hit, library.text(document), number)
        unlocated += start is None and bool(hit.text)
        placed.append(Placed(document, start, end, hit.score))
    return Answer(tuple(placed), asked, unlocated)


def _unknown(hit: Hit, library: Library) -> str:
    fault = f"{shown(hit.document)} is not the id of a document ({len(library):,} documents)."
    for key, value in hit.metadata.items():
        if isinstance(value, str) and value in library.positions:
            return f"{fault} Its {key!r} is one: {value!r}; say `document: {key}`."
    return fault + did_you_mean(hit.document, library.ids)


def _stretch(hit: Hit, text: str, number: int) -> tuple[int, int] | tuple[None, None]:
    """Where a hit is in its document; None where that is all of it, or cannot be told."""
    whole = normalised(hit.text) if hit.text else ""
    words = whole.strip()
    if hit.start is not None and hit.end is not None:
        if not 0 <= hit.start < hit.end <= len(text):
            what = f"hit {number} is of the characters {hit.start} to {hit.end} of {hit.document!r}"
            raise RetrieverError(f"{what}, which has 0 to {len(text)}.")
        if words and text[hit.start : hit.end].strip() != words:
            what = f"hit {number} has a text that is not what {hit.document!r} has from {hit.start} to {hit.end}"
            raise RetrieverError(f"{what}: {shown(hit.text)} there, {shown(text[hit.start : hit.end])} here.")
        return hit.start, hit.end
    if not words:
        return None, None
    start = -1 if hit.hint is None or hit.hint < 0 else hit.hint + len(whole) - len(whole.lstrip())
    if start < 0 or not text.startswith(words, start):
        start = text.find(words)
    if start < 0 or len(words) == len(text):
        return (0, len(text)) if start == 0 else (None, None)
    return start, start + len(words)
