"""The structure of a metric's value, the basis of bounds, of shares per document, and of worklists."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ragtrial.evaluation.grading import Scores
from ragtrial.rankings import Counts


class Parametrised(Protocol):
    """A metric, as far as its structure may depend on it: its cutoff and its parameters."""

    @property
    def k(self) -> int | None: ...

    def value_of(self, name: str) -> Any:
        """The value of a parameter."""
        ...


@dataclass(frozen=True)
class HitCount:
    """The value is the number of relevant hits in the first k over a divisor, which R or the number of hits may change.

    ``divisor`` takes the metric, R, and the number of hits, as arrays. It rises with R, by at most 1 for each relevant
    document, or stays.
    """

    divisor: Callable[[Parametrised, Counts, Counts], npt.NDArray[Any]]

    def value(self, metric: Parametrised, found: Counts, relevant: Counts, hits: Counts) -> Scores:
        """The score of rankings with ``found`` relevant hits in the first k; the three in one shape."""
        return np.minimum(ratio(found, self.divisor(metric, relevant, hits)), 1.0)  # divisors are rounded


@dataclass(frozen=True)
class FirstHit:
    """The value depends on the rank of the first relevant hit alone, and falls with it or stays; 0 without one."""

    value: Callable[[Counts], Scores]


@dataclass(frozen=True)
class WeightedSum:
    """The value is a sum over hits: the gain of each (1 if relevant, or by its grade) times the weight of its rank.

    ``weight`` takes the metric and ranks from 1 on; it falls with the rank. If ``normalised``, the sum is divided by
    the sum of the best order of all judged documents.
    """

    weight: Callable[[Parametrised, npt.NDArray[Any]], Scores]
    normalised: bool = False


@dataclass(frozen=True)
class PrecisionSum:
    """The value is the sum of the precision at each relevant hit in the first k, over R (``capped``: min(k, R))."""

    capped: bool = False


Structure = HitCount | FirstHit | WeightedSum | PrecisionSum


def ratio(numerator: npt.NDArray[Any], denominator: npt.NDArray[Any] | np.float64) -> Scores:
    """``numerator / denominator`` as float64, 0 where the denominator is 0."""
    result: Scores = np.zeros(np.shape(numerator), dtype=np.float64)
    np.divide(numerator, denominator, out=result, where=np.asarray(denominator) != 0)
    return result
