"""Finding passages in the documents: exactly, else with other white space, else in other case, else what is like them.

Every passage has a rare sequence of characters, its anchor. One walk over the documents counts sequences, which tells
each passage's rarest; a second finds the anchors, and there each passage is compared character by character.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ragtrial.dataset.folded import Anchors, Block, Frequencies, blocks, codes_of, folded, grams
from ragtrial.dataset.library import Library
from ragtrial.dataset.likeness import most_like
from ragtrial.rankings import Counts
from ragtrial.records import Span

How = Literal["exact", "spacing", "case", "fuzzy", "lost"]

HOWS: tuple[How, ...] = ("exact", "spacing", "case", "fuzzy", "lost")
"""From the best to the worst."""

_LENGTHS = (16, 8, 4, 2, 1)
"""Characters of an anchor: the longest that a passage has room for."""

_SHORT_DOCUMENT = 100_000
"""Bytes of a document in which a passage is simply looked for: in longer ones the search by anchors is faster."""

_NEAR = 0.6
"""The least likeness of what is shown as the nearest: pieces of English that have nothing in common reach 0.5."""


@dataclass(frozen=True, slots=True)
class Sought:
    """A normalised passage, and the position of the one document that it must be in (None: any)."""

    text: str
    among: int | None = None


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where a passage stands: the position of a document, and characters of its text."""

    document: int
    span: Span


@dataclass(frozen=True, slots=True)
class Located:
    """How a passage was found, and every place of that kind, ascending by document and character.

    ``how`` is ``exact``, ``spacing`` (the same words with other white space between them), ``case`` (the same when
    case-folded, and perhaps other white space), ``fuzzy`` (like it: the best place alone), or ``lost`` (no places).
    ``score`` is 1 for the first three, 0 for ``lost``, and for ``fuzzy`` in (0, 1]: see ``likeness.likeness``.
    """

    how: How
    places: tuple[Place, ...]
    score: float


LOST = Located("lost", (), 0.0)


def locate_all(sought: Sequence[Sought], library: Library, *, fuzzy: float | None = None) -> list[Located]:
    """How and where each passage is found, in the order of ``sought``.

    The first of exact, spacing, case and fuzzy that finds a passage anywhere it may be decides, and all its places of
    that kind are given, overlapping ones too. White space at a passage's ends is left out; a passage of nothing else
    is lost. ``fuzzy`` is the least score, in (0, 1], at which a passage that is nowhere is found by likeness; without
    it that is never done.
    """
    own = _exact_in_own(sought, library)
    rest = [number for number in range(len(sought)) if number not in own]
    found = _Search([sought[number] for number in rest], library).run() if rest else {}
    located = [own[number] if number in own else _located(one, found[one.text]) for number, one in enumerate(sought)]
    if fuzzy is not None:
        lost = [number for number, one in enumerate(located) if one.how == "lost"]
        like = most_like([(sought[number].text, sought[number].among) for number in lost], library, fuzzy)
        for number, match in zip(lost, like, strict=True):
            if match is not None:
                located[number] = Located("fuzzy", (Place(match.document, match.span),), match.score)
    return located


Locate = Callable[[Sequence[Sought], Library], list[Located]]
"""What finds passages: ``locate_all``, or a memory of what it found."""


def _exact_in_own(sought: Sequence[Sought], library: Library) -> dict[int, Located]:
    """By number the passages that stand exactly in the one short document that each must be in."""
    of_document: dict[int, list[int]] = {}
    for number, one in enumerate(sought):
        if one.among is not None and library.sizes[one.among] <= _SHORT_DOCUMENT:
            of_document.setdefault(one.among, []).append(number)
    found = {}
    for document, numbers in of_document.items():
        text = library.text(document)
        for number in numbers:
            passage = sought[number].text.strip()
            start = text.find(passage) if passage else -1
            places = []
            while start >= 0:
                places.append(Place(document, Span(start, start + len(passage))))
                start = text.find(passage, start + 1)
            if places:
                found[number] = Located("exact", tuple(places), 1.0)
    return found


_Found = dict[int, list[tuple[Literal["exact", "spacing", "case"], Span]]]
"""By document: how and where."""


def _located(one: Sought, found: _Found) -> Located:
    if one.among is not None:
        found = {one.among: found[one.among]} if one.among in found else {}
    if not found:
        return LOST
    best = min((how for rows in found.values() for how, _ in rows), key=HOWS.index)
    places = tuple(Place(document, span) for document, rows in found.items() for how, span in rows if how == best)
    return Located(best, places, 1.0)


