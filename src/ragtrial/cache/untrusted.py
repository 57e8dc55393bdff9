"""Bytes that others wrote, read within a budget: the depth of JSON, the size of its numbers."""

from __future__ import annotations

import json
import math
import re
from itertools import accumulate
from typing import Any

DEEPEST_JSON = 100
"""Brackets within one another: more than any file of ours has, and far fewer than Python's own limit."""

LONGEST_INTEGER = 100
"""Digits of an integer: more than any id that is a number has. One of 310 cannot even become a float."""

_BETWEEN_BRACKETS = re.compile(r'(?:[^\[\]{}"]++|"[^"\\]*+(?:\\.[^"\\]*+)*+"?)++', re.DOTALL)
"""What is no bracket, whole strings among it; one that does not end reaches to the end."""


def load_json(content: bytes | str) -> Any:
    """The value of JSON that anyone may have written: nested at most 100 deep, all numbers finite.

    Raises ValueError, whose text says why, for whatever else.
    """
    text = content if isinstance(content, str) else content.decode("utf-8")
    if is_deep(text):
        raise ValueError(f"it is nested more than {DEEPEST_JSON} deep")
    return json.loads(text, parse_int=_integer, parse_float=_finite, parse_constant=_finite)


def is_deep(text: str) -> bool:
    """Whether a JSON text has more than ``DEEPEST_JSON`` brackets within one another."""
    if text.count("[") + text.count("{") <= DEEPEST_JSON:
        return False
    brackets = _BETWEEN_BRACKETS.sub("", text)
    return max(accumulate(1 if bracket in "[{" else -1 for bracket in brackets), default=0) > DEEPEST_JSON


def _integer(digits: str) -> int:
    if len(digits.lstrip("-")) > LONGEST_INTEGER:
        raise ValueError(f"it has an integer of {len(digits.lstrip('-')):,} digits")
    return int(digits)


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"it has the number {number}, which is not finite")
    return value
