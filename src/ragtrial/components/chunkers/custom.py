"""A function of the user's: any library, any rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from numbers import Integral
from typing import Any, ClassVar, Literal

import numpy as np

from ragtrial.cache.fingerprints import Digest, file_digest
from ragtrial.components.chunkers.base import CHUNKERS, Chunker, LengthFunction, trimmed
from ragtrial.components.user_functions import FunctionName, function_sources, import_function
from ragtrial.errors import ChunkerError, ModelNotFoundError
from ragtrial.records import Span


@CHUNKERS.register("custom")
class CustomChunker(Chunker):
    """A Python function from a document's text to its chunks.

    It returns ``(start, end)`` pairs, characters of the text, or strings, each a piece of the text as it stands there:
    a list of the one or of the other. Every chunk begins and ends later than the one before it; they may overlap, and
    may leave text out, which is counted and warned of, since it cannot be found. White space at their ends is dropped,
    and so is a piece of nothing else. A string is looked for right after the piece before it, else where it comes
    first after that piece's start.
    """

    may_leave_out: ClassVar[bool] = True

    kind: Literal["custom"] = "custom"
    """A Python function from a document's text to its chunks."""

    function: FunctionName
    """`package.module:function`, installed or beside the config; called with a text, it returns (start, end) pairs or
    verbatim pieces of it, in their order."""

    version: str | None = None
    """Name what the function does: as long as it stays, chunks are kept (default: the hash of its file)."""

    def check(self) -> None:
        import_function(self.function)

    def fingerprint_parts(self, digest: Digest = file_digest) -> dict[str, Any]:
        identity: dict[str, Any] = {"version": self.version}
        if self.version is None:
            sources = function_sources(self.function)
            if not sources:
                raise ModelNotFoundError(
                    f"{self.function} has no source file to tell its versions apart; give `version:`."
                )
            identity = {"files": [digest(source) for source in sources]}
        return {"kind": self.kind, "function": str(self.function), "revision": self.revision, **identity}

    def split(self, text: str, ruler: LengthFunction) -> list[Span]:
        function = import_function(self.function)
        try:
            returned = function(text)
            returned = list(returned) if isinstance(returned, Iterator | np.ndarray) else returned
        except (Exception, SystemExit) as error:
            said = " ".join(str(error).split())
            raise ChunkerError(f"{self.function} raised {type(error).__name__}: {said}") from error
        spans: list[Span] = []
        for number, place in self._places(text, returned):
            span = trimmed(text, place.start, place.end)
            if span is None:
                continue
            if spans and (span.start <= spans[-1].start or span.end <= spans[-1].end):
                before = f"({spans[-1].start}, {spans[-1].end})"
                raise self._wrong(number, f"is ({span.start}, {span.end}), the one before it {before}", _ORDER)
            spans.append(span)
        return spans

    def _places(self, text: str, returned: Any) -> Iterator[tuple[int, Span]]:
        """The number of each piece, counted from 1, and where it is. Raises ChunkerError."""
        if isinstance(returned, str | bytes) or not isinstance(returned, Sequence):
            raise ChunkerError(f"{self.function} returned {type(returned).__name__}; it must return {_SHAPE}.")
        last = Span(0, 0)
        kind: type | None = None
        for number, piece in enumerate(returned, 1):
            if kind is None:
                kind = str if isinstance(piece, str) else tuple
            if kind is str and isinstance(piece, str):
                if not piece.strip():
                    continue
                last = self._located(text, number, piece.strip(), last)
            elif kind is tuple and _is_pair(piece):
                last = Span(int(piece[0]), int(piece[1]))
                found = f"is ({last.start}, {last.end})"
                if last.start > last.end:
                    raise self._wrong(number, found, "it must not end before it starts")
                if not 0 <= last.start <= last.end <= len(text):
                    raise self._wrong(number, found, f"the text has the characters 0 to {len(text)}")
            else:
                raise self._wrong(number, f"is {_shown(piece)}", f"all must be {_SHAPE}")
            yield number, last

    def _located(self, text: str, number: int, words: str, last: Span) -> Span:
        """Where ``words`` are in ``text``, seen from the piece before them."""
        after = last.end
        while after < len(text) and text[after].isspace():
            after += 1
        if text.startswith(words, after):
            return Span(after, after + len(words))
        # An overlapping piece begins inside the one before it, and ends beyond it.
        found = text.find(words, max(last.start + (last.end > 0), last.end - len(words) + 1))
        if found < 0:
            why = "in the text, but not behind the piece before it" if words in text else "not in the text as it stands"
            raise self._wrong(number, f"is {_shown(words)}: {why}", "pieces must be verbatim, in their order")
        return Span(found, found + len(words))

    def _wrong(self, number: int, found: str, expected: str) -> ChunkerError:
        return ChunkerError(f"piece {number} that {self.function} returned {found}; {expected}.")


_SHAPE = "a list of (start, end) pairs or of strings"
_ORDER = "each must begin and end later than the one before"


def _is_pair(piece: Any) -> bool:
    if not isinstance(piece, Sequence | np.ndarray) or isinstance(piece, str) or len(piece) != 2:
        return False
    return all(isinstance(edge, Integral) and not isinstance(edge, bool) for edge in piece)


def _shown(piece: Any) -> str:
    text = repr(piece)
    return text if len(text) <= 60 else text[:57] + "..."
