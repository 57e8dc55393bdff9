"""How answers of all endpoints are read: members of a JSON object, rows in order, and tokens as billed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from ragtrial.components.endpoints.client import Client
from ragtrial.errors import EndpointError

_MOST_TOKENS = 2**53


def named(client: Client) -> str:
    """The model and its address, for messages."""
    return f"the model {client.options.model!r} at {client.options.base_url}"


def member(answer: Any, name: str, kind: type, who: str) -> Any:
    """The value that an answer has under ``name``. Raises EndpointError where it is not of that kind."""
    found = answer.get(name) if isinstance(answer, Mapping) else None
    if not isinstance(found, kind):
        has = sorted(answer) if isinstance(answer, Mapping) else type(answer).__name__
        raise EndpointError(f"{who} answered without {name!r}; the answer has {str(has)[:100]}.")
    return found


def in_order(rows: Sequence[Any], count: int, who: str) -> list[Mapping[str, Any]]:
    """The rows of an answer to ``count`` texts, in the order of the texts, whatever order they arrived in.

    Raises EndpointError unless there is exactly one for each.
    """
    if len(rows) != count or not all(isinstance(row, Mapping) for row in rows):
        raise EndpointError(f"{who} answered with {len(rows):,} results for {count:,} texts; expected one for each.")
    indexes = [row.get("index", position) for position, row in enumerate(rows)]
    if sorted(index for index in indexes if type(index) is int) != list(range(count)):
        raise EndpointError(
            f"{who} answered with the indexes {str(indexes)[:60]}; expected each of 0 to {count - 1} once."
        )
    placed = dict(zip(indexes, rows, strict=True))
    return [placed[position] for position in range(count)]


def billed(answer: Any, *path: str | tuple[str, ...]) -> int | None:
    """The first number under the names of ``path``, None if an answer does not say it."""
    *steps, names = path
    for step in steps:
        answer = answer.get(step) if isinstance(answer, Mapping) else None
    values = [answer.get(name) for name in names] if isinstance(answer, Mapping) else []
    return next((int(value) for value in values if is_number(value) and 0 <= value <= _MOST_TOKENS), None)


def is_number(value: Any) -> TypeGuard[int | float]:
    """Whether ``value`` is a finite number; true and false are none."""
    return type(value) in (int, float) and math.isfinite(value)
