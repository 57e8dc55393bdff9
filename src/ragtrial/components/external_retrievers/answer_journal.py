"""Answers on disk: a file that only grows, a line for each answer, so that none is paid for twice."""

from __future__ import annotations

from contextlib import suppress
from math import isnan, nan
from pathlib import Path

from ragtrial.cache.journal import append_row, read_rows
from ragtrial.components.external_retrievers.hits import PlacedHit, RetrieverAnswer
from ragtrial.dataset.library import Library


class Journal:
    """The answers of one retriever over one library, by the question's text.

    Each answer is kept at once, beside those of other processes. Raises WorkspaceError if the file cannot be read or
    written.
    """

    def __init__(self, path: Path, library: Library) -> None:
        self._path = path
        self._library = library
        self._answers: dict[str, RetrieverAnswer] = {}
        for row in read_rows(path):
            with suppress(LookupError, TypeError, ValueError):  # no such row: it is asked again
                hits = tuple(
                    PlacedHit(library.positions[name], start, end, nan if score is None else score)
                    for name, score, start, end in row["hits"]
                )
                self._hold(row["query"], RetrieverAnswer(hits, row["asked"], row["unlocated"]))

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
        append_row(self._path, row)
        self._hold(text, answer)

    def _hold(self, text: str, answer: RetrieverAnswer) -> None:
        held = self._answers.get(text)
        if held is None or answer.asked is None or answer.serves(held.asked or 0):
            self._answers[text] = answer
