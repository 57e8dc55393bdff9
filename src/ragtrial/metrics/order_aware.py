"""Metrics of where the relevant documents stand in the ranking."""

from __future__ import annotations

import numpy as np

from ragtrial.grading import GradedRankings, Scores
from ragtrial.metrics.base import Parameter, metric, ratio


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
        graded = self._graded
        first = graded.relevant & graded.within(k) & (graded.relevant_so_far == 1)
        return graded.total(1.0 / graded.ranks, first)

    @metric(
        "order_aware", "relevant", "sum over relevant hits in the first k of precision at their rank, / R",
        "Buckley & Voorhees 2005, TREC: Experiment and Evaluation in IR, chapter 3", aliases=("map", "map_cut"),
    )  # fmt: skip
    def ap(self, k: int) -> Scores:
        """Average precision of the first ``k`` hits over all relevant documents (R); trec_eval's map_cut_k.

        Relevant documents beyond ``k`` count as not found, so with R > k even a perfect ranking is below 1.
        """
        graded = self._graded
        precision_at = graded.relevant_so_far / graded.ranks
        return ratio(graded.total(precision_at, graded.relevant & graded.within(k)), graded.relevant_counts)

    @metric(
        "order_aware", "relevant", "(1 - p) x sum over relevant hits in the first k of p^(rank - 1); at most 1 - p^k",
        "Moffat & Zobel 2008, Rank-Biased Precision, ACM TOIS 27(1)",
        parameters={"p": Parameter(0.8, 0, 1, always=True)},
    )  # fmt: skip
    def rbp(self, k: int, p: float = 0.8) -> Scores:
        """Rank-biased precision of the first ``k`` hits, in [0, 1 - p^k]; ``p`` is the reader's persistence.

        Source: Moffat & Zobel 2008, equation 4.
        """
        graded = self._graded
        return (1 - p) * graded.total(p ** (graded.ranks - 1.0), graded.relevant & graded.within(k))

    @metric(
        "order_aware", "order",
        "rank-biased overlap of the first k hits with the ordered labels, / the best attainable at k",
        "Webber, Moffat & Zobel 2010, ACM TOIS 28(4); normalised as in Clarke, Vtyurina & Smucker 2021, ACM TOIS 39(4)",
        parameters={"p": Parameter(0.9, 0, 1, always=True)},
    )  # fmt: skip
    def rbo(self, k: int, p: float = 0.9) -> Scores:
        """How well the order of the first ``k`` hits agrees with the order of the labels, 1 for the best ranking.

        At each depth the agreement is the number of relevant documents among both the first hits and the first
        labels, over the depth; depths weigh ``p^(depth - 1)``. Divided by what the labels in their own order would
        get, since short lists cannot reach 1 otherwise. Relevant documents are ordered as the labels list them.
        Source: Webber, Moffat & Zobel 2010, equation 7; Clarke, Vtyurina & Smucker 2021, section 3.
        """
        graded = self._graded
        # A document is in both lists from the depth on that reaches both its rank and its place in the labels.
        depth_of = np.maximum(graded.ranks, graded.places + 1)
        counted = graded.relevant & graded.within(k) & (depth_of <= k)
        order = np.lexsort((depth_of[counted], graded.rows[counted]))
        depths = np.arange(1, k + 1)
        weights = np.cumsum((p ** (depths - 1.0) / depths)[::-1])[::-1]  # of a depth and all below it
        agreed = np.zeros(len(graded.ranks))
        agreed[counted] = weights[depth_of[counted][order] - 1]
        attainable = np.concatenate(([0.0], np.cumsum(weights)))
        return ratio(graded.total(agreed, counted), attainable[np.minimum(graded.relevant_counts, k)])
