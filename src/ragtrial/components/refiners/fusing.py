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

_NO_HIT = np.iinfo(np.int64).max


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

    ``rankings`` are sorted by score as it is stored (float32); equal scores stand in the order that was given.
    ``lists`` counts the lists in which the unit stands, 0 at the padding. It stands best at ``column`` (from 0) of
    the list ``best``; of lists where it stands equally well, that with the greater weight is taken, then the first.
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
    """One ranking for each question of all that stands in any of ``parts``, which have a row for each question.

    The rankings may differ in depth, and may be empty. A unit that stands twice in a list counts where it stands
    first. Scores must be finite where they are needed.
    """
    lists = [_distinct(part, len(order.place)) for part in parts]
    weights = fusing.weights_of(len(lists))
    preference = np.lexsort((np.arange(len(lists)), -weights))
    size = max(1, _BLOCK // max(1, len(lists) * max(part.depth for part in lists)))
    blocks = []
    for start in range(0, len(lists[0]) if len(order.place) else 0, size):
        rows = [Rankings(part.codes[start : start + size], part.scores[start : start + size]) for part in lists]
        blocks.append(_fuse_rows(rows, fusing, order, preference))
    return _joined(blocks, len(lists[0]))


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


def _fuse_rows(parts: Sequence[Rankings], fusing: Fusing, order: Order, preference: Counts) -> Fused:
    """The fusion of a few questions. Of the parts, the preferred come first in all arrays."""
    preferred = [parts[index] for index in preference]
    weights = fusing.weights_of(len(parts))[preference]
    values = np.zeros((len(parts[0]), max(part.depth for part in parts), len(parts)))
    missing = np.empty((len(parts), len(parts[0]), 1))
    for index, part in enumerate(preferred):
        added, missing[index, :, 0] = _contribution(part, fusing, float(weights[index]))
        values[:, : part.depth, index] = added
    hits = _hits(preferred, order, values.shape[1])
    shape = len(parts[0]), hits.most
    column, which = np.divmod(hits.slots, len(parts))

    table = np.repeat(missing, hits.most, axis=2)
    table.reshape(-1)[which * (shape[0] * shape[1]) + hits.cells] = values.reshape(-1)[hits.origins]
    if len(parts) > 2:
        table.sort(axis=0)  # added from the smallest up, equal scores stay equal whatever the order of the parts
    scores = table.sum(axis=0)
    found_in = np.bincount(hits.cells, minlength=scores.size).reshape(shape)
    fused = (scores * found_in if fusing.method == "combmnz" else scores).astype(np.float32)
    ranked = _best_first(fused, found_in == 0)

    def in_order(found: npt.NDArray[np.integer]) -> Codes:
        made = np.full(fused.size, PADDING, dtype=np.int32)
        made[hits.cells[hits.opens]] = found
        return np.take_along_axis(made.reshape(shape), ranked, axis=1)

    units = in_order(order.unit_at[hits.places[hits.opens]])
    fused = np.where(units == PADDING, np.float32(np.nan), np.take_along_axis(fused, ranked, axis=1))
    lists = np.take_along_axis(found_in, ranked, axis=1).astype(np.int32)
    best, columns = in_order(preference[which[hits.opens]]), in_order(column[hits.opens])
    return Fused(Rankings(units, fused), lists, best, columns)


@dataclass(frozen=True, eq=False)
class _FusedHits:
    """Every hit of every list, those of one unit of one row together, the best placed first; shape (hits,) each.

    ``places`` are those of the units. ``slots`` number the hits of a row by rank, then by list, and ``origins`` those
    of all rows. ``cells`` are places in an array (rows, most) with a cell for each unit of each row; ``opens`` marks
    the first hit of each.
    """

    places: Counts
    slots: Counts
    origins: Counts
    cells: Counts
    opens: Bools
    most: int


def _hits(parts: Sequence[Rankings], order: Order, width: int) -> _FusedHits:
    """Found by sorting whole numbers, row by row: the place of the unit, then the slot."""
    slots = width * len(parts)
    bits = slots.bit_length()
    keys = np.full((len(parts[0]), width, len(parts)), _NO_HIT)
    for index, part in enumerate(parts):
        numbers = (order.place[part.codes] << bits) + np.arange(part.depth) * len(parts) + index
        keys[:, : part.depth, index] = np.where(part.codes != PADDING, numbers, _NO_HIT)
    keys = np.sort(keys.reshape(len(keys), slots), axis=1)
    found = keys != _NO_HIT
    opens = found.copy()
    opens[:, 1:] &= keys[:, 1:] >> bits != keys[:, :-1] >> bits
    at = np.cumsum(opens, axis=1)
    most = int(at[:, -1].max(initial=0)) if slots else 0
    rows = np.arange(len(keys))[:, None]
    kept = keys[found]
    slot = kept & ((1 << bits) - 1)
    origins = np.repeat(rows.ravel() * slots, found.sum(axis=1)) + slot
    return _FusedHits(kept >> bits, slot, origins, (at - 1 + rows * most)[found], opens[found], most)


def _best_first(scores: npt.NDArray[np.float32], is_padding: Bools) -> Counts:
    """Where the scores of each row stand from the highest to the lowest, equal ones as they came, padding last."""
    bits = (scores + np.float32(0)).view(np.int32).astype(np.int64)  # + 0: there is one zero
    # The bits of a float order as whole numbers do, those below zero the other way round.
    descending = np.where(bits < 0, bits ^ 0x7FFFFFFF, bits) * -1
    descending[is_padding] = 1 << 31
    keys = (descending << 31) + np.arange(scores.shape[1])
    keys.sort(axis=1)
    return keys & ((1 << 31) - 1)


def _contribution(part: Rankings, fusing: Fusing, weight: float) -> tuple[Values, Values]:
    """What each hit of a list adds, shape as the list, and what the list adds for a unit that is missing from it."""
    if fusing.method == "rrf":
        added = weight / (fusing.rank_constant + np.arange(1, part.depth + 1))
        return np.broadcast_to(added, part.codes.shape), np.zeros(len(part))
    present = part.codes != PADDING
    scores = np.where(present, part.scores, 0.0).astype(np.float64)
    values, missing = normalised(scores, present, fusing.normalisation)
    return values * weight, missing * weight


def _joined(blocks: Sequence[Fused], questions: int) -> Fused:
    """All questions, one block after another."""
    made = unfilled(questions, max((block.rankings.depth for block in blocks), default=0))
    lists, best, column = np.zeros_like(made.codes), made.codes.copy(), made.codes.copy()
    start = 0
    for block in blocks:
        place = np.s_[start : start + len(block.rankings), : block.rankings.depth]
        made.codes[place], made.scores[place] = block.rankings.codes, block.rankings.scores
        lists[place], best[place], column[place] = block.lists, block.best, block.column
        start += len(block.rankings)
    return Fused(made, lists, best, column)


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
