"""Finding passages in the documents: exactly, else with other white space, else in other case, else what is like them.

Every passage has a rare sequence of characters, its anchor. One walk over the documents counts sequences, which tells
each passage's rarest; a second finds the anchors, and there each passage is compared character by character.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ragtrial.dataset.folded import Anchors, Block, Frequencies, blocks, codes_of, folded, grams
from ragtrial.dataset.library import Library
from ragtrial.dataset.likeness import most_like
from ragtrial.dataset.texts import normalised
from ragtrial.rankings import Counts
from ragtrial.records import Span

How = Literal["exact", "spacing", "case", "fuzzy", "lost"]

_LEVELS: tuple[How, ...] = ("exact", "spacing", "case")
_LENGTHS = (16, 8, 4, 2, 1)
"""Characters of an anchor: the longest that a passage has room for."""

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
    found = _Search(sought, library).run()
    located = [_located(one, found[one.text]) for one in sought]
    if fuzzy is not None:
        lost = [number for number, one in enumerate(located) if one.how == "lost"]
        like = most_like([(sought[number].text, sought[number].among) for number in lost], library, fuzzy)
        for number, match in zip(lost, like, strict=True):
            if match is not None:
                located[number] = Located("fuzzy", (Place(match.document, match.span),), match.score)
    return located


_Found = dict[int, list[tuple[int, Span]]]
"""By document: how (a number into _LEVELS) and where."""


def _located(one: Sought, found: _Found) -> Located:
    if one.among is not None:
        found = {one.among: found[one.among]} if one.among in found else {}
    if not found:
        return LOST
    best = min(level for rows in found.values() for level, _ in rows)
    places = tuple(Place(document, span) for document, rows in found.items() for level, span in rows if level == best)
    return Located(_LEVELS[best], places, 1.0)


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
            level = _level(self._texts[owner], block.texts[number][start:stop])
            if level is not None:
                self._found[owner].setdefault(position, []).append((level, Span(start, stop)))


def _level(passage: str, piece: str) -> int | None:
    """How a piece of text is the passage, as a number into _LEVELS; None if it is not."""
    if piece == passage:
        return 0
    if piece.split() == passage.split():
        return 1
    return 2 if piece.casefold().split() == passage.casefold().split() else None


def occurrences(passage: str, text: str) -> tuple[Span, ...]:
    """Every place of ``passage`` in ``text``, ascending, overlapping ones too; if there is none, with any white space.

    Both must be normalised. White space at the ends of the passage is left out of the search and of the spans.
    """
    passage = passage.strip()
    if not passage:
        return ()
    spans = []
    start = text.find(passage)
    while start >= 0:
        spans.append(Span(start, start + len(passage)))
        start = text.find(passage, start + 1)
    if spans:
        return tuple(spans)
    words = passage.split()
    if len(words) < 2 or not all(word in text for word in words):
        return ()
    pattern = re.compile(r"\s+".join(map(re.escape, words)))
    return tuple(Span(*found.span()) for found in pattern.finditer(text))


def locate(passages: Iterable[str], library: Library) -> Mapping[str, dict[int, tuple[Span, ...]]]:
    """For each passage the documents (by position) that hold it, and where; empty for one that is nowhere."""
    wanted = {passage: normalised(passage) for passage in passages}
    # A passage without its longest word in the document need not be looked for at length.
    longest = {passage: max(text.split(), key=len, default="") for passage, text in wanted.items()}
    found: dict[str, dict[int, tuple[Span, ...]]] = {passage: {} for passage in wanted}
    for position, document in enumerate(library):
        for passage, text in wanted.items():
            spans = occurrences(text, document.text) if longest[passage] in document.text else ()
            if spans:
                found[passage][position] = spans
    return found


Locate = Callable[[Iterable[str], Library], Mapping[str, dict[int, tuple[Span, ...]]]]
"""What finds passages: ``locate``, or a memory of what it found."""


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
