"""How alike two raters grade the same things: weighted kappa with its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Kappa:
    """Cohen's kappa, in [-1, 1], 0 where raters agree as by chance, and its interval, not cut to that range."""

    value: float
    low: float
    high: float


def confusion(pairs: Sequence[tuple[int, int]], grades: Sequence[int]) -> Counts:
    """How often the one gave the grade of the row and the other that of the column; shape (grades, grades)."""
    places = {grade: place for place, grade in enumerate(grades)}
    table = np.zeros((len(grades), len(grades)), dtype=np.int64)
    for one, other in pairs:
        table[places[one], places[other]] += 1
    return table


def weighted_kappa(table: Counts, grades: Sequence[int], confidence: float = 0.95) -> Kappa | None:
    """Kappa of ``confusion`` of ``grades``, disagreements weighted by the square of the distance of the grades.

    None where one of the two gave everything the same grade. Sources: Cohen 1968, Psychological Bulletin 70; for the
    variance Fleiss, Cohen & Everitt 1969, Psychological Bulletin 72.
    """
    from scipy.special import ndtri

    n = int(table.sum())
    if min(np.count_nonzero(table.sum(axis=0)), np.count_nonzero(table.sum(axis=1))) < 2:
        return None
    shares, values = table / n, np.asarray(grades, dtype=np.float64)
    weights = 1 - np.square((values[:, None] - values) / (values.max() - values.min()))
    rows, columns = shares.sum(axis=1), shares.sum(axis=0)
    observed, expected = float((weights * shares).sum()), float(rows @ weights @ columns)
    kappa = (observed - expected) / (1 - expected)
    apart = weights - ((weights @ columns)[:, None] + rows @ weights) * (1 - kappa)
    variance = float((shares * np.square(apart)).sum()) - (kappa - expected * (1 - kappa)) ** 2
    error = math.sqrt(max(variance, 0.0) / n) / (1 - expected)
    width = float(ndtri((1 + confidence) / 2)) * error
    return Kappa(kappa, kappa - width, kappa + width)
