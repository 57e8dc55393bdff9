"""Chunkers cut a text into spans, by their options; ``cut`` makes the chunks of a library."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Annotated, Any, ClassVar, Literal, NoReturn

import numpy as np
from pydantic import Field, model_validator

from ragtrial.cache.fingerprints import Digest, file_digest
from ragtrial.components.tokenizers import UnitCounter
from ragtrial.dataset.chunks import ChunksWriter
from ragtrial.dataset.library import Library
from ragtrial.errors import ChunkerError
from ragtrial.options import Options, TokenizerName
from ragtrial.rankings import Floats
from ragtrial.records import Span
from ragtrial.registry import AnyOf, Registry


@dataclass(frozen=True)
class Ruler:
    """Measures pieces of one text.

    ``starts`` has the character at which each unit (token, word or character) starts, ascending. ``overhead`` counts
    the units that every chunk has in addition to its text: the title, and a model's ``special`` tokens. ``alone``
    counts the units of separate texts, without special tokens; None if the units are characters.
    """

    starts: Sequence[int]
    overhead: int = 0
    alone: Callable[[Sequence[str]], Sequence[int]] | None = None
    special: int = 0

    def length(self, start: int, end: int) -> int:
        """Units that start in characters ``start`` to ``end``."""
        if isinstance(self.starts, range):
            return end - start  # every character is one
        return bisect_left(self.starts, end) - bisect_left(self.starts, start)


class Chunker(Options):
    """Cuts a text into spans.

    Spans are ascending in start and in end, never empty, begin and end with a character that is not white space,
    and together cover every character that is not white space. A text of white space alone has none.
    """

    revision: ClassVar[int] = 1
    """Part of the chunks' fingerprint: raise it whenever the same options would cut differently."""

    may_leave_out: ClassVar[bool] = False
    """If true, some characters may be in no span."""

    needs_embedder: ClassVar[bool] = False
    """If true, texts must be embedded before they can be cut: see ``EmbeddingChunker``."""

    kind: str

    def hashed_options(self) -> dict[str, Any]:
        return {**super().hashed_options(), "version": self.revision}

    def check(self) -> None:
        """Raise ModelNotFoundError if a function or a package that the options name is missing."""

    def hashed_parts(self, digest: Digest = file_digest) -> dict[str, Any]:
        """The options and the files that change where texts are cut, without tokenizer and embedder, as JSON values.

        ``digest`` hashes files. Raises ModelNotFoundError.
        """
        return self.hashed_options()

    @property
    def counted_by(self) -> str:
        """The unit of the ruler: ``embedder``, ``characters``, ``words``, or the path of a tokenizer.json."""
        return "characters"

    @abstractmethod
    def split(self, text: str, ruler: Ruler) -> list[Span]:
        """The spans of the chunks of ``text``."""


CHUNKERS: Registry[type[Chunker]] = Registry("chunker", __package__)

AnyChunker = Annotated[Chunker, AnyOf(CHUNKERS)]


