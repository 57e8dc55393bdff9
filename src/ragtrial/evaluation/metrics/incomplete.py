"""Metrics made for judgments that are known to be incomplete."""

from __future__ import annotations

import numpy as np

from ragtrial.evaluation.grading import Scores
from ragtrial.evaluation.metrics.base import Card, Formulas, metric
from ragtrial.evaluation.metrics.structure import ratio

_MADE_FOR_GAPS = (
    "no way to its extremes is known here but to try all labellings; it is made to say something without them."
)

EPSILON = 1e-5
"""What keeps inferred precision defined where nothing above a hit is judged; trec_eval's."""


class IncompleteMetrics(Formulas):
    """Every method gives one float64 in [0, 1] per query, shape (queries,), 0 where nothing is relevant."""

    @metric(
        "order_aware", "relevant",
        "1/R x sum over relevant hits of 1 - min(judged non-relevant hits above, R) / min(N, R)",
        "Buckley & Voorhees 2004, Retrieval Evaluation with Incomplete Information, SIGIR; as in trec_eval",
        cut="none", condensable=False,
        prefers="relevant", unbounded=_MADE_FOR_GAPS,
        card=Card(
            denominator="R, the relevant documents; N are those judged not relevant, retrieved or not",
            edges=(
                "hits that nobody judged play no part",
                "a relevant hit with no judged one above it counts 1, also where N is 0",
                "negative grades are judged; under trec_compat they are not",
            ),
            elsewhere={"trec_eval": "bpref", "ir_measures": "Bpref"},
            unlike=("ranx's bpref is not a number where no judged document is non-relevant",),
        ),
    )  # fmt: skip
    def bpref(self) -> Scores:
        """Binary preference: how rarely judged non-relevant hits stand above relevant ones.

        Source: Buckley & Voorhees 2004, in the form of trec_eval's bpref.
        """
        graded = self._graded
        judgments, most = graded.judgments, graded.relevant_counts
        known = judgments.grades >= 0 if graded.pooled else np.ones(len(judgments.grades), dtype=np.bool_)
        unwanted = known & (judgments.grades < graded.threshold)
        available = np.minimum(np.bincount(judgments.rows[unwanted], minlength=len(graded)), most)[graded.rows]
        above = np.minimum(graded.so_far(graded.is_judged & ~graded.relevant), most[graded.rows])
        return ratio(graded.total(1 - ratio(above, available), graded.relevant), most)

    @metric(
        "order_aware", "relevant", "sum over relevant hits of the precision expected at their rank, / R",
        "Yilmaz & Aslam 2006, Estimating Average Precision with Incomplete and Imperfect Judgments, CIKM",
        cut="none",
        ideal="relevant", unbounded=_MADE_FOR_GAPS,  # pooled hits above help a relevant one, judged ones harm it
        card=Card(
            denominator="R, the relevant documents",
            edges=(
                "made for judgments that sample a pool: a negative grade means in the pool, and not judged",
                "hits that have no grade count as not relevant",
                "smoothed by 0.00001: a perfect ranking of more than one document stays just below 1",
            ),
            elsewhere={"trec_eval": "infAP", "ir_measures": "infAP"},
        ),
    )  # fmt: skip
    def infap(self) -> Scores:
        """Average precision inferred from a judged sample of a pool; negative grades mark what was not sampled.

        Source: Yilmaz & Aslam 2006, equation 4, with the smoothing of trec_eval.
        """
        graded = self._graded
        relevant = graded.relevant
        pooled = (graded.grades < 0) & ~relevant
        found = graded.relevant_so_far - 1.0  # above a relevant hit
        judged_above = found + graded.so_far(~relevant & ~pooled)
        seen_above = judged_above + graded.so_far(pooled)
        expected = (found + EPSILON) / (judged_above + 2 * EPSILON)
        at_rank = (1 + seen_above * expected) / graded.ranks
        return ratio(graded.total(at_rank, relevant), graded.relevant_counts)
