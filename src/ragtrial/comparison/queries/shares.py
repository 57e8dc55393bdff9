"""What each document adds to the value of a ranking, and so to the difference of two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ragtrial.evaluation.metrics import Metric, parse_metric
from ragtrial.evaluation.metrics.structure import FirstHit, HitCount, WeightedSum
from ragtrial.records import Unit, highest_grades
from ragtrial.report.model import Report
from ragtrial.report.schema import QueryPart
from ragtrial.scoring.query_details import QueryRanking


@dataclass(frozen=True)
class GainShare:
    """What the judged documents of a query bring to a metric that is a sum over documents.

    ``gains`` has what each judged document brings before its rank is looked at; ``relevant`` is R, and ``ideal`` what
    a normalised sum is divided by.
    """

    metric: Metric
    gains: Mapping[str, float]
    relevant: int
    ideal: float

    def at(self, doc: str, rank: int, length: int) -> float:
        """What a document adds at a rank, counted from 1, of a ranking of ``length`` hits."""
        gain, structure = self.gains.get(doc), self.metric.definition.structure
        if not gain or (self.metric.k is not None and rank > self.metric.k):
            return 0.0
        if isinstance(structure, WeightedSum):
            return gain * float(structure.weight(self.metric, np.array([rank]))[0]) / self.ideal
        if isinstance(structure, HitCount):
            return float(structure.value(self.metric, *np.array([[gain], [self.relevant], [length]]))[0])
        raise TypeError(f"{self.metric} is no sum over documents")


def why_no_shares(metric: str, unit: Unit) -> str | None:
    """Why a metric's value is not split among documents, a sentence; None where it is."""
    parsed = parse_metric(metric)
    if unit == "span":
        return "passages count, which may be found in several chunks together."
    if dict(parsed.parameters).get("judged_only"):
        return f"{metric} drops hits that nobody judged, and others move up."
    structure = parsed.definition.structure
    if isinstance(structure, FirstHit):
        return f"{metric} looks at the first relevant hit alone."
    return None if isinstance(structure, HitCount | WeightedSum) else f"{metric} is no sum over documents."


def gain_share(metric: str, query: QueryPart, report: Report) -> GainShare:
    """What the judged documents of a query bring to ``metric``; for one that ``why_no_shares`` says nothing of."""
    parsed = parse_metric(metric)
    judged = highest_grades((one.doc, one.relevance) for one in query.relevant_docs)
    grades = np.array(list(judged.values()), dtype=np.int32)
    relevant, structure = grades >= parsed.threshold(report.relevance_threshold), parsed.definition.structure
    gains = parsed.gain(grades) if parsed.definition.family == "graded" else relevant.astype(np.float64)
    ideal = 1.0
    if isinstance(structure, WeightedSum) and structure.normalised:
        best = np.sort(gains)[::-1][: parsed.k]
        ideal = float(best @ structure.weight(parsed, np.arange(1, len(best) + 1))) or 1.0
    return GainShare(parsed, dict(zip(judged, gains.tolist(), strict=True)), int(relevant.sum()), ideal)


def shares_of(
    metric: str, query: QueryPart, rankings: Sequence[QueryRanking], report: Report
) -> dict[str, float] | str:
    """What each document adds to the difference of two rankings: they sum to it. Or why that cannot be said.

    Documents that add nothing are not in it.
    """
    why = why_no_shares(metric, report.unit)
    if why is None and any(ranking.evaluations.get(metric) is None for ranking in rankings):
        why = f"{metric} is not defined for this query."
    if why is not None:
        return why
    share = gain_share(metric, query, report)
    shares: dict[str, float] = {}
    for ranking, sign in zip(rankings, (-1.0, 1.0), strict=True):
        for hit in ranking.hits:
            if added := share.at(hit.doc, hit.rank, len(ranking.hits)):
                shares[hit.doc] = shares.get(hit.doc, 0.0) + sign * added
    return shares
