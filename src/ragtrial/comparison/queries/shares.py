"""What each document adds to the value of a ranking, and so to the difference of two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from ragtrial.comparison.unjudged.joint_hits import threshold_of
from ragtrial.evaluation.bounds.base import gains
from ragtrial.evaluation.metrics import Metric, parse_metric
from ragtrial.evaluation.metrics.graded import discount
from ragtrial.records import Unit, highest_grades
from ragtrial.report.model import Report
from ragtrial.report.schema import QueryPart
from ragtrial.scoring.query_details import QueryRanking

_ADDED_UP = ("dcg", "ndcg", "rbp", "precision", "set_precision", "recall", "set_recall", "capped_recall", "f1")
_CLOSE = 1e-9


@dataclass(frozen=True)
class Worth:
    """What the judged documents of a query bring to a metric that is a sum over documents."""

    metric: Metric
    documents: Mapping[str, float]
    """Of each judged document, before its rank is looked at."""

    whole: float
    """What the sum is divided by."""

    def at(self, doc: str, rank: int, length: int) -> float:
        """What a document adds at a rank, counted from 1, of a ranking of ``length`` hits."""
        worth = self.documents.get(doc)
        return worth * _weight_of(self.metric, rank, length) / self.whole if worth else 0.0


def why_no_shares(metric: str, unit: Unit) -> str | None:
    """Why a metric's value is not split among documents, a sentence; None where it is."""
    parsed = parse_metric(metric)
    if unit == "span":
        return "passages count, which may be found in several chunks together."
    if dict(parsed.parameters).get("judged_only"):
        return f"{metric} drops hits that nobody judged, and others move up."
    if parsed.name in ("rr", "hit_rate"):
        return f"{metric} looks at the first relevant hit alone."
    if parsed.name not in _ADDED_UP:
        return f"{metric} is no sum over documents."
    return None


def worth_of(metric: str, query: QueryPart, report: Report) -> Worth:
    """What the judged documents of a query bring to ``metric``; for one that ``why_no_shares`` says nothing of."""
    parsed = parse_metric(metric)
    grades = highest_grades((one.doc, one.relevance) for one in query.relevant_docs)
    return Worth(parsed, *_worth(parsed, grades, threshold_of(report, metric)))


def shares_of(
    metric: str, query: QueryPart, rankings: Sequence[QueryRanking], report: Report
) -> dict[str, float] | str:
    """What each document adds to the difference of two rankings: they sum to it. Or why that cannot be said.

    Documents that add nothing are not in it.
    """
    why = why_no_shares(metric, report.unit)
    values = [ranking.evaluations.get(metric) for ranking in rankings]
    if why is None and None in values:
        why = f"{metric} is not defined for this query."
    if why is not None:
        return why
    worth = worth_of(metric, query, report)
    shares: dict[str, float] = {}
    for ranking, sign in zip(rankings, (-1.0, 1.0), strict=True):
        for hit in ranking.hits:
            added = worth.at(hit.doc, hit.rank, len(ranking.hits))
            if added:
                shares[hit.doc] = shares.get(hit.doc, 0.0) + sign * added
    difference = cast("float", values[1]) - cast("float", values[0])
    if abs(sum(shares.values()) - difference) > _CLOSE:
        return "the ranking and the labels that the report keeps do not give its scores: it was changed."
    return shares


def _worth(metric: Metric, grades: Mapping[str, int], threshold: int) -> tuple[dict[str, float], float]:
    """What each judged document brings, before its rank is looked at, and what the sum is divided by."""
    docs, known = list(grades), np.array(list(grades.values()), dtype=np.int32)
    k = metric.k or 0
    if metric.name in ("dcg", "ndcg"):
        gained = gains(metric, known)
        best = np.sort(gained)[::-1][: metric.k]
        ideal = float(best @ discount(np.arange(1, len(best) + 1)))
        return dict(zip(docs, gained.tolist(), strict=True)), 1.0 if metric.name == "dcg" else ideal or 1.0
    relevant = known >= int(dict(metric.parameters).get("rel", threshold))
    count = int(relevant.sum())
    whole = {"recall": count, "set_recall": count, "capped_recall": min(count, k), "f1": (k + count) / 2}
    return dict(zip(docs, relevant.astype(float).tolist(), strict=True)), float(whole.get(metric.name, 1) or 1)


def _weight_of(metric: Metric, rank: int, length: int) -> float:
    """What a document at this rank weighs in a ranking of this length."""
    if metric.k is not None and rank > metric.k:
        return 0.0
    match metric.name:
        case "dcg" | "ndcg":
            return float(discount(np.array([rank]))[0])
        case "rbp":
            p = float(dict(metric.parameters)["p"])
            return float((1 - p) * p ** (rank - 1))
        case "precision":
            return 1 / cast("int", metric.k)
        case "set_precision":
            return 1 / length
    return 1.0
