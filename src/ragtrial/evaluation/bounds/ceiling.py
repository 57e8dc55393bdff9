"""The best score that the judgments allow: a precision@10 of 0.2 may be all there is to get."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ragtrial.evaluation.bounds.base import values
from ragtrial.evaluation.bounds.preferences import Preference, worth
from ragtrial.evaluation.grading import GradedRankings, Scores
from ragtrial.evaluation.metrics import Metric
from ragtrial.runs.qrels import Judgments

_COUNT = "a count of what was judged or retrieved is neither good nor bad"

IDEALS: Mapping[str, Preference] = {
    **dict.fromkeys(("precision", "recall", "f1", "hit_rate", "rr", "ap", "rbp", "rbo"), "relevant"),
    **dict.fromkeys(("set_precision", "set_recall", "set_f", "r_precision", "capped_recall", "capped_ap"), "relevant"),
    **dict.fromkeys(("bpref", "infap", "gm_ap", "iprec", "iprec_11pt"), "relevant"),
    **dict.fromkeys(("dcg", "ndcg", "err"), "gain"),
    # Nothing that nobody judged, as well as can be: all judged documents.
    **dict.fromkeys(("judged", "unjudged", "rbp_residual"), "judged"),
}
"""By metric: the documents of an ideal ranking, those of most worth first, in the order of the labels otherwise."""

UNATTAINABLE: Mapping[str, str] = {
    **dict.fromkeys(("num_ret", "num_rel", "num_rel_ret"), _COUNT),
}
"""Why other metrics have no best value."""


def attainable(
    metric: Metric, judgments: Judgments, threshold: int = 1, *, pooled: bool = False, depth: int | None = None
) -> Scores | None:
    """The best score that any ranking can get for these judgments, shape (queries,).

    It is the score of an ideal ranking: all documents that help, best first, and nothing else. For ``unjudged`` and
    ``rbp_residual`` best is least. None for a metric without a best value, or with none that is known. ``threshold``
    is the grade from which a document is relevant where the metric names none; ``pooled`` is as in GradedRankings. No
    ranking has more than ``depth`` hits, where that is given.
    """
    ideal = IDEALS.get(metric.name)
    if ideal is None:
        return None
    lengths = np.diff(judgments.starts)
    places = np.arange(len(judgments.grades)) - np.repeat(judgments.starts[:-1], lengths)
    everything = GradedRankings(
        judgments,
        judgments.starts,
        ranks=(places + 1).astype(np.int32),
        indices=np.arange(len(judgments.grades)),
        lengths=lengths,
        depth=None,
        threshold=threshold,
        pooled=pooled,
    )
    best = _best(everything, worth(metric, everything, ideal))
    return values(metric, best if depth is None else best.cut(depth))


def _best(everything: GradedRankings, preferred: Scores) -> GradedRankings:
    """Of all judged documents those worth more than nothing, best first."""
    order = np.lexsort((-preferred, everything.rows))
    order = order[preferred[order] > 0]
    counts = np.bincount(everything.rows[order], minlength=len(everything))
    starts = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    ranks = (np.arange(len(order)) - np.repeat(starts[:-1], counts) + 1).astype(np.int32)
    return GradedRankings(
        everything.judgments,
        starts,
        ranks,
        indices=order,
        lengths=counts.astype(np.int64),
        depth=None,
        threshold=everything.threshold,
        pooled=everything.pooled,
    )
