"""Fusion: several rankings of the same questions become one, and the options of refiners that do so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from ragtrial.components.refiners.base import Refiner
from ragtrial.components.retrievers.base import Facts
from ragtrial.dataset.chunks import Chunks
from ragtrial.errors import RunError, listed
from ragtrial.rankings import PADDING, Bools, Codes, Counts, Rankings, collapse, unfilled

Method = Literal["rrf", "combsum", "combmnz", "weighted"]
Normalisation = Literal["min_max", "z_score", "rank", "dbsf", "none"]
Values = npt.NDArray[np.float64]

_BLOCK = 1 << 15
"""So many hits are fused at a time: what is in work stays in the processor's cache."""


@dataclass(frozen=True)
class Fusing:
    """How rankings become one.

    ``rrf`` adds weight / (rank_constant + rank) over the lists in which a unit stands (Cormack, Clarke & Buettcher
    2009). The others add what ``normalisation`` makes of the scores: ``combsum`` as it is, ``combmnz`` times the number
    of lists in which the unit stands (both Fox & Shaw 1994), ``weighted`` times the weight of each list. In them a
    unit that is missing from a list gets the lowest value of that list. ``weights`` are those of the lists in their
    order, for rrf and weighted; all 1 where they are None.
    """

    method: Method = "rrf"
    rank_constant: int = 60
    normalisation: Normalisation = "min_max"
    weights: tuple[float, ...] | None = None

    @property
    def needs_scores(self) -> bool:
        """Whether scores play a part, and not only ranks."""
        return self.method != "rrf" and self.normalisation != "rank"

    def weights_of(self, lists: int) -> Values:
        """The weight of each of so many lists, shape (lists,)."""
        return np.ones(lists) if self.weights is None else np.asarray(self.weights, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Fused:
    """The one ranking, with where each of its units came from; all arrays have the shape of its codes.

    ``rankings`` are sorted by score as it is stored (float32); equal scores are in the order that was given.
    ``lists`` counts the lists that have the unit, 0 at the padding. Its best place is ``column`` (from 0) of
    the list ``best``; if several lists have it there, the one with the greatest weight is taken, then the first.
    """

    rankings: Rankings
    lists: Codes
    best: Codes
    column: Codes


@dataclass(frozen=True, eq=False)
class Order:
    """How units of equal score are ordered: ``place`` has the place of each unit, a permutation, shape (units,)."""

    place: Counts

    @cached_property
    def unit_at(self) -> Codes:
        """The unit at each place."""
        units = np.empty(len(self.place), dtype=np.int32)
        units[self.place] = np.arange(len(self.place))
        return units


def order_of(units: Chunks) -> Order:
    """Units of equal score go by document id ascending, then by start."""
    by_id = units.library.id_order[units.document]
    place = np.empty(len(units), dtype=np.int64)
    place[np.lexsort((units.end, units.start, by_id))] = np.arange(len(units))
    return Order(place)


def fuse(parts: Sequence[Rankings], fusing: Fusing, order: Order) -> Fused:
    """One ranking for each question of all units in any of ``parts``, which have a row for each question.

    The rankings may differ in depth, and may be empty. If a unit is twice in a list, its first place counts.
    Scores must be finite where they are needed.
    """
    lists = [_distinct(part, len(order.place)) for part in parts]
    most = min(sum(part.depth for part in lists), len(order.place))
    made = unfilled(len(lists[0]), most)
    fused = Fused(made, np.zeros_like(made.codes), made.codes.copy(), made.codes.copy())
    size = max(1, _BLOCK // max(1, len(lists) * max(part.depth for part in lists)))
    for start in range(0, len(made) if most else 0, size):
        rows = slice(start, start + size)
        _fuse_rows([Rankings(part.codes[rows], part.scores[rows]) for part in lists], fusing, order, fused, start)
    depth = int(made.lengths.max(initial=0))
    return Fused(made.cut(depth), fused.lists[:, :depth], fused.best[:, :depth], fused.column[:, :depth])


def normalised(scores: Values, present: Bools, normalisation: Normalisation) -> tuple[Values, Values]:
    """What becomes of the scores of each row, shape as ``scores``, and what a missing unit gets, shape (rows,).

    * ``min_max``: (s - min) / (max - min), in [0, 1]. Equal scores become 1.
    * ``z_score``: (s - mean) / standard deviation, with the deviation over n. Equal scores become 0.
    * ``dbsf``: mean - 3 standard deviations becomes 0, mean + 3 of them 1, and nothing is clipped; the deviation is
      over n - 1, as Qdrant has it. Equal scores become 0.5.
    * ``rank``: 1 - (rank - 1) / n, whatever the scores (Renda & Straccia 2003).
    * ``none``: the scores.

    A missing unit gets the lowest value of the row. Where all values of a row are equal (one hit, equal scores) that
    would make found and missing the same, so there a missing unit gets 0, but under ``none`` the score itself. Of an
    empty row it gets 0. Values are arbitrary where nothing is ``present``.
    """
    count = present.sum(axis=1)
    some = np.maximum(count, 1)
    if normalisation == "rank":
        values = 1 - np.arange(scores.shape[1]) / some[:, None]
        return values, np.where(count > 1, 1 / some, 0.0)
    lowest = np.where(count > 0, np.where(present, scores, np.inf).min(axis=1, initial=np.inf), 0.0)
    highest = np.where(count > 0, np.where(present, scores, -np.inf).max(axis=1, initial=-np.inf), 0.0)
    if normalisation == "none":
        return scores, lowest
    mean = np.where(present, scores, 0.0).sum(axis=1) / some
    squares = (np.where(present, scores - mean[:, None], 0.0) ** 2).sum(axis=1)
    if normalisation == "min_max":
        zero, one, equal = lowest, highest - lowest, 1.0
    elif normalisation == "z_score":
        zero, one, equal = mean, np.sqrt(squares / some), 0.0
    else:
        deviation = np.sqrt(squares / np.maximum(count - 1, 1))
        zero, one, equal = mean - 3 * deviation, 6 * deviation, 0.5
    differ = highest > lowest
    one = np.where(differ, one, 1.0)
    values = np.where(differ[:, None], (scores - zero[:, None]) / one[:, None], equal)
    return values, np.where(differ, (lowest - zero) / one, 0.0)


def without_scores(rankings: Rankings) -> Bools:
    """Which questions have a hit without a finite score, shape (questions,): its place is known, but not how good."""
    return np.asarray(((rankings.codes != PADDING) & ~np.isfinite(rankings.scores)).any(axis=1))


def _distinct(part: Rankings, units: int) -> Rankings:
    """``part`` without the second and later places of a unit in a row."""
    in_order = np.sort(part.codes, axis=1)
    twice = (in_order[:, 1:] == in_order[:, :-1]) & (in_order[:, 1:] != PADDING)
    return collapse(part, np.arange(units, dtype=np.int32)).rankings if twice.any() else part


def _fuse_rows(parts: Sequence[Rankings], fusing: Fusing, order: Order, made: Fused, start: int) -> None:
    """Write the fusion of a few questions into the rows of ``made`` from ``start`` on."""
    weights = fusing.weights_of(len(parts))
    added, missing = zip(
        *(_contribution(part, fusing, float(weight)) for part, weight in zip(parts, weights, strict=True)), strict=True
    )
    preferred = np.empty(len(parts), dtype=np.int64)
    preferred[np.lexsort((np.arange(len(parts)), -weights))] = np.arange(len(parts))
    rows, columns = np.hstack([np.nonzero(part.codes != PADDING) for part in parts])
    which = np.repeat(np.arange(len(parts)), [int(part.lengths.sum()) for part in parts])
    places = order.place[np.concatenate([part.codes[part.codes != PADDING] for part in parts])]
    values = np.concatenate([one[part.codes != PADDING] for one, part in zip(added, parts, strict=True)])

    # Each unit of each question is a number; the best placed of its hits comes first.
    units = rows * len(order.place) + places
    by_unit = np.argsort((units * (1 + columns.max(initial=0)) + columns) * len(parts) + preferred[which])
    opens = np.diff(units[by_unit], prepend=-1) != 0
    unit = np.cumsum(opens) - 1
    first = by_unit[opens]
    table = np.stack(missing)[:, rows[first]]
    table[which[by_unit], unit] = values[by_unit]
    if len(parts) > 2:
        table.sort(axis=0)  # added from the smallest up, equal scores stay equal whatever the order of the parts
    scores = table.sum(axis=0)
    lists = np.bincount(unit, minlength=len(first))
    fused = (scores * lists if fusing.method == "combmnz" else scores).astype(np.float32)

    ranked = np.lexsort((places[first], -fused, rows[first]))
    lengths = np.bincount(rows[first], minlength=len(parts[0]))
    target = start + rows[first[ranked]], np.arange(len(ranked)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    for array, found in (
        (made.rankings.codes, order.unit_at[places[first]]),
        (made.rankings.scores, fused),
        (made.lists, lists),
        (made.best, which[first]),
        (made.column, columns[first]),
    ):
        array[target] = found[ranked]


def _contribution(part: Rankings, fusing: Fusing, weight: float) -> tuple[Values, Values]:
    """What each hit of a list adds, shape as the list, and what the list adds for a unit that is missing from it."""
    if fusing.method == "rrf":
        added = weight / (fusing.rank_constant + np.arange(1, part.depth + 1))
        return np.broadcast_to(added, part.codes.shape), np.zeros(len(part))
    present = part.codes != PADDING
    scores = np.where(present, part.scores, 0.0).astype(np.float64)
    values, missing = normalised(scores, present, fusing.normalisation)
    return values * weight, missing * weight


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
