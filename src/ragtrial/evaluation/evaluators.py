"""Services around the formulas and the functions of the user: which metrics, over which queries.

They own every mean and every count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import TYPE_CHECKING, Literal

import numpy as np

from ragtrial.cache.fingerprints import fingerprint
from ragtrial.errors import RunError
from ragtrial.evaluation.grading import GradedRankings, Scores
from ragtrial.evaluation.metrics import Metric
from ragtrial.rankings import Bools
from ragtrial.records import FoundText, Mean, Query

if TYPE_CHECKING:
    from ragtrial.components.user_functions import FunctionReference

NoRelevant = Literal["skip", "zero"]


HitsOfQuery = Callable[[int], Sequence[FoundText]]
"""The hits of the query at an index, best first."""


@dataclass(frozen=True, eq=False)
class QueryHits:
    """The arguments of functions: the queries, and the ``hits`` of each, without grades.

    ``functions`` are those that may be called, by the name of the metric.
    """

    functions: Mapping[str, FunctionReference]
    queries: Sequence[Query]
    hits: HitsOfQuery = field(repr=False)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """One metric's values, shape (queries,), and for which queries they count."""

    metric: Metric
    values: Scores
    counted: Bools

    @property
    def mean(self) -> Mean:
        """The mean over the queries that count, in double precision; None over no queries."""
        n = int(np.count_nonzero(self.counted))
        return Mean(float(self.values[self.counted].mean()) if n else None, n)

    def as_list(self) -> list[float | None]:
        """The value of each query, None where it does not count."""
        return [value if counts else None for value, counts in zip(self.values.tolist(), self.counted, strict=True)]

    def of(self, index: int) -> float | None:
        """The value of one query, None where it does not count."""
        return float(self.values[index]) if self.counted[index] else None


def evaluate(
    metrics: Iterable[Metric],
    graded: GradedRankings,
    no_relevant: NoRelevant = "skip",
    hits: QueryHits | None = None,
    skipped: Bools | None = None,
) -> dict[str, Evaluation]:
    """The evaluations of metrics of any family, each once, by the metric's name.

    ``no_relevant`` handles queries for which a metric is not defined: ``skip`` leaves them out of its mean, ``zero``
    counts them with the value of the formula (0 for most metrics). Metrics that compare orders only count if the labels
    are an order, metrics of chunks if all chunks are known. A query that could not be answered, marked in ``skipped``
    (queries,), counts in no mean: 0 would be a lie. Functions of the user get ``hits``. Raises CutoffError if a
    k exceeds the depth of ``graded``, MetricError for a metric without a cutoff that needs one and for a function
    without hits, and RunError as ``function_scores`` does.
    """
    evaluations = {}
    for metric in metrics:
        prepared, definition = metric.prepared(graded), metric.definition
        is_of_few = definition.needs in ("order", "forbidden") or not definition.is_known(prepared)
        only_eligible = no_relevant == "skip" or is_of_few
        counted = metric.eligible(prepared) if only_eligible else np.ones(len(prepared), dtype=np.bool_)
        if metric.is_function and hits is not None:
            values = function_scores(metric, hits, prepared, counted)
        else:
            values = metric.compute(prepared)
        evaluations[str(metric)] = Evaluation(metric, values, counted if skipped is None else counted & ~skipped)
    return evaluations


def scores_of(metric: Metric, graded: GradedRankings) -> Scores:
    """The scores of a metric of any family, one per query. Raises CutoffError, and MetricError as the metric does."""
    return metric.compute(metric.prepared(graded))


def code_of(function: FunctionReference) -> str:
    """A hash of the files that define a metric. Raises ModelNotFoundError if there is no such function."""
    from ragtrial.components.user_functions import version_parts

    return fingerprint(version_parts(function, None))[:12]


def function_scores(metric: Metric, given: QueryHits, graded: GradedRankings, counted: Bools) -> Scores:
    """The values of a function, 0 for queries that are not ``counted``, shape (queries,).

    It is called as ``function(query, hits, k)`` for each counted query, with its first ``k`` hits and their grades.
    Raises RunError, with the query, for a function that raises, or that returns anything but a number in its range;
    ModelNotFoundError if it does not exist.
    """
    from ragtrial.components.user_functions import import_object  # `score` has no functions, and starts faster

    name, k, function = metric.name, metric.k, import_object(given.functions[metric.name])
    values, low, high = np.zeros(len(counted)), metric.definition.lowest, metric.definition.highest or 0.0
    for row in np.flatnonzero(counted).tolist():
        query, grades = given.queries[row], graded.grades_by_rank(row)
        hits = [replace(hit, grade=grades.get(hit.rank)) for hit in given.hits(row)[:k]]
        try:
            value = function(query, hits, k)
        except Exception as error:
            message = f"{name} raised {type(error).__name__} for query {query.id!r}: {error}"
            raise RunError(" ".join(message.split())) from error
        values[row] = float(value) if isinstance(value, Real) else np.nan
        if not low <= values[row] <= high:
            returned = str(value) if isinstance(value, Real) else repr(value)
            raise RunError(
                f"{name} returned {returned[:60]} for query {query.id!r}; it must be a number from {low:g} to "
                f"{high:g}. Another range is written like {name}(low=-1,high=5)@{k}."
            )
    return values
