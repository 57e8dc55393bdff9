"""Columns of numbers: scores, ranks and grades, and what is wrong with those that are none."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from numbers import Integral, Real

import numpy as np
import numpy.typing as npt

from ragtrial.records import MOST_GRADE
from ragtrial.runs.faults import Faults, shown

Floats = npt.NDArray[np.float64]

_WHOLE = (int, np.integer)
_NUMBERS = (int, float, np.integer, np.floating)


def number_problem(role: str, value: object) -> str | None:
    """What is wrong with a score or a rank; None if nothing is."""
    if value is None:
        return f"has no {role}: null is no number."
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real | Decimal):
        return f"the {role} {shown(value)} is no number."
    try:
        number = float(value)
    except OverflowError:
        return f"the {role} {shown(value)} is too large for a number of 64 bits."
    except ValueError:  # a signalling NaN
        number = math.nan
    if math.isnan(number):
        return f"the {role} is NaN, so it has no place in an order; give every hit a {role}."
    return None


def grade_problem(value: object) -> str | None:
    """What is wrong with a grade; None if nothing is."""
    if value is None:
        return "has no grade: null is no number."
    if isinstance(value, bool | np.bool_) or not isinstance(value, Integral):
        return f"the grade {shown(value)} must be a whole number, such as 1."
    if abs(int(value)) > MOST_GRADE:
        return f"the grade {shown(value)} is beyond {MOST_GRADE:,}; is it one?"
    return None


def are_numbers(values: Iterable[object]) -> bool:
    """Whether all are of a type of numbers that arrays have."""
    return all(issubclass(kind, _NUMBERS) and kind is not bool for kind in set(map(type, values)))


def are_whole(values: Iterable[object]) -> bool:
    """Whether all are of a type of whole numbers that arrays have."""
    return all(issubclass(kind, _WHOLE) and kind is not bool for kind in set(map(type, values)))


def scores_of(values: Sequence[object], role: str, faults: Faults) -> Floats:
    """The number of each row; a fault for each that is none."""
    if are_numbers(values):
        try:
            numbers = np.array(values, dtype=np.float64)
        except OverflowError:
            pass
        else:
            if not np.isnan(numbers).any():
                return numbers
    made = np.zeros(len(values))
    for row, value in enumerate(values):
        wrong = number_problem(role, value)
        if wrong:
            faults.add_row(row, wrong)
        else:
            made[row] = float(value)  # type: ignore[arg-type]
    return made


def grades_of(values: Sequence[object], faults: Faults) -> npt.NDArray[np.int64]:
    """The grade of each row; a fault for each that is none."""
    if are_whole(values) and (not values or max(map(abs, values)) <= MOST_GRADE):  # type: ignore[arg-type]
        return np.array(values, dtype=np.int64)
    made = np.zeros(len(values), dtype=np.int64)
    for row, value in enumerate(values):
        wrong = grade_problem(value)
        if wrong:
            faults.add_row(row, wrong)
        else:
            made[row] = int(value)  # type: ignore[call-overload]
    return made
