"""Precision as a function of recall."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ragtrial.evaluation.grading import Scores
from ragtrial.evaluation.metrics.base import Alias, Card, Formulas, MetricParameter, metric

_SOURCE = "Manning, Raghavan & Schuetze 2008, Introduction to Information Retrieval, section 8.4; as in trec_eval 10"
_ROUNDED = "the recall is rounded to a number of documents, halves up: round(recall x R)"
_MOVING_LEVELS = "no way to its extremes is known here but to try all labellings, since its recall levels move with R."
_OLDER = "trec_eval up to 9, and with it pytrec_eval and ir_measures, round otherwise: floor(recall x R + 0.9)"


class InterpolatedMetrics(Formulas):
    """Every method gives one float64 in [0, 1] per query, shape (queries,), 0 where nothing is relevant."""

    @metric(
        "order_aware", "relevant", "the highest precision at any rank with round(recall x R) relevant hits or more",
        _SOURCE, cut="none", parameters={"recall": MetricParameter(0.1, 0, 1, closed=True, always=True)},
        aliases=(Alias("iprec", takes="recall"), Alias("iprec_at_recall", takes="recall")),
        prefers="relevant", unbounded=_MOVING_LEVELS,
        card=Card(
            denominator="the rank", edges=(_ROUNDED, "0 where that many were not found"),
            elsewhere={"trec_eval": "iprec_at_recall_{recall}"},
            unlike=(_OLDER,),
        ),
    )  # fmt: skip
    def iprec(self, recall: float = 0.1) -> Scores:
        """Interpolated precision at a recall: the highest that a reader who wants that much can have.

        Rounds as trec_eval 10 does. Source: Manning, Raghavan & Schuetze 2008, section 8.4.
        """
        (point,) = self._interpolated([recall])
        return np.array(point, dtype=np.float64)

    @metric(
        "order_aware", "relevant", "the mean of iprec at recall 0, 0.1, ... 1", _SOURCE, cut="none",
        aliases=("11pt_avg", "11_pt_avg"),
        prefers="relevant", unbounded=_MOVING_LEVELS,
        card=Card(
            denominator="the rank", edges=(_ROUNDED,), elsewhere={"trec_eval": "11pt_avg"}, unlike=(_OLDER,),
        ),
    )  # fmt: skip
    def iprec_11pt(self) -> Scores:
        """Eleven-point average of interpolated precision. Source: Manning, Raghavan & Schuetze 2008, section 8.4."""
        points = self._interpolated([tenths / 10 for tenths in range(11)])
        return np.asarray(sum(points), dtype=np.float64) / 11

    def _interpolated(self, recalls: Sequence[float]) -> npt.NDArray[np.float64]:
        """Interpolated precision at ascending recalls, shape (recalls, queries)."""
        graded = self._graded
        rows, found = graded.rows[graded.relevant], graded.relevant_so_far[graded.relevant]
        reached = np.zeros(len(rows), dtype=np.int64)  # how many of the recalls each relevant hit reaches
        for recall in recalls:
            wanted = recall * graded.relevant_counts
            whole = np.floor(wanted)
            whole += wanted - whole >= 0.5
            reached += found >= whole[rows]
        highest = np.zeros((len(recalls) + 1, len(graded)))
        np.maximum.at(highest.reshape(-1), reached * len(graded) + rows, found / graded.ranks[graded.relevant])
        for point in range(len(recalls) - 1, -1, -1):  # what reaches a recall reaches those below it
            np.maximum(highest[point], highest[point + 1], out=highest[point])
        return highest[1:]
