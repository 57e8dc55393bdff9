"""Answers on disk: a file that only grows, a line for each answer, so that none is paid for twice."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from io import FileIO
from math import isnan, nan
from pathlib import Path
from typing import Any

from ragtrial.components.external_retrievers.hits import PlacedHit, RetrieverAnswer
from ragtrial.dataset.library import Library
from ragtrial.errors import WorkspaceError


class Journal:
    """The answers of one retriever over one library, by the question's text.

    Each answer is one line, written at once and only ever appended: several processes may write, and one that is
    killed leaves at most a part of a line, which is passed over. A line begins with its checksum. Raises
    WorkspaceError if the file cannot be read or written.
    """

    def __init__(self, path: Path, library: Library) -> None:
        self._path = path
        self._library = library
        self._answers: dict[str, RetrieverAnswer] = {}
        with self._errors("read"):
            lines = path.read_bytes().split(b"\n") if path.exists() else []
        for line in lines:
            row = _record(line)
            if row is not None:
                self._hold(row["query"], self._answer(row))

    def __len__(self) -> int:
        return len(self._answers)

    def get(self, text: str, depth: int) -> RetrieverAnswer | None:
        """What asking ``text`` for ``depth`` hits has brought, or would have; None where that is not known."""
        answer = self._answers.get(text)
        return answer.cut(depth) if answer is not None and answer.serves(depth) else None

    @contextmanager
    def growing(self) -> Iterator[Callable[[str, RetrieverAnswer], None]]:
        """What adds an answer for a text: it is written before that returns. The file stays open in the block."""
        with self._errors("written"):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            file = self._path.open("ab", buffering=0)
        with file:
            yield partial(self._add, file)

    def add(self, text: str, answer: RetrieverAnswer) -> None:
        with self.growing() as add:
            add(text, answer)

    def _add(self, file: FileIO, text: str, answer: RetrieverAnswer) -> None:
        ids = self._library.ids
        hits = [
            [ids[document], None if isnan(score) else score, start, end] for document, start, end, score in answer.hits
        ]
        row = {"query": text, "asked": answer.asked, "unlocated": answer.unlocated, "hits": hits}
        content = json.dumps(row).encode()
        # A line break before it: what another one left half-written does not swallow it.
        line = b"\n%08x %s" % (zlib.crc32(content), content)
        try:
            written = file.write(line)
        except OSError as error:
            raise self._failed("written", error) from error
        if written != len(line):
            raise WorkspaceError(f"{self._path} cannot be written: is the disk full?")
        self._hold(text, answer)

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._failed(what, error) from error

    def _failed(self, what: str, error: OSError) -> WorkspaceError:
        return WorkspaceError(f"{self._path} cannot be {what}: {error.strerror or error}.")

    def _hold(self, text: str, answer: RetrieverAnswer) -> None:
        held = self._answers.get(text)
        if held is None or answer.asked is None or answer.serves(held.asked or 0):
            self._answers[text] = answer

    def _answer(self, row: Mapping[str, Any]) -> RetrieverAnswer:
        positions = self._library.positions
        hits = tuple(
            PlacedHit(positions[name], start, end, nan if score is None else score)
            for name, score, start, end in row["hits"]
        )
        return RetrieverAnswer(hits, row["asked"], row["unlocated"])


def _record(line: bytes) -> dict[str, Any] | None:
    """The row of a line; None for one that is not whole."""
    checksum, _, content = line.partition(b" ")
    if checksum != b"%08x" % zlib.crc32(content) or not content:
        return None
    row: dict[str, Any] = json.loads(content)
    return row
