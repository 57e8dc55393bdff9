"""The agreement of two people who grade the same items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragtrial.comparison.statistics.estimates import confusion, weighted_kappa

FEWEST = 10
"""The fewest pairs with a kappa."""


@dataclass(frozen=True, slots=True)
class RaterAgreement:
    """The number ``n`` of items that both have graded, and how many of them got the same grade (``alike``).

    ``kappa`` is Cohen's, in [-1, 1], 0 for agreement by chance; with more than two grades, disagreements are weighted
    by the square of their distance (``is_weighted``). None for fewer than ``FEWEST`` pairs, and if one of the two gave
    all items the same grade.
    Source: Cohen 1960, Educational and Psychological Measurement 20; Cohen 1968, Psychological Bulletin 70.
    """

    n: int
    alike: int
    kappa: float | None
    is_weighted: bool

    @property
    def sentence(self) -> str:
        """The result for a reader; never empty."""
        if not self.n:
            return "nothing that is judged already was graded again"
        kappa = ""
        if self.kappa is not None:
            kappa = f", {'weighted kappa' if self.is_weighted else 'kappa'} {self.kappa:.2f}"
        return f"{self.alike} of {self.n} that are judged already got the same grade as before{kappa}"


def agreement(pairs: Sequence[tuple[int, int]]) -> RaterAgreement:
    """The agreement of the two grades of each item."""
    n, alike = len(pairs), sum(first == second for first, second in pairs)
    grades = sorted({grade for pair in pairs for grade in pair})
    is_weighted = len(grades) > 2
    kappa = weighted_kappa(confusion(pairs, grades), grades) if n >= FEWEST else None
    return RaterAgreement(n, alike, None if kappa is None else kappa.value, is_weighted)
