"""The values of an axis, in each of the shapes in which a sweep may write them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from ragtrial.options import Options


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
    """Any number between two, for a search; whole ones between whole ones."""

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
