"""What is most like a passage that is nowhere: by sequences of characters that both have, then by comparing there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ragtrial.dataset.folded import Anchors, Block, Frequencies, Grams, blocks, codes_of, folded, grams
from ragtrial.dataset.library import Library
from ragtrial.rankings import Counts
from ragtrial.records import Span

_AT_ONCE = 1000  # passages in one walk over the documents: what they share with them is held in memory
_LENGTHS = (6, 4, 2, 1)  # characters of a sequence: the longest of which a passage has room for two
_MOST_SEQUENCES = 24  # of each passage, the rarest
_MOST_SHARED = 5_000  # places that these may have, if there is more than one sequence
_MOST_REGIONS = 8  # stretches of text that a passage is compared with: those with the most sequences of it
_MOST_WORDS = 3  # by which a piece may be widened at either end
_LONG = (
    4_000  # characters from which on a passage is aligned by its ends, and not widened: the time for all grows as n^3
)
_END = 256  # characters of such an end
_LONGEST = 200_000  # characters of a passage that is compared at all: the time grows as n^2
_MOST_SHIFT = 24  # characters by which a piece may be widened or narrowed to begin and end with whole words


@dataclass(frozen=True, slots=True)
class Match:
    """The position of a document, the piece of it, and how like the passage that is, in (0, 1]."""

    document: int
    span: Span
    score: float


@dataclass(frozen=True, slots=True, order=True)
class _Region:
    """Characters ``start`` to ``end`` of a document, where a passage may be."""

    document: int
    start: int
    end: int


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
    share its rarest sequences of characters: a piece that shares none of them is not found. Nothing is like a passage
    of more than 200,000 characters.
    """
    found: list[Match | None] = []
    for start in range(0, len(wanted), _AT_ONCE):
        part = wanted[start : start + _AT_ONCE]
        part = [(text if len(text) <= _LONGEST else "", among) for text, among in part]
        regions = _Sharing(part, library).regions()
        found += (_best(text, regions[number], library, least) for number, (text, _) in enumerate(part))
    return found


