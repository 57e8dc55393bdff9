"""Sparse vectors on disk, by term, and exact search in them: a product of sparse matrices."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from ragtrial.cache.arrays import read_array, write_array
from ragtrial.components.token_vectors.cache import TokenVectors
from ragtrial.rankings import Codes, Counts, Floats, Rankings, unfilled

VERSION = 1
"""Part of the fingerprint of every index: raise it whenever the same vectors would be stored differently."""

_CELLS = 4_000_000  # scores that are held at once, 12 bytes each
_FILES = ("weights", "chunks", "bounds")


class Postings:
    """The chunks by term: for each term the chunks that it weighs in, and its weights, mapped from files.

    ``order`` is the place of each chunk among those of equal score, shape (chunks,). Files: ``weights.npy`` (float32)
    and ``chunks.npy`` (int32), one term after another, and ``bounds.npy`` (int64, terms + 1). Raises ValueError for
    files that do not fit together.
    """

    def __init__(self, folder: Path, order: Counts) -> None:
        self._order = order
        weights, chunks, bounds = (read_array(folder / f"{name}.npy") for name in _FILES)
        self._weights: Floats = weights
        self._chunks: Codes = chunks
        self._bounds: Counts = bounds
        kept = json.loads((folder / "about.json").read_text(encoding="utf-8"))
        self.weighing = int(kept["weights"])
        if not (len(weights) == len(chunks) == int(bounds[-1]) == self.weighing) or int(kept["chunks"]) != len(order):
            raise ValueError("the columns do not fit together")

    @classmethod
    def write(cls, folder: Path, blocks: Iterable[Sequence[TokenVectors]]) -> int:
        """Put the vectors of chunks, in the order of these, into ``folder``; how many weights they have."""
        from scipy.sparse import csr_array

        ids, weights, lengths = [np.empty(0, np.int32)], [np.empty(0, np.float32)], [0]
        for block in blocks:
            ids += [one.ids for one in block]
            weights += [one.vectors[:, 0] for one in block]
            lengths += [len(one) for one in block]
        every = np.concatenate(ids)
        bounds, width = np.cumsum(lengths, dtype=np.int64), int(every.max(initial=-1)) + 1
        by_chunk = csr_array((np.concatenate(weights), every, bounds), shape=(len(lengths) - 1, width))
        by_term = by_chunk.tocsc()
        columns = by_term.data, by_term.indices.astype(np.int32), by_term.indptr.astype(np.int64)
        for name, column in zip(_FILES, columns, strict=True):
            write_array(folder / f"{name}.npy", column)
        kept = {"chunks": len(lengths) - 1, "weights": len(every)}
        (folder / "about.json").write_text(json.dumps(kept), encoding="utf-8")
        return len(every)

    def search(self, queries: Sequence[TokenVectors], depth: int) -> Rankings:
        """For each query at most ``depth`` chunks that share a term with it, best first; equal scores by ``order``.

        A score is the sum over the shared terms, in float64, of the product of both weights, rounded to float32: it
        does not depend on the other chunks, nor on the other queries.
        """
        made = unfilled(len(queries), min(depth, len(self._order)))
        if not made.depth:
            return made
        size = max(1, _CELLS // len(self._order))
        for start in range(0, len(queries), size):
            for row, (codes, scores) in enumerate(self._scores(queries[start : start + size]), start):
                if len(codes) > made.depth:
                    is_near = scores >= np.partition(scores, -made.depth)[-made.depth]
                    codes, scores = codes[is_near], scores[is_near]
                order = np.lexsort((self._order[codes], -scores))[: made.depth]
                made.codes[row, : len(order)], made.scores[row, : len(order)] = codes[order], scores[order]
        return made

    def _scores(self, queries: Sequence[TokenVectors]) -> list[tuple[Codes, Floats]]:
        """The chunks that share a term with each query, and their scores."""
        from scipy.sparse import csr_array

        terms = np.unique(np.concatenate([query.ids for query in queries]))
        terms = terms[terms < len(self._bounds) - 1]
        starts, ends = self._bounds[terms], self._bounds[terms + 1]
        taken = [slice(start, end) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        weights = np.concatenate([np.empty(0), *(self._weights[part] for part in taken)])
        chunks = np.concatenate([np.empty(0, np.int32), *(self._chunks[part] for part in taken)])
        bounds = np.concatenate([[0], np.cumsum(ends - starts)])
        by_term = csr_array((weights, chunks, bounds), shape=(len(terms), len(self._order)))
        found = csr_array(self._rows(queries, terms)) @ by_term
        edges = found.indptr.tolist()
        return [
            (found.indices[start:end].astype(np.int32), found.data[start:end].astype(np.float32))
            for start, end in pairwise(edges)
        ]

    @staticmethod
    def _rows(queries: Sequence[TokenVectors], terms: Counts) -> object:
        """The weights of ``terms`` in each query, as a sparse matrix."""
        from scipy.sparse import csr_array

        known = [np.isin(query.ids, terms) for query in queries]
        columns = np.concatenate([np.searchsorted(terms, query.ids[is_known])
                                  for query, is_known in zip(queries, known, strict=True)])  # fmt: skip
        weights = np.concatenate([query.vectors[is_known, 0] for query, is_known in zip(queries, known, strict=True)])
        bounds = np.concatenate([[0], np.cumsum([int(is_known.sum()) for is_known in known])])
        return csr_array((weights.astype(np.float64), columns, bounds), shape=(len(queries), len(terms)))
