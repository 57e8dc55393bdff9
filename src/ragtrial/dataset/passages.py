"""Finding passages in the documents: as they are, else with other white space, case, typography or Markdown signs.

One walk over the documents: a passage is looked up in those that have all its words but the first and the last. What is
found nowhere is looked up in all documents without their Markdown signs, and then what is like it, where that is asked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from ragtrial.dataset.library import Library
from ragtrial.dataset.markdown_signs import kept_places, without_signs
from ragtrial.records import Span

MatchKind = Literal["exact", "spacing", "case", "typography", "markup", "fuzzy", "lost"]

MATCH_KINDS: tuple[MatchKind, ...] = ("exact", "spacing", "case", "typography", "markup", "fuzzy", "lost")
"""From the best to the worst."""

_TYPOGRAPHY = str.maketrans(dict.fromkeys("\u2018\u2019\u201a\u201b\u2032", "'")
                            | dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb", '"')
                            | dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"))  # fmt: skip
_NEAR = 0.6
"""The least likeness of what is shown as the nearest: pieces of English that have nothing in common reach 0.5."""


@dataclass(frozen=True, slots=True)
class PassageQuery:
    """A normalised passage, and the position of the one document that it must be in (None: any)."""

    text: str
    among: int | None = None


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where a passage is: the position of a document, and characters of its text."""

    document: int
    span: Span


@dataclass(frozen=True, slots=True)
class PassageMatch:
    """How a passage was found, and every place of that kind, ascending by document and character.

    ``how`` is ``exact``, ``spacing`` (the same words with other white space between them), ``case`` (the same when
    case-folded, and perhaps other white space), ``typography`` (the same with plain quotation marks, apostrophes and
    dashes, and perhaps in other case and white space), ``markup`` (the same without the signs of Markdown, and perhaps
    with other typography), ``fuzzy`` (like it: the best places), or ``lost`` (no places). ``score`` is 1 but for
    ``lost``, 0, and for ``fuzzy`` in (0, 1]: see ``likeness.likeness``.
    """

    how: MatchKind
    places: tuple[Place, ...]
    score: float


LOST = PassageMatch("lost", (), 0.0)

Locate = Callable[[Sequence[PassageQuery], Library], list[PassageMatch]]
"""A function that finds passages: ``locate_all``, or a memory of its results."""


def locate_all(sought: Sequence[PassageQuery], library: Library, *, fuzzy: float | None = None) -> list[PassageMatch]:
    """How and where each passage is found, in the order of ``sought``.

    The first kind of ``MATCH_KINDS`` that finds a passage anywhere it may be decides, and all its places of that kind
    are given, overlapping ones too. White space at a passage's ends is left out; a passage of nothing else is lost.
    ``fuzzy`` is the least score, in (0, 1], at which a passage that is nowhere is
    found by likeness; without it that is never done.
    """
    words = {one: plain(one.text).split() for one in dict.fromkeys(sought)}
    within: dict[int, list[PassageQuery]] = {}
    anywhere: dict[str, list[PassageQuery]] = {}  # by a word that a document must have, "" where there is none
    for one in filter(words.get, words):
        if one.among is not None:
            within.setdefault(one.among, []).append(one)
        else:
            anywhere.setdefault(max(words[one][1:-1], key=len, default=""), []).append(one)
    kinds: dict[PassageQuery, MatchKind] = dict.fromkeys(words, "lost")
    places: dict[PassageQuery, list[Place]] = {one: [] for one in words}
    for position in range(len(library)) if anywhere else sorted(within):
        document = _Document(library.text(position))
        candidates = [one for word in anywhere.keys() & {"", *document.words} for one in anywhere[word]]
        for one in [*within.get(position, ()), *candidates]:
            if not document.words.issuperset(words[one][1:-1]):
                continue
            kind, spans = document.find(one.text.strip(), " ".join(words[one]), verbatim=kinds[one] == "exact")
            if MATCH_KINDS.index(kind) < MATCH_KINDS.index(kinds[one]):
                kinds[one], places[one] = kind, []
            if kind == kinds[one]:
                places[one] += (Place(position, span) for span in spans)
    lost = [one for one in words if kinds[one] == "lost"]
    for one, found in _without_signs(lost, library).items():
        kinds[one], places[one] = "markup", found
    located = [LOST if kinds[one] == "lost" else PassageMatch(kinds[one], tuple(places[one]), 1.0) for one in sought]
    return located if fuzzy is None else _with_alike(located, sought, library, fuzzy)


def _without_signs(lost: Sequence[PassageQuery], library: Library) -> dict[PassageQuery, list[Place]]:
    """Where passages are that the documents have with other Markdown signs; only those that are anywhere."""
    words = {one: spaced for one in lost if (spaced := _spaced(without_signs(one.text)))}
    found: dict[PassageQuery, list[Place]] = {}
    for position in range(len(library)) if words else ():
        text = library.text(position)
        page = _spaced(without_signs(text))
        here = [one for one, spaced in words.items() if one.among in (None, position) and spaced in page]
        if here:
            document = _Document(text, kept_places(text))
            for one in here:
                found.setdefault(one, []).extend(Place(position, span) for span in document.places_of(words[one]))
    return {one: places for one, places in found.items() if places}