class _Sharing:
    """Where documents share rare sequences of characters with passages."""

    def __init__(self, wanted: Sequence[tuple[str, int | None]], library: Library) -> None:
        self._library = library
        self._codes = [codes_of(folded(text)) for text, _ in wanted]
        self._sizes = np.array([len(codes) for codes in self._codes], dtype=np.int64)
        self._among = np.array([-1 if position is None else position for _, position in wanted], dtype=np.int64)
        everywhere = (self._among < 0).any()
        self._positions = range(len(library)) if everywhere else sorted(set(self._among.tolist()))

    def regions(self) -> list[list[_Region]]:
        """The regions of each passage, those that share most with it first."""
        found: list[list[tuple[int, _Region]]] = [[] for _ in self._codes]
        anchors = self._rare_sequences()
        for block in blocks(self._library, self._positions) if anchors else ():
            for owner, shared, region in self._shared(block, anchors):
                found[owner].append((-shared, region))
        return [[region for _, region in sorted(rows)[:_MOST_REGIONS]] for rows in found]

    def _rare_sequences(self) -> list[Anchors]:
        by_length: dict[int, list[int]] = {}
        for number, size in enumerate(self._sizes.tolist()):
            if size:
                length = next((length for length in _LENGTHS if 2 * length <= size), 1)
                by_length.setdefault(length, []).append(number)
        counted = [Frequencies(length, int(self._library.sizes.sum())) for length in by_length]
        for block in blocks(self._library, self._positions) if counted else ():
            for frequencies in counted:
                frequencies.add(block)
        made = []
        for frequencies in counted:
            rows = [self._rarest(frequencies, number) for number in by_length[frequencies.length]]
            hashes, owners, offsets = (np.concatenate(column) for column in zip(*rows, strict=True))
            if len(hashes):
                made.append(Anchors(frequencies.length, hashes, owners, offsets))
        return made

    def _rarest(self, frequencies: Frequencies, number: int) -> tuple[Grams, Counts, Counts]:
        made = grams(self._codes[number], frequencies.length)
        counts = frequencies.of(made)
        order = np.argsort(counts, kind="stable")
        order = order[counts[order] > 0][:_MOST_SEQUENCES]
        few = np.cumsum(counts[order]) <= _MOST_SHARED
        few[:1] = True
        order = order[few]
        return made[order], np.full(len(order), number), order

    def _shared(self, block: Block, anchors: list[Anchors]) -> Iterator[tuple[int, int, _Region]]:
        """Of each passage the regions of the block that share most with it, and how many places that is."""
        columns = [found for one in anchors for found in one.found_in(block)]
        if not columns:
            return
        places, owners, offsets = (np.concatenate(column) for column in zip(*columns, strict=True))
        documents = block.document_of(places)
        among = self._among[owners]
        ours = (among < 0) | (among == np.array(block.positions)[documents])
        places, owners, offsets, documents = places[ours], owners[ours], offsets[ours], documents[ours]
        # Where the passage would begin, in steps of its length: what inserted or lacking words shift stays together.
        first, step = block.starts[documents], self._sizes[owners]
        begin = first + np.maximum(places - offsets - first, 0) // step * step
        keys, shared = np.unique(owners * (len(block.codes) + 1) + begin, return_counts=True)
        owners, begin = np.divmod(keys, len(block.codes) + 1)
        order = np.lexsort((-shared, owners))
        rank = np.arange(len(order)) - np.searchsorted(owners[order], owners[order])
        best = order[rank < _MOST_REGIONS]
        owners, begin, shared = owners[best], begin[best], shared[best]
        documents, step = block.document_of(begin), self._sizes[owners]
        end = np.minimum(begin + 2 * step + step // 2, block.starts[documents + 1])
        begin = np.maximum(begin - step // 2, block.starts[documents])
        starts = block.characters(documents, begin).tolist()
        ends = (block.characters(documents, end - 1) + 1).tolist()
        rows = zip(owners.tolist(), shared.tolist(), documents.tolist(), starts, ends, strict=True)
        for owner, count, document, start, stop in rows:
            yield owner, count, _Region(block.positions[document], start, stop)


def _best(passage: str, regions: Sequence[_Region], library: Library, least: float) -> Match | None:
    """The piece of the regions that is most like the passage; of equal ones the first."""
    found = []
    for region in regions:
        text = library.text(region.document)
        span = _aligned(folded(passage), text, region)
        if len(passage) <= _LONG:
            span = _widened(passage, text, span)
        found.append(Match(region.document, span, likeness(passage, text[span.start : span.end])))
    found.sort(key=lambda match: (-match.score, match.document, match.span))
    return found[0] if found and found[0].score >= least else None


def _aligned(passage: str, text: str, region: _Region) -> Span:
    """The piece of a region, at most as long as the folded passage, that is most like it."""
    origin = [
        (folded_character, place)
        for place in range(region.start, region.end)
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
    return Span(origin[start][1], origin[end - 1][1] + 1)


def _most_alike(passage: str, text: str) -> tuple[int, int]:
    """Where the piece of ``text``, at most as long as ``passage``, begins and ends that is most like it."""
    from rapidfuzz.fuzz import partial_ratio_alignment

    alignment = partial_ratio_alignment(passage, text) if len(text) > len(passage) else None
    if alignment is None or alignment.dest_end <= alignment.dest_start:
        return 0, len(text)
    return alignment.dest_start, alignment.dest_end


def _widened(passage: str, text: str, span: Span) -> Span:
    """The span, begun and ended at the boundaries of words nearby if that makes it more like the passage."""
    around = range(max(span.start - _MOST_SHIFT, 0), min(span.end + _MOST_SHIFT, len(text)))
    begins = [place for place in around if not text[place].isspace() and (place == 0 or text[place - 1].isspace())]
    ends = [
        place + 1
        for place in around
        if not text[place].isspace() and (place + 1 == len(text) or text[place + 1].isspace())
    ]
    starts = {
        span.start,
        *[place for place in begins if place <= span.start][-_MOST_WORDS:],
        *[place for place in begins if span.start < place <= span.start + _MOST_SHIFT][:1],
    }
    stops = {
        span.end,
        *[place for place in ends if place >= span.end][:_MOST_WORDS],
        *[place for place in ends if span.end - _MOST_SHIFT <= place < span.end][-1:],
    }
    spans = [Span(start, stop) for start in starts for stop in stops if start < stop]
    return max(spans, key=lambda one: (likeness(passage, text[one.start : one.end]), -one.start, -one.end))
