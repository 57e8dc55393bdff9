"""What a comparison could come to if somebody judged what its settings found and nobody has judged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ragtrial.comparison.comparison_parts import ComparisonPart, Verdict
from ragtrial.comparison.contest import ComparisonSet
from ragtrial.comparison.figures import signed
from ragtrial.comparison.unjudged.joint_bounds import (
    DifferenceBounds,
    as_judged,
    joint_bounds,
    joint_bounds_of_chunks,
    why_unbounded,
    why_unbounded_of_chunks,
)
from ragtrial.comparison.unjudged.joint_hits import JointHits, JudgedLists, is_pooled, threshold_of
from ragtrial.errors import ReportError
from ragtrial.evaluation.grading import Scores
from ragtrial.evaluation.metrics import Metric, parse_metric
from ragtrial.report.schema import Part

_CLOSE = 1e-9
"""How far the differences of two ways to the same scores may be apart."""


class UnjudgedPart(Part):
    """The range of a difference over all grades that the unjudged hits of both settings could get.

    Each document has one grade, in both rankings: none, or any from 0 to the highest of the labels. All hits that the
    reports keep count, those below the metric's cutoff, too, since more relevant documents raise R and the ideal.
    Documents that neither setting found stay as they are, and so do the queries of the mean.
    """

    metric: str
    baseline: str
    setting: str
    difference: float | None
    """As the labels have it; null over no queries."""

    low: float | None
    """The least that the mean difference could be; null where it is not known."""

    high: float | None
    is_exact: bool
    """Whether some grades reach both ends; if not, no grades lead beyond them."""

    inexact_queries: int
    """For so many queries the ends may be further apart than any grades bring them."""

    n: int
    unjudged: int
    """Documents (or chunks) of these queries that nobody judged, at or above the metric's cutoff in either ranking."""

    queries_with_unjudged: int
    highest_grade: int
    hangs_on_unjudged: bool | None
    """Whether the verdict claims what other grades could undo; null where it claims nothing or that is not known."""

    why_not_known: str | None
    """Why there are no ends, in a sentence; null where there are."""

    sentence: str
    """All that in words."""


def unjudged_parts(contest: ComparisonSet, comparisons: Sequence[ComparisonPart], margin: float) -> list[UnjudgedPart]:
    """For each of the ``comparisons``, which are of settings of ``contest``, what could become of it.

    Rankings that cannot be read, or do not give the report's scores, make no error: the part says so.
    """
    lists = JudgedLists(contest)
    scores = {metric: contest.scores(metric).values for metric in {part.metric for part in comparisons}}
    return [_part(contest, lists, scores[part.metric], part, margin) for part in comparisons]


def depends_on_unjudged(verdict: Verdict | None, low: float, high: float, margin: float) -> bool | None:
    """Whether a difference between ``low`` and ``high`` could be such that the verdict was wrong of it.

    None for a verdict that claims nothing.
    """
    if verdict == "better":
        return low <= 0
    if verdict == "worse":
        return high >= 0
    if verdict == "worse within the margin":
        return high >= 0 or low <= -margin
    return low <= -margin if verdict == "no worse" else None


def _part(
    contest: ComparisonSet, lists: JudgedLists, scores: Scores, part: ComparisonPart, margin: float
) -> UnjudgedPart:
    places = contest.place(part.baseline), contest.place(part.setting)
    metric, first, second = parse_metric(part.metric), scores[places[0]], scores[places[1]]
    counted = ~np.isnan(first) & ~np.isnan(second)
    report = contest.contenders[places[0]].report
    try:
        hits = lists.joint(*places, threshold=threshold_of(report, part.metric), pooled=is_pooled(report))
    except ReportError as error:
        return _unknown(part, f"the rankings that the report keeps cannot be read: {error}")
    bounds, why = _bounds(lists, metric, hits, first, second)
    k = metric.k
    touched = hits.is_open & counted[hits.rows]
    touched &= (np.minimum(hits.first, hits.second) <= k) if k is not None else True
    found = {
        "n": int(counted.sum()),
        "unjudged": int(touched.sum()),
        "queries_with_unjudged": len(np.unique(hits.rows[touched])),
        "highest_grade": hits.highest_grade,
    }
    if bounds is None or not counted.any():
        return _unknown(part, why or "no query counts for both.", **found)
    now = (second - first)[counted]  # sums that are added in another order differ in their last bits
    low = float(np.minimum(bounds.low[counted], now).mean())
    high = float(np.maximum(bounds.high[counted], now).mean())
    depends = depends_on_unjudged(part.verdict, low, high, margin)
    inexact = int((~bounds.is_exact[counted] & (bounds.low[counted] < bounds.high[counted])).sum())
    return _described(
        part,
        _sentence(found["unjudged"], low, high, hangs=depends, is_exact=not inexact),
        **found,
        low=low,
        high=high,
        is_exact=not inexact,
        inexact_queries=inexact,
        hangs_on_unjudged=depends,
    )


def _bounds(
    lists: JudgedLists, metric: Metric, hits: JointHits, first: Scores, second: Scores
) -> tuple[DifferenceBounds | None, str | None]:
    """The bounds, or why there are none."""
    if lists.unit == "span":
        why = why_unbounded_of_chunks(metric)
        return (None, why) if why else (joint_bounds_of_chunks(metric, hits, first, second), None)
    if (why := why_unbounded(metric)) is not None:
        return None, why
    apart = np.abs(as_judged(metric, hits) - (second - first)) > _CLOSE
    if apart.any():  # NaN is not: that query does not count
        return None, (
            f"the rankings and labels that the report keeps do not give its scores ({int(apart.sum()):,} queries "
            "differ); it was changed, or scored in another way."
        )
    return joint_bounds(metric, hits), None


def _sentence(unjudged: int, low: float, high: float, *, hangs: bool | None, is_exact: bool) -> str:
    if not unjudged and low == high:
        return "every hit that counts is judged"
    least = "" if is_exact else "at least "
    most = "" if is_exact else "at most "
    said = (
        f"{unjudged:,} hits nobody judged: with other grades the difference could be from {least}{signed(low)} to "
        f"{most}{signed(high)}"
    )
    if hangs is None:
        return said
    return f"{said}; the verdict hangs on them" if hangs else f"{said}; the verdict holds whatever they are"


def _unknown(part: ComparisonPart, why: str, **found: int) -> UnjudgedPart:
    return _described(part, f"what unjudged hits could change is not known: {why}", why_not_known=why, **found)


def _described(part: ComparisonPart, sentence: str, **known: Any) -> UnjudgedPart:
    """What is known of a comparison, and nothing else."""
    compared = {name: getattr(part, name) for name in ("metric", "baseline", "setting", "difference", "n")}
    counts = dict.fromkeys(("inexact_queries", "unjudged", "queries_with_unjudged", "highest_grade"), 0)
    unknown = dict.fromkeys(("low", "high", "hangs_on_unjudged", "why_not_known"))
    return UnjudgedPart.model_validate(
        {**compared, **counts, **unknown, "is_exact": False, "sentence": sentence, **known}
    )
