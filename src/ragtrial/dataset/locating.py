"""Locate passages in the documents: the one locator for labels, importers, collections and answers.

A passage is found as it is, else with other white space, case, typography or Markdown signs, and on request by
likeness. One walk over the documents looks up all passages: each in the documents that have its longest inner word.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from heapq import heappush, heappushpop, nsmallest
from math import log
from pathlib import PurePosixPath
from typing import Literal, NamedTuple

from ragtrial.dataset.library import Library
from ragtrial.dataset.markdown import kept_places, without_signs
from ragtrial.dataset.texts import short
from ragtrial.records import Span

MatchKind = Literal["exact", "spacing", "case", "typography", "markup", "fuzzy", "lost"]

MATCH_KINDS: tuple[MatchKind, ...] = ("exact", "spacing", "case", "typography", "markup", "fuzzy", "lost")
"""From the best to the worst."""

_TYPOGRAPHY = str.maketrans(dict.fromkeys("\u2018\u2019\u201a\u201b\u2032", "'")
                            | dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb", '"')
                            | dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"))  # fmt: skip
_LEAST_SHOWN = 0.6
"""The least likeness of a text shown as the nearest: unrelated pieces of English reach 0.5."""

_MOST_REGIONS = 8  # stretches of text that a passage is compared with
_MOST_WORDS = 12  # of each passage, the rarest
_LONGEST_ALIKE = 4_000  # characters of a passage; the time grows with the square
_MOST_SHIFT = 24  # characters by which a piece may be widened or narrowed to whole words
_LONG_WORD, _PART = 12, 3  # characters: a longer word, such as a line of Japanese, counts as its parts


@dataclass(frozen=True, slots=True)
class PassageQuery:
    """A normalised passage, and the position of the one document to search (None: all)."""

    text: str
    among: int | None = None


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """The position of a document, and characters of its text."""

    document: int
    span: Span


@dataclass(frozen=True, slots=True)
class PassageMatch:
    """How a passage was found, and every place of that kind, ascending by document and character.

    Each kind ignores more than the one before: ``spacing`` ignores white space, ``case`` also case, ``typography``
    also the form of quotation marks, apostrophes and dashes, ``markup`` also Markdown signs. ``fuzzy`` has the most
    similar places, ``lost`` has none. ``score`` is 1, but 0 for ``lost`` and the ``likeness`` for ``fuzzy``.
    """

    how: MatchKind
    places: tuple[Place, ...]
    score: float = 1.0


LOST = PassageMatch("lost", (), 0.0)

Locate = Callable[[Sequence[PassageQuery], Library], list[PassageMatch]]
"""A function that finds passages: ``locate_all``, or a memory of its results."""


def locate_all(sought: Sequence[PassageQuery], library: Library, *, fuzzy: float | None = None) -> list[PassageMatch]:
    """The match of each passage, in the order of ``sought``.

    The first kind of ``MATCH_KINDS`` that finds a passage anywhere decides, and all its places are given, overlapping
    places too. White space at the ends of a passage is ignored; an empty passage is lost. ``fuzzy`` is the least
    likeness, in (0, 1], of a place for a passage that is lost otherwise.
    """
    different = list(dict.fromkeys(sought))
    matches = _matches_of(different, library)
    lost = [query for query in different if query not in matches]
    matches |= _matches_of(lost, library, is_plain=True)
    if fuzzy is not None:
        matches |= _alike([query for query in different if query not in matches], library, fuzzy)
    return [matches.get(query, LOST) for query in sought]


def _matches_of(
    sought: Iterable[PassageQuery], library: Library, *, is_plain: bool = False
) -> dict[PassageQuery, PassageMatch]:
    """The matches of the passages that are found, in one walk over the documents; see ``_Document``."""
    words_of = lru_cache(10_000)(lambda text: _plain_words(without_signs(text) if is_plain else text))
    within: dict[int, list[PassageQuery]] = {}
    anywhere: dict[str, list[PassageQuery]] = {}  # by a word that a document must have, "" if there is none
    for query in sought:
        words = words_of(query.text)
        if words and query.among is not None:
            within.setdefault(query.among, []).append(query)
        elif words:
            anywhere.setdefault(max(words[1:-1], key=len, default=""), []).append(query)
    matches: dict[PassageQuery, tuple[MatchKind, list[Place]]] = {}
    for position in range(len(library)) if anywhere else sorted(within):
        document = _Document(library.text(position), is_plain=is_plain)
        candidates = [query for word in anywhere.keys() & {"", *document.words} for query in anywhere[word]]
        for query in [*within.get(position, ()), *candidates]:
            words = words_of(query.text)
            if not document.words.issuperset(words[1:-1]):
                continue
            best, places = matches.get(query, ("lost", []))
            kind, spans = document.find(query.text.strip(), " ".join(words), verbatim=best == "exact")
            if not spans or MATCH_KINDS.index(kind) > MATCH_KINDS.index(best):
                continue
            if kind != best:
                matches[query] = kind, places = kind, []
            places += (Place(position, span) for span in spans)
    return {query: PassageMatch(kind, tuple(places)) for query, (kind, places) in matches.items()}


def _alike(lost: Sequence[PassageQuery], library: Library, least: float) -> dict[PassageQuery, PassageMatch]:
    """The most similar places of lost passages; the same text may be in other documents, too."""
    near = [(query, piece) for query, piece in zip(lost, _most_alike(lost, library, least), strict=True) if piece]
    copies = [PassageQuery(_piece_of(library, piece.place), query.among) for query, piece in near]
    return {
        query: PassageMatch("fuzzy", copy.places, piece.score)
        for (query, piece), copy in zip(near, locate_all(copies, library), strict=True)
    }


def nearest(passages: Sequence[PassageQuery], library: Library) -> list[str]:
    """For each passage a sentence with the most similar piece of text; empty if nothing is similar."""
    return [
        f" The nearest is in {library.ids[piece.place.document]!r}: {short(_piece_of(library, piece.place))!r}."
        if piece is not None
        else ""
        for piece in _most_alike(passages, library, _LEAST_SHOWN)
    ]


def _piece_of(library: Library, place: Place) -> str:
    return library.text(place.document)[place.span.start : place.span.end]


class _Document:
    """A text in which passages are looked up; if it ``is_plain``, both without their Markdown signs."""

    def __init__(self, text: str, *, is_plain: bool = False) -> None:
        self._text = text
        self._is_plain = is_plain

    @cached_property
    def words(self) -> frozenset[str]:
        return frozenset(_plain_words(without_signs(self._text) if self._is_plain else self._text))

    @cached_property
    def _folded(self) -> tuple[str, list[int], list[int]]:
        """The ``plain`` words, a space behind each, and the begin and end in the text of each character.

        They are -1 inside of a character that folds to several, such as between the two s of a sharp s.
        """
        pieces, begins, ends = list[str](), list[int](), list[int]()
        kept: Sequence[int] = kept_places(self._text) if self._is_plain else range(len(self._text))
        for word in re.finditer(r"\S+", "".join(map(self._text.__getitem__, kept))):
            for place in kept[word.start() : word.end()]:
                pieces.append(plain(self._text[place]))
                inside = [-1] * (len(pieces[-1]) - 1)
                begins += [place, *inside]
                ends += [*inside, place + 1]
            pieces.append(" ")
            begins.append(-1)
            ends.append(-1)
        return "".join(pieces), begins, ends

    def find(self, passage: str, words: str, *, verbatim: bool = False) -> tuple[MatchKind, list[Span]]:
        """The best kind of match here, and its places; ``words`` are the ``plain`` words of the passage, joined.

        ``verbatim`` leaves out all other kinds.
        """
        if self._is_plain:
            spans = self.places_of(words)
            return ("markup" if spans else "lost"), spans
        spans = [Span(at, at + len(passage)) for at in _all_starts(passage, self._text)]
        if spans or verbatim:
            return "exact", spans
        alike = [(how_alike(passage, self._text[span.start : span.end]), span) for span in self.places_of(words)]
        kinds: list[MatchKind] = [how for how, _ in alike if how is not None]
        best: MatchKind = min(kinds, key=MATCH_KINDS.index, default="lost")
        return best, [span for how, span in alike if how == best]

    def places_of(self, words: str) -> list[Span]:
        """The places of ``plain`` words that are joined by single spaces."""
        folded, begins, ends = self._folded
        spans = [Span(begins[at], ends[at + len(words) - 1]) for at in _all_starts(words, folded)]
        return [span for span in spans if span.start >= 0 <= span.end]


def places_in(passage: str, text: str) -> tuple[MatchKind, list[Span]]:
    """The best kind in which a passage is in ``text``, Markdown signs apart, and its places."""
    return _Document(text).find(passage, " ".join(_plain_words(passage)))


def _all_starts(piece: str, text: str) -> Iterator[int]:
    start = text.find(piece)
    while start >= 0:
        yield start
        start = text.find(piece, start + 1)


def plain(text: str) -> str:
    """``text`` case-folded, with plain quotation marks, apostrophes and dashes."""
    return text.translate(_TYPOGRAPHY).casefold()


def _plain_words(text: str) -> list[str]:
    return plain(text).split()


def is_in(passage: str, text: str) -> bool:
    """True if ``text`` has the passage, perhaps with other white space, case, typography or Markdown signs."""
    words = _plain_words(without_signs(passage))
    return bool(words) and " ".join(words) in " ".join(_plain_words(without_signs(text)))


_FORMS: Mapping[MatchKind, Callable[[str], object]] = {
    "exact": str.strip,
    "spacing": str.split,
    "case": lambda text: text.casefold().split(),
    "typography": _plain_words,
    "markup": lambda text: _plain_words(without_signs(text)),
}


def how_alike(passage: str, piece: str) -> MatchKind | None:
    """The kind in which a piece of text is the passage, white space at the ends ignored; None if it is not."""
    return next((kind for kind, form in _FORMS.items() if form(piece) == form(passage)), None)


class DocumentNames:
    """Find documents by the names that other tools give them: an id, a path that ends in one, or a file's name."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._tails: dict[str, int | None] = {}
        self._folded: dict[str, int | None] = {}
        for position, name in enumerate(library.ids):
            path = PurePosixPath(name)
            for tail in {path.name, path.stem}:
                self._tails[tail] = None if tail in self._tails else position
            for tail in {tail.casefold() for tail in (name, path.name, path.stem)}:
                self._folded[tail] = None if tail in self._folded else position
        self.position = cache(self._position)

    def _position(self, name: str) -> int | None:
        """The position of the one document that ``name`` can mean; None if there is none, or several.

        A name in other case counts if no document has the name itself.
        """
        position = self._library.position_of_path(name)
        if position is not None:
            return position
        parts = PurePosixPath(name.replace("\\", "/")).parts
        forms = (parts[-1], *(unicodedata.normalize(form, parts[-1]) for form in ("NFC", "NFD"))) if parts else ()
        if (form := next((form for form in forms if form in self._tails), None)) is not None:
            return self._tails[form]
        folded = (form.casefold() for form in (name, *forms))
        return next((self._folded[form] for form in folded if form in self._folded), None)