def _with_alike(
    located: list[PassageMatch], sought: Sequence[PassageQuery], library: Library, least: float
) -> list[PassageMatch]:
    """What was located, and for what is lost the places of the text most like it, if that reaches ``least``."""
    lost = [one for one, match in zip(sought, located, strict=True) if match.how == "lost"]
    from ragtrial.dataset.likeness import most_like

    like = most_like([(one.text, one.among) for one in lost], library, least)
    pieces = [
        PassageQuery(library.text(near.document)[near.span.start : near.span.end], one.among) if near else one
        for one, near in zip(lost, like, strict=True)
    ]
    copies = iter(zip(like, locate_all(pieces, library), strict=True))  # the same text may be in other documents, too
    found = (next(copies) if match.how == "lost" else (None, match) for match in located)
    return [
        match if near is None else PassageMatch("fuzzy", copy.places, near.score)
        for match, (near, copy) in zip(located, found, strict=True)
    ]


class _Document:
    """A text in which passages are looked up; ``kept`` are the places of its characters that count (default: all)."""

    def __init__(self, text: str, kept: Sequence[int] | None = None) -> None:
        self._text = text
        self._kept = kept

    @cached_property
    def words(self) -> frozenset[str]:
        return frozenset(plain(self._text).split())

    @cached_property
    def _folded(self) -> tuple[str, list[int], list[int]]:
        """The ``plain`` words, a space behind each, and where the character of the text begins and ends that begins
        and ends at each place; -1 inside of one, such as between the two s of a sharp s.
        """
        pieces, begins, ends = list[str](), list[int](), list[int]()
        kept = range(len(self._text)) if self._kept is None else self._kept
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

    def find(self, passage: str, words: str, *, verbatim: bool) -> tuple[MatchKind, list[Span]]:
        """How a passage is found here, and its places of that kind; ``words`` are its ``plain`` words, joined.

        ``verbatim`` says that no other kind is of interest.
        """
        spans = [Span(at, at + len(passage)) for at in _all_starts(passage, self._text)]
        if spans or verbatim:
            return "exact", spans
        alike = [(how_alike(passage, self._text[span.start : span.end]), span) for span in self.places_of(words)]
        kinds: list[MatchKind] = [how for how, _ in alike if how is not None]
        best: MatchKind = min(kinds, key=MATCH_KINDS.index, default="lost")
        return best, [span for how, span in alike if how == best]

    def places_of(self, words: str) -> list[Span]:
        """Where the ``plain`` words are, joined by single spaces."""
        folded, begins, ends = self._folded
        found = [Span(begins[at], ends[at + len(words) - 1]) for at in _all_starts(words, folded)]
        return [span for span in found if span.start >= 0 <= span.end]


def typographic_places(passage: str, text: str) -> list[Span]:
    """Where a passage is in ``text`` with other quotation marks or dashes, but not as it is."""
    kind, spans = _Document(text).find(passage, " ".join(plain(passage).split()), verbatim=False)
    return spans if kind == "typography" else []


def _all_starts(piece: str, text: str) -> Iterator[int]:
    start = text.find(piece)
    while start >= 0:
        yield start
        start = text.find(piece, start + 1)


def plain(text: str) -> str:
    """``text`` case-folded, with plain quotation marks, apostrophes and dashes."""
    return text.translate(_TYPOGRAPHY).casefold()


def _spaced(text: str) -> str:
    """The ``plain`` words of ``text``, joined by single spaces."""
    return " ".join(plain(text).split())


def is_in(passage: str, text: str) -> bool:
    """Whether ``text`` has the passage, perhaps with other white space, case, typography or Markdown signs."""
    words = _spaced(without_signs(passage))
    return bool(words) and words in _spaced(without_signs(text))


def how_alike(passage: str, piece: str) -> Literal["exact", "spacing", "case", "typography", "markup"] | None:
    """How a piece of text is the passage, white space at their ends apart; None if it is not."""
    if piece.strip() == passage.strip():
        return "exact"
    if piece.split() == passage.split():
        return "spacing"
    if piece.casefold().split() == passage.casefold().split():
        return "case"
    if plain(piece).split() == plain(passage).split():
        return "typography"
    return "markup" if _spaced(without_signs(piece)) == _spaced(without_signs(passage)) else None


def nearest(passages: Sequence[PassageQuery], library: Library) -> list[str]:
    """For each passage a sentence with the piece of text that is most like it; empty where nothing is like it."""
    from ragtrial.dataset.likeness import most_like

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
