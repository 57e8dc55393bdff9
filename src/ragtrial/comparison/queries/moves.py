"""Query by query: which queries a setting wins and loses, and which tell nothing about any setting."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ragtrial.comparison.contest import ComparisonSet, Pair
from ragtrial.comparison.judged_rankings import JudgedRankings, threshold_of
from ragtrial.comparison.statistics.samples import unrounded
from ragtrial.evaluation.metrics import parse_metric
from ragtrial.rankings import Bools
from ragtrial.report.model import HITS_SHOWN
from ragtrial.report.schema import Part

Outcome = Literal["won", "tied", "lost"]


class QueryDifference(Part):
    """One query for two settings."""

    id: str
    text: str
    baseline: float
    """The baseline's value."""

    setting: float
    difference: float
    """The setting's value less the baseline's."""

    outcome: Outcome
    """For the setting."""


class QueryDifferences(Part):
    """Every query that counts for both of two settings."""

    metric: str
    baseline: str
    setting: str
    won: int
    tied: int
    lost: int
    not_counted: int
    """Queries that do not count for one of the two, or for neither."""

    queries: list[QueryDifference]
    """The largest loss first, the largest gain last; equal ones in the order of the labels."""


class SharedQuery(Part):
    """A query of which all settings make the same."""

    id: str
    text: str
    value: float
    """The lowest of the settings' values, which is the highest, too, where none separates them."""


class SharedQueries(Part):
    """The queries that do not tell the settings apart: all fail them, or all do equally well."""

    metric: str
    settings: int
    queries: int
    """How many count for at least one setting."""

    failed: list[SharedQuery]
    """No setting has a value above 0, or none has a relevant document among the first hits: documents, labels or
    questions are at fault, or all settings alike."""

    failed_count: int
    equal: list[SharedQuery]
    """All settings have one value, and it is not that of failure; none if there is only one setting."""

    equal_count: int


def query_differences(contest: ComparisonSet, pair: Pair, metric: str | None = None) -> QueryDifferences:
    """Every query of two contenders by ``metric``, or else the primary one."""
    metric = contest.primary if metric is None else metric
    scores = contest.scores(metric)
    baseline, setting = scores.values[pair.baseline], scores.values[pair.setting]
    differences = scores.differences([pair])[0]
    counted = np.flatnonzero(~np.isnan(differences))
    order = counted[np.argsort(differences[counted], kind="stable")]
    queries = [
        QueryDifference(
            id=contest.queries[place].id,
            text=contest.queries[place].text,
            baseline=float(baseline[place]),
            setting=float(setting[place]),
            difference=float(differences[place]),
            outcome=_outcome(float(differences[place])),
        )
        for place in order.tolist()
    ]
    outcomes = [query.outcome for query in queries]
    return QueryDifferences(
        metric=metric,
        baseline=contest.names[pair.baseline],
        setting=contest.names[pair.setting],
        won=outcomes.count("won"),
        tied=outcomes.count("tied"),
        lost=outcomes.count("lost"),
        not_counted=len(contest.queries) - len(queries),
        queries=queries,
    )


def shared_queries(contest: ComparisonSet, metric: str | None = None) -> SharedQueries:
    """The queries that all settings fail, and those that none separates, by ``metric`` or else the primary one.

    A setting for which a query does not count has no say in it. Raises ReportError if rankings are needed, because the
    metric looks deeper than report.json does, and cannot be read.
    """
    metric = contest.primary if metric is None else metric
    values = contest.scores(metric).values
    says = ~np.isnan(values)
    counted = np.flatnonzero(says.any(axis=0))
    lowest = np.where(says, values, np.inf).min(axis=0, initial=np.inf)
    highest = np.where(says, values, -np.inf).max(axis=0, initial=-np.inf)
    fails = (highest <= 0) | ~(_finds_relevant(contest, metric) & says).any(axis=0)
    apart = unrounded(highest - lowest, np.abs(highest) + np.abs(lowest))
    is_equal = ~fails & (says.sum(axis=0) > 1) & (apart == 0)
    failed, equal = (
        [
            SharedQuery(id=contest.queries[place].id, text=contest.queries[place].text, value=float(lowest[place]))
            for place in counted[chosen[counted]].tolist()
        ]
        for chosen in (fails, is_equal)
    )
    return SharedQueries(
        metric=metric,
        settings=len(contest.contenders),
        queries=len(counted),
        failed=failed,
        failed_count=len(failed),
        equal=equal,
        equal_count=len(equal),
    )


def _finds_relevant(contest: ComparisonSet, metric: str) -> Bools:
    """Whether each setting has a relevant document at or above the metric's cutoff, (contenders, queries)."""
    parsed = parse_metric(metric)
    found = np.zeros((len(contest.contenders), len(contest.queries)), dtype=np.bool_)
    rankings = JudgedRankings(contest)
    for row, contender in enumerate(contest.contenders):
        least = int(dict(parsed.parameters).get("rel", threshold_of(contender.report, metric)))
        has_hits = any(one.hits for one in contender.setting.queries)  # not where it was read for a comparison
        if parsed.k is not None and parsed.k <= HITS_SHOWN and has_hits:
            known = {
                one.id: any(hit.rank <= parsed.k and hit.grade is not None and hit.grade >= least for hit in one.hits)
                for one in contender.setting.queries
            }
            found[row] = [known.get(query.id, False) for query in contest.queries]
        else:
            found[row] = rankings.finds(row, parsed.k, least)
    return found


def _outcome(difference: float) -> Outcome:
    if difference == 0:
        return "tied"
    return "won" if difference > 0 else "lost"
