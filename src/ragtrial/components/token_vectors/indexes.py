"""Exact search in token vectors and in sparse vectors, on disk."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from ragtrial.cache.arrays import read_array, write_array, write_rows
from ragtrial.components.token_vectors.vectors import TokenVectors
from ragtrial.rankings import Codes, Counts, Floats, Rankings, unfilled

MAXSIM_VERSION = 1
"""Part of the fingerprint of every index: raise it whenever the same vectors would be stored differently."""

_TILE = 4_000_000  # similarities of tokens that are held at once
_MAXSIM_CELLS = 16_000_000  # scores of chunks that are held at once
_QUERIES = 64  # that are compared together
_ROUNDINGS = 8  # the error of a similarity in addition to the error of its sum
_EPSILON = float(np.finfo(np.float32).eps)


class TokenIndex:
    """The vectors of the tokens of all chunks, mapped from files.

    ``order`` is the tie order of each chunk, shape (chunks,). Files: ``vectors.npy`` (float32, (tokens, width)), one
    chunk after another, ``bounds.npy`` (int64, chunks + 1), and ``about.json`` (the length of the longest vector).
    ``is_mean`` divides scores by the number of the query's tokens. Raises ValueError if they do not fit together.
    """

    def __init__(self, folder: Path, order: Counts, *, is_mean: bool) -> None:
        self._order = order
        self._is_mean = is_mean
        self._vectors: Floats = read_array(folder / "vectors.npy")
        self._bounds: Counts = read_array(folder / "bounds.npy")
        self._longest = float(json.loads((folder / "about.json").read_text(encoding="utf-8"))["longest"])
        if len(self._bounds) != len(order) + 1 or int(self._bounds[-1]) != len(self._vectors):
            raise ValueError("the vectors do not fit together")
        self._filled: Counts = np.flatnonzero(np.diff(self._bounds))

    @classmethod
    def write(cls, folder: Path, blocks: Iterable[Sequence[TokenVectors]], tokens: Counts, width: int) -> None:
        """Put the vectors of chunks, in the order of these, into ``folder``.

        ``tokens``, shape (chunks,), is how many each has, ``width`` how long one is.
        """
        longest = 0.0

        def rows() -> Iterator[Floats]:
            nonlocal longest
            for block in blocks:
                for one in block:
                    longest = max(longest, float(np.linalg.norm(one.vectors, axis=1).max(initial=0)))
                    yield one.vectors

        write_rows(folder / "vectors.npy", rows(), (int(tokens.sum()), width))
        write_array(folder / "bounds.npy", np.concatenate([[0], np.cumsum(tokens)]).astype(np.int64))
        (folder / "about.json").write_text(json.dumps({"longest": longest}), encoding="utf-8")

    def search(self, queries: Sequence[TokenVectors], depth: int) -> Rankings:
        """For each query at most ``depth`` chunks, best first; equal scores by ``order``.

        Every chunk is compared, in float32; the best, and all that rounding may have hidden among the others, are
        compared again by ``maxsim``, so that a score depends on nothing but the query and the chunk. A chunk without
        any token is not found, and a query without any finds nothing.
        """
        made = unfilled(len(queries), min(depth, len(self._filled)))
        if not made.depth:
            return made
        asked = [row for row, query in enumerate(queries) if len(query)]
        size = max(1, min(_QUERIES, _MAXSIM_CELLS // len(self._filled)))
        for start in range(0, len(asked), size):
            rows = asked[start : start + size]
            for row, near in zip(rows, self._near([queries[row] for row in rows]), strict=True):
                codes = self._candidates(near, queries[row], made.depth)
                texts = (self._vectors[self._bounds[code] : self._bounds[code + 1]] for code in codes.tolist())
                exact = [maxsim(queries[row], vectors, is_mean=self._is_mean) for vectors in texts]
                _place(made, row, codes, np.array(exact, dtype=np.float32), self._order)
        return made

    def _candidates(self, near: Floats, query: TokenVectors, depth: int) -> Codes:
        """The chunks that may be among the best ``depth``, by the approximate scores of chunks with tokens."""
        sizes = np.linalg.norm(query.vectors.astype(np.float64), axis=1)
        slack = (self._vectors.shape[1] + _ROUNDINGS) * _EPSILON * float(sizes.sum()) * self._longest
        slack += len(query) * _EPSILON * float(np.abs(near).max(initial=0))  # of the sum over the query's tokens
        floor = np.partition(near, -depth)[-depth] - 2 * slack
        found: Codes = self._filled[~(near < floor)].astype(np.int32)
        return found

    def _near(self, queries: Sequence[TokenVectors]) -> Floats:
        """Approximate scores, (queries, chunks with tokens): sums over a query's tokens of the best similarity."""
        asked = np.concatenate([query.vectors for query in queries])
        edges = np.cumsum([0, *(len(query) for query in queries)])[:-1]
        near = np.empty((len(queries), len(self._filled)), dtype=np.float32)
        bounds, rows = self._bounds, max(1, _TILE // max(1, len(asked)))
        first = 0
        while first < len(self._filled):
            begin = int(bounds[self._filled[first]])
            # As many chunks as fit, but at least one.
            last = int(np.searchsorted(bounds[self._filled + 1], begin + rows, side="right"))
            chosen = self._filled[first : max(last, first + 1)]
            block = self._vectors[begin : int(bounds[chosen[-1] + 1])]
            best = np.maximum.reduceat(asked @ block.T, (bounds[chosen] - begin).astype(np.intp), axis=1)
            near[:, first : first + len(chosen)] = np.add.reduceat(best, edges, axis=0)
            first += len(chosen)
        return near


def maxsim(query: TokenVectors, vectors: Floats, *, is_mean: bool) -> float:
    """The sum over the query's tokens of the largest inner product with any of ``vectors``; in float64.

    It is 0 if the query or the text has no token.
    Source: Khattab & Zaharia 2020, ColBERT, section 3.3. ``is_mean`` divides it by the number of the query's tokens.
    """
    if not len(query) or not len(vectors):
        return 0.0
    best = (query.vectors.astype(np.float64) @ vectors.astype(np.float64).T).max(axis=1)
    return float(best.mean() if is_mean else best.sum())


POSTINGS_VERSION = 1
"""Part of the fingerprint of every index: raise it whenever the same vectors would be stored differently."""

_POSTINGS_CELLS = 4_000_000  # scores that are held at once, 12 bytes each
_FILES = ("weights", "chunks", "bounds")


class Postings:
    """The chunks by term: for each term the chunks that it weighs in, and its weights, mapped from files.

    ``order`` is the tie order of each chunk, shape (chunks,). Files: ``weights.npy`` (float32) and ``chunks.npy``
    (int32), one term after another, and ``bounds.npy`` (int64, terms + 1). Raises ValueError for files that do not fit
    together.
    """

    def __init__(self, folder: Path, order: Counts) -> None:
        self._order = order
        weights, chunks, bounds = (read_array(folder / f"{name}.npy") for name in _FILES)
        self._weights: Floats = weights
        self._chunks: Codes = chunks
        self._bounds: Counts = bounds
        kept = json.loads((folder / "about.json").read_text(encoding="utf-8"))
        sizes = {len(weights), len(chunks), int(bounds[-1]), int(kept["weights"])}
        if len(sizes) > 1 or int(kept["chunks"]) != len(order):
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
        size = max(1, _POSTINGS_CELLS // len(self._order))
        for start in range(0, len(queries), size):
            for row, (codes, scores) in enumerate(self._scores(queries[start : start + size]), start):
                if len(codes) > made.depth:
                    is_near = scores >= np.partition(scores, -made.depth)[-made.depth]
                    codes, scores = codes[is_near], scores[is_near]
                _place(made, row, codes, scores, self._order)
        return made

    def _scores(self, queries: Sequence[TokenVectors]) -> list[tuple[Codes, Floats]]:
        """The chunks that share a term with each query, and their scores."""
        from scipy.sparse import csr_array

        ids = np.concatenate([query.ids for query in queries])
        terms = np.unique(ids[ids < len(self._bounds) - 1])
        starts, ends = self._bounds[terms], self._bounds[terms + 1]
        taken = [slice(start, end) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        weights = np.concatenate([np.empty(0), *(self._weights[part] for part in taken)])
        chunks = np.concatenate([np.empty(0, np.int32), *(self._chunks[part] for part in taken)])
        bounds = np.concatenate([[0], np.cumsum(ends - starts)])
        by_term = csr_array((weights, chunks, bounds), shape=(len(terms), len(self._order)))
        is_known = np.isin(ids, terms)
        asked = np.concatenate([query.vectors[:, 0] for query in queries])[is_known].astype(np.float64)
        rows = np.repeat(np.arange(len(queries)), [len(query) for query in queries])[is_known]
        places = rows, np.searchsorted(terms, ids[is_known])
        found = csr_array((asked, places), shape=(len(queries), len(terms))) @ by_term
        indices, data = found.indices.astype(np.int32), found.data.astype(np.float32)
        return [(indices[start:end], data[start:end]) for start, end in pairwise(found.indptr.tolist())]


def _place(rankings: Rankings, row: int, codes: Codes, scores: Floats, order: Counts) -> None:
    """Put the best of some chunks into a row of ``rankings``, equal scores by ``order``."""
    best = np.lexsort((order[codes], -scores))[: rankings.depth]
    rankings.codes[row, : len(best)], rankings.scores[row, : len(best)] = codes[best], scores[best]
