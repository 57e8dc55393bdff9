"""Finding passages in the documents: exactly, else with other white space, else in other case, else what is like them.

One walk over the documents counts words, which tells each passage's rarest; a second looks the passage up, word for
word, in the documents that have this one.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Literal

from ragtrial.dataset.library import Library
from ragtrial.dataset.likeness import most_like
from ragtrial.records import Span

MatchKind = Literal["exact", "spacing", "case", "fuzzy", "lost"]

MATCH_KINDS: tuple[MatchKind, ...] = ("exact", "spacing", "case", "fuzzy", "lost")
"""From the best to the worst."""

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
    case-folded, and perhaps other white space), ``fuzzy`` (like it: the best place alone), or ``lost`` (no places).
    ``score`` is 1 for the first three, 0 for ``lost``, and for ``fuzzy`` in (0, 1]: see ``likeness.likeness``.
    """

    how: MatchKind
    places: tuple[Place, ...]
    score: float


LOST = PassageMatch("lost", (), 0.0)

Locate = Callable[[Sequence[PassageQuery], Library], list[PassageMatch]]
"""A function that finds passages: ``locate_all``, or a memory of its results."""


def locate_all(sought: Sequence[PassageQuery], library: Library, *, fuzzy: float | None = None) -> list[PassageMatch]:
    """How and where each passage is found, in the order of ``sought``.

    The first of exact, spacing, case and fuzzy that finds a passage anywhere it may be decides, and all its places of
    that kind are given, overlapping ones too. White space at a passage's ends is left out; a passage of nothing else
    is lost. ``fuzzy`` is the least score, in (0, 1], at which a passage that is nowhere is found by likeness; without
    it that is never done.
    """
    searches = {one: _Search(one.text) for one in dict.fromkeys(sought)}
    within: dict[int, list[_Search]] = {}
    for one, search in searches.items():
        if one.among is not None:
            within.setdefault(one.among, []).append(search)
    anywhere = _by_rarest_word([search for one, search in searches.items() if one.among is None], library)
    for position in range(len(library)) if anywhere else sorted(within):
        document = _DocumentWords(library.text(position))
        candidates = within.get(position, [])
        if anywhere:
            candidates = [*candidates, *anywhere.get("", ())]
            candidates += (search for word in anywhere.keys() & document.distinct for search in anywhere[word])
        for search in candidates:
            search.look_in(position, document)
    located = [searches[one].result() for one in sought]
    if fuzzy is not None:
        lost = [number for number, one in enumerate(located) if one.how == "lost"]
        like = most_like([(sought[number].text, sought[number].among) for number in lost], library, fuzzy)
        for number, match in zip(lost, like, strict=True):
            if match is not None:
                located[number] = PassageMatch("fuzzy", (Place(match.document, match.span),), match.score)
    return located


def _by_rarest_word(searches: Sequence[_Search], library: Library) -> dict[str, list[_Search]]:
    """The searches by the rarest word that a document must have as a whole; by "" those that name no such word."""
    needed = set[str]().union(*(search.inner for search in searches))
    documents_with: Counter[str] = Counter()
    for position in range(len(library)) if needed else ():
        documents_with.update(needed.intersection(library.text(position).casefold().split()))
    found: dict[str, list[_Search]] = {}
    for search in searches:
        if search.words and search.inner <= documents_with.keys():
            found.setdefault(min(search.inner, key=lambda word: (documents_with[word], word), default=""), []).append(
                search
            )
    return found


class _DocumentWords:
    """A text as its case-folded words, one space between them, and where each character of these comes from."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.words = text.casefold().split()

    @cached_property
    def distinct(self) -> frozenset[str]:
        return frozenset(self.words)

    @cached_property
    def joined(self) -> str:
        return " ".join(self.words)

    @cached_property
    def _starts(self) -> list[int]:
        """Where each word begins in ``joined``."""
        return [0, *accumulate(len(word) + 1 for word in self.words)]

    @cached_property
    def _spans(self) -> list[tuple[int, int]]:
        """Where each word is in the text."""
        return [found.span() for found in re.finditer(r"\S+", self.text)]

    def occurrences(self, words: str) -> Iterator[Span]:
        """Where the joined words ``words`` are in the text, overlapping places too; never half a character."""
        for at in _all_starts(words, self.joined):
            start, end = self._origin(at), self._origin(at + len(words) - 1, is_last=True)
            if start is not None and end is not None:
                yield Span(start, end + 1)

    def _origin(self, at: int, *, is_last: bool = False) -> int | None:
        """The character of the text that begins, or ends if ``is_last``, at one of ``joined``; None inside of one."""
        number = bisect_right(self._starts, at) - 1
        (start, end), rest = self._spans[number], at - self._starts[number]
        if len(self.words[number]) == end - start:
            return start + rest
        edges = [0, *accumulate(len(character.casefold()) for character in self.text[start:end])]
        edge = rest + is_last
        return start + edges.index(edge) - is_last if edge in edges else None


def _all_starts(piece: str, text: str) -> Iterator[int]:
    start = text.find(piece)
    while start >= 0:
        yield start
        start = text.find(piece, start + 1)


class _Search:
    """A passage that is looked for, and the places of the best kind so far."""

    def __init__(self, passage: str) -> None:
        self._passage = passage.strip()
        self._kind: MatchKind = "lost"
        self._places: list[Place] = []
        self.words = passage.casefold().split()
        self._joined = " ".join(self.words)
        self.inner = frozenset(self.words[1:-1])
        """The words that a document must have as a whole; the first and the last may be parts of its words."""

    def look_in(self, position: int, document: _DocumentWords) -> None:
        """Note where the passage is in a document, unless it was found in a better way before."""
        if not self.words or not self.inner <= document.distinct:
            return
        spans = [Span(at, at + len(self._passage)) for at in _all_starts(self._passage, document.text)]
        if spans:
            self._note("exact", position, spans)
        elif self._kind != "exact":
            found = list(document.occurrences(self._joined))
            kinds: list[MatchKind] = [
                how_alike(self._passage, document.text[span.start : span.end]) or "lost" for span in found
            ]
            best: MatchKind = min(kinds, key=MATCH_KINDS.index, default="lost")
            self._note(best, position, [span for span, kind in zip(found, kinds, strict=True) if kind == best])

    def _note(self, kind: MatchKind, position: int, spans: Sequence[Span]) -> None:
        if MATCH_KINDS.index(kind) < MATCH_KINDS.index(self._kind):
            self._kind, self._places = kind, []
        if kind == self._kind != "lost":
            self._places += (Place(position, span) for span in spans)

    def result(self) -> PassageMatch:
        return LOST if self._kind == "lost" else PassageMatch(self._kind, tuple(self._places), 1.0)


def how_alike(passage: str, piece: str) -> Literal["exact", "spacing", "case"] | None:
    """How a piece of text is the passage, white space at their ends apart; None if it is not."""
    if piece.strip() == passage.strip():
        return "exact"
    if piece.split() == passage.split():
        return "spacing"
    return "case" if piece.casefold().split() == passage.casefold().split() else None


def nearest(passages: Sequence[PassageQuery], library: Library) -> list[str]:
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
