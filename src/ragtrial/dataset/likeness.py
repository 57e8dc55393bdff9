"""What is most like a passage that is nowhere: compared where documents share rare words with it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappush, heappushpop, nsmallest
from math import log
from typing import NamedTuple

from ragtrial.dataset.library import Library
from ragtrial.records import Span

_MOST_REGIONS = 8  # stretches of text that a passage is compared with: those that share most with it
_MOST_WORDS = 12  # of each passage, the rarest
_LONGEST = 4_000  # characters of a passage that is compared at all: the time grows as n^2
_MOST_SHIFT = 24  # characters by which a piece may be widened or narrowed to begin and end with whole words
_LONG_WORD, _PART = 12, 3  # characters: a longer word, such as a line of Japanese, counts as its parts


@dataclass(frozen=True, slots=True)
class Match:
    """The position of a document, the piece of it, and how like the passage that is, in (0, 1]."""

    document: int
    span: Span
    score: float


class _Region(NamedTuple):
    """Where a passage may be: how much it shares there, minus the document, minus its half lengths before that."""

    shared: float
    document: int
    begin: int


def folded(text: str) -> str:
    """``text`` case-folded, without white space."""
    return "".join(text.casefold().split())


def likeness(one: str, other: str) -> float:
    """How like two texts are, in [0, 1]: 2 * s / (m + n), case and white space apart.

    m and n are their lengths in case-folded characters without white space, s is that of their longest common
    subsequence. 1 for texts that differ in case and white space alone, 0 for texts without a common character.
    """
    from rapidfuzz.fuzz import ratio

    return ratio(folded(one), folded(other)) / 100


def most_like(wanted: Sequence[tuple[str, int | None]], library: Library, least: float) -> list[Match | None]:
    """For each passage the piece of the documents that is most like it; None where no likeness reaches ``least``.

    A passage comes with the position of the one document that it must be in, or None. It is compared where documents
    share words with it, rare ones first: a piece that shares none is not found. Nothing is like a passage of more
    than 4,000 characters.
    """
    everywhere = any(among is None for _, among in wanted)
    positions = range(len(library)) if everywhere else sorted({among for _, among in wanted if among is not None})
    words = [list(_words(text)) if len(text) <= _LONGEST else [] for text, _ in wanted]
    needed = {word for of_passage in words for word, _ in of_passage}
    documents_with: Counter[str] = Counter()
    for position in positions if needed else ():
        documents_with.update(needed.intersection(word for word, _ in _words(library.text(position))))
    rare: dict[str, list[tuple[int, int]]] = {}  # the passages that have a word, and where
    for number, of_passage in enumerate(words):
        known = [(documents_with[word], offset, word) for word, offset in of_passage if word in documents_with]
        for _, offset, word in nsmallest(_MOST_WORDS, known):
            rare.setdefault(word, []).append((number, offset))
    best: list[list[_Region]] = [[] for _ in wanted]
    for position in positions if rare else ():
        shared: dict[tuple[int, int], dict[str, float]] = {}
        for word, start in _words(library.text(position)):
            for number, offset in rare.get(word, ()):
                if wanted[number][1] in (None, position):
                    # Regions overlap by half, so that a word more or less does not part what belongs together.
                    begin = 2 * max(start - offset, 0) // len(wanted[number][0])
                    for region in (begin, begin - 1):
                        shared.setdefault((number, region), {})[word] = log(1 + len(library) / documents_with[word])
        for (number, begin), weights in shared.items():
            found = _Region(sum(weights.values()), -position, -begin)  # of equal regions the first is kept
            (heappush if len(best[number]) < _MOST_REGIONS else heappushpop)(best[number], found)
    return [_best(text, regions, library, least) for (text, _), regions in zip(wanted, best, strict=True)]


def _words(text: str) -> Iterator[tuple[str, int]]:
    """The case-folded words of a text with their first characters; of long ones the sequences of three characters."""
    for found in re.finditer(r"\w+", text):
        word, start = found[0].casefold(), found.start()
        if len(word) <= _LONG_WORD:
            yield word, start
        else:
            yield from ((word[at : at + _PART], start + at) for at in range(len(word) - _PART + 1))


def _best(passage: str, regions: Sequence[_Region], library: Library, least: float) -> Match | None:
    """The piece of the regions that is most like the passage; the first of equal ones."""
    found = []
    for region in regions:
        document, step = -region.document, len(passage)
        text, start = library.text(document), -region.begin * step // 2 - step // 2
        span = _aligned(folded(passage), text, range(max(start, 0), min(start + 3 * step, len(text))))
        if span is not None:
            span = _fitted(passage, text, span)
            found.append(Match(document, span, likeness(passage, text[span.start : span.end])))
    found.sort(key=lambda match: (-match.score, match.document, match.span))
    return found[0] if found and found[0].score >= least else None


def _aligned(passage: str, text: str, region: range) -> Span | None:
    """The piece of a region, at most as long as the folded passage, that is most like it."""
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
    """The span, or one that begins or ends with a whole word nearby if that is more like the passage."""
    starts, ends = {span.start}, {span.end}
    for shift in range(-_MOST_SHIFT, _MOST_SHIFT + 1):
        start, end = span.start + shift, span.end + shift
        if 0 <= start < len(text) and text[start : start + 1].strip() and not text[max(start - 1, 0) : start].strip():
            starts.add(start)
        if 0 < end <= len(text) and text[end - 1 : end].strip() and not text[end : end + 1].strip():
            ends.add(end)
    spans = [Span(start, end) for start in starts for end in ends if start < end]
    return max(spans, key=lambda one: (likeness(passage, text[one.start : one.end]), -one.start, -one.end))
