"""What is most like a passage that is nowhere: compared where documents share rare words with it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappush, heappushpop, nsmallest
from math import log
from typing import NamedTuple

from ragtrial.dataset.library import Library
from ragtrial.records import Span

_MOST_REGIONS = 8  # stretches of text that a passage is compared with: those that share most with it
_MOST_WORDS = 12  # of each passage, the rarest
_MOST_SHARED = 2_000  # documents that these may be in, if there is more than one
_LONG = 4_000  # characters from which on a passage is aligned by its ends, and not fitted to words
_END = 256  # characters of such an end
_LONGEST = 200_000  # characters of a passage that is compared at all: the time grows as n^2
_MOST_SHIFT = 24  # characters by which a piece may be widened or narrowed to begin and end with whole words
_LONG_WORD, _PART = 12, 3  # characters: a longer word, such as a line of Japanese, counts as its parts


@dataclass(frozen=True, slots=True)
class Match:
    """The position of a document, the piece of it, and how like the passage that is, in (0, 1]."""

    document: int
    span: Span
    score: float


@dataclass(frozen=True, slots=True)
class _RareWord:
    """A word of a passage: where it begins there, and what sharing it is worth."""

    passage: int
    offset: int
    weight: float


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
    than 200,000 characters.
    """
    everywhere = any(among is None for _, among in wanted)
    positions = range(len(library)) if everywhere else sorted({among for _, among in wanted if among is not None})
    rare = _rare_words([text for text, _ in wanted], library, positions)
    best: list[list[_Region]] = [[] for _ in wanted]
    for position in positions if rare else ():
        shared: dict[tuple[int, int], dict[str, float]] = {}
        for word, start in _words(library.text(position)):
            for one in rare.get(word, ()):
                if wanted[one.passage][1] in (None, position):
                    # Regions overlap by half, so that a word more or less does not part what belongs together.
                    begin = 2 * max(start - one.offset, 0) // len(wanted[one.passage][0])
                    shared.setdefault((one.passage, begin), {})[word] = one.weight
                    shared.setdefault((one.passage, begin - 1), {})[word] = one.weight
        for (number, begin), weights in shared.items():
            region = _Region(sum(weights.values()), -position, -begin)  # of equal regions the first is kept
            (heappush if len(best[number]) < _MOST_REGIONS else heappushpop)(best[number], region)
    return [_best(text, regions, library, least) for (text, _), regions in zip(wanted, best, strict=True)]


def _rare_words(passages: Sequence[str], library: Library, positions: Iterable[int]) -> dict[str, list[_RareWord]]:
    """The words of each passage that the fewest documents have, those that none has left out."""
    words = [list(_words(text)) if len(text) <= _LONGEST else [] for text in passages]
    needed = {word for of_passage in words for word, _ in of_passage}
    documents_with: Counter[str] = Counter()
    for position in positions if needed else ():
        documents_with.update(needed.intersection(word for word, _ in _words(library.text(position))))
    found: dict[str, list[_RareWord]] = {}
    for number, of_passage in enumerate(words):
        known = [(documents_with[word], offset, word) for word, offset in of_passage if word in documents_with]
        shared = 0
        for count, offset, word in nsmallest(_MOST_WORDS, known):
            if shared == 0 or shared + count <= _MOST_SHARED:
                shared += count
                found.setdefault(word, []).append(_RareWord(number, offset, log(1 + len(library) / count)))
    return found


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
            span = _fitted(passage, text, span) if len(passage) <= _LONG else span
            found.append(Match(document, span, likeness(passage, text[span.start : span.end])))
    found.sort(key=lambda match: (-match.score, match.document, match.span))
    return found[0] if found and found[0].score >= least else None


def _aligned(passage: str, text: str, region: range) -> Span | None:
    """The piece of a region, at most as long as the folded passage, that is most like it."""
    origin = [
        (folded_character, place)
        for place in region
        for folded_character in text[place].casefold()
        if not text[place].isspace()
    ]
    there = "".join(character for character, _ in origin)
    start, end = 0, len(there)
    if len(there) > len(passage):
        if len(passage) <= _LONG:
            start, end = _most_alike(passage, there)
        else:
            start = _most_alike(passage[:_END], there)[0]
            end = start + _most_alike(passage[-_END:], there[start:])[1]
    return Span(origin[start][1], origin[end - 1][1] + 1) if there else None


def _most_alike(passage: str, text: str) -> tuple[int, int]:
    """Where the piece of ``text``, at most as long as ``passage``, begins and ends that is most like it."""
    from rapidfuzz.fuzz import partial_ratio_alignment

    alignment = partial_ratio_alignment(passage, text) if len(text) > len(passage) else None
    if alignment is None or alignment.dest_end <= alignment.dest_start:
        return 0, len(text)
    return alignment.dest_start, alignment.dest_end


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
