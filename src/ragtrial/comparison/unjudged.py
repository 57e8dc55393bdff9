"""The difference of two settings in two scenarios for their unjudged hits.

In one scenario, every unjudged hit that the setting ranks higher than the baseline is relevant, with the highest grade
of the labels, and all other unjudged hits are not relevant. In the other scenario, the hits that the baseline ranks
higher are. Both are scored by the ordinary metrics. They are scenarios and no bounds: other grades may lead to a larger
difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

import numpy as np

from ragtrial.comparison.comparison_input import ComparisonInput
from ragtrial.comparison.comparison_parts import ComparisonPart, Verdict
from ragtrial.comparison.judged_rankings import Found, JudgedRankings
from ragtrial.comparison.number_text import signed
from ragtrial.errors import DamagedReportError, ReportError
from ragtrial.evaluation.metrics import parse_metric
from ragtrial.report.schema import Part

MOST_QUERIES = 10_000
"""The number of queries, over all comparisons, for which unjudged hits are weighed by default; 10,000 take some
seconds."""


class UnjudgedPart(Part):
    """The difference of two settings in two scenarios of labels for their unjudged hits, which are no bounds.

    Only hits at or above the metric's cutoff in either ranking are graded. The queries of the mean stay as they are.
    """

    metric: str
    baseline: str
    setting: str
    difference: float | None
    """As the labels have it; null over no queries."""

    low: float | None
    """The difference if all went in favour of the baseline; null where it is not known."""

    high: float | None
    """The difference if all went in favour of the setting."""

    n: int
    unjudged: int | None
    """Unjudged documents or chunks of these queries, at or above the metric's cutoff in either ranking; null if
    unknown."""

    queries_with_unjudged: int | None
    highest_grade: int
    depends_on_unjudged: bool | None
    """True if one of the scenarios contradicts the verdict; null if the verdict claims nothing, or the scenarios are
    unknown."""

    why_not_known: str | None
    """Why the two are not known, in a sentence; null where they are."""

    sentence: str
    """All that in words."""


def unjudged_parts(inputs: ComparisonInput, comparisons: Sequence[ComparisonPart], margin: float) -> list[UnjudgedPart]:
    """The scenarios of each of ``comparisons``, which are comparisons of settings of ``inputs``.

    Missing rankings, and rankings that do not give the report's scores, are no error: the part states them. Raises
    DamagedReportError for rankings whose bytes have changed.
    """
    rankings = JudgedRankings(inputs)
    return [_part(inputs, rankings, part, margin) for part in comparisons]


def depend_on_unjudged(inputs: ComparisonInput, claims: Sequence[ComparisonPart], margin: float) -> Sequence[bool]:
    """For each of ``claims``, whether labels of unjudged hits could change it; False if that is unknown.

    Up to MOST_QUERIES queries are weighed. Claims beyond them depend on unjudged hits if there are any.
    """
    weighed = claims[: max(1, MOST_QUERIES // max(1, len(inputs.queries)))]
    known = [part.depends_on_unjudged is True for part in unjudged_parts(inputs, weighed, margin)]
    return known + [min(one.judged or 0.0, one.judged_baseline or 0.0) < 1 for one in claims[len(weighed) :]]


def depends_on_unjudged(verdict: Verdict | None, low: float, high: float, margin: float) -> bool | None:
    """True if a gain as low as ``low``, or as high as ``high``, would contradict the verdict.

    The sign or the margin decides, not chance. None for a verdict that claims nothing.
    """
    if verdict == "better":
        return low <= 0
    if verdict == "worse":
        return high >= 0
    if verdict == "worse within the margin":
        return high >= 0 or low <= -margin
    return low <= -margin if verdict == "no worse" else None


def _part(inputs: ComparisonInput, rankings: JudgedRankings, part: ComparisonPart, margin: float) -> UnjudgedPart:
    made = UnjudgedPart(
        metric=part.metric, baseline=part.baseline, setting=part.setting, difference=part.difference, n=part.n,
        low=None, high=None, unjudged=None, queries_with_unjudged=None, highest_grade=rankings.highest_grade,
        depends_on_unjudged=None, why_not_known=None, sentence="every hit that counts is judged",
    )  # fmt: skip
    try:
        found = _extremes(inputs, rankings, part)
    except DamagedReportError:
        raise
    except ReportError as error:
        sentence = f"what unjudged hits could change is not known: {error}"
        return made.model_copy(update={"why_not_known": str(error), "sentence": sentence})
    sign = inputs.sign(part.metric)
    ends = [sign * end for end in (found["low"], found["high"], part.difference or 0.0)]
    depends = depends_on_unjudged(part.verdict, min(ends), max(ends), margin)
    if found["unjudged"]:
        verdict = {None: "", True: ", so this verdict may change", False: ", and the verdict would hold"}
        low, high = (signed(found[end], part.n) for end in ("low", "high"))
        found["sentence"] = (
            f"{found['unjudged']:,} hits have no label; if all went in favour of one side, the difference would be "
            f"{low} or {high} (two scenarios, not limits){verdict[depends]}"
        )
    return made.model_copy(update={**found, "depends_on_unjudged": depends})


def _extremes(inputs: ComparisonInput, rankings: JudgedRankings, part: ComparisonPart) -> dict[str, Any]:
    """Both differences and the hits they are about. Raises ReportError where they are not known."""
    metric, places = parse_metric(part.metric), [inputs.place(name) for name in (part.baseline, part.setting)]
    counted = np.flatnonzero(~np.isnan(inputs.scores(part.metric).values[places]).any(axis=0))
    if not len(counted):
        raise ReportError("no query counts for both.")
    for place in places:
        rankings.scores_now(place, metric)
    baseline, setting = (rankings.unjudged(place, metric.k) for place in places)
    ends = []
    for favoured, others in ((baseline, setting), (setting, baseline)):
        cases = [(row, _favouring(favoured[row], others[row], rankings.highest_grade)) for row in counted.tolist()]
        before, after = (rankings.scores(place, metric, cases) for place in places)
        ends.append(float((after - before).mean()))
    ends = ends if inputs.sign(part.metric) > 0 else ends[::-1]
    hits = [len({*baseline[row], *setting[row]}) for row in counted.tolist()]
    return {"low": ends[0], "high": ends[1], "unjudged": sum(hits), "queries_with_unjudged": sum(map(bool, hits))}


def _favouring(own: Mapping[Found, int], others: Mapping[Found, int], highest: int) -> dict[Found, int]:
    """The highest grade for the hits that one ranking has higher up than the other, or alone; 0 for all others."""
    return {one: highest if own.get(one, inf) < others.get(one, inf) else 0 for one in {**own, **others}}
