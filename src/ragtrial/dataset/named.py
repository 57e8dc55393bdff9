"""Documents of which only the names are known: enough for labels that judge documents, and nothing is read."""

from __future__ import annotations

from collections.abc import Iterable

from ragtrial.dataset.library import Library
from ragtrial.errors import CorpusError


class NamedDocuments(Library):
    """A library without texts, of documents that are called ``names``. Asked for a text it raises CorpusError."""

    def __init__(self, names: Iterable[str]) -> None:
        self.ids = list(dict.fromkeys(names))
        self.titles = [""] * len(self.ids)
        self.empty = 0
        self.notes = ()

    def text(self, position: int) -> str:
        raise CorpusError(f"the text of {self.ids[position]!r} is needed, and only names of documents are known.")
