"""Which hits make a metric higher the further up they stand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np

from ragtrial.evaluation.bounds.base import gains, with_threshold
from ragtrial.evaluation.grading import GradedRankings, Scores
from ragtrial.evaluation.metrics import Metric

Preference = Literal["relevant", "gain", "judged", "unjudged"]

PREFERENCES: Mapping[str, Preference] = {
    **dict.fromkeys(("precision", "recall", "f1", "hit_rate", "rr", "ap", "rbp"), "relevant"),
    **dict.fromkeys(("set_precision", "set_recall", "set_f", "r_precision", "capped_recall", "capped_ap"), "relevant"),
    **dict.fromkeys(("bpref", "gm_ap", "iprec", "iprec_11pt", "num_rel_ret"), "relevant"),
    **dict.fromkeys(("dcg", "ndcg", "err"), "gain"),
    "judged": "judged",
    "unjudged": "unjudged",
    "rbp_residual": "unjudged",
    # R hears nothing of the ranking; hits are counted after those that nobody judged are dropped, perhaps.
    "num_rel": "relevant",
    "num_ret": "judged",
}
"""By metric: it never falls when, of two hits, the one it prefers moves up into the place of the other.

That is what lets one sort per group of equal scores find the best order, and the reverse the worst. A metric stands
here after someone has shown this, or not at all.
"""

UNORDERED: Mapping[str, str] = {
    "rbo": "where a hit belongs depends on its place in the labels and on all the others",
    "infap": "a relevant hit gains from pooled hits above it and loses by judged ones, so no order is best for all",
}
"""Why other metrics prefer no hit to another by itself."""


def worth(metric: Metric, graded: GradedRankings, preference: Preference) -> Scores:
    """How much each judged hit is preferred, shape (hits,), where a hit that nobody judged has 0.

    Some metrics of relevance divide by the judged hits, or count those above a relevant one: to them a judged hit
    that is not relevant is worse than an unjudged one. To the others both are the same.
    """
    if preference == "gain":
        return gains(metric, graded.grades)
    judged = graded.is_judged.astype(np.float64)
    if preference == "relevant":
        return np.where(with_threshold(metric, graded).relevant, 1.0, -judged)
    return judged if preference == "judged" else -judged
