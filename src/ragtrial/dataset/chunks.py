"""The chunks of a library, or of other systems, as columns of places; and the text that chunks leave out."""

from __future__ import annotations

import hashlib
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ragtrial.cache.arrays import is_within, read_array, write_array
from ragtrial.dataset.library import Library
from ragtrial.rankings import Codes
from ragtrial.records import PromptQueries, Span

ID_BYTES = 12
_COLUMNS = ("document", "start", "end", "id")


class Chunks:
    """Chunks by position, in the order of their documents. Columns and texts are mapped from files.

    ``document`` (int32) is the position of the document of each chunk; ``start`` and ``end`` (int64) are characters of
    its text; ids are hashes of document, span and text. ``name`` identifies the chunks, by default the name of the
    folder.
    """

    def __init__(self, library: Library, folder: Path, name: str | None = None) -> None:
        self._hold(library, name or folder.name, {name: read_array(folder / f"{name}.npy") for name in _COLUMNS})
        if not is_within(self.document, len(library)):
            raise ValueError("a chunk is of no document")
        if not is_within(self.start, 2**62) or bool((self.end < self.start).any()):
            raise ValueError("a chunk ends before it begins")
        if bool((self.end > library.sizes[self.document]).any()):  # bytes: no fewer than characters
            raise ValueError("a chunk ends behind its document")

    @classmethod
    def of(cls, library: Library, places: Iterable[tuple[int, int, int]]) -> Self:
        """Chunks in memory, in any order: position of the document, start and end of each. Named by their content."""
        writer = ChunksWriter()
        for position, start, end in places:
            writer.add(position, library.ids[position], library.text(position), Span(start, end))
        chunks, columns = cls.__new__(cls), writer.columns()
        chunks._hold(library, hashlib.blake2b(columns["id"].tobytes(), digest_size=16).hexdigest(), columns)  # noqa: SLF001 - its own
        return chunks

    def _hold(self, library: Library, name: str, columns: Mapping[str, npt.NDArray[Any]]) -> None:
        self.library = library
        self.name = name
        self.document: Codes = columns["document"]
        self.start: npt.NDArray[np.int64] = columns["start"]
        self.end: npt.NDArray[np.int64] = columns["end"]
        self._ids: npt.NDArray[np.uint8] = columns["id"]
        if len({len(column) for column in columns.values()}) > 1 or self._ids.shape[1:] != (ID_BYTES,):
            raise ValueError("the columns differ in length")

    def __len__(self) -> int:
        return len(self.document)

    def write(self, folder: Path) -> None:
        """Put the columns into ``folder``."""
        columns: dict[str, npt.NDArray[Any]] = {"document": self.document, "start": self.start, "end": self.end}
        for name, column in {**columns, "id": self._ids}.items():
            write_array(folder / f"{name}.npy", column)

    def id(self, position: int) -> str:
        return bytes(self._ids[position]).hex()

    def ids(self, positions: Sequence[int]) -> list[str]:
        """The id of each, as ``id`` gives it; many at once take a tenth of the time."""
        digits = self._ids[positions].tobytes().hex() if len(positions) else ""
        return [digits[start : start + 2 * ID_BYTES] for start in range(0, len(digits), 2 * ID_BYTES)]

    def document_id(self, position: int) -> str:
        """The id of the document that the chunk is of."""
        return self.library.ids[int(self.document[position])]

    def span(self, position: int) -> Span:
        return Span(int(self.start[position]), int(self.end[position]))

    def text(self, position: int) -> str:
        return self.library.text(int(self.document[position]))[self.start[position] : self.end[position]]

    def row(self, position: int) -> dict[str, Any]:
        """The id of the chunk, its document, title and characters, and its text, as JSON values."""
        document, span = int(self.document[position]), self.span(position)
        about = {"chunk": self.id(position), "doc": self.library.ids[document], "title": self.library.titles[document]}
        return {**about, "start": span.start, "end": span.end, "text": self.text(position)}

    def pages(self, position: int) -> tuple[int, int] | None:
        """The first and the last page of the chunk, counted from 1; None for a document without pages.

        White space at the ends of the chunk is ignored: a chunk may begin with the end of a page.
        """
        starts = self.library.pages(int(self.document[position]))
        if not starts:
            return None
        span, text = self.span(position), self.text(position)
        start, end = span.end - len(text.lstrip()), span.start + len(text.rstrip())
        first = bisect_right(starts, start if start < end else span.start)
        return first, max(first, bisect_right(starts, end - 1))


