"""The axes of a sweep: the shapes in which their values are written, and the changes that they make."""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from ragtrial.config.strict_yaml import KeyPath
from ragtrial.options import Options, dotted, shown


def _a_range(numbers: list[float]) -> list[float]:
    if len(numbers) != 3 or not all(map(math.isfinite, numbers)):
        raise ValueError("must be three finite numbers: start, stop (inclusive) and step.")
    start, stop, step = numbers
    if step == 0 or (stop - start) * step < 0:
        raise ValueError(f"is empty: a step of {step:g} does not lead from {start:g} to {stop:g}.")
    return numbers


class RangeAxis(Options):
    """Numbers at equal distances."""

    range: Annotated[list[float], AfterValidator(_a_range)]
    """[start, stop, step]: numbers from start, in steps up or down. stop is included if a step reaches it."""

    @property
    def count(self) -> int:
        start, stop, step = map(_exact, self.range)
        return int((stop - start) // step) + 1

    def at(self, position: int) -> int | float:
        """The number at ``position``: whole if start and step are, else the nearest to the exact decimal."""
        start, _, step = map(_exact, self.range)
        value = start + position * step
        return int(value) if start.denominator == step.denominator == 1 else float(value)


def _two_ends(ends: list[int | float]) -> list[int | float]:
    if len(ends) != 2 or not all(map(math.isfinite, ends)) or not ends[0] < ends[1]:
        raise ValueError("must be two finite numbers, the lower one first.")
    return ends


class BetweenAxis(Options):
    """Any number between two, for a search; only whole numbers between whole numbers."""

    between: Annotated[list[int | float], AfterValidator(_two_ends)]
    """[lowest, highest]: only whole numbers, if both are written as whole numbers."""

    log: bool = False
    """Draw numbers on a logarithmic scale: as many from 1 to 10 as from 10 to 100."""

    @model_validator(mode="after")
    def _has_logarithms(self) -> BetweenAxis:
        if self.log and self.between[0] <= 0:
            raise ValueError(f"log needs numbers above 0; the lowest is {self.between[0]:g}.")
        return self

    def at(self, share: float) -> int | float:
        """The number that far on the way from the lowest (0) to the highest (1), to four digits."""
        low, high = self.between
        if self.log:
            value = math.exp(math.log(low) + share * (math.log(high) - math.log(low)))
        else:
            value = low + share * (high - low)
        if isinstance(low, int) and isinstance(high, int):
            return min(max(round(value), low), high)
        digits = 3 - math.floor(math.log10(value if self.log else high - low))
        return float(min(max(round(value, digits), low), high))


class ShareAxis(Options):
    """A whole number that follows another key's."""

    share: Annotated[
        list[Annotated[float, Field(ge=0, allow_inf_nan=False)]],
        BeforeValidator(lambda value: value if isinstance(value, list) else [value], float | list[float]),
        Field(min_length=1),
    ]
    """The value as a share of the other key's value, rounded to a whole number (halves up). Each share in a list is
    tried."""

    of: str
    """The other key: an axis, or a key of the config with a whole number."""


@dataclass(frozen=True)
class ShareOfKey:
    """A share of another key's value, which is not known before that is."""

    share: float
    of: str

    def taken_of(self, whole: int) -> int:
        """The nearest whole number, halves up, of the decimal that was written."""
        return math.floor(_exact(self.share) * whole + Fraction(1, 2))


@lru_cache(maxsize=1000)
def _exact(number: float) -> Fraction:
    """The decimal that was written."""
    return Fraction(repr(number))


def _shape_of(value: object) -> str | None:
    if isinstance(value, list):
        return "a list"
    keys = set(value) if isinstance(value, Mapping) else set()
    if isinstance(value, RangeAxis) or keys == {"range"}:
        return "a range"
    if isinstance(value, BetweenAxis) or (keys and keys <= {"between", "log"}):
        return "two ends"
    return "a share" if isinstance(value, ShareAxis) or (keys and keys <= {"share", "of"}) else None


AxisValues = Annotated[
    Annotated[list[Any], Field(min_length=1), Tag("a list")]
    | Annotated[RangeAxis, Tag("a range")]
    | Annotated[BetweenAxis, Tag("two ends")]
    | Annotated[ShareAxis, Tag("a share")],
    Discriminator(
        _shape_of,
        custom_error_type="axis",
        custom_error_message="an axis is a list of values, {range: [start, stop, step]}, "
        "{between: [lowest, highest]}, or {share: 0.2, of: chunker.size}",
    ),
]


MOST_COMBINATIONS = 100_000
"""A matrix with more is never built; without ``exclude`` and lists of shares it can be sampled from."""

PlacedFault = tuple[KeyPath, str]


class SweepOptions(Options):
    """Many settings from one config: every combination of values along axes."""

    matrix: dict[str, AxisValues] = Field(default={})
    """Axes: dotted keys of the config, each with a list of values, `{range: [start, stop, step]}` (stop inclusive),
    `{share: 0.2, of: chunker.size}` (a whole number computed from another key's) or, for a search, `{between: [0.0,
    1.0]}`. Values may be whole mappings; a mapping of another kind replaces the config's, others are laid over it. A
    swept `kind` keeps the options that both kinds have in common. Keys that move together are in one entry, joined by
    commas, with a list of lists: `"chunker.size, chunker.overlap": [[128, 20], [256, 40]]`."""

    include: list[dict[str, Any]] = Field(default=[])
    """More combinations, each with values by dotted keys; what one does not name stays as the config has it. They run
    regardless of `exclude` and `sample`."""

    exclude: list[Annotated[dict[str, Any], Field(min_length=1)]] = Field(default=[])
    """Combinations of the matrix to leave out: the combinations that agree with all values of an entry."""

    name: str | None = None
    """How settings are called: a text with `{retriever}` and keys of axes, like `{retriever}-c{chunker.size}`. Names
    must come out unique (default: the retriever and the values that reach it, like `dense-size128`)."""

    sample: Annotated[int, Field(ge=1)] | None = None
    """How many combinations of the matrix are tried, drawn at random with `seed` (default: all)."""

    max_settings: Annotated[int, Field(ge=1)] = 200
    """The most settings that a sweep may have; more are refused before anything is run."""

    @model_validator(mode="after")
    def _names_an_axis(self) -> SweepOptions:
        if not self.matrix and not self.include:
            raise ValueError("names no axis; give it a matrix, like {chunker.size: [128, 256]}, or include.")
        return self

    def axes(self) -> list[Axis]:
        """The entries of the matrix, in its order."""
        return [Axis(keys_in(entry), ("sweep", "matrix", entry), values) for entry, values in self.matrix.items()]

    def named_keys(self) -> list[str]:
        """Every dotted key that the matrix or ``include`` names, each once, in their order."""
        named = [key for axis in self.axes() for key in axis.keys]
        return list(dict.fromkeys([*named, *(key for entry in self.include for key in entry)]))

    def size(self) -> int:
        """How many combinations the matrix has, before ``exclude`` and ``sample``; none if there is no matrix."""
        return math.prod(axis.count for axis in self.axes()) if self.matrix else 0


def keys_in(entry: str) -> tuple[str, ...]:
    """The dotted keys of an entry of the matrix: one, or several joined by commas."""
    return tuple(key.strip() for key in entry.split(","))


@dataclass(frozen=True)
class Axis:
    """An entry of the matrix: keys that move together, and their values at each position.

    ``where`` is its place in the config.
    """

    keys: tuple[str, ...]
    where: KeyPath
    values: list[Any] | RangeAxis | BetweenAxis | ShareAxis

    @property
    def is_continuous(self) -> bool:
        """True if it has any value between two ends; its positions are shares of the range, from 0 to 1."""
        return isinstance(self.values, BetweenAxis)

    @property
    def is_ordered(self) -> bool:
        """True if its positions have the order of its values, which are numbers."""
        if not isinstance(self.values, list):
            return True
        numbers = [value for value in self.values if isinstance(value, int | float) and not isinstance(value, bool)]
        return numbers == sorted(numbers) and len(numbers) == len(self.values)

    @property
    def count(self) -> int:
        """How many values it has. Not asked of an axis that is continuous."""
        if isinstance(self.values, BetweenAxis):
            raise TypeError(f"{self.keys} has any value between two ends")
        if isinstance(self.values, RangeAxis):
            return self.values.count
        return len(self.values.share if isinstance(self.values, ShareAxis) else self.values)

    def positions(self, most: int) -> Sequence[float]:
        """All positions; for a continuous axis this number of positions, including the two ends."""
        return [step / (most - 1) for step in range(most)] if self.is_continuous else range(self.count)

    def combination(self, position: float) -> Combination:
        """Its keys alone, with their values at ``position``."""
        found = list(self.at(position))
        return Combination({key: value for key, value, _ in found}, {key: where for key, _, where in found})

    def at(self, position: float) -> Iterator[tuple[str, Any, KeyPath]]:
        """Each key with its value and the place of that value; a share of another key's is still to be taken."""
        if isinstance(self.values, BetweenAxis):
            yield self.keys[0], self.values.at(position), self.where
            return
        position = int(position)
        if isinstance(self.values, RangeAxis):
            yield self.keys[0], self.values.at(position), self.where
        elif isinstance(self.values, ShareAxis):
            yield self.keys[0], ShareOfKey(self.values.share[position], self.values.of), self.where
        else:
            row, where = self.values[position], (*self.where, position)
            if len(self.keys) == 1:
                yield self.keys[0], row, where
            else:
                for column, (key, value) in enumerate(zip(self.keys, row, strict=True)):
                    yield key, value, (*where, column)


@dataclass(frozen=True)
class Combination:
    """A value for each dotted key that it names, and the place of each in the config, in the order of the sweep."""

    values: Mapping[str, Any]
    where: Mapping[str, KeyPath]

    @cached_property
    def identity(self) -> Hashable:
        """Equal for combinations with the same keys and values, in any order of keys."""
        return identity_of(self.values)

    def __str__(self) -> str:
        return ", ".join(f"{key} {shown(one)}" for key, one in self.values.items()) or "the config as it stands"


def identity_of(value: Any) -> Hashable:
    """A key that is equal for equal values: 1 and 1.0 are equal, 1 and true are not."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return tuple(map(identity_of, value))
    if isinstance(value, Mapping):
        return frozenset((key, identity_of(one)) for key, one in value.items())
    return (bool, value) if isinstance(value, bool) else (value, None)


def combinations(
    sweep: SweepOptions, seed: int, config: Mapping[str, Any]
) -> tuple[list[Combination], list[PlacedFault]]:
    """The combinations of the matrix, the last axis fastest, then the combinations of ``include``, each once; and
    faults.

    ``sample`` draws from the combinations that ``exclude`` leaves, with ``seed``, and keeps their order. ``config`` is
    the content of the config: shares of keys that are no axes refer to its values.
    """
    axes, size = sweep.axes(), sweep.size()
    all_differ = not any(isinstance(axis.values, ShareAxis) and axis.count > 1 for axis in axes)
    draws_first = sweep.sample is not None and not sweep.exclude and all_differ
    if size > sys.maxsize or (min(size, sweep.sample or size) if draws_first else size) > MOST_COMBINATIONS:
        counts = " x ".join(f"{axis.count:,}" for axis in axes if axis.count > 1)
        message = (
            f"sweep has {size:,} combinations ({counts}); at most {MOST_COMBINATIONS:,} are built: take axes or values "
            "out, join keys that move together in one entry, or set sample, without exclude and lists of shares."
        )
        return [], [(("sweep", "matrix"), message)]
    faults: dict[PlacedFault, None] = {}
    where: KeyPath
    drawn = _drawn(size, sweep.sample if draws_first else None, seed)
    kept = unique(resolved(_of_matrix(axes, index), config, faults) for index in drawn)
    for number, entry in enumerate(sweep.exclude):
        if not any(agrees(one, entry) for one in kept):
            where = ("sweep", "exclude", number)
            message = f"{dotted(where)} drops nothing: no combination of the matrix has all of its values."
            faults[where, message] = None
    kept = [one for one in kept if not any(agrees(one, entry) for entry in sweep.exclude)]
    if not draws_first:
        kept = [kept[index] for index in _drawn(len(kept), sweep.sample, seed)]
    found = unique([*kept, *(resolved(one, config, faults) for one in _included(sweep))])
    if not found:
        faults[
            ("sweep", "exclude"), "sweep.exclude drops every combination of the matrix; there is nothing to run."
        ] = None
    return found, list(faults)


def given_before(sweep: SweepOptions, config: Mapping[str, Any]) -> tuple[list[Combination], list[PlacedFault]]:
    """The combinations that a search does not choose: the config as it is, and ``include``; and faults."""
    faults: dict[PlacedFault, None] = {}
    found = unique([Combination({}, {}), *(resolved(one, config, faults) for one in _included(sweep))])
    return found, list(faults)


def unique(combinations: Iterable[Combination]) -> list[Combination]:
    """The distinct combinations, in the order of their first occurrence."""
    first: dict[Hashable, Combination] = {}
    for combination in combinations:
        first.setdefault(combination.identity, combination)
    return list(first.values())


def _drawn(size: int, sample: int | None, seed: int) -> Sequence[int]:
    """The positions of ``sample`` random items, ascending; all positions without a sample."""
    if sample is None or sample >= size:
        return range(size)
    return sorted(random.Random(seed).sample(range(size), sample))  # noqa: S311 - not a secret


def _of_matrix(axes: Sequence[Axis], index: int) -> Combination:
    """Combination number ``index`` of the matrix, its shares still to be taken."""
    chosen: list[tuple[str, Any, KeyPath]] = []
    for axis in reversed(axes):
        index, position = divmod(index, axis.count)
        chosen = [*axis.at(position), *chosen]
    return Combination({key: value for key, value, _ in chosen}, {key: where for key, _, where in chosen})


def _included(sweep: SweepOptions) -> Iterator[Combination]:
    """The combinations of ``include``, each with the single shares of the keys that it names."""
    for number, entry in enumerate(sweep.include):
        values = dict(entry)
        where: dict[str, KeyPath] = {key: ("sweep", "include", number, key) for key in entry}
        for axis in sweep.axes():
            if isinstance(axis.values, ShareAxis) and axis.count == 1 and axis.values.of in entry:
                ((key, share, place),) = axis.at(0)
                values.setdefault(key, share)
                where.setdefault(key, place)
        yield Combination(values, where)


def resolved(one: Combination, config: Mapping[str, Any], faults: dict[PlacedFault, None]) -> Combination:
    """The combination with its shares resolved; a share of a value that is not a whole number is added to
    ``faults``.
    """
    values = dict(one.values)
    for key, share in one.values.items():
        if isinstance(share, ShareOfKey):
            whole = one.values[share.of] if share.of in one.values else _written_at(config, share.of)
            if isinstance(whole, int) and not isinstance(whole, bool):
                values[key] = share.taken_of(whole)
            else:
                found = "a share itself" if isinstance(whole, ShareOfKey) else shown(whole)
                message = f"{key} is a share of {share.of}, which is {found}; it must be a whole number."
                faults[one.where.get(share.of, one.where[key]), message] = None
    return Combination(values, one.where)


def _written_at(content: Any, dotted_key: str) -> Any:
    """The value of a config's content under a dotted key; None if there is none."""
    for part in dotted_key.split("."):
        content = content.get(part) if isinstance(content, Mapping) else None
    return content


def agrees(one: Combination, entry: Mapping[str, Any]) -> bool:
    """True if ``one`` has every value that ``entry`` names."""
    return all(key in one.values and identity_of(one.values[key]) == identity_of(entry[key]) for key in entry)
