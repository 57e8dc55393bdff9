"""What a sweep may say: axes by dotted keys, in the shape that CI files have for a matrix of jobs.

sweep:
  matrix:
    chunker.size: [128, 256, 512]
    chunker.overlap: {share: 0.2, of: chunker.size}                       # computed: 26, 51, 102
    retrievers.hybrid.rank_constant: {range: [10, 60, 50]}                # 10, 60: stop is inclusive
    "retrievers.hybrid.method, retrievers.hybrid.weights": [[rrf, [1, 1]], [sum, [3, 1]]]   # move together
  include: [{chunker.size: 1024, retrievers.hybrid.rank_constant: 60}]
  exclude: [{chunker.size: 128, retrievers.hybrid.rank_constant: 10}]
  name: "{retriever}-c{chunker.size}"
  sample: 20
  max_settings: 200
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from ragtrial.config.strict_yaml import KeyPath
from ragtrial.errors import listed
from ragtrial.options import Options, shown

_SHAPES = "an axis is a list of values, {range: [start, stop, step]}, or {share: 0.2, of: chunker.size}"


def _a_range(numbers: list[float]) -> list[float]:
    if len(numbers) != 3:
        raise ValueError(f"must have three numbers, start, stop (inclusive) and step; found {len(numbers)}.")
    if not all(map(math.isfinite, numbers)):
        raise ValueError("must be finite numbers.")
    start, stop, step = numbers
    if step == 0:
        raise ValueError("the step is 0; it must lead from start to stop.")
    if (stop - start) * step < 0:
        raise ValueError(f"is empty: a step of {_plain(step)} does not lead from {_plain(start)} to {_plain(stop)}.")
    return numbers


def _plain(number: float) -> float | int:
    return int(number) if number.is_integer() else number


class RangeAxis(Options):
    """Numbers at equal distances."""

    range: Annotated[list[float], AfterValidator(_a_range)]
    """[start, stop, step]: start, then steps up or down, as far as stop, which is among them if it is met."""

    @property
    def count(self) -> int:
        start, stop, step = map(_exact, self.range)
        return int((stop - start) // step) + 1

    def at(self, position: int) -> int | float:
        """The number at ``position``: whole if start and step are, else the nearest to the exact decimal."""
        start, _, step = map(_exact, self.range)
        value = start + position * step
        return int(value) if start.denominator == step.denominator == 1 else float(value)


class ShareAxis(Options):
    """A whole number that follows another key's."""

    share: Annotated[
        list[Annotated[float, Field(ge=0, allow_inf_nan=False)]],
        BeforeValidator(lambda value: value if isinstance(value, list) else [value], float | list[float]),
        Field(min_length=1),
    ]
    """The value as a share of the other key's, rounded to a whole number, halves up; a list of shares is tried one by
    one."""

    of: str
    """The other key: an axis, or a whole number that the config has."""


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


def _has_a_shape(value: object) -> object:
    if isinstance(value, list | RangeAxis | ShareAxis):
        return value
    if not isinstance(value, Mapping):
        raise ValueError(f"{_SHAPES}; found {shown(value)}.")  # noqa: TRY004 - pydantic takes ValueErrors
    if not value or (set(value) != {"range"} and not set(value) <= {"share", "of"}):
        raise ValueError(f"{_SHAPES}; found a mapping of {listed(value) or 'nothing'}.")
    return value


def _shape_of(value: object) -> str:
    if isinstance(value, list):
        return "a list"
    return "a range" if isinstance(value, RangeAxis) or (isinstance(value, Mapping) and "range" in value) else "a share"


AxisValues = Annotated[
    Annotated[list[Any], Field(min_length=1), Tag("a list")]
    | Annotated[RangeAxis, Tag("a range")]
    | Annotated[ShareAxis, Tag("a share")],
    Discriminator(_shape_of),
    BeforeValidator(_has_a_shape),
]


class SweepOptions(Options):
    """Many settings from one config: every combination of values along axes."""

    matrix: dict[str, AxisValues] = Field(default={})
    """Axes: dotted keys of the config, each with a list of values, `{range: [start, stop, step]}` (stop inclusive) or
    `{share: 0.2, of: chunker.size}` (a whole number computed from another key's). Values may be whole mappings; those
    of another kind replace what the config has, others are laid over it. Keys that move together stand in one entry,
    joined by commas, with a list of lists: `"chunker.size, chunker.overlap": [[128, 20], [256, 40]]`."""

    include: list[dict[str, Any]] = Field(default=[])
    """More combinations, each with values by dotted keys; what one does not name stays as the config has it. They are
    run whatever `exclude` and `sample` say."""

    exclude: list[Annotated[dict[str, Any], Field(min_length=1)]] = Field(default=[])
    """Combinations of the matrix that are left out: those that agree with all values that an entry names."""

    name: str | None = None
    """How settings are called: a text with `{retriever}` and keys of axes, like `{retriever}-c{chunker.size}`. Names
    must come out unique (default: the retriever and the values that reach it, like `dense-size128`)."""

    sample: Annotated[int, Field(ge=1)] | None = None
    """Only so many combinations of the matrix, drawn at random with the config's seed."""

    max_settings: Annotated[int, Field(ge=1)] = 200
    """A sweep that comes to more settings is refused before anything is run."""

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
    """An entry of the matrix: keys that move together, and what they are at each position.

    ``where`` is its place in the config.
    """

    keys: tuple[str, ...]
    where: KeyPath
    values: list[Any] | RangeAxis | ShareAxis

    @property
    def count(self) -> int:
        if isinstance(self.values, RangeAxis):
            return self.values.count
        return len(self.values.share if isinstance(self.values, ShareAxis) else self.values)

    def at(self, position: int) -> Iterator[tuple[str, Any, KeyPath]]:
        """Each key with its value and the place of that value; a share of another key's is still to be taken."""
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