# Likeness: compared in the stretches of documents that share rare words with the passage


class _Piece(NamedTuple):
    """A piece of text that is like a passage, and its likeness in (0, 1]."""

    place: Place
    score: float


class _Region(NamedTuple):
    """A stretch where a passage may be: its shared weight, the negative document, and the negative half lengths."""

    shared: float
    document: int
    begin: int


def folded(text: str) -> str:
    """``text`` case-folded, without white space."""
    return "".join(text.casefold().split())


def likeness(one: str, other: str) -> float:
    """The likeness of two texts in [0, 1]: 2 * s / (m + n), case and white space ignored.

    m and n are their lengths in case-folded characters without white space, s is the length of their longest common
    subsequence. 1 for texts that differ in case and white space alone, 0 for texts without a common character.
    """
    from rapidfuzz.fuzz import ratio

    return ratio(folded(one), folded(other)) / 100


def _most_alike(sought: Sequence[PassageQuery], library: Library, least: float) -> list[_Piece | None]:
    """For each passage the most similar piece of the documents; None if no likeness reaches ``least``.

    A passage is compared in documents that share words with it, rare words first; a piece without a shared word is not
    found. A passage of more than 4,000 characters is not compared.
    """
    words = [list(_words_of(query.text)) if len(query.text) <= _LONGEST_ALIKE else [] for query in sought]
    everywhere = any(query.among is None for query in sought)
    among = sorted({query.among for query in sought if query.among is not None})
    positions = range(len(library)) if everywhere else among
    needed = {word for of_passage in words for word, _ in of_passage}
    documents_with: Counter[str] = Counter()
    for position in positions if needed else ():
        documents_with.update(needed.intersection(word for word, _ in _words_of(library.text(position))))
    rare: dict[str, list[tuple[int, int]]] = {}  # the passages that have a word, and its place there
    for number, of_passage in enumerate(words):
        known = [(documents_with[word], offset, word) for word, offset in of_passage if word in documents_with]
        for _, offset, word in nsmallest(_MOST_WORDS, known):
            rare.setdefault(word, []).append((number, offset))
    weights = {word: log(1 + len(library) / documents_with[word]) for word in rare}
    regions: list[list[_Region]] = [[] for _ in sought]
    for position in positions if rare else ():
        for number, region in _regions(sought, library, position, rare, weights):
            (heappush if len(regions[number]) < _MOST_REGIONS else heappushpop)(regions[number], region)
    return [_best_piece(query.text, of_query, library, least) for query, of_query in zip(sought, regions, strict=True)]


