"""The indexed text of chunks: their own text and its surroundings, computed once for all chunks and then mapped."""

from __future__ import annotations

import json
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import Field

from ragtrial.cache.arrays import read_array, write_array
from ragtrial.cache.fingerprints import files_digest, fingerprint
from ragtrial.components.chunkers.sentences import sentences
from ragtrial.dataset.chunks import Chunks
from ragtrial.dataset.markdown import Headings
from ragtrial.options import Options, PathText
from ragtrial.rankings import Counts
from ragtrial.records import Span

VERSION = 2
"""Part of the fingerprint of surroundings: raise it whenever the same options would give other surroundings."""


class ContextOptions(Options):
    """The parts of a chunk's indexed text besides its own text; spans, sizes of hits and shown texts stay the chunk's.

    A chunker's `size` counts the title and a model's special tokens; all else comes on top of it.
    """

    hashed_packages: ClassVar[tuple[str, ...]] = ("markdown-it-py",)

    title: bool = True
    """The document's title, before the chunk. If false, a chunk's size does not count it either."""

    headings: bool = False
    """The headings above the chunk, like `Setup > Install`; without the title and those in the chunk."""

    sentences: Annotated[int, Field(ge=0)] = 0
    """The number of sentences before and after the chunk; a sentence that the chunk cuts is completed, and counts."""

    prefixes: PathText | None = None
    """A JSONL file with a text for each chunk, made from the output of `ragtrial chunks` (default: none)."""

    @property
    def packages(self) -> Mapping[str, str]:  # type: ignore[override]  # which depends on what is indexed
        return {"markdown-it-py": ""} if self.headings else {}

    @property
    def is_bare(self) -> bool:
        """True if nothing but a chunk's own text and its title is indexed."""
        return not self.headings and not self.sentences and self.prefixes is None

    def hashed_options(self) -> dict[str, Any]:
        """The hashed options; the content of ``prefixes`` is hashed elsewhere."""
        return {**self.model_dump(mode="json", exclude={"prefixes"}), "version": VERSION}


SEPARATOR = " > "
_COLUMNS = ("start.npy", "end.npy", "leads.npy", "offsets.npy")


