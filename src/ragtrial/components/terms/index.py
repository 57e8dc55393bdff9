"""What each term of each chunk adds to a BM25 score, on disk, and the search in it: bm25s weighs and adds up."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ragtrial.cache.arrays import are_offsets, is_within, read_array, write_array
from ragtrial.components.terms.lists import TermLists
from ragtrial.rankings import Codes, Counts, Floats, Rankings, unfilled

if TYPE_CHECKING:
    from bm25s import BM25

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
        """bm25s with these parameters, of one kind whatever else is installed."""
        import bm25s

        return bm25s.BM25(
            k1=self.k1, b=self.b, delta=self.delta, method=self.method, backend="numpy", csc_backend="numpy"
        )


class TermIndex:
    """The chunks by term: a column of chunks and of what the term adds to the score of each, mapped from files.

    ``vocabulary`` has the code of each term; ``order`` the place of each chunk among those of equal score, shape
    (chunks,). Files: ``data.npy`` (float32) and ``indices.npy`` (int32: chunks), one column after another,
    ``indptr.npy`` (int64, terms + 1), ``absent.npy`` (float32: what a term adds to the score of each chunk without
    it; empty where that is nothing) and ``index.json`` (the number of chunks; whether all of ``data`` is above 0).
    Raises ValueError for files that do not fit together.
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
        self._scorer = Weighting("lucene", 1, 0, 0).scorer()  # which only adds up what is in the columns
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
        """The codes of those of ``terms`` that any chunk has, repeated ones each time."""
        return [self.vocabulary[term] for term in terms if term in self.vocabulary]

    def search(self, queries: Sequence[Sequence[int]], depth: int) -> Rankings:
        """For the terms of each query, by code, at most ``depth`` chunks that have one of them, best first.

        Scores are those of bm25s, a repeated term counting each time; equal ones by ``order``.
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
        # Where every term that a chunk has raises its score, those above 0 are the hits; else its terms decide: one
        # can be worth nothing (it is in half of all chunks), and those that are not there can be worth something.
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
    """What bm25s takes for a tokenised corpus."""

    ids: TermLists
    vocab: dict[str, int]
