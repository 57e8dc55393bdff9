"""The effect of each parameter of a sweep, and whether it depends on another one."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any, TypeVar

import numpy as np
from pydantic import JsonValue

from ragtrial.comparison.comparison_input import ComparedSetting, ComparisonInput
from ragtrial.comparison.statistics.procedures import infer
from ragtrial.comparison.statistics.samples import Family, Inference, Procedure, contrasts
from ragtrial.evaluation.grading import Scores
from ragtrial.report.model import Report
from ragtrial.report.schema import Part, SettingPart

T = TypeVar("T")

RETRIEVER = "retriever"
"""The parameter that says which entry of ``retrievers`` a setting is of."""

_REPORT = ""
"""The level by this name says which report a setting is of."""

Level = str
"""A value as canonical JSON, the same for 1 and 1.0."""


@dataclass(frozen=True)
class SweptParameter:
    """A varied parameter and its levels, numbers by size, other values in their order.

    The first level is the reference.
    """

    name: str
    levels: tuple[Level, ...]


@dataclass(frozen=True)
class Change:
    """From the reference of a parameter to another of its levels."""

    parameter: SweptParameter
    level: int

    @property
    def name(self) -> str:
        return self.parameter.name

    @property
    def ends(self) -> tuple[Level, Level]:
        return self.parameter.levels[0], self.parameter.levels[self.level]


@dataclass(frozen=True, eq=False)
class Cell:
    """A setting: its place among the settings, and its levels, RETRIEVER and the report among them."""

    place: int
    levels: Mapping[str, Level]

    def within(self, names: Collection[str]) -> frozenset[tuple[str, Level]]:
        """Its levels of these parameters."""
        return frozenset((name, level) for name, level in self.levels.items() if name in names)


Match = tuple[Cell, Cell]
"""Settings at the reference and at another level of a parameter, which agree in all else."""


@dataclass(frozen=True, eq=False)
class Design:
    """The settings of a sweep."""

    cells: tuple[Cell, ...]

    def parameters(self) -> list[SweptParameter]:
        """The parameters with two levels or more, in their order, the retriever last."""
        found: dict[str, dict[Level, None]] = {}
        for cell in self.cells:
            for name, level in cell.levels.items():
                found.setdefault(name, {})[level] = None
        names = [name for name in found if name not in (_REPORT, RETRIEVER)]
        made = [SweptParameter(name, tuple(_ordered(found[name]))) for name in names]
        made.append(SweptParameter(RETRIEVER, tuple(found.get(RETRIEVER, ()))))
        return [one for one in made if len(one.levels) > 1]

    def matches(self, change: Change) -> list[Match]:
        """The pairs of settings of one report at both ends of a change, which agree in all other parameters.

        Two retrievers have to agree only in the parameters that affect both.
        """
        names = self._others(change)
        at = [[cell for cell in self.cells if cell.levels.get(change.name) == end] for end in change.ends]
        return _joined(at[0], at[1], lambda cell: cell.within(names))

    def meet(self, one: Change, two: Change) -> bool:
        """True if two parameters affect a setting together.

        If ``two`` is RETRIEVER, ``one`` must affect both retrievers.
        """
        if two.name == RETRIEVER:
            return one.name in self._others(two)
        return one.name != two.name and any({one.name, two.name} <= cell.levels.keys() for cell in self.cells)

    def fours(self, first: Change, second: Change) -> list[tuple[Match, Match]]:
        """Matches of ``first`` at the reference of ``second``, each with one at its level: all four agree in all else.

        ``first`` is not RETRIEVER, and must reach both where ``second`` is.
        """
        names = self._others(second) - {first.name}
        at: list[list[Match]] = [[], []]
        for match in self.matches(first):
            for end, found in zip(second.ends, at, strict=True):
                found += [match] if match[1].levels.get(second.name) == end else []
        return _joined(at[0], at[1], lambda match: match[1].within(names))

    def _others(self, change: Change) -> set[str]:
        """The other parameters, which must agree across the change."""
        reaching = [
            {name for cell in self.cells if cell.levels[RETRIEVER] == end for name in cell.levels}
            for end in change.ends
        ]
        every = {name for cell in self.cells for name in cell.levels}
        return (reaching[0] & reaching[1] if change.name == RETRIEVER else every) - {change.name}


def _joined(ones: Sequence[T], others: Sequence[T], key: Callable[[T], Hashable]) -> list[tuple[T, T]]:
    """Each of ``others`` with each of ``ones`` that has the same key."""
    found: dict[Hashable, list[T]] = {}
    for one in ones:
        found.setdefault(key(one), []).append(one)
    return [(one, other) for other in others for one in found.get(key(other), ())]


def _ordered(levels: Mapping[Level, None]) -> list[Level]:
    """By size where all are numbers, or lists of as many numbers; a share counts as a number."""
    values = [json.loads(level) for level in levels]
    rows = [[_size(one) for one in (value if isinstance(value, list) else [value])] for value in values]
    if len({len(row) for row in rows}) > 1 or any(None in row for row in rows):
        return list(levels)
    return [
        level for _, level in sorted(zip(rows, levels, strict=True), key=lambda one: [size or 0 for size in one[0]])
    ]


def _size(value: JsonValue) -> float | None:
    share = value["share"] if isinstance(value, dict) and value.keys() == {"share", "of"} else value
    return share if isinstance(share, int | float) and not isinstance(share, bool) else None


def design_of(settings: Sequence[ComparedSetting]) -> Design:
    """The settings of sweeps, without retrievers that no swept value affects.

    A setting has no level of a parameter that its combination lacks, as combinations of ``include`` may.
    """
    entries = [(id(one.report), _entry(one.part, one.report)) for one in settings]
    swept = {entry for entry, one in zip(entries, settings, strict=True) if _values(one.part)}
    cells = []
    for place, (entry, setting) in enumerate(zip(entries, settings, strict=True)):
        if entry in swept:
            levels = {RETRIEVER: _level(entry[1]), _REPORT: str(entry[0])}
            cells.append(Cell(place, {**_levels_of_setting(setting), **levels}))
    return Design(tuple(cells))


def _level(value: Any) -> Level:
    whole = json.loads(json.dumps(value, default=str), parse_float=_number)
    return json.dumps(whole, sort_keys=True)


def _number(text: str) -> float:
    number = float(text)
    return int(number) if number.is_integer() else number


def _values(setting: SettingPart) -> Mapping[str, Any]:
    values = setting.parameters.get("values")
    return values if isinstance(values, Mapping) else {}


def _entry(setting: SettingPart, report: Report) -> str:
    """The entry of ``retrievers`` of a setting, or else derived from its name."""
    entries = [entry for entry in report.config.get("retrievers") or {} if setting.name.startswith(entry)]
    return str(setting.parameters.get("entry") or max(entries, key=len, default=setting.name))


def _levels_of_setting(setting: ComparedSetting) -> dict[str, Level]:
    """The level of each parameter of a setting; keys of the sweep that move together are one."""
    values, sweep = _values(setting.part), setting.report.config.get("sweep")
    axes: Any = sweep.get("matrix") or {} if isinstance(sweep, Mapping) else {}
    groups = [[key.strip() for key in axis.split(",")] for axis in axes]
    groups += [[key] for key in values if not any(key in group for group in groups)]
    made: dict[str, Level] = {}
    for group in groups:
        moved = [key for key in group if key in values]
        taken = [_as_share(axes.get(key), values[key], values) for key in moved]
        if moved:
            made[", ".join(moved)] = _level(taken if len(taken) > 1 else taken[0])
    return made


def _as_share(axis: Any, value: Any, values: Mapping[str, Any]) -> Any:
    """The share that a value was computed from, as the sweep computes it; else the value."""
    if isinstance(axis, Mapping) and {"share", "of"} <= axis.keys():
        share, whole = axis["share"], values.get(str(axis["of"]))
        for one in share if isinstance(share, list | tuple) else (share,):
            if isinstance(whole, int) and math.floor(Fraction(repr(one)) * whole + Fraction(1, 2)) == value:
                return {"share": one, "of": str(axis["of"])}
    return value


_ROUNDING = 1e-12
"""Weighted sums of values that cancel out are off by less than this, relative to the largest value."""


class LevelsPart(Part):
    """Two levels of a parameter: values, or lists of values that move together."""

    parameter: str
    """Dotted keys of the sweep that move together, or ``retriever`` for which of them was taken."""

    reference: JsonValue
    """The lowest, or the first where values are no numbers."""

    level: JsonValue


class ContrastPart(Part):
    """A weighted difference of settings by the primary metric, query by query."""

    matched: int
    """How many pairs (of an interaction: fours) of settings are behind it, which differ in nothing else; it is their
    mean. 0: there are none, so nothing is known."""

    difference: float | None
    ci: tuple[float, float] | None
    """Simultaneous for all main effects, or for all interactions; null where fewer than ten queries differ."""

    p_corrected: float | None
    n: int
    differing: int
    """Queries for which it is not 0."""


class EffectPart(ContrastPart):
    """The difference between a level of a parameter and its reference, all else equal."""

    levels: LevelsPart
    mean_reference: float | None
    mean: float | None
    by_retriever: dict[str, float]
    """The difference among the settings of each retriever, without retrievers that it does not affect; descriptive."""


class InteractionPart(ContrastPart):
    """How much more ``first`` adds at the level of ``second`` than at its reference."""

    first: LevelsPart
    second: LevelsPart


class EffectsPart(Part):
    """The parameters of a sweep, one by one and in twos."""

    metric: str
    effects: list[EffectPart]
    interactions: list[InteractionPart]
    """Interactions of parameters that affect a setting together."""


def sweep_effects(inputs: ComparisonInput, procedure: Procedure) -> EffectsPart | None:
    """The main effects and pairwise interactions of the swept parameters; None if there are none.

    Each level is compared with the reference of its parameter, over the settings of one report that agree in all other
    parameters and in the retriever. For ``retriever``, all parameters that affect both must agree. A combination
    without its counterpart, as include, exclude and sample leave some, is in no pair. Main effects are one family with
    simultaneous intervals, interactions (differences of differences) another.
    """
    design = design_of(inputs.settings)
    changes = [
        Change(parameter, level) for parameter in design.parameters() for level in range(1, len(parameter.levels))
    ]
    if not changes:
        return None
    values = inputs.scores(inputs.primary).values
    matches = [design.matches(change) for change in changes]
    twos = [(one, two) for one, two in combinations(changes, 2) if design.meet(one, two)]
    fours = [design.fours(*two) for two in twos]
    effects = _contrasts([_weights(pairs, len(values)) for pairs in matches], values)
    of_fours = [
        _weights([two for _, two in found], len(values)) - _weights([one for one, _ in found], len(values))
        for found in fours
    ]
    interactions = _contrasts(of_fours, values)
    of_effects, of_interactions = infer([effects, interactions], procedure)
    return EffectsPart(
        metric=inputs.primary,
        effects=[
            EffectPart(
                **_contrast(len(found), effects, of_effects, row),
                **_means(_weights(found, len(values)), values, effects.columns[row]),
                levels=_levels(change),
                by_retriever=_by_retriever(found, values),
            )
            for row, (change, found) in enumerate(zip(changes, matches, strict=True))
        ],
        interactions=[
            InteractionPart(
                **_contrast(len(found), interactions, of_interactions, row), first=_levels(one), second=_levels(two)
            )
            for row, ((one, two), found) in enumerate(zip(twos, fours, strict=True))
        ],
    )


def _weights(matches: Sequence[Match], settings: int) -> Scores:
    """The mean over matches of the setting less its reference, as weights of all settings."""
    weights = np.zeros(settings)
    for reference, setting in matches:
        weights[setting.place] += 1 / len(matches)
        weights[reference.place] -= 1 / len(matches)
    return weights


def _contrasts(weights: Sequence[Scores], values: Scores) -> Family:
    """The contrasts themselves as columns: what only rounding keeps from 0 is 0 in them."""
    differences = contrasts(values, np.array(weights).reshape(len(weights), len(values)))
    differences[np.abs(differences) <= np.nanmax(np.abs(values), initial=0.0) * _ROUNDING] = 0.0
    return Family(differences)


def _contrast(matched: int, family: Family, inference: Inference, row: int) -> dict[str, Any]:
    """The fields of a ContrastPart."""
    differences = family.columns[row]
    known, low, high = differences[~np.isnan(differences)], float(inference.low[row]), float(inference.high[row])
    is_tested = matched > 0 and math.isfinite(low) and math.isfinite(high)
    return {
        "matched": matched,
        "difference": float(inference.mean[row]) if matched and len(known) else None,
        "ci": (low, high) if is_tested else None,
        "p_corrected": float(inference.p_corrected[row]) if is_tested else None,
        "n": len(known) if matched else 0,
        "differing": int(np.count_nonzero(known)),
    }


def _levels(change: Change) -> LevelsPart:
    reference, level = map(json.loads, change.ends)
    return LevelsPart(parameter=change.name, reference=reference, level=level)


def _means(weights: Scores, values: Scores, differences: Scores) -> dict[str, float | None]:
    """The means of the references and of the settings, over the queries that count for all of them."""
    known = ~np.isnan(differences)
    if not weights.any() or not known.any():
        return {"mean_reference": None, "mean": None}
    means = np.nan_to_num(values[:, known]).mean(axis=1)
    return {"mean_reference": float(np.maximum(-weights, 0) @ means), "mean": float(np.maximum(weights, 0) @ means)}


def _by_retriever(matches: Sequence[Match], values: Scores) -> dict[str, float]:
    """For each retriever the mean difference of its matches."""
    found: dict[str, list[Match]] = {}
    for match in matches:
        found.setdefault(json.loads(match[1].levels[RETRIEVER]), []).append(match)
    weights = np.array([_weights(own, len(values)) for own in found.values()]).reshape(len(found), len(values))
    rows = [row[~np.isnan(row)] for row in contrasts(values, weights)]
    return {name: float(row.mean()) for name, row in zip(found, rows, strict=True) if len(row)}