@dataclass(frozen=True, eq=False)
class Surroundings:
    """For each chunk the indexed stretch of its document, and the text before it.

    ``start`` and ``end`` (int64, shape (chunks,)) are characters of the document: the chunk and the sentences around
    it. ``without_prefix`` counts the chunks that the file of prefixes has no row for, 0 without a file. ``digest`` is
    the hash of all of it: equal surroundings, equal digest.
    """

    start: Counts
    end: Counts
    without_prefix: int
    digest: str
    _leads: npt.NDArray[np.uint8]
    _offsets: Counts

    def lead(self, position: int) -> str:
        """The headings and the prefix of a chunk; empty where it has neither."""
        return self._leads[self._offsets[position] : self._offsets[position + 1]].tobytes().decode("utf-8")

    @classmethod
    def write(
        cls,
        folder: Path,
        chunks: Chunks,
        options: ContextOptions,
        prefixes: Sequence[str | None] | None,
        advance: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Find what surrounds each of ``chunks`` and put it into ``folder``.

        ``prefixes`` has one for each chunk, None for a chunk without; ``advance`` is called for every chunk.
        """
        start, end, offsets, leads = array("q"), array("q"), array("q", [0]), bytearray()
        for document, group in groupby(range(len(chunks)), chunks.document.tolist().__getitem__):
            positions = list(group)
            page = _DocumentContext(chunks.library.text(document), chunks.library.titles[document], options)
            for position in positions:
                span = chunks.span(position)
                stretch = page.widened(span)
                prefix = (prefixes[position] if prefixes is not None else None) or ""
                leads += " ".join(filter(None, (SEPARATOR.join(page.headings_of(span, stretch)), prefix))).encode()
                start.append(stretch.start)
                end.append(stretch.end)
                offsets.append(len(leads))
            advance(len(positions))
        for name, column in (("start", start), ("end", end), ("offsets", offsets)):
            write_array(folder / f"{name}.npy", np.array(column, dtype=np.int64))
        write_array(folder / "leads.npy", np.frombuffer(leads, dtype=np.uint8))
        without = sum(prefix is None for prefix in prefixes or ())
        digest = files_digest(folder, [folder / name for name in _COLUMNS])
        (folder / "facts.json").write_text(json.dumps({"without_prefix": without, "digest": digest}))

    @classmethod
    def read(cls, folder: Path) -> Surroundings:
        """The surroundings that ``write`` has put into ``folder``."""
        facts = json.loads((folder / "facts.json").read_text())
        start, end, leads, offsets = (read_array(folder / name) for name in _COLUMNS)
        return cls(start, end, int(facts["without_prefix"]), str(facts["digest"]), leads, offsets)


class _DocumentContext:
    """A document, with the possible surroundings of its chunks."""

    def __init__(self, text: str, title: str, options: ContextOptions) -> None:
        self._text = text
        self._headings = Headings(text) if options.headings else None
        # As a heading's words, without Markdown's marks: the title of a Markdown file is its first heading.
        self._title = Headings(f"# {title}").path(0) if options.headings and options.title else ()
        self._most = options.sentences
        bounds = sentences(text) if options.sentences else []
        self._starts, self._ends = [bound.start for bound in bounds], [bound.end for bound in bounds]

    def widened(self, span: Span) -> Span:
        """``span`` with the sentences that begin before it or end after it, as many as the options ask for."""
        before, after = bisect_left(self._starts, span.start), bisect_right(self._ends, span.end)
        start = self._starts[max(before - self._most, 0)] if before else span.start
        end = self._ends[min(after + self._most, len(self._ends)) - 1] if after < len(self._ends) else span.end
        return Span(start, end)

    def headings_of(self, span: Span, stretch: Span) -> tuple[str, ...]:
        """The headings in force where ``span`` begins, without the title and those whose words are in ``stretch``."""
        if self._headings is None:
            return ()
        headings = [heading for heading in self._headings.at(span.start) if heading.text]
        path = tuple(one.text for one in headings if self._text[one.start : stretch.start].strip("# \t"))
        return path[1:] if path[:1] == self._title else path


class IndexedTexts:
    """The indexed text of each of ``chunks``, by position: title, headings, prefix, and the text with its neighbours.

    The parts that are there are joined by one space; nothing is changed in the document's own text, from the first
    sentence before the chunk to the last one after it. ``name`` identifies these texts: it is the name of the chunks if
    only the title is added.
    """

    def __init__(self, chunks: Chunks, *, title: bool = True, surroundings: Surroundings | None = None) -> None:
        self.chunks = chunks
        self.surroundings = surroundings
        self._has_title = title
        self.name = name_of_texts(chunks.name, title=title, digest=surroundings.digest if surroundings else None)

    def __len__(self) -> int:
        return len(self.chunks)

    def indexed_texts(self, positions: Sequence[int] | None = None) -> Iterator[str]:
        """The indexed texts of all chunks, or of some in that order."""
        for title, rest in self.titled_texts(positions):
            yield f"{title} {rest}" if title and rest else title or rest

    def text_id(self, position: int) -> str:
        """The chunk, and where it is in its document."""
        chunks, span = self.chunks, self.chunks.span(position)
        return f"chunk {chunks.id(position)} ({chunks.document_id(position)}, characters {span.start}-{span.end})"

    def titled_texts(self, positions: Sequence[int] | None = None) -> Iterator[tuple[str, str]]:
        """The title that is indexed for each chunk, and all else: for those who weigh the two otherwise."""
        last, text, title = -1, "", ""
        for position in range(len(self)) if positions is None else positions:
            document = int(self.chunks.document[position])
            if document != last:
                library, last = self.chunks.library, document
                text, title = library.text(document), library.titles[document] if self._has_title else ""
            stretch = self._stretch(position)
            lead = self.surroundings.lead(position) if self.surroundings else ""
            yield title, " ".join(filter(None, (lead, text[stretch.start : stretch.end])))

    def around(self, position: int) -> tuple[str, str]:
        """The indexed text before a chunk's text, and after it."""
        (indexed,) = self.indexed_texts([position])
        span, stretch = self.chunks.span(position), self._stretch(position)
        after = len(indexed) - (stretch.end - span.end)
        return indexed[: after - (span.end - span.start)], indexed[after:]

    def _stretch(self, position: int) -> Span:
        if self.surroundings is None:
            return self.chunks.span(position)
        return Span(int(self.surroundings.start[position]), int(self.surroundings.end[position]))


def name_of_texts(chunks: str, *, title: bool, digest: str | None) -> str:
    """The name of the indexed texts of the chunks of that name, with surroundings of that digest, if any."""
    return chunks if title and digest is None else fingerprint(["indexed texts", chunks, title, digest])