class _Search:
    """The walks over the documents for a number of passages, equal ones once."""

    def __init__(self, sought: Sequence[Sought], library: Library) -> None:
        self._library = library
        self._among: dict[str, set[int] | None] = {}
        for one in sought:
            among = self._among.setdefault(one.text, set())
            if one.among is None:
                self._among[one.text] = None
            elif among is not None:
                among.add(one.among)
        self._texts = [text.strip() for text in self._among]
        self._allowed = list(self._among.values())
        self._lengths = np.array([len(folded(text)) for text in self._texts], dtype=np.int64)
        self._found: list[_Found] = [{} for _ in self._texts]

    def run(self) -> dict[str, _Found]:
        anchors = self._anchors()
        if anchors:
            for block in blocks(self._library, self._positions()):
                for one in anchors:
                    for places, owners, offsets in one.found_in(block):
                        self._compare(block, places - offsets, places, owners)
        return dict(zip(self._among, self._found, strict=True))

    def _positions(self) -> Iterable[int]:
        """The documents that any passage may be in."""
        named: set[int] = set()
        for allowed in self._allowed:
            if allowed is None:
                return range(len(self._library))
            named |= allowed
        return sorted(named)

    def _anchors(self) -> list[Anchors]:
        """The rarest sequence of each passage; none for those whose rarest is nowhere."""
        by_length: dict[int, list[int]] = {}
        for number, size in enumerate(self._lengths.tolist()):
            if size:
                by_length.setdefault(next(length for length in _LENGTHS if length <= size), []).append(number)
        counted = [Frequencies(length, int(self._library.sizes.sum())) for length in by_length]
        if counted:
            for block in blocks(self._library, self._positions()):
                for frequencies in counted:
                    frequencies.add(block)
        made = (self._rarest(frequencies, by_length[frequencies.length]) for frequencies in counted)
        return [anchors for anchors in made if anchors is not None]

    def _rarest(self, frequencies: Frequencies, numbers: Sequence[int]) -> Anchors | None:
        hashes, owners, offsets = [], [], []
        for number in numbers:
            made = grams(codes_of(folded(self._texts[number])), frequencies.length)
            counts = frequencies.of(made)
            place = int(counts.argmin())
            if counts[place]:
                hashes.append(made[place])
                owners.append(number)
                offsets.append(place)
        if not owners:
            return None
        return Anchors(frequencies.length, np.array(hashes, dtype=np.uint64), np.array(owners), np.array(offsets))

    def _compare(self, block: Block, begin: Counts, places: Counts, owners: Counts) -> None:
        documents = block.document_of(places)
        end = begin + self._lengths[owners]
        inside = (begin >= block.starts[documents]) & (end <= block.starts[documents + 1])
        documents, owners, begin, end = documents[inside], owners[inside], begin[inside], end[inside]
        starts = block.characters(documents, begin).tolist()
        ends = (block.characters(documents, end - 1) + 1).tolist()
        for number, owner, start, stop in zip(documents.tolist(), owners.tolist(), starts, ends, strict=True):
            position = block.positions[number]
            allowed = self._allowed[owner]
            if allowed is not None and position not in allowed:
                continue
            how = how_alike(self._texts[owner], block.texts[number][start:stop])
            if how is not None:
                self._found[owner].setdefault(position, []).append((how, Span(start, stop)))


def how_alike(passage: str, piece: str) -> Literal["exact", "spacing", "case"] | None:
    """How a piece of text is the passage, white space at their ends apart; None if it is not."""
    if piece.strip() == passage.strip():
        return "exact"
    if piece.split() == passage.split():
        return "spacing"
    return "case" if piece.casefold().split() == passage.casefold().split() else None


def nearest(passages: Sequence[Sought], library: Library) -> list[str]:
    """For each passage a sentence with the piece of text that is most like it; empty where nothing is like it."""
    return [
        f" The nearest is in {library.ids[match.document]!r}: "
        f"{short(library.text(match.document)[match.span.start : match.span.end])!r}."
        if match is not None
        else ""
        for match in most_like([(one.text, one.among) for one in passages], library, _NEAR)
    ]


def short(text: str, most: int = 160) -> str:
    """``text`` on one line, cut after ``most`` characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 3] + "..."
