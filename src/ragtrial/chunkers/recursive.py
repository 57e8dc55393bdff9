"""Paragraphs, else lines, else sentences, else words: the coarsest pieces that fit, merged up to the size."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from itertools import pairwise
from typing import Literal

from ragtrial.chunkers.base import CHUNKERS, Ruler, SizedChunker, trimmed
from ragtrial.records import Span

SEPARATORS = ("\n\n", "\n", ". ", " ")


@CHUNKERS.register("recursive")
class RecursiveChunker(SizedChunker):
    """Splits at the coarsest separator present and merges the pieces; a piece too long is split at the next finer one.

    The usual method of RAG tutorials. A separator stays with the piece before it. Text without any separator is cut
    between units (tokens or characters).
    """

    kind: Literal["recursive"] = "recursive"
    """At paragraphs, else lines, else sentences, else words: the coarsest pieces that fit, merged up to `size`."""

    def split(self, text: str, ruler: Ruler) -> list[Span]:
        budget, overlap = self.window(ruler)
        spans: list[Span] = []
        for start, end in _pieces(text, 0, len(text), ruler, SEPARATORS, budget, overlap):
            span = trimmed(text, start, end)
            # A chunk that only repeats the end of the one before it (all of it overlap) says nothing new.
            if span and (not spans or span.end > spans[-1].end):
                spans.append(span)
        return spans


def _pieces(
    text: str, start: int, end: int, ruler: Ruler, separators: tuple[str, ...], budget: int, overlap: int
) -> list[tuple[int, int]]:
    """Contiguous stretches of ``text[start:end]``, merged to at most ``budget`` units each."""
    separator = next((mark for mark in separators if text.find(mark, start, end) >= 0), None)
    if separator is None:
        cuts = _between_units(ruler, start, end)
        finer: tuple[str, ...] = ()
    else:
        cuts = _after_each(text, separator, start, end)
        finer = separators[separators.index(separator) + 1 :]
    merged: list[tuple[int, int]] = []
    fitting: list[tuple[int, int]] = []
    for piece_start, piece_end in pairwise(cuts):
        if ruler.length(piece_start, piece_end) <= budget or separator is None:
            fitting.append((piece_start, piece_end))
            continue
        merged += _merge(fitting, ruler, budget, overlap)
        fitting = []
        merged += _pieces(text, piece_start, piece_end, ruler, finer, budget, overlap)
    return merged + _merge(fitting, ruler, budget, overlap)


def _after_each(text: str, separator: str, start: int, end: int) -> list[int]:
    cuts = [start]
    found = text.find(separator, start, end)
    while found >= 0:
        cuts.append(found + len(separator))
        found = text.find(separator, cuts[-1], end)
    if cuts[-1] < end:
        cuts.append(end)
    return cuts


def _between_units(ruler: Ruler, start: int, end: int) -> list[int]:
    inside = ruler.starts[bisect_right(ruler.starts, start) : bisect_left(ruler.starts, end)]
    return [start, *dict.fromkeys(inside), end]


def _merge(pieces: list[tuple[int, int]], ruler: Ruler, budget: int, overlap: int) -> list[tuple[int, int]]:
    """Neighbouring pieces joined while they fit; each stretch repeats the last ``overlap`` units of the one before."""
    merged: list[tuple[int, int]] = []
    window: deque[tuple[int, int]] = deque()
    for piece in pieces:
        if window and ruler.length(window[0][0], piece[1]) > budget:
            merged.append((window[0][0], window[-1][1]))
            while window and (
                ruler.length(window[0][0], window[-1][1]) > overlap or ruler.length(window[0][0], piece[1]) > budget
            ):
                window.popleft()
        window.append(piece)
    if window:
        merged.append((window[0][0], window[-1][1]))
    return merged
