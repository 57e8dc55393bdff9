"""The normalised documents on disk, read once and then found by position; and samples of them."""

from __future__ import annotations

import hashlib
import json
import mmap
import unicodedata
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np

from ragtrial.cache.arrays import are_offsets, read_array, write_array
from ragtrial.dataset.documents import OnError, left_out, read_documents
from ragtrial.dataset.markdown import Headings
from ragtrial.dataset.pdf import empty_pages
from ragtrial.errors import CorpusError, Fault
from ragtrial.rankings import Counts
from ragtrial.records import Document, ReportWarning, Span

_DIGEST_BYTES = 16
_headings_of = lru_cache(maxsize=1)(Headings)  # chunks of one document are asked for one after another


class Library:
    """Documents by position. Ids and titles are in memory, texts are in one mapped file.

    ``empty`` counts documents with no text except white space; ``notes`` are the warnings of the reader; ``digest`` is
    the hash of all ids, titles and texts, 32 hex digits.

    Files: ``texts.bin`` (UTF-8, one after another), ``offsets.npy`` (int64, documents + 1), ``documents.json`` (ids,
    titles, empty, notes, digest: one value, since it is read seven times as fast as a line for each document),
    ``pages.npy`` (int64, the starts of pages, one document after another) and ``page_offsets.npy`` (int64, documents +
    1). ``corpus`` is where the documents were read from; no path is one of a document without it. Raises ValueError for
    files that do not match.
    """

    def __init__(self, folder: Path, corpus: Path | None = None) -> None:
        self._corpus = (corpus or folder).resolve()
        self._offsets: Counts = read_array(folder / "offsets.npy")
        self._pages: Counts = read_array(folder / "pages.npy")
        self._page_offsets: Counts = read_array(folder / "page_offsets.npy")
        size = int(self._offsets[-1])
        with (folder / "texts.bin").open("rb") as texts:
            self._bytes: mmap.mmap | bytes = mmap.mmap(texts.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
        kept = json.loads((folder / "documents.json").read_text(encoding="utf-8"))
        self.ids: list[str] = kept["ids"]
        self.titles: list[str] = kept["titles"]
        self.empty: int = kept["empty"]
        self.digest: str = kept["digest"]
        self._held = -1, ""
        self.notes = tuple(ReportWarning(**note) for note in kept["notes"])
        fits = are_offsets(self._offsets, len(self.ids), len(self._bytes)) and len(self.titles) == len(self.ids)
        if not fits or not are_offsets(self._page_offsets, len(self.ids), len(self._pages)):
            raise ValueError("its texts, pages and titles do not fit its documents")

    @staticmethod
    def write(corpus: Path, folder: Path, on_error: OnError = "stop") -> None:
        """Read the documents of ``corpus`` into ``folder``. Raises CorpusError for unreadable documents."""
        skipped: list[Fault] | None = [] if on_error == "skip" else None
        offsets, pages, page_offsets = array("q", [0]), array("q"), array("q", [0])
        ids, titles, empty = [], [], 0
        notes: list[ReportWarning] = []
        content = hashlib.blake2b(digest_size=_DIGEST_BYTES)
        with (folder / "texts.bin").open("wb") as texts:
            for document in read_documents(corpus, skipped):
                text = document.text.encode("utf-8")
                content.update(text)
                offsets.append(offsets[-1] + texts.write(text))
                pages.extend(document.pages)
                page_offsets.append(len(pages))
                ids.append(document.id)
                titles.append(document.title)
                empty += not document.text.strip()
                notes += empty_pages(document)
        notes = [*left_out(corpus, skipped or ()), *notes]
        content.update(json.dumps([ids, titles, offsets.tolist()]).encode())
        rows = [asdict(note) for note in notes]
        kept = {"ids": ids, "titles": titles, "empty": empty, "notes": rows, "digest": content.hexdigest()}
        (folder / "documents.json").write_text(json.dumps(kept, ensure_ascii=False), encoding="utf-8")
        for name, column in (("offsets", offsets), ("pages", pages), ("page_offsets", page_offsets)):
            write_array(folder / f"{name}.npy", np.array(column, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, position: int) -> Document:
        return Document(self.ids[position], self.text(position), self.titles[position], self.pages(position))

    def __iter__(self) -> Iterator[Document]:
        return (self[position] for position in range(len(self)))

    def text(self, position: int) -> str:
        held, text = self._held
        if held != position:  # chunks of one document are asked for one after another
            start, end = self._offsets[position], self._offsets[position + 1]
            text = self._bytes[start:end].decode("utf-8")
            self._held = position, text
        return text

    def pages(self, position: int) -> tuple[int, ...]:
        """The character at which each page of the text starts; empty for a document without pages."""
        start, end = self._page_offsets[position], self._page_offsets[position + 1]
        return tuple(self._pages[start:end].tolist())

    def headings(self, position: int, span: Span) -> list[tuple[int, str]]:
        """The nearest heading above ``span`` of a text and those inside it: where each begins, and its words."""
        return _headings_of(self.text(position)).around(span)

    @property
    def has_pages(self) -> bool:
        """True if any document has pages, as PDFs do."""
        return bool(len(self._pages))

    @property
    def sizes(self) -> Counts:
        """The bytes of each text, shape (documents,)."""
        return np.diff(self._offsets)

    @cached_property
    def positions(self) -> dict[str, int]:
        """The position of each document, by id."""
        return {name: position for position, name in enumerate(self.ids)}

    def position(self, name: str) -> int | None:
        """The position of the document ``name``, in any Unicode form; None without it."""
        # File names come in either form, depending on the system they were written on.
        forms = (name, *(unicodedata.normalize(form, name) for form in ("NFC", "NFD")))
        return next((self.positions[form] for form in forms if form in self.positions), None)

    def position_of_path(self, path: str) -> int | None:
        """The position of the document with the id ``path``, or with the longest id in which the path ends; or None.

        A URL ends in an id only if the id begins with its host.
        """
        parts = path.split("://") if "://" in path else path.replace("\\", "/").split("/")
        tails = (path, *("/".join(parts[start:]) for start in range(1, len(parts))))
        return next((place for tail in tails if tail and (place := self.position(tail)) is not None), None)

    def position_of_file(self, path: str) -> int | None:
        """The position of the document with the id ``path``, or whose file in the corpus has this path; or None.

        The path is absolute, relative to the current folder, or the end of the file's absolute path.
        """
        position = self.position(path)
        if position is None and (position := self.position_of_path(path)) is not None:
            file, parts = self._corpus / self.ids[position], Path(path).parts
            if file.parts[-len(parts) :] != parts and file.resolve() != Path(path).resolve():
                return None
        return position

    @cached_property
    def id_order(self) -> Counts:
        """The place of each document when sorted by id, shape (documents,): what breaks ties."""
        order = np.empty(len(self), dtype=np.int64)
        order[sorted(range(len(self)), key=self.ids.__getitem__)] = np.arange(len(self))
        return order


class NamedDocuments(Library):
    """A library without texts, of documents that are called ``names``: enough for labels that judge documents.

    Asked for a text it raises CorpusError.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.ids = list(dict.fromkeys(names))
        self.titles = [""] * len(self.ids)
        self.empty = 0
        self.notes = ()

    def text(self, position: int) -> str:
        raise CorpusError(f"the text of {self.ids[position]!r} is needed, and only names of documents are known.")
