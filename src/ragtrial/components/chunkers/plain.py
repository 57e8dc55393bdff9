"""Chunkers that look at the characters alone: separators, windows, sentences, whole documents."""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import Field, ModelWrapValidatorHandler, field_validator, model_validator

from ragtrial.components.chunkers.base import CHUNKERS, Chunker, Measure, Ruler, SizedChunker, Stretch, chunks_of
from ragtrial.components.chunkers.sentences import sentences, wide_ends
from ragtrial.records import Span

_SENTENCE = ". "
_ESCAPED = re.compile(r"(?<!\\)\\([nrt])(?![a-z])")
"""The escape of a line end or a tab in a single-quoted YAML string. Before a small letter it is a command of LaTeX."""
SEPARATORS = ("\n\n", "\n", _SENTENCE, " ", "")
_PRESETS: Mapping[str, Mapping[str, object]] = {
    "langchain": {"separators": ("\n\n", "\n", " ", ""), "keep": "start", "measure": "text"}
}


@CHUNKERS.register("recursive")
class RecursiveChunker(SizedChunker):
    """Splits at the coarsest separator present and merges the pieces; a piece too long is split at the next finer one.

    The usual method of RAG tutorials. White space at the ends of a chunk is no part of it.

    ``preset: langchain`` cuts as LangChain's RecursiveCharacterTextSplitter does, with ``tokenizer`` for its
    length_function; its own sizes (4000, overlap 200) are not taken over. Chunks of its that are white space alone, or
    that repeat the end of the chunk before and add white space alone, are left out: the one difference.
    """

    revision = 2

    kind: Literal["recursive"] = "recursive"
    """Splits at paragraphs, else lines, sentences and words, and merges pieces up to `size`."""

    separators: Annotated[tuple[str, ...], Field(strict=False)] = SEPARATORS
    """Where to split, coarsest first. The last must be "": between any two units. ". " includes the ends of sentences
    that are written in other scripts (not with `preset`)."""

    keep: Literal["end", "start"] = "end"
    """Keep a separator at the end of the piece before it, or at the start of the next one."""

    preset: Literal["langchain"] | None = None
    """`langchain`: as its RecursiveCharacterTextSplitter. Separators \\n\\n, \\n, space, "" and `keep: start`, both of
    which may be given; `measure: text` (or `encoded`), with each piece counted on its own and the counts added up."""

    @model_validator(mode="wrap")
    @classmethod
    def _with_preset(cls, value: Any, handler: ModelWrapValidatorHandler[RecursiveChunker]) -> RecursiveChunker:
        name = value.get("preset") if isinstance(value, Mapping) else None
        if not isinstance(name, str) or name not in _PRESETS:
            return handler(value)
        made = handler({**_PRESETS[name], **value})
        if made.measure == "indexed":
            raise ValueError(f"preset {name} counts no title; leave out measure: {made.measure}.")
        made.model_fields_set.intersection_update(value)  # the user did not choose the values of the preset
        return made

    @field_validator("separators")
    @classmethod
    def _separators_end(cls, separators: tuple[str, ...]) -> tuple[str, ...]:
        plain = [str(separator) for separator in separators]
        escaped = [one for one in plain if _ESCAPED.search(one)]
        if escaped:
            meant = _ESCAPED.sub(lambda mark: {"n": "\n", "r": "\r", "t": "\t"}[mark[1]], escaped[0])
            found = f"'{escaped[0]}' has a backslash and a letter, as single quotes of YAML leave them"
            raise ValueError(f"{found}; write it in double quotes: {json.dumps(meant, ensure_ascii=False)}.")
        mended = [*dict.fromkeys(one for one in plain or SEPARATORS if one), ""]
        if plain != mended:
            found, right = (json.dumps(each, ensure_ascii=False) for each in (plain, mended))
            raise ValueError(f'the list is {found}; each must be in it once, and "" (between units) last: {right}.')
        return tuple(plain)

    def split(self, text: str, ruler: Ruler) -> list[Span]:
        if self.preset == "langchain":
            special = ruler.special if self.measure == "encoded" else 0
            measure = Measure(ruler, self.size, self.overlap)
            stretches = RecursiveCut(text, measure, self.keep, special, is_literal=True).added_up
        else:
            stretches = RecursiveCut(text, Measure(ruler, *self.window(ruler)), self.keep).in_place
        return chunks_of(text, stretches(0, len(text), self.separators))


