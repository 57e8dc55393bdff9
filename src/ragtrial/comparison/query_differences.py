"""The differences of two settings query by query, and the queries that separate no settings."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ragtrial.comparison.comparison_input import ComparisonInput, Pair
from ragtrial.comparison.statistics.samples import unrounded
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
    """Largest loss first, largest gain last; equal differences in the order of the labels."""


class SharedQuery(Part):
    """A query of which all settings make the same."""

    id: str
    text: str
    value: float
    """The lowest of the settings' values, which is the highest, too, where none separates them."""


class SharedQueries(Part):
    """The queries that do not separate the settings: all fail, or all do equally well."""

    metric: str
    settings: int
    queries: int
    """How many count for at least one setting."""

    failed: list[SharedQuery]
    """No setting has a value above 0: documents, labels or questions are at fault, or all settings alike. None where
    lower values are better."""

    failed_count: int
    equal: list[SharedQuery]
    """All settings have the same value, and do not fail; empty if there is only one setting."""

    equal_count: int


def query_differences(inputs: ComparisonInput, pair: Pair) -> QueryDifferences:
    """Every query of two settings by the primary metric."""
    scores = inputs.scores(inputs.primary)
    baseline, setting = scores.values[pair.baseline], scores.values[pair.setting]
    differences = scores.differences([pair])[0]
    counted = np.flatnonzero(~np.isnan(differences))
    sign = inputs.sign(inputs.primary)
    signs: dict[float, Outcome] = {1.0: "won", 0.0: "tied", -1.0: "lost"}
    queries = [
        QueryDifference(
            id=inputs.queries[place].id,
            text=inputs.queries[place].text,
            baseline=float(baseline[place]),
            setting=float(setting[place]),
            difference=float(differences[place]),
            outcome=signs[sign * float(np.sign(differences[place]))],
        )
        for place in counted[np.argsort(sign * differences[counted], kind="stable")].tolist()
    ]
    outcomes = [query.outcome for query in queries]
    return QueryDifferences(
        metric=inputs.primary,
        baseline=inputs.names[pair.baseline],
        setting=inputs.names[pair.setting],
        won=outcomes.count("won"),
        tied=outcomes.count("tied"),
        lost=outcomes.count("lost"),
        not_counted=len(inputs.queries) - len(queries),
        queries=queries,
    )


def shared_queries(inputs: ComparisonInput) -> SharedQueries:
    """The queries that all settings fail, and the queries that separate no settings, by the primary metric.

    A setting for which a query does not count is ignored.
    """
    values = inputs.scores(inputs.primary).values
    says = ~np.isnan(values)
    counted = says.any(axis=0)
    lowest = np.where(says, values, np.inf).min(axis=0, initial=np.inf)
    highest = np.where(says, values, -np.inf).max(axis=0, initial=-np.inf)
    fails = counted & (highest <= 0) & (inputs.sign(inputs.primary) > 0)
    apart = unrounded(highest - lowest, np.abs(highest) + np.abs(lowest))
    failed, equal = (
        [
            SharedQuery(id=inputs.queries[place].id, text=inputs.queries[place].text, value=float(lowest[place]))
            for place in np.flatnonzero(chosen).tolist()
        ]
        for chosen in (fails, counted & ~fails & (says.sum(axis=0) > 1) & (apart == 0))
    )
    return SharedQueries(
        metric=inputs.primary,
        settings=len(inputs.settings),
        queries=int(counted.sum()),
        failed=failed,
        failed_count=len(failed),
        equal=equal,
        equal_count=len(equal),
    )
