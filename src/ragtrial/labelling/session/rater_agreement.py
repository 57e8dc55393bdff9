"""How alike two people grade the same things."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragtrial.comparison.statistics.estimates import confusion, weighted_kappa

FEWEST = 10
"""Kappa of fewer pairs says next to nothing."""


@dataclass(frozen=True, slots=True)
class RaterAgreement:
    """Of ``n`` things that both have graded, how many got the same grade.

    ``kappa`` is in [-1, 1], 0 where they agree as by chance: Cohen's, its disagreements weighted by the square of the
    distance of the grades if there are more than two of these (``is_weighted``). None for fewer than ``FEWEST`` pairs,
    and where one of the two gave everything the same grade.
    Source: Cohen 1960, Educational and Psychological Measurement 20; Cohen 1968, Psychological Bulletin 70.
    """

    n: int
    alike: int
    kappa: float | None
    is_weighted: bool

    @property
    def sentence(self) -> str:
        """What it comes to, for a reader; never empty."""
        if not self.n:
            return "nothing that is judged already was graded again"
        kappa = ""
        if self.kappa is not None:
            kappa = f", {'weighted kappa' if self.is_weighted else 'kappa'} {self.kappa:.2f}"
        return f"{self.alike} of {self.n} that are judged already got the same grade as before{kappa}"


def agreement(pairs: Sequence[tuple[int, int]]) -> RaterAgreement:
    """The agreement of pairs of grades: the one's and the other's of each thing."""
    first, second = [one for one, _ in pairs], [other for _, other in pairs]
    n, alike = len(pairs), sum(one == other for one, other in pairs)
    is_weighted = len({*first, *second}) > 2
    grades = sorted({*first, *second})
    kappa = weighted_kappa(confusion(pairs, grades), grades) if n >= FEWEST else None
    return RaterAgreement(n, alike, None if kappa is None else kappa.value, is_weighted)