class MeasuredChunker(Chunker):
    """A chunker that counts how long chunks are."""

    unit: Literal["tokens", "characters"] = "tokens"
    """The unit of sizes: tokens of `tokenizer`, or characters."""

    tokenizer: TokenizerName = "embedder"
    """The tokenizer for sizes: `embedder`, `characters`, `words` (separated by white space), or a tokenizer.json."""

    measure: Literal["indexed", "text", "encoded"] = "indexed"
    """`indexed`: `size` includes all that is indexed (title, special tokens); `text`: only the chunk's text, as in
    other tools; `encoded`: the text with the tokenizer's special tokens, as where lengths are of encoded texts."""

    size: Annotated[int, Field(ge=1)] = 200
    """The maximum length of a chunk, in `unit`s; see `measure`."""

    @model_validator(mode="after")
    def _one_unit(self) -> MeasuredChunker:
        if self.unit == "characters" and self.tokenizer not in ("embedder", "characters"):
            raise ValueError(
                f"unit is characters, but tokenizer is {self.tokenizer}; set unit: tokens, or leave one of the two out."
            )
        return self

    def hashed_options(self) -> dict[str, Any]:
        """The hashed options without the tokenizer, which is hashed by its content instead of its name."""
        parts = super().hashed_options()
        return {name: value for name, value in parts.items() if name not in ("unit", "tokenizer")}

    @property
    def counted_by(self) -> str:
        return "characters" if self.unit == "characters" else self.tokenizer

    def budget(self, size: int, ruler: Ruler) -> int:
        """The maximum length of a chunk's own text if the chunk has ``size``: the rest is overhead.

        The text gets at least half of ``size``, however long the title is; such a chunk is longer than ``size``.
        """
        overhead = {"text": 0, "encoded": ruler.special, "indexed": ruler.overhead}[self.measure]
        return max(size - overhead, (size + 1) // 2)


class SizedChunker(MeasuredChunker):
    """A chunker with a maximum length of chunks."""

    named_by = ("size", "overlap", "unit")

    overlap: Annotated[int, Field(ge=0)] = 40
    """How much of a chunk the next one repeats at most, in `unit`s. Must be below `size`."""

    @model_validator(mode="after")
    def _overlap_below_size(self) -> SizedChunker:
        if self.overlap >= self.size:
            raise ValueError(f"overlap is {self.overlap}; it must be below size ({self.size}).")
        return self

    def window(self, ruler: Ruler) -> tuple[int, int]:
        """The maximum length of a chunk's own text (see ``budget``), and how much of it the next chunk repeats.

        An overlap that would not fit keeps its share of the size.
        """
        budget = self.budget(self.size, ruler)
        if self.measure != "indexed":
            return budget, min(self.overlap, budget - 1)
        overlap = self.overlap if 2 * self.overlap <= budget else self.overlap * budget // self.size
        return budget, overlap


def trimmed(text: str, start: int, end: int) -> Span | None:
    """The span without white space at its ends; None if it is white space alone."""
    piece = text[start:end]
    start += len(piece) - len(piece.lstrip())
    end -= len(piece) - len(piece.rstrip())
    return Span(start, end) if start < end else None


class EmbeddingChunker(MeasuredChunker):
    """A chunker that decides by the vectors of parts of the text, as the setting's embedder returns them.

    ``group(text, ruler, vectors)`` is called with the vectors of ``texts(text, ruler)``, in that order.
    """

    needs_embedder: ClassVar[bool] = True

    @abstractmethod
    def texts(self, text: str, ruler: Ruler) -> list[str]:
        """The parts of ``text`` that must be embedded; empty if there is nothing to decide."""

    @abstractmethod
    def group(self, text: str, ruler: Ruler, vectors: Floats) -> list[Span]:
        """The spans of the chunks, by the vectors of ``texts``: float32 (texts, dimension)."""

    def split(self, text: str, ruler: Ruler) -> NoReturn:
        """Raises TypeError: vectors are needed, see ``group``."""
        raise TypeError(f"the chunker {self.kind!r} needs vectors: embed texts() and call group()")


Stretch = tuple[int, int]
"""The characters from the first to before the second."""


@dataclass(frozen=True)
class Measure:
    """The maximum length of a stretch in the text, and how much of the stretch before it may be repeated."""

    ruler: Ruler
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
        """As ``merged``, but a piece longer than ``budget`` is ``cut`` into stretches and not joined with others."""
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


def chunks_of(text: str, stretches: Iterable[Stretch]) -> list[Span]:
    """The stretches as spans without white space around them; a stretch that adds nothing is left out."""
    spans: list[Span] = []
    for start, end in stretches:
        span = trimmed(text, start, end)
        if span and (not spans or span.end > spans[-1].end):
            spans.append(span)
    return spans


_BATCH_BYTES = 2_000_000  # tokens of as much text at once take some hundred megabytes
_EMBEDDED_BYTES = 200_000  # progress is reported after each batch, and embedding one takes time

Embed = Callable[[Sequence[str]], Floats]
"""Texts to vectors, float32 (texts, dimension)."""


def cut(
    library: Library,
    chunker: Chunker,
    tokenizer: UnitCounter | None,
    advance: Callable[[int], None],
    embed: Embed,
    *,
    has_titles: bool = True,
) -> ChunksWriter:
    """The chunks of every document, in order; lengths as ``tokenizer`` counts, in characters without one.

    With ``has_titles`` (titles are indexed) lengths count the title, and a document without text but with a title has
    one chunk with an empty span, so that its title can be found; else it has none. ``advance`` counts documents;
    ``embed`` is called for chunkers that need an embedder. Raises ChunkerError, and the errors of ``embed``.
    """
    writer = ChunksWriter()
    for positions in _batches(library, _EMBEDDED_BYTES if chunker.needs_embedder else _BATCH_BYTES):
        texts = [library.text(position) for position in positions]
        titles = [library.titles[position] if has_titles else "" for position in positions]
        rulers = _rulers(texts, titles, tokenizer)
        if isinstance(chunker, EmbeddingChunker):
            cuts = _grouped(chunker, texts, rulers, embed)
        else:
            cuts = map(chunker.split, texts, rulers)
        for position, text, title in zip(positions, texts, titles, strict=True):
            try:
                spans = next(cuts)
            except ChunkerError as error:
                raise ChunkerError(f"document {library.ids[position]!r}: {error}") from error
            for span in spans or ([Span(0, 0)] if title else []):
                writer.add(position, library.ids[position], text, span)
        advance(len(positions))
    return writer


def _grouped(
    chunker: EmbeddingChunker, texts: Sequence[str], rulers: Sequence[Ruler], embed: Embed
) -> Iterator[list[Span]]:
    """The spans of each text. The parts of all are embedded in one call."""
    wanted = [chunker.texts(text, ruler) for text, ruler in zip(texts, rulers, strict=True)]
    vectors = embed([text for parts in wanted for text in parts])
    return map(chunker.group, texts, rulers, np.split(vectors, np.cumsum([len(parts) for parts in wanted])[:-1]))


def _batches(library: Library, most_bytes: int) -> Iterator[range]:
    """Positions of neighbouring documents with at most ``most_bytes`` together; at least one document at a time."""
    start, held = 0, 0
    for position, size in enumerate(library.sizes.tolist()):
        if position > start and held + size > most_bytes:
            yield range(start, position)
            start, held = position, 0
        held += size
    if start < len(library):
        yield range(start, len(library))


def _rulers(texts: Sequence[str], titles: Sequence[str], tokenizer: UnitCounter | None) -> list[Ruler]:
    if tokenizer is None:
        sizes = [(len(text), len(title) + 1 if title else 0) for text, title in zip(texts, titles, strict=True)]
        return [Ruler(range(length), overhead) for length, overhead in sizes]
    overheads = tokenizer.counts(titles).tolist()  # the title's tokens and the special tokens
    pairs = zip(tokenizer.starts(texts), overheads, strict=True)
    return [Ruler(*pair, tokenizer.alone, tokenizer.special_tokens) for pair in pairs]
