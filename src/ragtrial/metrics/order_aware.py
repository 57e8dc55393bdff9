"""Metrics of where the relevant documents stand in the ranking."""

from __future__ import annotations

import numpy as np

from ragtrial.grading import GradedRankings
from ragtrial.metrics.base import Parameter, Scores, metric, ratio, row_sums


class OrderAwareMetrics:
    """Every method gives one float64 in [0, 1] per query, shape (queries,), 0 where nothing is relevant.

    Every method raises CutoffError if ``k`` exceeds the depth that was retrieved.
    """

    def __init__(self, graded: GradedRankings) -> None:
        self._graded = graded

    @metric(
        "order_aware", "relevant", "1 / rank of the first relevant hit, 0 if it is beyond k",
        "Voorhees 1999, The TREC-8 Question Answering Track Report", aliases=("mrr", "recip_rank"),
    )  # fmt: skip
    def rr(self, k: int) -> Scores:
        """Reciprocal of the rank of the first relevant hit; 0 if none is among the first ``k``. Its mean is MRR@k.

        Source: Voorhees 1999.
        """
        relevant = self._graded.relevant(k)
        if not relevant.shape[1]:
            return np.zeros(len(self._graded))
        return ratio(np.asarray(relevant.any(axis=1)), relevant.argmax(axis=1) + 1)

    @metric(
        "order_aware", "relevant", "sum over relevant hits in the first k of precision at their rank, / R",
        "Buckley & Voorhees 2005, TREC: Experiment and Evaluation in IR, chapter 3", aliases=("map", "map_cut"),
    )  # fmt: skip
    def ap(self, k: int) -> Scores:
        """Average precision of the first ``k`` hits over all relevant documents (R); trec_eval's map_cut_k.

        Relevant documents beyond ``k`` count as not found, so with R > k even a perfect ranking is below 1.
        """
        relevant = self._graded.relevant(k)
        ranks = np.arange(1, relevant.shape[1] + 1)
        precision_at = relevant.cumsum(axis=1) / ranks
        return ratio(row_sums(precision_at * relevant), self._graded.relevant_counts)

    @metric(
        "order_aware", "relevant", "(1 - p) x sum over relevant hits in the first k of p^(rank - 1); at most 1 - p^k",
        "Moffat & Zobel 2008, Rank-Biased Precision, ACM TOIS 27(1)", parameters={"p": Parameter(0.8, 0, 1)},
    )  # fmt: skip
    def rbp(self, k: int, p: float = 0.8) -> Scores:
        """Rank-biased precision of the first ``k`` hits, in [0, 1 - p^k]; ``p`` is the reader's persistence.

        Source: Moffat & Zobel 2008, equation 4.
        """
        relevant = self._graded.relevant(k)
        return (1 - p) * row_sums(relevant * p ** np.arange(relevant.shape[1], dtype=np.float64))

    @metric(
        "order_aware", "order",
        "rank-biased overlap of the first k hits with the ordered labels, / the best attainable at k",
        "Webber, Moffat & Zobel 2010, ACM TOIS 28(4); normalised as in Clarke, Vtyurina & Smucker 2021, ACM TOIS 39(4)",
        parameters={"p": Parameter(0.9, 0, 1)},
    )  # fmt: skip
    def rbo(self, k: int, p: float = 0.9) -> Scores:
        """How well the order of the first ``k`` hits agrees with the order of the labels, 1 for the best ranking.

        At each depth the agreement is the number of relevant documents among both the first hits and the first
        labels, over the depth; depths weigh ``p^(depth - 1)``. Divided by what the labels in their own order would
        get, since short lists cannot reach 1 otherwise. Relevant documents are ordered as the labels list them.
        Source: Webber, Moffat & Zobel 2010, equation 7; Clarke, Vtyurina & Smucker 2021, section 3.
        """
        self._graded.top(k)
        positions = self._graded.positions[:, :k]
        # A document is in both lists from the depth on that reaches both its rank and its place in the labels.
        depth_of = np.maximum(positions, np.arange(positions.shape[1]))
        rows, columns = np.nonzero((positions >= 0) & (depth_of < k))
        entered = np.zeros((len(self._graded), k))
        np.add.at(entered, (rows, depth_of[rows, columns]), 1)
        depths = np.arange(1, k + 1)
        weights = p ** (depths - 1.0) / depths
        attainable = np.minimum(depths, self._graded.relevant_counts[:, np.newaxis]) * weights
        return ratio(row_sums(entered.cumsum(axis=1) * weights), row_sums(attainable))