class ChunksWriter:
    """Collects spans document by document, 32 bytes each, and writes the columns."""

    def __init__(self) -> None:
        self._document = array("i")
        self._start, self._end = array("q"), array("q")
        self._ids = bytearray()

    def add(self, position: int, document_id: str, text: str, span: Span) -> None:
        self._document.append(position)
        self._start.append(span.start)
        self._end.append(span.end)
        content = f"{document_id}\0{span.start}\0{span.end}\0{text[span.start : span.end]}"
        self._ids += hashlib.blake2b(content.encode("utf-8"), digest_size=ID_BYTES).digest()

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """The collected columns by name."""
        return {
            "document": np.array(self._document, dtype=np.int32),
            "start": np.array(self._start, dtype=np.int64),
            "end": np.array(self._end, dtype=np.int64),
            "id": np.frombuffer(bytes(self._ids), dtype=np.uint8).reshape(-1, ID_BYTES),
        }

    def write(self, folder: Path) -> None:
        for name, column in self.columns().items():
            write_array(folder / f"{name}.npy", column)


class SpanCodes:
    """Stretches of documents, and whole documents, by code: the order in which they were first named.

    Codes never change, so that chunks made later begin with those made before.
    """

    def __init__(self, library: Library) -> None:
        self.library = library
        self._codes: dict[tuple[int, int, int], int] = {}
        self._whole: dict[int, int] = {}
        self._chunks: Chunks | None = None

    def __len__(self) -> int:
        return len(self._codes)

    def code(self, document: int, start: int | None = None, end: int | None = None) -> int:
        """The code of characters ``start`` to ``end`` of the document at that position; without them, of all of it."""
        if start is None or end is None:
            code = self._whole.get(document)
            if code is None:
                code = self._whole[document] = self.code(document, 0, len(self.library.text(document)))
            return code
        return self._codes.setdefault((document, start, end), len(self._codes))

    def chunks(self) -> Chunks:
        """All places so far, by code."""
        if self._chunks is None or len(self._chunks) != len(self):
            self._chunks = Chunks.of(self.library, self._codes)
        return self._chunks


def cut_passages(chunks: Chunks, labels: PromptQueries) -> tuple[int, int]:
    """The number of labelled passages that no single chunk contains whole, and of all labelled passages.

    A passage is a judgment with spans, with any grade; if it is in several places of its document, one whole place is
    enough. ``labels`` are resolved.
    """
    judgments = [judgment for query in labels.queries for judgment in query.relevant_docs if judgment.spans]
    rows = [
        (number, chunks.library.positions[judgment.doc], span.start, span.end)
        for number, judgment in enumerate(judgments)
        for span in judgment.spans
    ]
    owners, documents, starts, ends = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    # Characters of all documents on one line: what begins in one of them ends before the next.
    room = max(int(chunks.end.max(initial=0)), int(ends.max(initial=0))) + 1
    line = chunks.document.astype(np.int64) * room
    order = np.argsort(line + chunks.start, kind="stable")
    begins = np.append(-1, (line + chunks.start)[order])
    # A chunk that begins no later than the span holds it if it ends no earlier: of all those the last end decides.
    last_end = np.maximum.accumulate(np.append(-1, (line + chunks.end)[order]))
    before = np.searchsorted(begins, documents * room + starts, side="right") - 1
    whole = owners[last_end[before] >= documents * room + ends]
    return len(judgments) - len(np.unique(whole)), len(judgments)


@dataclass(frozen=True, slots=True)
class Uncovered:
    """How many of ``characters``, white space not counted, are in no chunk, and the documents that they are of."""

    uncovered: int
    characters: int
    documents: tuple[str, ...]


def uncovered(chunks: Chunks) -> Uncovered:
    """The text that ``chunks`` leave out. Chunks of a document are ascending in start and in end."""
    library = chunks.library
    edges = np.searchsorted(chunks.document, np.arange(len(library) + 1)).tolist()
    left_out = whole = 0
    documents = []
    for position in range(len(library)):
        text = library.text(position)
        lacking = after = 0
        for row in range(edges[position], edges[position + 1]):
            span = chunks.span(row)
            lacking += _visible(text[after : span.start])
            after = max(after, span.end)
        lacking += _visible(text[after:])
        left_out += lacking
        whole += _visible(text)
        if lacking:
            documents.append(library.ids[position])
    return Uncovered(left_out, whole, tuple(documents))


def _visible(text: str) -> int:
    return sum(map(len, text.split()))