def _regions(
    sought: Sequence[PassageQuery],
    library: Library,
    position: int,
    rare: Mapping[str, Sequence[tuple[int, int]]],
    weights: Mapping[str, float],
) -> Iterator[tuple[int, _Region]]:
    """The stretches of a document that share words with passages, by the number of the passage."""
    shared: dict[tuple[int, int], dict[str, float]] = {}
    for word, start in _words_of(library.text(position)):
        for number, offset in rare.get(word, ()):
            if sought[number].among in (None, position):
                # Regions overlap by half, so that a word more or less does not divide a passage.
                begin = 2 * max(start - offset, 0) // len(sought[number].text)
                for region in (begin, begin - 1):
                    shared.setdefault((number, region), {})[word] = weights[word]
    for (number, begin), of_region in shared.items():
        yield number, _Region(sum(of_region.values()), -position, -begin)  # ties keep the first region


def _words_of(text: str) -> Iterator[tuple[str, int]]:
    """The case-folded words of a text with their places; a long word counts as its sequences of three characters."""
    for match in re.finditer(r"\w+", text):
        word, start = match[0].casefold(), match.start()
        if len(word) <= _LONG_WORD:
            yield word, start
        else:
            yield from ((word[at : at + _PART], start + at) for at in range(len(word) - _PART + 1))


