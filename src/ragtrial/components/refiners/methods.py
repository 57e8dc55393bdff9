"""The options of refiners that fuse rankings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Self

import numpy as np
from pydantic import Field, model_validator

from ragtrial.components.refiners.base import Refiner
from ragtrial.components.refiners.fusing import Fused, Fusing, Method, Normalisation, Order, fuse, without_scores
from ragtrial.components.retrievers.base import Facts
from ragtrial.errors import RunError, listed
from ragtrial.rankings import PADDING, Bools, Rankings

_NEEDS_POSITIVE = ("min_max", "rank", "none")
"""The normalisations under which a hit that counts several times cannot lose by it."""


class FusingRefiner(Refiner):
    """A refiner that makes one ranking of several."""

    method: Method = "rrf"
    """How rankings become one: rrf (reciprocal ranks, whatever the scores), combsum (the sum of the normalised scores),
    combmnz (that sum times the number of rankings that found the hit), weighted (a weighted sum of them)."""

    rank_constant: Annotated[int, Field(ge=0, le=100_000)] = 60
    """method: rrf adds 1 / (rank_constant + rank): the higher, the less the first ranks stand out."""

    normalisation: Normalisation = "min_max"
    """What makes scores comparable (not for rrf): min_max (to 0..1), z_score (mean 0, deviation 1), rank (1 down to
    1/n), dbsf (mean - 3 to mean + 3 standard deviations become 0..1), none (the scores as they are)."""

    @model_validator(mode="after")
    def _options_go_with_the_method(self) -> Self:
        faults = list(self._misplaced())
        if faults:
            raise ValueError(" ".join(faults))
        return self

    def _misplaced(self) -> list[str]:
        """What is said and plays no part, or cannot be, under the method."""
        given, faults = self.model_fields_set, []
        if self.method == "rrf" and "normalisation" in given:
            faults.append(
                "`normalisation` plays no part under method: rrf, which looks at ranks alone; leave it out, or set a "
                "method that adds scores, like combsum."
            )
        if self.method != "rrf" and "rank_constant" in given:
            faults.append(f"`rank_constant` plays a part only under method: rrf, not {self.method}; leave it out.")
        if self.method == "combmnz" and self.normalisation not in _NEEDS_POSITIVE:
            faults.append(
                f"method: combmnz multiplies scores, and with normalisation: {self.normalisation} some are below 0, so "
                f"that being found more often would count against a hit; set normalisation: "
                f"{', '.join(_NEEDS_POSITIVE[:-1])} or {_NEEDS_POSITIVE[-1]}."
            )
        return faults

    def identity(self) -> dict[str, Any]:
        unused = "normalisation" if self.method == "rrf" else "rank_constant"
        return {name: value for name, value in super().identity().items() if name != unused}

    def fusing(self) -> Fusing:
        """The options of the arithmetic."""
        return Fusing(self.method, self.rank_constant, self.normalisation)

    def fuse(self, names: Sequence[str], lists: Sequence[Rankings], order: Order) -> Fused:
        """One ranking of several, whose parts' ``names`` a RunError tells if their scores cannot be fused."""
        fusing = self.fusing()
        if fusing.needs_scores:
            for name, ranking in zip(names, lists, strict=True):
                self._check_scores(name, ranking)
        with np.errstate(over="ignore"):  # told below
            fused = fuse(lists, fusing, order)
        if np.isinf(fused.rankings.scores).any():
            parts = listed(map(repr, dict.fromkeys(names)))
            raise RunError(
                f"the scores of {parts} are too large to be added (float32); set method: rrf or another normalisation."
            )
        return fused

    def _check_scores(self, name: str, ranking: Rankings) -> None:
        lacking = int(without_scores(ranking).sum())
        if lacking:
            raise RunError(
                f"the hits of {name!r} have no finite scores for {lacking:,} of {len(ranking):,} queries, and method: "
                f"{self.method} with normalisation: {self.normalisation} needs them; set method: rrf or "
                "normalisation: rank, which look at ranks alone."
            )
        below = ((ranking.codes != PADDING) & (ranking.scores < 0)).any(axis=1)
        if self.method == "combmnz" and self.normalisation == "none" and below.any():
            raise RunError(
                f"the hits of {name!r} have scores below 0 for {int(below.sum()):,} of {len(ranking):,} queries, and "
                "method: combmnz multiplies them, so that being found more often would count against a hit; set "
                "normalisation: min_max or rank."
            )


def overlap(fused: Fused, lists: int, answered: Bools) -> Facts:
    """How much the rankings have in common: mean counts of hits over the ``answered`` questions; None without any."""
    found = fused.lists[answered]
    counts = {"mean_fused": found > 0, "mean_in_all": found == lists, "mean_in_one": found == 1}
    return {name: float(np.mean(of.sum(axis=1))) if len(of) else None for name, of in counts.items()}
