"""The terms of chunks on disk, and exact BM25 search in them."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ragtrial.cache.arrays import are_offsets, is_within, map_file, read_array, write_array
from ragtrial.components.terms.analyzer import Analyzer
from ragtrial.rankings import Codes, Counts, Floats, Rankings, unfilled

if TYPE_CHECKING:
    from bm25s import BM25


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
        """The terms of all chunks, with repetitions."""
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
        """Put the terms of ``texts`` into ``folder``; the terms of titles, the first of each pair, ``title_weight``
        times.

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


VERSION = 1
"""Part of the fingerprint of every index: raise it whenever the same terms would be weighed or kept otherwise."""


@dataclass(frozen=True)
class Weighting:
    """A variant of BM25, by its name in bm25s, and its parameters (Kamphuis et al. 2020, table 1)."""

    method: str
    k1: float
    b: float
    delta: float

    def scorer(self) -> BM25:
        """bm25s with these parameters, of the same kind whatever other packages are installed."""
        import bm25s

        return bm25s.BM25(
            k1=self.k1, b=self.b, delta=self.delta, method=self.method, backend="numpy", csc_backend="numpy"
        )


class TermIndex:
    """The chunks by term: for each term a column of chunks and their addends to the score, mapped from files.

    ``vocabulary`` has the code of each term; ``order`` the tie order of each chunk, shape (chunks,). Files:
    ``data.npy`` (float32) and ``indices.npy`` (int32: chunks), one column after another, ``indptr.npy`` (int64, terms +
    1), ``absent.npy`` (float32: what a term adds to the score of each chunk without it; empty where that is nothing)
    and ``index.json`` (the number of chunks; whether all of ``data`` is above 0). Raises ValueError for files that do
    not fit together.
    """

    def __init__(self, folder: Path, vocabulary: dict[str, int], order: Counts) -> None:
        self.vocabulary = vocabulary
        self._order = order
        kept = json.loads((folder / "index.json").read_text(encoding="utf-8"))
        self._indices: Codes = read_array(folder / "indices.npy")
        self._indptr: Counts = read_array(folder / "indptr.npy")
        data: Floats = read_array(folder / "data.npy")
        absent: Floats = read_array(folder / "absent.npy")
        self._chunks = int(kept["chunks"])
        self._is_positive = bool(kept["positive"]) and not len(absent)
        fits = are_offsets(self._indptr, len(vocabulary), len(data)) and self._chunks == len(order)
        fits = fits and is_within(self._indices, self._chunks)
        if not fits or len(data) != len(self._indices) or len(absent) not in (0, len(vocabulary)):
            raise ValueError("the columns do not fit together")
        self._scorer = Weighting("lucene", 1, 0, 0).scorer()  # it only adds up the columns
        self._scorer.scores = {
            "data": data, "indices": self._indices, "indptr": self._indptr, "num_docs": self._chunks,
        }  # fmt: skip
        self._scorer.nonoccurrence_array = absent if len(absent) else None

    @classmethod
    def write(cls, folder: Path, lists: TermLists, weighting: Weighting) -> None:
        """Weigh the terms of ``lists``, at least one, and put the index into ``folder``."""
        scorer = weighting.scorer()
        # bm25s passes over the chunks a few times; they come from the disk one by one.
        scorer.index(_TermCorpus(lists, lists.vocabulary), create_empty_token=False, show_progress=False)
        data, absent = scorer.scores["data"], scorer.nonoccurrence_array
        write_array(folder / "data.npy", data)
        write_array(folder / "indices.npy", scorer.scores["indices"])
        write_array(folder / "indptr.npy", scorer.scores["indptr"])
        write_array(folder / "absent.npy", np.empty(0, np.float32) if absent is None else absent)
        kept = {"chunks": len(lists), "positive": bool(data.min() > 0)}
        (folder / "index.json").write_text(json.dumps(kept), encoding="utf-8")

    def known(self, terms: Iterable[str]) -> list[int]:
        """The codes of the ``terms`` that any chunk has, with repetitions."""
        return [self.vocabulary[term] for term in terms if term in self.vocabulary]

    def search(self, queries: Sequence[Sequence[int]], depth: int) -> Rankings:
        """For the terms of each query, by code, at most ``depth`` chunks that have one of them, best first.

        Scores equal those by bm25s, a repeated term counting each time; ties by ``order``.
        """
        made = unfilled(len(queries), min(depth, self._chunks))
        if not made.depth:
            return made
        for row, codes in enumerate(queries):
            if len(codes):
                scores: Floats = self._scorer.get_scores_from_ids(codes)
                best = self._best(scores, codes, made.depth)
                made.codes[row, : len(best)] = best
                made.scores[row, : len(best)] = scores[best]
        return made

    def _best(self, scores: Floats, codes: Sequence[int], depth: int) -> Counts:
        """At most ``depth`` of the chunks with one of the terms, best first."""
        # If every term raises the score, the chunks above 0 are the hits; else the terms decide: one can be worth
        # nothing (if half of all chunks have it), and absent terms can be worth something.
        hits = scores if self._is_positive else np.where(self._having(codes), scores, -np.inf)
        least = np.partition(hits, -depth)[-depth]
        worst = 0 if self._is_positive else -np.inf
        found = np.flatnonzero(hits >= least) if least > worst else np.flatnonzero(hits > worst)
        return found[np.lexsort((self._order[found], -hits[found]))[:depth]]

    def _having(self, codes: Sequence[int]) -> np.typing.NDArray[np.bool_]:
        having = np.zeros(self._chunks, dtype=np.bool_)
        for code in set(codes):
            having[self._indices[self._indptr[code] : self._indptr[code + 1]]] = True
        return having


@dataclass(frozen=True)
class _TermCorpus:
    """A tokenised corpus in the form that bm25s takes."""

    ids: TermLists
    vocab: dict[str, int]
