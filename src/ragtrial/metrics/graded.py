"""Metrics that use the grades themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ragtrial.grading import GradedRankings, Scores
from ragtrial.metrics.base import metric, ratio


class GradedMetrics:
    """Every method gives one float64 of at least 0 per query, shape (queries,).

    The gain of a hit is its grade; grades below 0 and missing judgments gain 0, and the relevance threshold plays no
    part. Every method raises CutoffError if ``k`` exceeds the depth that was retrieved.
    """

    def __init__(self, graded: GradedRankings) -> None:
        self._graded = graded

    @metric(
        "graded", "gain", "sum over the first k hits of grade / log2(rank + 1)",
        "Jarvelin & Kekalainen 2002, ACM TOIS 20(4), with the discount log2(rank + 1)",
    )  # fmt: skip
    def dcg(self, k: int) -> Scores:
        """Discounted cumulative gain of the first ``k`` hits, linear gain; not bounded by 1.

        Source: Jarvelin & Kekalainen 2002; the discount is log2(rank + 1), as in trec_eval.
        """
        graded = self._graded
        return graded.total(np.maximum(graded.grades, 0) * discount(graded.ranks), graded.within(k))

    @metric(
        "graded", "gain", "dcg@k / dcg@k of all judged documents in the order of their grades",
        "Jarvelin & Kekalainen 2002, ACM TOIS 20(4); trec_eval's ndcg_cut_k", aliases=("ndcg_cut",),
    )  # fmt: skip
    def ndcg(self, k: int) -> Scores:
        """``dcg(k)`` over that of the ideal ranking cut at ``k``, in [0, 1]; trec_eval's ndcg_cut_k.

        Source: Jarvelin & Kekalainen 2002, section 3.
        """
        return ratio(self.dcg(k), self._ideal(k))

    @metric(
        "graded", "gain", "judged hits in the first k / min(k, hits)",
        "Lu, Moffat & Culpepper 2016, Information Retrieval Journal 19(4)",
    )  # fmt: skip
    def judged(self, k: int) -> Scores:
        """Share of the first ``k`` hits that have a judgment of any grade, in [0, 1]; 0 where nothing was retrieved.

        Fewer than ``k`` hits divide by their number. A low share says that the graded scores rest on guesses.
        """
        graded = self._graded
        return ratio(graded.count(graded.is_judged & graded.within(k)), graded.retrieved(k))

    def _ideal(self, k: int | None) -> Scores:
        judgments = self._graded.judgments
        ranks = np.arange(len(judgments.rows)) - judgments.starts[:-1][judgments.rows] + 1
        gains = np.maximum(judgments.descending, 0) * discount(ranks)
        within = ranks <= k if k is not None else np.ones(len(ranks), dtype=np.bool_)
        return np.bincount(judgments.rows[within], weights=gains[within], minlength=len(judgments)).astype(np.float64)


def discount(ranks: npt.NDArray[Any]) -> Scores:
    """1 / log2(rank + 1), for ranks from 1 on."""
    return 1 / np.log2(ranks + 1.0)
