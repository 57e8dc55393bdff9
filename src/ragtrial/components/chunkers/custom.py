"""A function of the user's: any library, any rule."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from numbers import Integral
from typing import Any, ClassVar, Literal

import numpy as np

from ragtrial.cache.fingerprints import Digest, file_digest
from ragtrial.components.chunkers.base import CHUNKERS, Chunker, Ruler, trimmed
from ragtrial.components.user_functions import FunctionName, import_object, version_parts
from ragtrial.errors import ChunkerError
from ragtrial.records import Span


@CHUNKERS.register("custom")
class CustomChunker(Chunker):
    """A Python function from a document's text to its chunks.

    It returns a list of ``(start, end)`` pairs, characters of the text, or a list of strings, each a verbatim piece of
    the text. Every chunk begins and ends later than the one before it; they may overlap, and may leave text out, which
    is counted and warned of, since it cannot be found. White space at their ends is dropped, and so is a piece of
    nothing else. A string that is in the text several times is taken where it overlaps the piece before it as far as
    pieces do on average; where they do not overlap, right after that piece, or else first.
    """

    may_leave_out: ClassVar[bool] = True

    kind: Literal["custom"] = "custom"
    """A Python function from a document's text to its chunks."""

    function: FunctionName
    """`package.module:function`, installed or in the folder of the config. It gets a text and returns (start, end)
    pairs or verbatim pieces of it, in their order."""

    version: str | None = None
    """Your version of the function: cached chunks are used while it stays the same (default: the hash of its files)."""

    def check(self) -> None:
        import_object(self.function)

    def hashed_parts(self, digest: Digest = file_digest) -> dict[str, Any]:
        parts = {"kind": self.kind, "function": str(self.function), "revision": self.revision}
        return parts | version_parts(self.function, self.version, digest)

    def split(self, text: str, ruler: Ruler) -> list[Span]:
        function = import_object(self.function)
        try:
            returned = function(text)
            returned = list(returned) if isinstance(returned, Iterator | np.ndarray) else returned
        except (Exception, SystemExit) as error:
            said = " ".join(str(error).split())
            raise ChunkerError(f"{self.function} raised {type(error).__name__}: {said}") from error
        if isinstance(returned, str | bytes) or not isinstance(returned, Sequence):
            raise ChunkerError(f"{self.function} returned {type(returned).__name__}; it must return {_SHAPE}.")
        are_texts = bool(returned) and isinstance(returned[0], str)
        spans: list[Span] = []
        last, overlap = Span(0, 0), _mean_overlap(returned, text) if are_texts else 0
        for number, piece in enumerate(returned, 1):
            place = None
            if are_texts and isinstance(piece, str):
                place = _located(text, piece.strip(), last, overlap)
            elif not are_texts and _is_pair(piece):
                place = Span(int(piece[0]), int(piece[1]))
            if place is None or not 0 <= place.start <= place.end <= len(text):
                raise self._wrong(number, piece, f"it must return {_SHAPE}")
            last = place if not are_texts or piece.strip() else last
            span = trimmed(text, place.start, place.end)
            if span and spans and (span.start <= spans[-1].start or span.end <= spans[-1].end):
                raise self._wrong(number, piece, "each must begin and end later than the one before")
            spans += [span] if span else []
        return spans

    def _wrong(self, number: int, piece: Any, expected: str) -> ChunkerError:
        return ChunkerError(f"piece {number} that {self.function} returned is {repr(piece)[:60]}; {expected}.")


_SPACE = re.compile(r"\s*")
_SHAPE = "a list of (start, end) pairs inside the text, or of verbatim pieces of it in their order"


def _mean_overlap(pieces: Sequence[Any], text: str) -> int:
    """How many characters a piece shares with the one before it, on average, if all text is in some; 0 if it is not."""
    words = [piece.strip() for piece in pieces if isinstance(piece, str) and not piece.isspace()]
    shared = sum(map(len, words)) - len(text.strip())
    return max(0, round(shared / max(1, len(words) - 1)))


def _located(text: str, words: str, last: Span, overlap: int) -> Span | None:
    """Where ``words`` are in ``text``, seen from the piece before them; None if they are not there."""
    after = next(_SPACE.finditer(text, last.end)).end()
    # An overlapping piece begins inside the one before it, and ends beyond it.
    inside = max(last.start + (last.end > 0), last.end - len(words) + 1)
    if overlap and last.end:
        expected = max(inside, last.end - overlap)
        places = [text.rfind(words, inside, expected + len(words)), text.find(words, expected)]
        found = min((place for place in places if place >= 0), key=lambda one: (abs(one - expected), one), default=-1)
    else:
        found = after if text.startswith(words, after) else text.find(words, inside)
    return Span(found, found + len(words)) if found >= 0 else None


def _is_pair(piece: Any) -> bool:
    if not isinstance(piece, Sequence | np.ndarray) or isinstance(piece, str) or len(piece) != 2:
        return False
    return all(isinstance(edge, Integral) and not isinstance(edge, bool) for edge in piece)
