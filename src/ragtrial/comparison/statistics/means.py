"""The interval of one mean, for scores that lean to one side."""

from __future__ import annotations

import math

import numpy as np

from ragtrial.errors import MetricError
from ragtrial.evaluation.grading import Scores
from ragtrial.evaluation.metrics import parse_metric

_ROUNDING = 1e-12


def mean_interval(values: Scores, level: float, metric: str) -> tuple[float, float] | None:
    """The interval that contains the true mean of what ``values`` of ``metric``, shape (queries,), are a sample of.

    None for fewer than two values, or values that are all equal.
    """
    n = len(values)
    deviation = float(values.std()) if n > 1 else 0.0
    if deviation <= _ROUNDING * float(np.abs(values).max(initial=0.0)):
        return None
    skewness = float(((values - values.mean()) ** 3).mean()) / deviation**3
    return within(interval_of(float(values.mean()), deviation / math.sqrt(n - 1), skewness, n, level), metric)


def interval_of(mean: float, error: float, skewness: float, n: int, level: float) -> tuple[float, float]:
    """The interval of a mean of ``n`` values with this standard error.

    It is Student's, with one end moved outwards by the skewness of the values: a mean of scores most of which are 1 is
    more often far above the true one than far below. The other end stays, since a sample that lacks the few low scores
    has no skewness either. Source: Hall 1983, the one-term inversion of the Edgeworth expansion of the studentised
    mean.
    """
    from scipy.special import stdtrit

    critical = float(stdtrit(n - 1, 1 - level / 2))
    moved = skewness * (2 * critical**2 + 1) / (6 * math.sqrt(n))
    return mean + error * (min(moved, 0.0) - critical), mean + error * (max(moved, 0.0) + critical)


def within(interval: tuple[float, float], metric: str) -> tuple[float, float]:
    """The part of ``interval`` that a mean of ``metric`` can lie in."""
    highest = highest_mean(metric)
    return max(interval[0], 0.0), interval[1] if highest is None else min(interval[1], highest)


def highest_mean(metric: str) -> float | None:
    """The highest mean that ``metric`` can have; the lowest is 0. None where there is no highest, or it is unknown."""
    try:
        definition = parse_metric(metric).definition
    except MetricError:  # of another version, or a plug-in
        return None
    return None if definition.aggregate == "sum" else definition.highest
