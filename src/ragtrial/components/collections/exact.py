"""Exact search over the vectors of a collection: what its engine would find if it missed nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Self

import numpy as np

from ragtrial.cache.arrays import read_array, write_rows
from ragtrial.cache.atomic import write_text
from ragtrial.components.collections.base import PAGE, Collection, Found, Item
from ragtrial.components.collections.conditions import ALL, Conditions
from ragtrial.components.stores.base import Vectors
from ragtrial.components.stores.exact import ExactIndex
from ragtrial.errors import StoreError
from ragtrial.rankings import PADDING, Codes, Floats


class ExactSearch:
    """Searches the stored vectors of the items that meet the conditions; equal scores go by id, ascending."""

    def __init__(self, held: Collection, ids: Sequence[str], matrix: Floats) -> None:
        self._held = held
        self._ids = ids
        self._matrix = matrix
        self._rows = {name: row for row, name in enumerate(ids)}
        self._order = np.empty(len(ids), dtype=np.int64)
        self._order[sorted(range(len(ids)), key=ids.__getitem__)] = np.arange(len(ids))

    @staticmethod
    def write(held: Collection, folder: Path, advance: Callable[[int], None]) -> None:
        """Read all vectors of the collection, once, into ``folder``. Raises StoreError if it changes meanwhile."""
        ids: list[str] = []

        def blocks() -> Iterator[Floats]:
            for names, vectors in held.vectors(advance):
                ids.extend(names)
                if len(ids) > held.count:
                    break
                yield vectors
            if len(ids) != held.count or len(set(ids)) != len(ids):
                raise StoreError(f"{held} changed while its {held.count:,} vectors were read; run it again.")

        write_rows(folder / "vectors.npy", blocks(), (held.count, held.dimension))
        write_text(folder / "ids.json", json.dumps(ids))

    @classmethod
    def read(cls, held: Collection, folder: Path) -> Self:
        """The search over the vectors that ``write`` put into ``folder``."""
        return cls(held, json.loads((folder / "ids.json").read_text()), read_array(folder / "vectors.npy"))

    def nearest(self, vectors: Floats, depth: int, conditions: Conditions = ALL) -> list[Found]:
        """As ``Collection.nearest``, but exact."""
        rows = None
        if conditions != ALL:
            passing = [item.id for page in self._held.pages(conditions) for item in page]
            rows = np.array([self._row(name) for name in passing], dtype=np.int64)
        chosen = Vectors(self._matrix, self._order) if rows is None else Vectors(self._matrix[rows], self._order[rows])
        if not len(chosen) or not len(vectors):
            return [Found([], np.empty(0, dtype=np.float32)) for _ in vectors]
        found = ExactIndex(chosen, self._held.space).search(vectors, depth)
        codes = found.codes if rows is None else np.where(found.codes == PADDING, PADDING, rows[found.codes])
        items = self._items(codes)
        hits = (row[row != PADDING].tolist() for row in codes)
        return [
            Found([items[self._ids[code]] for code in one], scores[: len(one)])
            for one, scores in zip(hits, found.scores, strict=True)
        ]

    def _row(self, name: str) -> int:
        if name not in self._rows:
            raise StoreError(f"{self._held} has an item {name!r} that it did not have before; run it again.")
        return self._rows[name]

    def _items(self, codes: Codes) -> dict[str, Item]:
        """The items of the rows in ``codes``, by id."""
        names = [self._ids[row] for row in np.unique(codes[codes != PADDING]).tolist()]
        pages = (self._held.get(names[start : start + PAGE])[0] for start in range(0, len(names), PAGE))
        return {item.id: item for page in pages for item in page}
