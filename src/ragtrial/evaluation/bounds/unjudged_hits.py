"""What a score could be if somebody judged the hits that nobody has judged.

Scores take an unjudged hit for not relevant. Here each may turn out relevant or not, independently of the others:
2^u labellings of a ranking with u unjudged hits, and the exact least and most score among them, without trying them.

Only hits count: documents that were not retrieved stay as they are. The whole ranking counts, below ``k`` too, since
there a document that turns out relevant raises R and lowers what is divided by it. So for ``rbp`` the distance from
low to high is that part of its residual which judging the hits could settle; what lies below the last rank, the rest
of Moffat & Zobel's residual, is in ``rbp_residual``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

import numpy as np

from ragtrial.evaluation.bounds.base import Bounds, gains, values, with_threshold
from ragtrial.evaluation.bounds.labellings import extreme_ap, extreme_ndcg
from ragtrial.evaluation.grading import GradedRankings, Scores
from ragtrial.evaluation.metrics import Metric
from ragtrial.evaluation.metrics.base import ratio
from ragtrial.rankings import Bools, Counts

Ends = tuple[Scores | float, Scores]
"""The least and the most."""


def bounds(metric: Metric, graded: GradedRankings) -> Bounds | None:
    """The range of each query's score over all labellings of its unjudged hits; None where ``why_unbounded`` says why.

    A document that turns out relevant has the grade ``threshold`` (for ``ndcg`` the one gain that labels have). Both
    ends are scores of labellings, and the score itself lies between; where every hit is judged all three are equal.
    A query with no relevant document has a range, too, from 0 on: that it is left out of means is the caller's to
    keep to. Raises CutoffError as the metric does.
    """
    if why_unbounded(metric, graded) is not None:
        return None
    metric.check_cut()
    graded = with_threshold(metric, graded)
    score = values(metric, graded)
    some = graded.lengths > graded.count(graded.is_judged)
    low, high = BOUNDED[metric.name](metric, graded)
    return Bounds(np.where(some, np.minimum(low, score), score), np.where(some, np.maximum(high, score), score))


def why_unbounded(metric: Metric, graded: GradedRankings) -> str | None:
    """Why a metric has no bounds, in a sentence; None where it has."""
    if metric.name not in BOUNDED:
        return UNBOUNDED.get(metric.name, f"no bounds of {metric.name} under unjudged hits are known.")
    given = dict(metric.parameters)
    if given.get("judged_only"):
        return "judged_only drops the unjudged hits; what they would score can be said of the metric without it."
    if metric.name == "ndcg":
        gained = gains(metric, graded.judgments.grades)
        if len(np.unique(gained[gained > 0])) > 1:
            return "the labels have more than one gain, and which of them an unjudged hit would get is not known."
    return None


def _precision(metric: Metric, graded: GradedRankings) -> Ends:
    return np.inf, ratio(_found(metric, graded) + _in_first(metric.k, graded), np.float64(cast("int", metric.k)))


def _hit_rate(metric: Metric, graded: GradedRankings) -> Ends:
    return np.inf, (_in_first(metric.k, graded) > 0).astype(np.float64)


def _rr(metric: Metric, graded: GradedRankings) -> Ends:
    # The first unjudged hit stands where the ranks of the others cease to be 1, 2, 3, ...
    known = _known(graded)
    through = np.concatenate(([0], np.cumsum(known)))
    unbroken = known & (graded.ranks == (through[1:] - through[graded.starts[:-1]][graded.rows]))
    first = graded.count(unbroken) + 1
    return np.inf, np.where(first <= graded.retrieved(metric.k), 1 / first, 0)


def _rbp(metric: Metric, graded: GradedRankings) -> Ends:
    """At most the weight of all hits, less that of those which are judged not relevant."""
    p = float(dict(metric.parameters)["p"])
    failed = _known(graded) & ~graded.relevant & graded.within(metric.k)
    return np.inf, 1 - p ** graded.retrieved(metric.k) - (1 - p) * graded.total(p ** (graded.ranks - 1.0), failed)


def _recall(metric: Metric, graded: GradedRankings) -> Ends:
    """(found + a) / (R + a + b) rises with a, the new ones in the first k, since found <= R, and falls with b."""
    found, above = _found(metric, graded), _in_first(metric.k, graded)
    below = _in_first(None, graded) - above
    return ratio(found, graded.relevant_counts + below), ratio(found + above, graded.relevant_counts + above)


def _capped_recall(metric: Metric, graded: GradedRankings) -> Ends:
    """As recall; where the cap holds, (found + a) / k rises with a as well."""
    found, above = _found(metric, graded), _in_first(metric.k, graded)
    below, cap = _in_first(None, graded) - above, cast("int", metric.k)
    relevant = graded.relevant_counts
    return ratio(found, np.minimum(relevant + below, cap)), ratio(found + above, np.minimum(relevant + above, cap))


def _set_precision(metric: Metric, graded: GradedRankings) -> Ends:
    return np.inf, ratio(_found(metric, graded) + _in_first(None, graded), graded.lengths)


def _set_f(metric: Metric, graded: GradedRankings) -> Ends:
    """(1 + w) (found + a) / (hits + w (R + a)), with w the square of beta, rises with a, since found <= R."""
    beta = dict(metric.parameters).get("beta", metric.definition.parameters["beta"].default)
    weight = cast("float", beta) ** 2
    new = _in_first(None, graded)
    return np.inf, ratio(
        (1 + weight) * (_found(metric, graded) + new), graded.lengths + weight * (graded.relevant_counts + new)
    )


def _f1(metric: Metric, graded: GradedRankings) -> Ends:
    """2 (found + a) / (k + R + a + b) rises with a, since found <= R, and falls with b."""
    found, above = _found(metric, graded), _in_first(metric.k, graded)
    below = _in_first(None, graded) - above
    most = graded.relevant_counts + cast("int", metric.k)
    return ratio(2 * found, most + below), ratio(2 * (found + above), most + above)


def _ap(metric: Metric, graded: GradedRankings) -> Ends:
    return extreme_ap(graded, _known(graded), metric.k)


def _capped_ap(metric: Metric, graded: GradedRankings) -> Ends:
    return extreme_ap(graded, _known(graded), metric.k, most_relevant=cast("int", metric.k))


def _ndcg(metric: Metric, graded: GradedRankings) -> Ends:
    gained = gains(metric, graded.judgments.grades) > 0
    return extreme_ndcg(graded, graded.is_judged, metric.k, gained)


def _known(graded: GradedRankings) -> Bools:
    """Hits that are relevant or not whatever a labelling says, shape (hits,)."""
    return graded.is_judged | graded.relevant


def _found(metric: Metric, graded: GradedRankings) -> Counts:
    return graded.count(graded.relevant & graded.within(metric.k))


def _in_first(k: int | None, graded: GradedRankings) -> Counts:
    """How many of the first ``k`` hits of each query could turn out relevant, shape (queries,)."""
    return graded.retrieved(k) - graded.count(_known(graded) & graded.within(k))


BOUNDED: Mapping[str, Callable[[Metric, GradedRankings], Ends]] = {
    "precision": _precision,
    "recall": _recall,
    "capped_recall": _capped_recall,
    "set_recall": _recall,
    "set_precision": _set_precision,
    "set_f": _set_f,
    "f1": _f1,
    "hit_rate": _hit_rate,
    "rr": _rr,
    "ap": _ap,
    "gm_ap": _ap,
    "capped_ap": _capped_ap,
    "rbp": _rbp,
    "ndcg": _ndcg,
}
"""By metric: the least and the most score when some unjudged hits are relevant; infinite where that is never less than
when none is. Looked at only where there are unjudged hits."""

_COUNT = "it counts, and what it counts is not how good a ranking is."
_NOT_WORKED_OUT = "no way to its extremes is known here but to try all labellings"

UNBOUNDED: Mapping[str, str] = {
    "rbo": "its labels are an order, in which a hit that nobody judged has no place.",
    "dcg": "it is as high as the gains are, and an unjudged hit has none; ndcg has bounds.",
    "err": "it depends on how relevant each hit is, which is more than relevant or not.",
    **dict.fromkeys(("judged", "unjudged"), "it says how much was judged, and a labelling judges everything."),
    "rbp_residual": "it says itself how far rbp could rise, hits that were not retrieved included.",
    "r_precision": f"{_NOT_WORKED_OUT}, since where it cuts moves with R.",
    **dict.fromkeys(("iprec", "iprec_11pt"), f"{_NOT_WORKED_OUT}, since its recall levels move with R."),
    **dict.fromkeys(("bpref", "infap"), f"{_NOT_WORKED_OUT}; it is made to say something without them."),
    **dict.fromkeys(("num_ret", "num_rel", "num_rel_ret"), _COUNT),
}
"""Why other metrics have no bounds under unjudged hits."""
