"""Which items of a collection are searched: conditions on their metadata, in one form for all engines.

The form is Chroma's `where`: ``{lang: en}``, ``{year: {$gte: 2024}}``, ``{$and: [{lang: en}, {year: 2024}]}``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, NamedTuple, TypeVar

from ragtrial.errors import did_you_mean, listed
from ragtrial.options import shown
from ragtrial.records import Question

T = TypeVar("T")
Scalar = str | int | float | bool

_ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {
    "$gt": lambda one, other: one > other,
    "$gte": lambda one, other: one >= other,
    "$lt": lambda one, other: one < other,
    "$lte": lambda one, other: one <= other,
}
_LISTS = ("$in", "$nin")
OPERATORS = ("$eq", "$ne", *_ORDERS, *_LISTS)
_JOINS = ("$and", "$or")

TypeName = Literal["text", "number", "boolean", "list", "mapping"]
_TYPES: Mapping[type, TypeName] = {
    str: "text", bool: "boolean", int: "number", float: "number", list: "list", tuple: "list"
}  # fmt: skip


@dataclass(frozen=True)
class Comparison:
    """A field compared with a value, or with several for `$in` and `$nin`.

    A number is equal to the number of the same value, whole or not; a boolean and a text are equal to no number. `$ne`
    and `$nin` let through items that have no such field, or one of another type; all other operators do not.
    """

    field: str
    operator: str
    value: Any

    @property
    def values(self) -> Sequence[Scalar]:
        """The values that it is compared with."""
        return self.value if self.operator in _LISTS else (self.value,)


@dataclass(frozen=True)
class Joined:
    """Several conditions: all must hold (``every``), or at least one."""

    every: bool
    conditions: tuple[Condition, ...]


Condition = Comparison | Joined


class Conditions(NamedTuple):
    """Which items are searched; None means all.

    ``where`` is in the common form; ``where_document``, on their texts, is Chroma's; ``filter`` has the syntax of the
    engine.
    """

    where: Mapping[str, Any] | None = None
    where_document: Mapping[str, Any] | None = None
    filter: Mapping[str, Any] | str | None = None

    def __str__(self) -> str:
        given = {key: one for key, one in self._asdict().items() if one is not None}
        return ", ".join(f"{key}: {dict(one) if isinstance(one, Mapping) else one}" for key, one in given.items())

    def joined(self, question: Question) -> Conditions:
        """These conditions, joined with the conditions of the question."""
        return Conditions(
            _both(self.where, question.where), _both(self.where_document, question.where_document), self.filter
        )


def _both(one: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    return {"$and": [one, other]} if one and other else one or other


ALL = Conditions()
"""No condition: all items are searched."""


def parsed(where: Any, also: Sequence[str] = (), place: str = "where") -> Condition:
    """``where`` as a tree. Raises ValueError with the wrong place and the expected value.

    ``also`` are operators of one engine; their values are not checked.
    """
    if not isinstance(where, Mapping):
        raise ValueError(f"{place} is {shown(where)}; it must be a mapping, like {{lang: en}}")  # noqa: TRY004 - as pydantic has it
    if not where:
        raise ValueError(f"{place} is empty")
    if len(where) > 1:
        raise ValueError(f"{place} has {len(where)} keys, {listed(map(repr, where), 3)}; join them: {{$and: [...]}}")
    ((key, value),) = where.items()
    here = f"{place}.{key}"
    if key in _JOINS:
        if not isinstance(value, list | tuple) or len(value) < 2:
            raise ValueError(f"{here} is {shown(value)}; it must be a list of at least 2 conditions")
        return Joined(key == "$and", tuple(parsed(one, also, f"{here}[{at}]") for at, one in enumerate(value)))
    if not key or key.startswith("$"):
        raise ValueError(f"{here} is no field.{did_you_mean(key, _JOINS)} Conditions are joined by {listed(_JOINS)}")
    return _comparison(key, value, also, here)


def _comparison(field: str, value: Any, also: Sequence[str], place: str) -> Comparison:
    if not isinstance(value, Mapping):
        return Comparison(field, "$eq", _scalar(value, place))
    if len(value) != 1:
        message = f"{place} must have one operator, like {{$gte: 2}}; two for a field are joined: {{$and: [...]}}"
        raise ValueError(message)
    ((operator, given),) = value.items()
    here = f"{place}.{operator}"
    if operator in also:
        return Comparison(field, operator, given)
    if operator not in OPERATORS:
        known = [*OPERATORS, *also]
        raise ValueError(f"{here} is an unknown operator.{did_you_mean(operator, known)} Known: {listed(known, 20)}")
    if operator not in _LISTS:
        return Comparison(field, operator, _scalar(given, here, is_number=operator in _ORDERS))
    if not isinstance(given, list | tuple) or not given:
        raise ValueError(f"{here} is {shown(given)}; it must be a list of values")
    values = tuple(_scalar(one, f"{here}[{at}]") for at, one in enumerate(given))
    if len({type(one) for one in values}) > 1:
        raise ValueError(f"{here} has values of several types; they must be of one")
    return Comparison(field, operator, values)


def _scalar(value: Any, place: str, *, is_number: bool = False) -> Scalar:
    expected = "a number" if is_number else "a text, a number, true or false"
    types = (int, float) if is_number else (str, bool, int, float)
    if type(value) not in types or (type(value) is float and not math.isfinite(value)):
        raise ValueError(f"{place} is {shown(value)}; it must be {expected}")
    scalar: Scalar = value
    return scalar


def translated(
    condition: Condition, comparison: Callable[[Comparison], T], joined: Callable[[bool, Sequence[T]], T]
) -> T:
    """``condition`` in the syntax of an engine: ``comparison`` translates a comparison, ``joined`` joins conditions.

    The first argument of ``joined`` is True if all of them must hold, False if one is enough.
    """
    if isinstance(condition, Comparison):
        return comparison(condition)
    return joined(condition.every, [translated(one, comparison, joined) for one in condition.conditions])


def comparisons(condition: Condition) -> list[Comparison]:
    """All comparisons in it."""
    return translated(condition, lambda comparison: [comparison], lambda _, parts: list(chain.from_iterable(parts)))


def passes(condition: Condition, metadata: Mapping[str, Any]) -> bool:
    """True if an item with these metadata meets the condition: all engines must agree with this."""
    return translated(
        condition,
        lambda one: _holds(one, metadata.get(one.field)),
        lambda every, parts: all(parts) if every else any(parts),
    )


def _holds(comparison: Comparison, value: Any) -> bool:
    operator = comparison.operator
    if operator in _ORDERS:
        return type_of(value) == "number" and _ORDERS[operator](value, comparison.value)
    is_among = any(type_of(value) == type_of(one) and value == one for one in comparison.values)
    return is_among == (operator in ("$eq", "$in"))


def type_of(value: Any) -> TypeName:
    """The name of a value's type in messages; "mapping" for all other types."""
    return _TYPES.get(type(value), "mapping")
