"""Which document a tool means by a name: its id, its file's name, or that name without its end."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import cache
from pathlib import PurePosixPath

from ragtrial.dataset.library import Library


class DocumentNames:
    """The documents of a library by the names that other tools give them."""

    def __init__(self, library: Library) -> None:
        self._ids = library.positions
        self._tails: dict[str, int | None] = {}
        for position, name in enumerate(library.ids):
            path = PurePosixPath(name)
            for tail in {path.name, path.stem}:
                self._tails[tail] = None if tail in self._tails else position
        self.meant_by = cache(self._meant_by)

    def exactly(self, name: str) -> int | None:
        """The document whose id is ``name``, in either Unicode form."""
        return next((self._ids[form] for form in _forms(name) if form in self._ids), None)

    def _meant_by(self, name: str) -> int | None:
        """The one document that ``name`` can mean: an id, a path that ends in one, or a file's name; else None."""
        if not name:
            return None
        parts = PurePosixPath(name.replace("\\", "/")).parts
        tails = ("/".join(parts[start:]) for start in range(len(parts)))
        by_id = next((found for tail in [name, *tails] if (found := self.exactly(tail)) is not None), None)
        if by_id is not None or not parts:
            return by_id
        return next((self._tails[form] for form in _forms(parts[-1]) if form in self._tails), None)


def _forms(name: str) -> Iterator[str]:
    yield name
    yield unicodedata.normalize("NFC", name)
    yield unicodedata.normalize("NFD", name)
