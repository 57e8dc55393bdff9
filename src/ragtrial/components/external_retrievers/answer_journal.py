"""Answers on disk: a file that only grows, a line for each answer, so that none is paid for twice."""

from __future__ import annotations

import json
import zlib
from math import isnan, nan
from pathlib import Path

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
        try:
            lines = path.read_bytes().split(b"\n") if path.exists() else []
        except OSError as error:
            raise WorkspaceError(f"{path} cannot be read: {error.strerror}.") from error
        for line in lines:
            checksum, _, content = line.partition(b" ")
            if content and checksum == b"%08x" % zlib.crc32(content):
                row = json.loads(content)
                hits = (
                    PlacedHit(library.positions[name], start, end, nan if score is None else score)
                    for name, score, start, end in row["hits"]
                )
                self._hold(row["query"], RetrieverAnswer(tuple(hits), row["asked"], row["unlocated"]))

    def __len__(self) -> int:
        return len(self._answers)

    def get(self, text: str, depth: int) -> RetrieverAnswer | None:
        """What asking ``text`` for ``depth`` hits has brought, or would have; None where that is not known."""
        answer = self._answers.get(text)
        return answer.cut(depth) if answer is not None and answer.serves(depth) else None

    def add(self, text: str, answer: RetrieverAnswer) -> None:
        """Keep an answer for a text: it is written before this returns."""
        ids = self._library.ids
        hits = [[ids[at], None if isnan(score) else score, start, end] for at, start, end, score in answer.hits]
        row = {"query": text, "asked": answer.asked, "unlocated": answer.unlocated, "hits": hits}
        content = json.dumps(row).encode()
        # A line break before it: what another one left half-written does not swallow it.
        line = b"\n%08x %s" % (zlib.crc32(content), content)
        try:
            if not self._answers:
                self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("ab", buffering=0) as file:
                written = file.write(line)
        except OSError as error:
            raise WorkspaceError(f"{self._path} cannot be written: {error.strerror}.") from error
        if written != len(line):
            raise WorkspaceError(f"{self._path} cannot be written: is the disk full?")
        self._hold(text, answer)

    def _hold(self, text: str, answer: RetrieverAnswer) -> None:
        held = self._answers.get(text)
        if held is None or answer.asked is None or answer.serves(held.asked or 0):
            self._answers[text] = answer
