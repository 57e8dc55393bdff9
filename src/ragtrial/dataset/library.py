"""The normalised documents on disk: read once from what the user has, then by position, without holding them all."""

from __future__ import annotations

import json
import mmap
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import numpy as np

from ragtrial.dataset.documents import read_documents
from ragtrial.rankings import Counts
from ragtrial.records import Document


class Library:
    """Documents by position. Ids and titles are held in memory, texts stay in one mapped file.

    Files: ``texts.bin`` (UTF-8, one after another), ``offsets.npy`` (int64, documents + 1), ``documents.jsonl``.
    """

    def __init__(self, folder: Path) -> None:
        self._offsets: Counts = np.load(folder / "offsets.npy")
        size = int(self._offsets[-1])
        with (folder / "texts.bin").open("rb") as texts:
            self._bytes: mmap.mmap | bytes = mmap.mmap(texts.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
        with (folder / "documents.jsonl").open(encoding="utf-8") as lines:
            rows = [json.loads(line) for line in lines]
        self.ids: list[str] = [row["id"] for row in rows]
        self.titles: list[str] = [row["title"] for row in rows]

    @classmethod
    def write(cls, corpus: Path, folder: Path) -> None:
        """Read the documents of ``corpus`` and put them into ``folder``."""
        offsets = [0]
        with (
            (folder / "texts.bin").open("wb") as texts,
            (folder / "documents.jsonl").open("w", encoding="utf-8") as rows,
        ):
            for document in read_documents(corpus):
                offsets.append(offsets[-1] + texts.write(document.text.encode("utf-8")))
                rows.write(json.dumps({"id": document.id, "title": document.title}, ensure_ascii=False) + "\n")
        np.save(folder / "offsets.npy", np.array(offsets, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, position: int) -> Document:
        return Document(self.ids[position], self.text(position), self.titles[position])

    def __iter__(self) -> Iterator[Document]:
        return (self[position] for position in range(len(self)))

    def text(self, position: int) -> str:
        start, end = self._offsets[position], self._offsets[position + 1]
        return self._bytes[start:end].decode("utf-8")

    @property
    def sizes(self) -> Counts:
        """The bytes of each text, shape (documents,)."""
        return np.diff(self._offsets)

    @cached_property
    def positions(self) -> dict[str, int]:
        """Where each document stands, by id."""
        return {name: position for position, name in enumerate(self.ids)}

    @cached_property
    def id_order(self) -> Counts:
        """The place of each document when sorted by id, shape (documents,): what breaks ties."""
        order = np.empty(len(self), dtype=np.int64)
        order[sorted(range(len(self)), key=self.ids.__getitem__)] = np.arange(len(self))
        return order

    @cached_property
    def empty(self) -> int:
        """Documents without any text but white space."""
        return sum(not document.text.strip() for document in self)