def _best_piece(passage: str, regions: Sequence[_Region], library: Library, least: float) -> _Piece | None:
    """The most similar piece of the regions; ties go to the first."""
    pieces = []
    for region in regions:
        document, step = -region.document, len(passage)
        text, start = library.text(document), -region.begin * step // 2 - step // 2
        span = _aligned(folded(passage), text, range(max(start, 0), min(start + 3 * step, len(text))))
        if span is not None:
            span = _fitted(passage, text, span)
            pieces.append(_Piece(Place(document, span), likeness(passage, text[span.start : span.end])))
    best = min(pieces, key=lambda piece: (-piece.score, piece.place), default=None)
    return best if best is not None and best.score >= least else None


def _aligned(passage: str, text: str, region: range) -> Span | None:
    """The most similar piece of a region, at most as long as the folded passage."""
    from rapidfuzz.fuzz import partial_ratio_alignment

    visible = [place for place in region if not text[place].isspace()]
    origin = [place for place in visible for _ in text[place].casefold()]
    there = "".join(text[place].casefold() for place in visible)
    if not there:
        return None
    start, end = 0, len(there)
    alignment = partial_ratio_alignment(passage, there) if len(there) > len(passage) else None
    if alignment is not None and alignment.dest_start < alignment.dest_end:
        start, end = alignment.dest_start, alignment.dest_end
    return Span(origin[start], origin[end - 1] + 1)


def _fitted(passage: str, text: str, span: Span) -> Span:
    """The span, or a more similar one nearby that begins or ends with a whole word."""
    starts, ends = {span.start}, {span.end}
    for shift in range(-_MOST_SHIFT, _MOST_SHIFT + 1):
        start, end = span.start + shift, span.end + shift
        if 0 <= start < len(text) and text[start : start + 1].strip() and not text[max(start - 1, 0) : start].strip():
            starts.add(start)
        if 0 < end <= len(text) and text[end - 1 : end].strip() and not text[end : end + 1].strip():
            ends.add(end)
    spans = [Span(start, end) for start in starts for end in ends if start < end]
    return max(spans, key=lambda piece: (likeness(passage, text[piece.start : piece.end]), -piece.start, -piece.end))
