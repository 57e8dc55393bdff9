"""Clusters: questions that belong together, such as those of one conversation or about one document.

Answers to such questions succeed and fail together, so a cluster counts as one observation, not each of its questions.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ragtrial.evaluation.grading import Scores

Places = npt.NDArray[np.int64]

LEAST_CLUSTERS = 15
"""With fewer clusters little is known about how much they vary."""


class _Label(Protocol):
    @property
    def doc(self) -> str: ...

    @property
    def relevance(self) -> int: ...


class LabelledQuery(Protocol):
    """A query of labels or of a report."""

    @property
    def cluster(self) -> str | None: ...

    @property
    def relevant_docs(self) -> Sequence[_Label]: ...


def clusters_of(queries: Sequence[LabelledQuery], *, by_document: bool, threshold: int = 1) -> Places | None:
    """The number of each query's cluster, in the order of their first queries, shape (queries,).

    Queries of one ``cluster`` belong together; and if ``by_document``, queries with a common document of a grade of at
    least ``threshold``, directly or through other queries. None if each query stands alone.
    """
    keys: list[list[Hashable]] = [[] if query.cluster is None else [(query.cluster,)] for query in queries]
    if by_document:
        for own, query in zip(keys, queries, strict=True):
            own += (label.doc for label in query.relevant_docs if label.relevance >= threshold)
    clusters = _joined(keys)
    return clusters if len(clusters) and clusters.max() + 1 < len(queries) else None


def _joined(keys: Sequence[Collection[Hashable]]) -> Places:
    """A number for each row; rows with a common key, directly or through other rows, have the same."""
    parents, first_with = list(range(len(keys))), dict[Hashable, int]()

    def root(row: int) -> int:
        while parents[row] != row:
            parents[row] = row = parents[parents[row]]
        return row

    for row, own in enumerate(keys):
        for key in own:
            first, second = sorted((root(row), root(first_with.setdefault(key, row))))
            parents[second] = first
    roots = [root(row) for row in range(len(keys))]
    return np.unique(np.array(roots, dtype=np.int64), return_inverse=True)[1].astype(np.int64)


def sums_by(clusters: Places | None, values: Scores) -> Scores:
    """The sums of ``values``, shape (rows, queries), over the queries of each cluster; None: each query is one."""
    if clusters is None or not len(clusters):
        return values
    order = np.argsort(clusters, kind="stable")
    starts = np.flatnonzero(np.diff(clusters[order], prepend=-1))
    if len(starts) == len(clusters):
        return values
    return np.add.reduceat(values[:, order], starts, axis=1)


def linearised(values: Scores, clusters: Places | None) -> Scores:
    """A value for each cluster, shape (rows, clusters), whose means are the means of ``values``, (rows, queries).

    Their ordinary standard error is the cluster-robust one of the means (CR1; Liang & Zeger 1986). Queries with NaN in
    any row are left out. Clusters of one query have the values themselves.
    """
    known = ~np.isnan(values).any(axis=0)
    values = values[:, known]
    if clusters is None:
        return values
    sizes = np.unique(clusters[known], return_counts=True)[1]
    if len(sizes) == values.shape[1]:
        return values
    share = len(sizes) / values.shape[1]
    return np.asarray(
        sums_by(clusters[known], values) * share - values.mean(axis=1, keepdims=True) * (sizes * share - 1.0)
    )
