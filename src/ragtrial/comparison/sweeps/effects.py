"""What each parameter of a sweep does by itself, and whether that depends on another one."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
from pydantic import JsonValue

from ragtrial.comparison.contest import ComparisonSet
from ragtrial.comparison.statistics.inference import infer
from ragtrial.comparison.statistics.samples import Family, Inference, Procedure, contrasts
from ragtrial.comparison.sweeps.matched import RETRIEVER, Change, Match, design_of
from ragtrial.evaluation.grading import Scores
from ragtrial.report.schema import Part

_ROUNDING = 1e-12
"""Weighted sums of values that cancel out are off by less than this, relative to the largest value."""


class LevelsPart(Part):
    """Two levels of a parameter: a value, or a list of those that move together."""

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
    """What a level of a parameter adds to what its reference has, all else equal."""

    levels: LevelsPart
    mean_reference: float | None
    mean: float | None
    by_retriever: dict[str, float]
    """The difference among the settings of each retriever; descriptive. Those that it does not reach are not here."""


class InteractionPart(ContrastPart):
    """How much more ``first`` adds at the level of ``second`` than at its reference."""

    first: LevelsPart
    second: LevelsPart


class EffectsPart(Part):
    """The parameters of a sweep, one by one and in twos."""

    metric: str
    effects: list[EffectPart]
    interactions: list[InteractionPart]
    """Of parameters that reach a setting together."""


def sweep_effects(contest: ComparisonSet, procedure: Procedure) -> EffectsPart | None:
    """Main effects and pairwise interactions of what was swept, or None where nothing was.

    Each level is set against the reference of its parameter, over the settings of one report that agree in all else:
    the other parameters and the retriever. For ``retriever`` all that reaches both must agree. A combination without
    its counterpart, as include, exclude and sample leave them, is in no pair. Main effects are one family with
    simultaneous intervals, interactions (differences of differences) another.
    """
    design = design_of(contest.contenders)
    changes = [
        Change(parameter, level) for parameter in design.parameters() for level in range(1, len(parameter.levels))
    ]
    if not changes:
        return None
    values = contest.scores(contest.primary).values
    matches = [design.matches(change) for change in changes]
    twos = [(one, two) for one, two in combinations(changes, 2) if design.meet(one, two)]
    fours = [design.fours(*two) for two in twos]
    effects = _contrasts([_weights(found, len(values)) for found in matches], values)
    of_fours = [
        _weights([two for _, two in found], len(values)) - _weights([one for one, _ in found], len(values))
        for found in fours
    ]
    interactions = _contrasts(of_fours, values)
    of_effects, of_interactions = infer([effects, interactions], procedure)
    return EffectsPart(
        metric=contest.primary,
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
