"""Windows of a fixed number of tokens or characters."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Literal

from ragtrial.components.chunkers.base import CHUNKERS, LengthFunction, SizedChunker
from ragtrial.components.chunkers.piece_merging import Stretch, chunks_of
from ragtrial.records import Span


@CHUNKERS.register("fixed")
class FixedChunker(SizedChunker):
    """A window of ``size`` units that moves by ``size - overlap``, wherever that cuts.

    A window that begins inside a word may count a token or two more when it is read on its own. With ``measure: text``
    these are the windows of LangChain's TokenTextSplitter, but that white space at their ends is no part of them, a
    character of several tokens is not torn, and a window that adds white space alone is left out.
    """

    kind: Literal["fixed"] = "fixed"
    """Windows of `size` that move by `size - overlap`, wherever that cuts."""

    def split(self, text: str, ruler: LengthFunction) -> list[Span]:
        budget, overlap = self.window(ruler)
        edges, before = _edges(text, ruler)
        windows: list[Stretch] = []
        first, last = 0, 0
        while last < len(edges) - 1:
            last = max(bisect_right(before, before[first] + budget) - 1, first + 1)
            windows.append((edges[first], edges[last]))
            first = max(bisect_left(before, before[last] - overlap), first + 1)
        return chunks_of(text, windows)


def _edges(text: str, ruler: LengthFunction) -> tuple[list[int], list[int]]:
    """The characters between which a window may be cut, and how many units start before each.

    A unit reaches to the start of the next, so that characters a tokenizer drops are in some chunk; several tokens of
    one character (a Korean syllable can be three) are not torn apart.
    """
    edges, before = [0], [0]
    for index in range(1, len(ruler.starts)):
        if ruler.starts[index] > ruler.starts[index - 1]:
            edges.append(ruler.starts[index])
            before.append(index)
    return [*edges, len(text)], [*before, len(ruler.starts)]
