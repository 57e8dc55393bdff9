"""Metrics of which documents are among the first k, whatever their order there."""

from __future__ import annotations

import numpy as np

from ragtrial.grading import GradedRankings, Scores
from ragtrial.metrics.base import metric, ratio
from ragtrial.rankings import Counts

_MANNING = "Manning, Raghavan & Schuetze 2008, Introduction to Information Retrieval, section 8"


class OrderUnawareMetrics:
    """Every method gives one float64 in [0, 1] per query, shape (queries,), 0 where nothing is relevant.

    Every method raises CutoffError if ``k`` exceeds the depth that was retrieved.
    """

    def __init__(self, graded: GradedRankings) -> None:
        self._graded = graded

    @metric(
        "order_unaware", "relevant", "relevant hits in the first k / k", f"{_MANNING}.4",
        aliases=("p", "prec"),
    )  # fmt: skip
    def precision(self, k: int) -> Scores:
        """Share of the first ``k`` hits that are relevant; fewer than ``k`` still divide by ``k``, as trec_eval's P_k.

        Source: Manning, Raghavan & Schuetze 2008, section 8.4.
        """
        return ratio(self._found(k), np.float64(k))

    @metric(
        "order_unaware", "relevant", "relevant hits in the first k / R, the relevant documents of the query",
        f"{_MANNING}.4", aliases=("r",),
    )  # fmt: skip
    def recall(self, k: int) -> Scores:
        """Share of the query's relevant documents that are among the first ``k`` hits; trec_eval's recall_k.

        Source: Manning, Raghavan & Schuetze 2008, section 8.4.
        """
        return ratio(self._found(k), self._graded.relevant_counts)

    @metric(
        "order_unaware", "relevant", "2 x precision@k x recall@k / (precision@k + recall@k)",
        "van Rijsbergen 1979, Information Retrieval, chapter 7", aliases=("f", "f_score", "f1_score"),
    )  # fmt: skip
    def f1(self, k: int) -> Scores:
        """Harmonic mean of ``precision(k)`` and ``recall(k)``; not trec_eval's set_F, which has no cutoff.

        Source: van Rijsbergen 1979, chapter 7.
        """
        precision, recall = self.precision(k), self.recall(k)
        product, total = np.asarray(2 * precision * recall), np.asarray(precision + recall)
        return ratio(product, total)

    @metric(
        "order_unaware", "relevant", "1 if any of the first k hits is relevant, else 0",
        "trec_eval, success_k", aliases=("hit", "hits", "success", "accuracy"),
    )  # fmt: skip
    def hit_rate(self, k: int) -> Scores:
        """1 where any of the first ``k`` hits is relevant, else 0; trec_eval's success_k."""
        return np.minimum(self._found(k), 1.0)

    def _found(self, k: int | None) -> Counts:
        """Relevant documents among the first ``k`` hits, shape (queries,)."""
        return self._graded.count(self._graded.relevant & self._graded.within(k))
