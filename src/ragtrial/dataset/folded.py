"""Texts without case and white space, as arrays of characters: where one is like another whatever sets it apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from ragtrial.dataset.library import Library
from ragtrial.rankings import Counts

Grams = npt.NDArray[np.uint64]
"""Hashes of sequences of characters."""

_BLOCK = 1 << 19  # characters hashed at once: arrays of 4 MB
_BASE = 0x9E3779B97F4A7C15
_BEYOND_SPACE = 0x3001  # the last white space of Unicode is U+3000


def folded(text: str) -> str:
    """``text`` case-folded, without white space."""
    return "".join(text.casefold().split())


def codes_of(text: str) -> npt.NDArray[np.uint32]:
    """The code points of ``text``."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)


def grams(codes: npt.NDArray[np.uint32], length: int) -> Grams:
    """A hash of each sequence of ``length`` characters; shape (characters - length + 1,), or none."""
    if len(codes) < length:
        return np.empty(0, dtype=np.uint64)
    made, size = codes.astype(np.uint64) + np.uint64(1), 1
    while size < length:
        step = min(size, length - size)  # two sequences make a longer one; the last two may overlap
        made = made[:-step] * np.uint64(pow(_BASE, size, 1 << 64)) + made[step:]
        size += step
    return made * np.uint64(_BASE)


@dataclass(frozen=True, slots=True)
class Block:
    """Some documents of a library, folded, one after another.

    ``positions`` are theirs in the library. ``codes`` are the characters of all, ``starts`` (documents + 1) where each
    document's begin.
    """

    positions: list[int]
    texts: list[str]
    codes: npt.NDArray[np.uint32]
    starts: Counts
    _kept: Counts
    _bounds: Counts
    _expanded: dict[int, Counts]

    def pieces(self, length: int) -> Iterator[tuple[int, Grams]]:
        """The hashes of all sequences of ``length`` characters, at most so many at once: where they begin, and they."""
        for start in range(0, max(len(self.codes) - length + 1, 0), _BLOCK):
            yield start, grams(self.codes[start : start + _BLOCK + length - 1], length)

    def document_of(self, places: Counts) -> Counts:
        """Which document of the block (from 0) has each place of ``codes``."""
        return np.searchsorted(self.starts, places, side="right") - 1

    def characters(self, documents: Counts, places: Counts) -> Counts:
        """Which character of its document's text each place of ``codes`` comes from."""
        found = self._kept[places] - self._bounds[documents]
        for number, origin in self._expanded.items():
            there = documents == number
            found[there] = origin[found[there]]
        return found


def blocks(library: Library, positions: Iterable[int]) -> Iterator[Block]:
    """The documents at ``positions``, folded, so many at once that arrays of their characters stay small."""
    taken: list[int] = []
    texts: list[str] = []
    size = 0
    for position in positions:
        text = library.text(position)
        taken.append(position)
        texts.append(text)
        size += len(text)
        if size >= _BLOCK:
            yield _block(taken, texts)
            taken, texts, size = [], [], 0
    if taken:
        yield _block(taken, texts)


def _block(positions: list[int], texts: list[str]) -> Block:
    cases = [text.casefold() for text in texts]
    # Folding never makes a text shorter, so where the lengths are equal each character has become one.
    expanded = {
        number: np.repeat(np.arange(len(text)), [len(character.casefold()) for character in text])
        for number, (text, case) in enumerate(zip(texts, cases, strict=True))
        if len(case) != len(text)
    }
    bounds = np.cumsum([0, *map(len, cases)])
    codes = codes_of("".join(cases))
    kept = np.flatnonzero(~_is_space()[np.minimum(codes, _BEYOND_SPACE)])
    return Block(positions, texts, codes[kept], np.searchsorted(kept, bounds), kept, bounds, expanded)


@cache
def _is_space() -> npt.NDArray[np.bool_]:
    return np.array([chr(code).isspace() for code in range(_BEYOND_SPACE + 1)])


class Frequencies:
    """How often each sequence of ``length`` characters comes in documents: at most so often, and never if 0."""

    def __init__(self, length: int, characters: int) -> None:
        bits = min(max(characters.bit_length() + 1, 10), 22)
        self.length = length
        self._shift = np.uint64(64 - bits)
        self._counts: Counts = np.zeros(1 << bits, dtype=np.int64)

    def add(self, block: Block) -> None:
        for _, made in block.pieces(self.length):
            self._counts += np.bincount((made >> self._shift).astype(np.int64), minlength=len(self._counts))

    def of(self, made: Grams) -> Counts:
        counts: Counts = self._counts[made >> self._shift]
        return counts


class Anchors:
    """Sequences that are looked for: each belongs to an owner, and begins so many characters into it."""

    def __init__(self, length: int, made: Grams, owners: Counts, offsets: Counts) -> None:
        order = np.argsort(made, kind="stable")
        self.length = length
        self._owners, self._offsets = owners[order], offsets[order]
        self._distinct, first, counts = np.unique(made[order], return_index=True, return_counts=True)
        self._first, self._counts = first, counts
        bits = min(max(len(made).bit_length() + 4, 10), 22)
        self._shift = np.uint64(64 - bits)
        self._is_used = np.zeros(1 << bits, dtype=bool)
        self._is_used[made >> self._shift] = True

    def found_in(self, block: Block) -> Iterator[tuple[Counts, Counts, Counts]]:
        """Where sequences stand in ``block.codes``, ascending, whose they are, and where in the owner they begin."""
        for start, made in block.pieces(self.length):
            places = np.flatnonzero(self._is_used[made >> self._shift])
            values = made[places]
            which = np.minimum(np.searchsorted(self._distinct, values), len(self._distinct) - 1)
            same = self._distinct[which] == values
            places, which = places[same], which[same]
            if not len(places):
                continue
            times = self._counts[which]
            ends = np.cumsum(times)
            rows = np.arange(ends[-1]) - np.repeat(ends - times, times) + np.repeat(self._first[which], times)
            yield np.repeat(places, times) + start, self._owners[rows], self._offsets[rows]
