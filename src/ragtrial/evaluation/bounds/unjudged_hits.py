"""What a score could be if somebody judged the hits that nobody has judged.

Scores take an unjudged hit for not relevant. Here each may turn out relevant or not, independently of the others:
2^u labellings of a ranking with u unjudged hits, and the exact least and most score among them, without trying them.

Only hits count: documents that were not retrieved stay as they are. The whole ranking counts, below ``k`` too, since
there a document that turns out relevant raises R and lowers what is divided by it. So for ``rbp`` the distance from
low to high is that part of its residual which judging the hits could settle; what lies below the last rank, the rest
of Moffat & Zobel's residual, is in ``rbp_residual``.
"""

from __future__ import annotations

import numpy as np

from ragtrial.evaluation.bounds.base import Bounds
from ragtrial.evaluation.bounds.labellings import extremes
from ragtrial.evaluation.evaluators import scores_of
from ragtrial.evaluation.grading import GradedRankings, Scores
from ragtrial.evaluation.metrics import Metric
from ragtrial.evaluation.metrics.structure import FirstHit, HitCount, WeightedSum


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
    graded = graded.at_threshold(metric.threshold(graded.threshold))
    score = scores_of(metric, graded)
    some = graded.lengths > graded.count(graded.is_judged)
    low, high = _ends(metric, graded)
    return Bounds(np.where(some, np.minimum(low, score), score), np.where(some, np.maximum(high, score), score))


def why_unbounded(metric: Metric, graded: GradedRankings) -> str | None:
    """Why a metric has no bounds, in a sentence; None where it has."""
    definition, structure = metric.definition, metric.definition.structure
    if structure is None or definition.unbounded:
        return definition.unbounded or f"no bounds of {metric.name} under unjudged hits are known."
    if dict(metric.parameters).get("judged_only"):
        return "judged_only drops the unjudged hits; what they would score can be said of the metric without it."
    if isinstance(structure, WeightedSum) and definition.family == "graded":
        gained = metric.gain(graded.judgments.grades)
        if not structure.normalised or len(np.unique(gained[gained > 0])) > 1:
            return "the labels have more than one gain, and which of them an unjudged hit would get is not known."
    return None


def _ends(metric: Metric, graded: GradedRankings) -> tuple[Scores | float, Scores]:
    """The least and the most where some unjudged hits are relevant; the least is infinite if none ever lowers it.

    Looked at only where there are unjudged hits.
    """
    structure, k = metric.definition.structure, metric.k
    known = graded.is_judged | graded.relevant  # whatever a labelling says
    open_above = graded.retrieved(k) - graded.count(known & graded.within(k))
    if isinstance(structure, HitCount):
        # (found + a) / (R + a + b) rises with a, the new ones in the first k, since found <= R, and falls with b.
        found, relevant = graded.count(graded.relevant & graded.within(k)), graded.relevant_counts
        open_below = graded.lengths - graded.count(known) - open_above
        low = structure.value(metric, found, relevant + open_below, graded.lengths)
        return low, structure.value(metric, found + open_above, relevant + open_above, graded.lengths)
    if isinstance(structure, FirstHit):
        # The first unjudged hit is where the ranks of the others cease to be 1, 2, 3, ...
        first = graded.count(known & (graded.ranks == graded.so_far(known))) + 1
        return np.inf, np.where(first <= graded.retrieved(k), structure.value(first), 0.0)
    if isinstance(structure, WeightedSum) and not structure.normalised:
        # At most the weight of all hits, less that of those which are judged not relevant.
        retrieved = graded.retrieved(k)
        weights = structure.weight(metric, np.arange(1, int(retrieved.max(initial=0)) + 1))
        failed = known & ~graded.relevant & graded.within(k)
        least = graded.total(structure.weight(metric, graded.ranks), failed)
        return np.inf, np.minimum(np.concatenate(([0.0], np.cumsum(weights)))[retrieved] - least, 1.0)
    return extremes(metric, graded)
