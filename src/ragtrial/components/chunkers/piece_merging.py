"""Neighbouring pieces of a text joined up to a size, each stretch repeating the end of the one before."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from ragtrial.components.chunkers.base import LengthFunction, trimmed
from ragtrial.records import Span

Stretch = tuple[int, int]
"""The characters from the first to before the second."""


def merged(pieces: Sequence[Stretch], ruler: LengthFunction, budget: int, overlap: int) -> list[Stretch]:
    """Neighbouring pieces joined while they fit; each stretch repeats the last ``overlap`` units of the one before.

    What counts is the length of a stretch where it stands in the text. A piece longer than ``budget`` stays alone.
    """
    joined: list[Stretch] = []
    window: deque[Stretch] = deque()
    for piece in pieces:
        if window and ruler.length(window[0][0], piece[1]) > budget:
            joined.append((window[0][0], window[-1][1]))
            while window and (
                ruler.length(window[0][0], window[-1][1]) > overlap or ruler.length(window[0][0], piece[1]) > budget
            ):
                window.popleft()
        window.append(piece)
    if window:
        joined.append((window[0][0], window[-1][1]))
    return joined


def merged_or_cut(
    pieces: Iterable[Stretch],
    ruler: LengthFunction,
    budget: int,
    overlap: int,
    cut: Callable[[int, int], Sequence[Stretch]],
) -> list[Stretch]:
    """As ``merged``, but a piece longer than ``budget`` is ``cut`` into stretches, and joined with no other."""
    joined: list[Stretch] = []
    fitting: list[Stretch] = []
    for piece in pieces:
        if ruler.length(*piece) <= budget:
            fitting.append(piece)
            continue
        joined += merged(fitting, ruler, budget, overlap)
        fitting = []
        joined += cut(*piece)
    return joined + merged(fitting, ruler, budget, overlap)


def merged_by_sums(pieces: Sequence[Stretch], lengths: Sequence[int], size: int, overlap: int) -> list[Stretch]:
    """As ``merged``, but a stretch is as long as its pieces, each of a given length, are together.

    That is how LangChain's text splitters count. Pieces of length 0 at the end of a stretch are always repeated.
    """
    joined: list[Stretch] = []
    window: deque[tuple[Stretch, int]] = deque()
    total = 0
    for piece, length in zip(pieces, lengths, strict=True):
        if window and total + length > size:
            joined.append((window[0][0][0], window[-1][0][1]))
            while total > overlap or (total > 0 and total + length > size):
                total -= window.popleft()[1]
        window.append((piece, length))
        total += length
    if window:
        joined.append((window[0][0][0], window[-1][0][1]))
    return joined


def between_units(ruler: LengthFunction, start: int, end: int) -> list[Stretch]:
    """The stretches of single units (or of the units that share a character) from ``start`` to ``end``."""
    inside = ruler.starts[bisect_right(ruler.starts, start) : bisect_left(ruler.starts, end)]
    return list(pairwise([start, *dict.fromkeys(inside), end]))


def chunks_of(text: str, stretches: Iterable[Stretch]) -> list[Span]:
    """The stretches as spans without white space around them; those that say nothing new are left out."""
    spans: list[Span] = []
    for start, end in stretches:
        span = trimmed(text, start, end)
        if span and (not spans or span.end > spans[-1].end):
            spans.append(span)
    return spans
