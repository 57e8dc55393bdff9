"""How much each axis of a search changes the score, with intervals."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from ragtrial.comparison.statistics.procedures import infer
from ragtrial.comparison.statistics.samples import Family, Procedure, contrasts
from ragtrial.evaluation.grading import Scores
from ragtrial.search.search_result import ImportancePart

RETRIEVER = "retriever"
_MOST_LEVELS = 4
"""If an axis has more numbers, thirds of them are compared."""

_SETTINGS_PER_COLUMN = 2
"""With fewer settings per effect the fit follows single settings."""

_TOLERANCE = 1e-8


@dataclass(frozen=True)
class _Column:
    """A level of an axis after the first level, which is the reference."""

    axis: str
    level: int


def importance_of(settings: Sequence[Mapping[str, Any]], values: Scores, procedure: Procedure) -> list[ImportancePart]:
    """For each axis, the two levels that differ most, by a sum of effects fitted to the scores.

    ``settings`` has the values of each setting by axis, without axes that do not affect it; ``values`` has the scores,
    shape (settings, queries). Least squares over settings make each effect a weighted sum of settings, so it has a
    value for each query, and the intervals of all effects are simultaneous over queries. Empty for few settings.
    """
    axes = list(dict.fromkeys(axis for setting in settings for axis in setting))
    levels = {axis: _levels([setting.get(axis) for setting in settings]) for axis in axes}
    columns = [_Column(axis, level) for axis in axes for level in range(1, len(levels[axis].names))]
    if not columns or len(settings) < _SETTINGS_PER_COLUMN * (len(columns) + 1):
        return []
    design = np.ones((len(settings), 1 + len(columns)))
    for place, column in enumerate(columns, 1):
        design[:, place] = [level == column.level for level in levels[column.axis].of]
    inverse = np.linalg.pinv(design)
    spanned = inverse @ design
    pairs, weights = [], []
    for axis in axes:
        for first, second in combinations(range(len(levels[axis].names)), 2):
            contrast = np.zeros(1 + len(columns))
            for level, sign in ((first, -1.0), (second, 1.0)):
                if level:
                    contrast[1 + columns.index(_Column(axis, level))] = sign
            if np.abs(contrast @ spanned - contrast).max() < _TOLERANCE:  # otherwise settings do not separate them
                pairs.append((axis, first, second))
                weights.append(contrast @ inverse)
    if not pairs:
        return []
    differences = contrasts(values, np.array(weights))
    differences[np.abs(differences) <= _TOLERANCE] = 0.0
    (inference,) = infer([Family(differences)], procedure)
    parts: dict[str, ImportancePart] = {}
    for row in np.argsort(-np.abs(inference.mean), kind="stable").tolist():
        axis, first, second = pairs[row]
        sign = -1.0 if inference.mean[row] < 0 else 1.0
        better, other = (first, second) if sign < 0 else (second, first)
        ends = sorted((sign * float(inference.low[row]), sign * float(inference.high[row])))
        parts.setdefault(
            axis,
            ImportancePart(
                axis=axis,
                level=levels[axis].names[better],
                reference=levels[axis].names[other],
                difference=abs(float(inference.mean[row])),
                ci=None if np.isnan(ends).any() else (ends[0], ends[1]),
            ),
        )
    return list(parts.values())


@dataclass(frozen=True)
class _Levels:
    """The levels of an axis, and the level of each setting; -1 if the axis does not affect it."""

    names: Sequence[Any]
    of: Sequence[int]


def _levels(values: Sequence[Any]) -> _Levels:
    known = [json.dumps(value, sort_keys=True, default=str) for value in values if value is not None]
    distinct = list(dict.fromkeys(known))
    numbers = [one for one in values if isinstance(one, int | float) and not isinstance(one, bool)]
    if len(distinct) > _MOST_LEVELS and len(numbers) == len(known):
        edges = np.quantile(numbers, [1 / 3, 2 / 3])
        of = [-1 if one is None else int(np.searchsorted(edges, one)) for one in values]
        present = sorted(set(of) - {-1})
        names = [[min(own), max(own)] for level in present
                 for own in [[one for one, at in zip(values, of, strict=True) if at == level]]]  # fmt: skip
        return _Levels(names, [-1 if at < 0 else present.index(at) for at in of])
    places = {text: place for place, text in enumerate(sorted(distinct, key=_order))}
    of = [-1 if one is None else places[json.dumps(one, sort_keys=True, default=str)] for one in values]
    return _Levels([json.loads(text) for text in places], of)


def _order(text: str) -> tuple[bool, float, str]:
    value = json.loads(text)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return not is_number, float(value) if is_number else 0.0, text