@dataclass(frozen=True)
class RecursiveCut:
    """A text to be cut into contiguous stretches of at most ``budget`` units.

    ``special`` tokens come with each text that is counted on its own, even an empty one. ``is_literal`` says that
    ". " is these two characters alone.
    """

    text: str
    measure: Measure
    keep: Literal["end", "start"] = "end"
    special: int = 0
    is_literal: bool = False

    def in_place(self, start: int, end: int, separators: Sequence[str]) -> list[Stretch]:
        """Stretches of ``text[start:end]``, measured in the whole text."""
        place = self.coarsest(start, end, separators)
        if separators[place] == "":
            return self.measure.units(start, end)
        pieces, finer = self._split(start, end, separators[place]), separators[place + 1 :]
        return self.measure.merged_or_cut(pieces, lambda first, last: self.in_place(first, last, finer))

    def added_up(self, start: int, end: int, separators: Sequence[str]) -> list[Stretch]:
        """Stretches of ``text[start:end]`` as LangChain makes them: as long as their pieces together.

        A piece as long as ``budget`` is split as a longer one is; a single character is not.
        """
        place = self.coarsest(start, end, separators)
        finer = separators[place + 1 :]
        pieces = self._split(start, end, separators[place])
        alone = self.measure.ruler.alone or (lambda texts: [len(text) for text in texts])
        lengths = [length + self.special for length in alone([self.text[slice(*piece)] for piece in pieces])]
        budget, overlap = self.measure.budget, self.measure.overlap
        found: list[Stretch] = []
        first = 0
        for index, length in enumerate(lengths):
            if length >= budget:
                found += _merged_by_sums(pieces[first:index], lengths[first:index], budget, overlap, self.special)
                found += self.added_up(*pieces[index], finer) if finer else [pieces[index]]
                first = index + 1
        return found + _merged_by_sums(pieces[first:], lengths[first:], budget, overlap, self.special)

    def coarsest(self, start: int, end: int, separators: Sequence[str]) -> int:
        """The position of the first separator that is in ``text[start:end]``; the last, "", always is."""
        parts = ((place, self._cuts(start, end, separator)) for place, separator in enumerate(separators[:-1]))
        return next((place for place, cuts in parts if next(cuts, None) is not None), len(separators) - 1)

    def _split(self, start: int, end: int, separator: str) -> list[Stretch]:
        """The pieces between the ``separator``s, which they keep; every character without one."""
        if separator == "":
            return list(pairwise(range(start, end + 1)))
        cuts = sorted(self._cuts(start, end, separator))
        return [(first, last) for first, last in pairwise([start, *cuts, end]) if first < last]

    def _cuts(self, start: int, end: int, separator: str) -> Iterator[int]:
        """Where ``separator`` parts ``text[start:end]``."""
        found = self.text.find(separator, start, end)
        while found >= 0:
            after = found + len(separator)
            yield after if self.keep == "end" else found
            found = self.text.find(separator, after, end)
        if separator == _SENTENCE and not self.is_literal and not self.text.isascii():
            yield from wide_ends(self.text, start, end)


def _merged_by_sums(
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


@CHUNKERS.register("fixed")
class FixedChunker(SizedChunker):
    """A window of ``size`` units that moves by ``size - overlap``, wherever that cuts.

    A window that begins inside a word may count a token or two more when it is read on its own. With ``measure: text``
    these are the windows of LangChain's TokenTextSplitter, but that white space at their ends is no part of them, a
    character of several tokens is not torn, and a window that adds white space alone is left out.
    """

    kind: Literal["fixed"] = "fixed"
    """Windows of `size` that move by `size - overlap`, wherever that cuts."""

    def split(self, text: str, ruler: Ruler) -> list[Span]:
        budget, overlap = self.window(ruler)
        # A unit reaches to the start of the next, so that characters which a tokenizer drops are in some chunk. Several
        # tokens of one character (a Korean syllable can be three) are not torn apart.
        starts = ruler.starts
        before = [0, *(unit for unit in range(1, len(starts)) if starts[unit] > starts[unit - 1]), len(starts)]
        edges = [0, *(starts[unit] for unit in before[1:-1]), len(text)]
        windows: list[Stretch] = []
        first, last = 0, 0
        while last < len(edges) - 1:
            last = max(bisect_right(before, before[first] + budget) - 1, first + 1)
            windows.append((edges[first], edges[last]))
            first = max(bisect_left(before, before[last] - overlap), first + 1)
        return chunks_of(text, windows)


_WORD = re.compile(r"\S+")


@CHUNKERS.register("sentence")
class SentenceChunker(SizedChunker):
    """Neighbouring sentences joined up to ``size``; a chunk repeats as many whole sentences as fit in ``overlap``.

    A sentence longer than ``size`` is cut between words, a word longer than that between units; it is joined with no
    other sentence. Tokens are counted in the whole text: a chunk alone may have one or two more with a tokenizer that
    puts the space before a word into its token. ``sentences`` says where sentences end.
    """

    revision = 3

    kind: Literal["sentence"] = "sentence"
    """Whole sentences, joined up to `size`; `overlap` is as many whole sentences as fit in it."""

    def split(self, text: str, ruler: Ruler) -> list[Span]:
        measure = Measure(ruler, *self.window(ruler))
        within = replace(measure, overlap=0)

        def of_words(start: int, end: int) -> list[Stretch]:
            return within.merged_or_cut((word.span() for word in _WORD.finditer(text, start, end)), within.units)

        found = ((sentence.start, sentence.end) for sentence in sentences(text))
        return [Span(*stretch) for stretch in measure.merged_or_cut(found, of_words)]


@CHUNKERS.register("document")
class DocumentChunker(Chunker):
    """One chunk per document: for short documents, and for benchmarks that are defined that way."""

    kind: Literal["document"] = "document"
    """One chunk per document."""

    def split(self, text: str, ruler: Ruler) -> list[Span]:
        return chunks_of(text, [(0, len(text))])
