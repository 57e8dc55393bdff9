"""The evidence about a difference: its verdict in words, and the reasons to be careful with it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ragtrial.comparison.comparison_parts import Caution, ComparisonPart, Verdict
from ragtrial.comparison.number_text import rounded
from ragtrial.comparison.statistics.estimates import detectable_difference, finite, level_of, mean_limits, queries_for
from ragtrial.comparison.statistics.samples import LEAST_DIFFERENCES, Inference, queries_for_skewness
from ragtrial.errors import counted, listed
from ragtrial.evaluation.clusters import LEAST_CLUSTERS, Places
from ragtrial.records import ReportWarning

MOST_LABELLED = 300
MOST_TIMES = 10
"""A person labels at most MOST_LABELLED more questions, and at most MOST_TIMES times the existing number."""

FEW_DIFFERENCES = 15
"""With as few differing questions, only about half of the resamples have enough differences."""

MANY_PAIRS = 50
FEW_QUERIES = 60
"""The intervals of at least MANY_PAIRS pairs over at most FEW_QUERIES queries are wide, and hold less often."""

_MOST_NAMED = 3

_QUERIES_FOR_SKEWNESS = 100
"""With this many queries half of the observed skewness counts; with fewer, most of it is chance."""


@dataclass(frozen=True)
class Evidence:
    """The evidence about one difference, in the direction of the metric: above 0 the setting is better.

    ``n`` queries count. ``differing`` is the number of queries, or of ``clusters`` if queries belong together, that do
    not score the same. ``low`` and ``high`` are None without an interval. ``claim`` is 1 if the setting is shown to be
    better, -1 if it is shown to be worse, else 0. A difference below ``margin`` does not matter.
    """

    n: int
    differing: int
    low: float | None
    high: float | None
    detectable: float | None
    queries_needed: int | None
    claim: int = 0
    queries_to_settle: int | None = None
    margin: float = 0.02
    skewness: float = 0.0
    clusters: int | None = None
    is_identical: bool | None = None
    """True if all queries score the same. None: if none is ``differing``, which is not so for differences that cancel
    out within each cluster."""

    @property
    def verdict(self) -> Verdict:
        """The first of these that holds: identical, too few differences, better, worse, no worse; else inconclusive."""
        if self.n and (not self.differing if self.is_identical is None else self.is_identical):
            return "identical"
        if self.differing < LEAST_DIFFERENCES:
            return "too few differences"
        return verdict_of_claim(self.claim, self.low, self.margin)

    @property
    def sentence(self) -> str:
        """The verdict for a reader; for an open comparison, the number of questions that settle it."""
        if self.n == 0:
            return "no question counts for both: nothing to compare"
        units = f"{self.n:,} questions" if self.clusters is None else f"{self.clusters:,} clusters of questions"
        sentences: dict[Verdict, str] = {
            "identical": f"identical on {counted(self.n, 'question')}",
            "too few differences": f"only {self.differing} of {units} differ{'s' * (self.differing == 1)}, fewer than "
            f"{LEAST_DIFFERENCES}; no interval is given",
            "worse within the margin": f"worse, but within the margin of {self.margin:g}",
            "no worse": f"no worse than the margin of {self.margin:g}",
            "inconclusive": f"inconclusive{self._advice}",
        }
        return sentences.get(self.verdict, self.verdict)

    @property
    def _advice(self) -> str:
        """The difference that these queries detect, and how many queries detect the margin if that takes more."""
        if self.detectable is None:
            return ""
        clusters = "" if self.clusters is None else f" in {counted(self.clusters, 'cluster')}"
        advice = f"; {self.n:,} questions{clusters} detect a difference of {rounded(self.detectable)} with 80% power"
        if self.queries_needed is None or not could_be_labelled(self.queries_needed - self.n, self.n):
            return advice
        return f"{advice}, {self.queries_needed:,} one of {self.margin:g}"

    @property
    def caution(self) -> Caution | None:
        """The reason to be careful with the interval; None without one, or without an interval."""
        if self.low is None:
            return None
        if (self.n if self.clusters is None else self.clusters) < queries_for_skewness(self.skewness):
            return "skewed"
        return "few differences" if self.differing <= FEW_DIFFERENCES else None


def verdict_of_claim(claim: int, low: float | None, margin: float) -> Verdict:
    """The verdict on a difference that is shown to be above 0 (1), below 0 (-1) or neither (0), at least ``low``."""
    within = low is not None and low > -margin
    if claim > 0:
        return "better"
    if claim < 0:
        return "worse within the margin" if within else "worse"
    return "no worse" if within else "inconclusive"


def evidence_of(inference: Inference, margin: float, sign: int = 1, queries: Places | None = None) -> list[Evidence]:
    """The evidence about each comparison of ``inference``; ``sign`` is -1 if lower values are better.

    ``queries`` is the number of queries of each comparison if these are in clusters, whose number the inference has.
    More queries are then more clusters like these.
    """
    n, deviation, criticals = inference.n, inference.deviation, inference.criticals
    skewness = inference.skewness * np.sign(inference.mean) * n / (n + _QUERIES_FOR_SKEWNESS)
    level = level_of(criticals, n)
    detectable = detectable_difference(deviation, n, criticals, skewness)
    needed = queries_for(margin, deviation, level, skewness)
    settling = queries_for(np.abs(inference.mean), deviation, level, skewness)
    low, high = (inference.low, inference.high) if sign > 0 else (-inference.high, -inference.low)
    counts = n if queries is None else queries
    needed, settling = (np.ceil(clusters * counts / np.maximum(n, 1)) for clusters in (needed, settling))
    return [
        Evidence(
            n=int(counts[row]),
            differing=int(inference.differing[row]),
            low=finite(low[row]),
            high=finite(high[row]),
            detectable=finite(detectable[row]),
            queries_needed=None if math.isnan(needed[row]) else int(needed[row]),
            queries_to_settle=None if math.isnan(settling[row]) else int(settling[row]),
            claim=sign * int(inference.claims[row]),
            margin=margin,
            skewness=float(inference.skewness[row]),
            clusters=None if queries is None else int(n[row]),
        )
        for row in range(len(n))
    ]


def could_be_labelled(more: int, n: int) -> bool:
    """Check that a person could label ``more`` questions in addition to the existing ``n``."""
    return 0 < more <= min(MOST_LABELLED, MOST_TIMES * n)


def too_wide(margin: float, metric: str) -> str:
    """The error text if ``margin`` exceeds the range of ``metric``; empty otherwise, or if the range is unknown."""
    lowest, highest = mean_limits(metric)
    if highest is None or margin < highest - lowest:
        return ""
    near = f" Did you mean {margin / 100:g}?" if highest - lowest == 1 and margin < 100 else ""
    return f"{metric} lies between {lowest:g} and {highest:g}; a margin of {margin:g} says nothing.{near}"


def cautions_of(
    parts: Sequence[ComparisonPart], baseline: str | None, *, are_joined: bool = False
) -> Iterator[ReportWarning]:
    """Warnings about comparisons by the primary metric: skewed claims, and all pairs of many settings.

    ``baseline`` is None if all pairs are compared; ``are_joined`` says that questions with a common document are one
    cluster.
    """
    claims = [part for part in parts if part.ci is not None and not part.ci[0] <= 0 <= part.ci[1]]
    skewed = [part for part in claims if part.caution == "skewed"]
    if skewed:
        skewed.sort(key=lambda part: -abs(part.skewness or 0.0))
        yield ReportWarning.of_verdict(
            "skewed-differences",
            "a few questions make most of the difference, so these verdicts are less certain than stated: "
            f"{listed(map(_skewness, skewed), _MOST_NAMED)}. Look at these questions (--queries), or add others.",
        )
    clusters = max((part.clusters for part in parts if part.clusters is not None), default=LEAST_CLUSTERS)
    if clusters < LEAST_CLUSTERS:
        advice = "Add questions of other clusters."
        if are_joined:
            advice = (
                "evaluators.clusters: document joins questions that share documents, also through other questions. Add "
                "questions about other documents; or leave the key out, and name clusters yourself (`cluster` of a "
                "query in the labels)."
            )
        so_what = f"and an interval takes {LEAST_DIFFERENCES} that differ"
        if clusters >= LEAST_DIFFERENCES:
            so_what = (
                "too few to know how much clusters vary: intervals are wide, and a comparison in which fewer than "
                f"{LEAST_DIFFERENCES} clusters differ has none"
            )
        message = f"the questions are in {counted(clusters, 'cluster')}, {so_what}. {advice}"
        yield ReportWarning.of_verdict("few-clusters", message)
    queries = max((part.units for part in parts), default=0)
    if baseline is None and len(parts) >= MANY_PAIRS and queries <= FEW_QUERIES:
        settings = len({name for part in parts for name in (part.baseline, part.setting)})
        noun = "questions" if parts[0].clusters is None else "clusters of questions"
        yield ReportWarning.of_verdict(
            "many-pairs",
            f"intervals of all {len(parts):,} pairs are wide with {queries} {noun}, and all of them may hold in "
            "fewer than 95% of cases. Compare with a baseline (--baseline NAME): "
            f"{settings - 1} intervals, not {len(parts):,}.",
        )


def _skewness(part: ComparisonPart) -> str:
    skewness = part.skewness or 0.0
    units = "questions" if part.clusters is None else "clusters"
    counts = f"(skewness {skewness:+.1f}: {part.units:,} {units}, {queries_for_skewness(skewness):,} needed)"
    return f"{part.setting} against {part.baseline} {counts}"
