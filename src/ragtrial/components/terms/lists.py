"""The terms of all chunks on disk: read from the texts once, then weighed in as many ways as one likes."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

from ragtrial.cache.arrays import are_offsets, is_within, map_file, read_array, write_array
from ragtrial.components.terms.analyzer import Analyzer
from ragtrial.rankings import Codes, Counts

_FLUSHED_AT = 2**20  # terms that are held while texts are read


class TermLists:
    """For each chunk the codes of its terms, in their order, mapped from files.

    ``vocabulary`` has the code of each term: the order in which they first come. Files: ``vocabulary.json`` (the terms
    by code), ``terms.bin`` (int32 in this machine's byte order, one chunk after another) and ``offsets.npy`` (int64,
    chunks + 1). Raises ValueError for files that do not fit together.
    """

    def __init__(self, folder: Path) -> None:
        terms = json.loads((folder / "vocabulary.json").read_text(encoding="utf-8"))
        self.vocabulary: dict[str, int] = {term: code for code, term in enumerate(terms)}
        self.offsets: Counts = read_array(folder / "offsets.npy")
        size = (folder / "terms.bin").stat().st_size
        self._codes: Codes = map_file(folder / "terms.bin", np.dtype(np.int32), size // 4)
        fits = are_offsets(self.offsets, len(self.offsets) - 1, size // 4) and len(self.vocabulary) == len(terms)
        if not fits or not is_within(self._codes, len(terms)):
            raise ValueError("terms, offsets and vocabulary do not fit together")

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator[list[int]]:
        for start, end in pairwise(self.offsets.tolist()):
            yield self._codes[start:end].tolist()

    @property
    def total(self) -> int:
        """The terms of all chunks, repeated ones each time."""
        return int(self.offsets[-1])

    @classmethod
    def write(
        cls,
        folder: Path,
        texts: Iterable[tuple[str, str]],
        analyzer: Analyzer,
        title_weight: int,
        advance: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Put the terms of ``texts`` into ``folder``; those of titles, the first of each pair, ``title_weight`` times.

        ``advance`` counts the texts. The memory that is taken grows with their vocabulary, not with their number.
        """
        vocabulary: dict[str, int] = {}
        offsets, held, written = array("q", [0]), array("i"), 0
        with (folder / "terms.bin").open("wb") as file:
            for title, text in texts:
                terms = analyzer.terms(title) * title_weight if title_weight else []
                terms += analyzer.terms(text)
                held.extend(vocabulary.setdefault(term, len(vocabulary)) for term in terms)
                offsets.append(written + len(held))
                if len(held) >= _FLUSHED_AT:
                    file.write(held.tobytes())
                    written, held = written + len(held), array("i")
                advance(1)
            file.write(held.tobytes())
        write_array(folder / "offsets.npy", np.array(offsets, dtype=np.int64))
        (folder / "vocabulary.json").write_text(json.dumps(list(vocabulary), ensure_ascii=False), encoding="utf-8")
