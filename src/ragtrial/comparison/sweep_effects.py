"""The effect of each parameter of a sweep."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from pydantic import JsonValue

from ragtrial.comparison.comparison_input import ComparedSetting, ComparisonInput
from ragtrial.comparison.statistics.estimates import finite, mean_of
from ragtrial.comparison.statistics.procedures import infer
from ragtrial.comparison.statistics.samples import Family, Procedure, contrasts
from ragtrial.evaluation.grading import Scores
from ragtrial.report.schema import Part

RETRIEVER = "retriever"
"""The parameter that says which entry of ``retrievers`` a setting is of."""

_REPORT = ""
"""The level by this name says which report a setting is of."""

_ROUNDING = 1e-12
"""Weighted sums of values that cancel out are off by less than this, relative to the largest value."""

Level = str
"""A value as canonical JSON, the same for 1 and 1.0."""

Cells = Mapping[int, Mapping[str, Level]]
"""The levels of each setting, by its index; RETRIEVER and the report are among them."""


class LevelsPart(Part):
    """Two levels of a parameter: values, or lists of values that move together."""

    parameter: str
    """Dotted keys of the sweep that move together, or ``retriever`` for which of them was taken."""

    reference: JsonValue
    """The lowest, or the first where values are no numbers."""

    level: JsonValue


class EffectPart(Part):
    """The difference between a level of a parameter and its reference by the primary metric, all else equal."""

    levels: LevelsPart
    matched: int
    """How many pairs of settings are behind it, which differ in nothing else; it is their mean. 0: there are none, so
    nothing is known."""

    mean_reference: float | None
    mean: float | None
    difference: float | None
    ci: tuple[float, float] | None
    """Simultaneous for all effects; null where fewer than ten queries differ."""

    p_corrected: float | None
    n: int
    differing: int
    """Queries for which it is not 0."""

    by_retriever: dict[str, float]
    """The difference among the settings of each retriever, without retrievers that it does not affect; descriptive."""


class EffectsPart(Part):
    """The effects of the parameters of a sweep."""

    metric: str
    effects: list[EffectPart]


def sweep_effects(inputs: ComparisonInput, procedure: Procedure) -> EffectsPart | None:
    """The effects of the swept parameters; None if there are none.

    Each level is compared with the reference of its parameter, over the settings of one report that agree in all other
    parameters and in the retriever. For ``retriever``, all parameters that affect both must agree. A combination
    without its counterpart, as include, exclude and sample leave some, is in no pair. All effects are one family with
    simultaneous intervals.
    """
    cells = _cells(inputs.settings)
    changes = [(name, levels[0], level) for name, levels in _parameters(cells).items() for level in levels[1:]]
    if not changes:
        return None
    values = inputs.scores(inputs.primary).values
    matches = [_matches(cells, *change) for change in changes]
    weights = np.array([_weights(pairs, len(values)) for pairs in matches])
    differences = contrasts(values, weights)
    differences[np.abs(differences) <= np.nanmax(np.abs(values), initial=0.0) * _ROUNDING] = 0.0
    (inference,) = infer([Family(differences, None, inputs.clusters)], procedure)
    effects = []
    for row, ((name, *ends), pairs) in enumerate(zip(changes, matches, strict=True)):
        known = ~np.isnan(differences[row]) & bool(pairs)
        low, high = float(inference.low[row]), float(inference.high[row])
        is_tested = bool(pairs) and math.isfinite(low) and math.isfinite(high)
        means = np.nan_to_num(values[:, known]).mean(axis=1) if known.any() else None
        reference, level = map(json.loads, ends)
        effects.append(
            EffectPart(
                levels=LevelsPart(parameter=name, reference=reference, level=level),
                matched=len(pairs),
                mean_reference=_weighted(np.maximum(-weights[row], 0), means),
                mean=_weighted(np.maximum(weights[row], 0), means),
                difference=finite(inference.mean[row]) if known.any() else None,
                ci=(low, high) if is_tested else None,
                p_corrected=float(inference.p_corrected[row]) if is_tested else None,
                n=int(known.sum()),
                differing=int(np.count_nonzero(differences[row][known])),
                by_retriever=_by_retriever(cells, pairs, values),
            )
        )
    return EffectsPart(metric=inputs.primary, effects=effects)


def _weighted(weights: Scores, means: Scores | None) -> float | None:
    return None if means is None else float(weights @ means)


def _weights(matches: Sequence[tuple[int, int]], settings: int) -> Scores:
    """The mean over matches of the setting less its reference, as weights of all settings."""
    weights = np.zeros(settings)
    for reference, setting in matches:
        weights[setting] += 1 / len(matches)
        weights[reference] -= 1 / len(matches)
    return weights


def _by_retriever(cells: Cells, matches: Sequence[tuple[int, int]], values: Scores) -> dict[str, float]:
    """For each retriever the mean difference of its matches."""
    matches_of = defaultdict(list)
    for match in matches:
        matches_of[str(json.loads(cells[match[1]][RETRIEVER]))].append(match)
    means = {name: mean_of(contrasts(values, _weights(own, len(values))[None])[0]) for name, own in matches_of.items()}
    return {name: mean for name, mean in means.items() if mean is not None}


def _parameters(cells: Cells) -> dict[str, list[Level]]:
    """The parameters with two levels or more, in their order, the retriever last; the first level is the reference.

    Levels are numbers by size, other values in their order.
    """
    found: dict[str, dict[Level, None]] = defaultdict(dict)
    for levels in cells.values():
        for name, level in levels.items():
            found[name][level] = None
    ordered = {name: _ordered(levels) for name, levels in found.items() if name not in (_REPORT, RETRIEVER)}
    ordered[RETRIEVER] = list(found[RETRIEVER])
    return {name: levels for name, levels in ordered.items() if len(levels) > 1}


def _ordered(levels: Mapping[Level, None]) -> list[Level]:
    """By size where all are numbers, or lists of as many numbers; a share counts as a number."""
    values = [json.loads(level) for level in levels]
    rows = [[_size(number) for number in (value if isinstance(value, list) else [value])] for value in values]
    if len({len(row) for row in rows}) > 1 or any(None in row for row in rows):
        return list(levels)
    pairs = sorted(zip(rows, levels, strict=True), key=lambda pair: [size or 0 for size in pair[0]])
    return [level for _, level in pairs]


def _size(value: JsonValue) -> float | None:
    share = value["share"] if isinstance(value, dict) and value.keys() == {"share", "of"} else value
    return share if isinstance(share, int | float) and not isinstance(share, bool) else None


def _matches(cells: Cells, name: str, reference: Level, level: Level) -> list[tuple[int, int]]:
    """The pairs of settings of one report at the two levels of a parameter, which agree in all other parameters.

    Two retrievers have to agree only in the parameters that affect both.
    """
    every = [(levels[RETRIEVER], levels.keys()) for levels in cells.values()]
    names = {other for _, names in every for other in names}
    if name == RETRIEVER:
        for end in (reference, level):
            names &= {other for retriever, names in every if retriever == end for other in names}
    sides: list[dict[frozenset[tuple[str, Level]], list[int]]] = [defaultdict(list), defaultdict(list)]
    for index, levels in cells.items():
        for end, side in zip((reference, level), sides, strict=True):
            if levels.get(name) == end:
                side[frozenset((other, levels[other]) for other in names & levels.keys() - {name})].append(index)
    return [(first, second) for key, own in sides[1].items() for second in own for first in sides[0].get(key, ())]


def _cells(settings: Sequence[ComparedSetting]) -> Cells:
    """The settings of sweeps, without retrievers that no swept value affects.

    A setting has no level of a parameter that its combination lacks, as combinations of ``include`` may.
    """
    entries = [(id(setting.report), setting.part.parameters.get("entry")) for setting in settings]
    swept = {entry for entry, setting in zip(entries, settings, strict=True) if setting.part.parameters.get("values")}
    return {
        index: {**_levels(setting), RETRIEVER: _level(entry[1]), _REPORT: str(entry[0])}
        for index, (entry, setting) in enumerate(zip(entries, settings, strict=True))
        if entry in swept
    }


def _levels(setting: ComparedSetting) -> dict[str, Level]:
    """The level of each parameter of a setting; keys of the sweep that move together are one."""
    values, sweep = setting.part.parameters.get("values") or {}, setting.report.config.get("sweep")
    axes: Any = sweep.get("matrix") or {} if isinstance(sweep, Mapping) else {}
    groups = [[key.strip() for key in axis.split(",")] for axis in axes]
    groups += [[key] for key in values if not any(key in group for group in groups)]
    levels: dict[str, Level] = {}
    for group in groups:
        taken = {key: _as_share(axes.get(key), values[key], values) for key in group if key in values}
        if taken:
            levels[", ".join(taken)] = _level([*taken.values()] if len(taken) > 1 else next(iter(taken.values())))
    return levels


def _level(value: Any) -> Level:
    def number(text: str) -> float:
        return int(float(text)) if float(text).is_integer() else float(text)

    whole = json.loads(json.dumps(value, default=str), parse_float=number)
    return json.dumps(whole, sort_keys=True)


def _as_share(axis: Any, value: Any, values: Mapping[str, Any]) -> Any:
    """The share that a value was computed from, as the sweep computes it; else the value."""
    if isinstance(axis, Mapping) and {"share", "of"} <= axis.keys():
        share, whole = axis["share"], values.get(str(axis["of"]))
        for part in share if isinstance(share, list | tuple) else (share,):
            if isinstance(whole, int) and math.floor(Fraction(repr(part)) * whole + Fraction(1, 2)) == value:
                return {"share": part, "of": str(axis["of"])}
    return value
