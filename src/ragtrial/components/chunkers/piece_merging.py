"""Neighbouring pieces of a text joined up to a size, each stretch repeating the end of the one before."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from ragtrial.components.chunkers.base import LengthFunction, trimmed
from ragtrial.records import Span

Stretch = tuple[int, int]
"""The characters from the first to before the second."""


@dataclass(frozen=True)
class Measure:
    """How long a stretch may be where it is in the text, and how much of the one before it may repeat."""

    ruler: LengthFunction
    budget: int
    overlap: int

    def merged(self, pieces: Sequence[Stretch]) -> list[Stretch]:
        """Neighbouring pieces joined while they fit; a piece longer than ``budget`` stays alone."""
        length = self.ruler.length
        joined: list[Stretch] = []
        window: deque[Stretch] = deque()
        for start, end in pieces:
            if window and length(window[0][0], end) > self.budget:
                joined.append((window[0][0], window[-1][1]))
                while window and (
                    length(window[0][0], window[-1][1]) > self.overlap or length(window[0][0], end) > self.budget
                ):
                    window.popleft()
            window.append((start, end))
        return [*joined, (window[0][0], window[-1][1])] if window else joined

    def merged_or_cut(self, pieces: Iterable[Stretch], cut: Callable[[int, int], Sequence[Stretch]]) -> list[Stretch]:
        """As ``merged``, but a piece longer than ``budget`` is ``cut`` into stretches, and joined with no other."""
        joined: list[Stretch] = []
        for is_fitting, group in groupby(pieces, key=lambda piece: self.ruler.length(*piece) <= self.budget):
            some = list(group)
            joined += self.merged(some) if is_fitting else [part for piece in some for part in cut(*piece)]
        return joined

    def units(self, start: int, end: int) -> list[Stretch]:
        """Stretches of single units (or of the units that share a character), joined."""
        starts = self.ruler.starts
        inside = starts[bisect_right(starts, start) : bisect_left(starts, end)]
        return self.merged(list(pairwise([start, *dict.fromkeys(inside), end])))


def merged_by_sums(
    pieces: Sequence[Stretch], lengths: Sequence[int], size: int, overlap: int, join: int = 0
) -> list[Stretch]:
    """As ``Measure.merged``, but a stretch is as long as its pieces, each of a given length, are together.

    Every two neighbours have ``join`` between them. That is how LangChain's text splitters count. Pieces of length 0 at
    the end of a stretch are always repeated.
    """
    joined: list[Stretch] = []
    first, total = 0, 0
    for index, length in enumerate(lengths):
        if index > first and total + length + join > size:
            joined.append((pieces[first][0], pieces[index - 1][1]))
            while total > overlap or (total > 0 and total + length + (join if first < index else 0) > size):
                total -= lengths[first] + (join if index - first > 1 else 0)
                first += 1
        total += length + (join if first < index else 0)
    return [*joined, (pieces[first][0], pieces[-1][1])] if pieces else joined


def chunks_of(text: str, stretches: Iterable[Stretch]) -> list[Span]:
    """The stretches as spans without white space around them; those that say nothing new are left out."""
    spans: list[Span] = []
    for start, end in stretches:
        span = trimmed(text, start, end)
        if span and (not spans or span.end > spans[-1].end):
            spans.append(span)
    return spans
