"""Conditions on metadata, by a hand-worked table: what all engines must agree with."""

import re
from typing import Any

import pytest

from ragtrial.engines.filters import parsed, passes

YEARS: list[dict[str, Any]] = [{"year": 2023}, {"year": 2024.0}, {"year": 2025}, {}, {"year": "2024"}]
BELOW, EQUAL, ABOVE, MISSING, TEXT = YEARS


@pytest.mark.parametrize(("operator", "value", "passing"), [
    ("$eq", 2024, [EQUAL]), ("$ne", 2024, [BELOW, ABOVE, MISSING, TEXT]), ("$gt", 2024, [ABOVE]),
    ("$gte", 2024, [EQUAL, ABOVE]), ("$lt", 2024, [BELOW]), ("$lte", 2024, [BELOW, EQUAL]),
    ("$in", [2023, 2025], [BELOW, ABOVE]), ("$nin", [2023, 2025], [EQUAL, MISSING, TEXT]),
])  # fmt: skip
def test_an_operator_lets_through_what_its_name_says(operator: str, value: Any, passing: list[dict[str, Any]]) -> None:
    condition = parsed({"year": {operator: value}})
    assert [one for one in YEARS if passes(condition, one)] == passing


def test_conditions_are_joined_by_and_and_or() -> None:
    parts = [{"year": {"$gte": 2024}}, {"year": {"$lt": 2025}}]
    assert [passes(parsed({"$and": parts}), one) for one in (BELOW, EQUAL, ABOVE)] == [False, True, False]
    assert [passes(parsed({"$or": parts}), one) for one in (BELOW, EQUAL, ABOVE)] == [True, True, True]


@pytest.mark.parametrize(("condition", "fault"), [
    ({"year": {"$gt": 1, "$lt": 3}}, "where.year must have one operator, like {$gte: 2}; two for a field are joined"),
    ({"year": {"$gte ": 1}}, "where.year.$gte  is an unknown operator. Did you mean '$gte'? Known: $eq, "),
    ({"year": {"$in": [1, "1"]}}, "where.year.$in has values of several types; they must be of one"),
    ({"$not": {"year": 1}}, "where.$not is no field. Conditions are joined by $and, $or"),
])  # fmt: skip
def test_a_condition_that_no_engine_has_is_an_error(condition: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match=rf"^{re.escape(fault)}"):
        parsed(condition)
