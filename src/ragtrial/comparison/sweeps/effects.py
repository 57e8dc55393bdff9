"""What each parameter of a sweep does by itself, and whether that hangs on another one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np
from pydantic import JsonValue

from ragtrial.comparison.contest import ComparisonSet
from ragtrial.comparison.statistics.flips import infer
from ragtrial.comparison.statistics.samples import Family, Inference, Procedure
from ragtrial.comparison.sweeps.matched import MatchedPair, SweptParameter, design_of
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
    parameters = design.parameters()
    if not parameters:
        return None
    values = contest.scores(contest.primary).values
    mains = [(one, level) for one in parameters for level in range(1, len(one.levels))]
    pairs = [design.pairs(*main) for main in mains]
    twos = [(one, two) for one, two in combinations(mains, 2) if design.meet(one[0], *two)]
    fours = [design.fours(*two) for two in twos]
    main_weights = _stacked([_of_pairs(one, len(values)) for one in pairs], len(values))
    two_weights = _stacked([_of_fours(one, len(values)) for one in fours], len(values))
    families = [_family(values, main_weights), _family(values, two_weights)]
    of_mains, of_twos = infer(families, procedure)
    return EffectsPart(
        metric=contest.primary,
        effects=[
            EffectPart(
                **dict(_contrast(len(found), families[0], of_mains, row)),
                levels=_levels(*main),
                mean_reference=before,
                mean=after,
                by_retriever=_by_retriever(found, values),
            )
            for row, (main, found) in enumerate(zip(mains, pairs, strict=True))
            for before, after in [_means(values, main_weights[row], families[0].columns[row])]
        ],
        interactions=[
            InteractionPart(
                **dict(_contrast(len(found), families[1], of_twos, row)), first=_levels(*one), second=_levels(*two)
            )
            for row, ((one, two), found) in enumerate(zip(twos, fours, strict=True))
        ],
    )


def _of_pairs(pairs: Sequence[MatchedPair], settings: int) -> Scores:
    """The mean over pairs of the setting less its reference, as weights of all settings."""
    weights = np.zeros(settings)
    for pair in pairs:
        weights[pair.setting] += 1 / len(pairs)
        weights[pair.reference] -= 1 / len(pairs)
    return weights


def _of_fours(fours: Sequence[tuple[MatchedPair, MatchedPair]], settings: int) -> Scores:
    return _of_pairs([pair for _, pair in fours], settings) - _of_pairs([pair for pair, _ in fours], settings)


def _stacked(rows: Sequence[Scores], settings: int) -> Scores:
    return np.array(rows).reshape(len(rows), settings)


def _family(values: Scores, weights: Scores) -> Family:
    """The contrasts themselves as columns: what only rounding keeps from 0 is 0 in them."""
    differences = Family(values, weights).differences
    differences[np.abs(differences) <= np.nanmax(np.abs(values), initial=0.0) * _ROUNDING] = 0.0
    return Family(differences, np.eye(len(weights)))


def _contrast(matched: int, family: Family, inference: Inference, row: int) -> ContrastPart:
    differences = family.columns[row]
    known, low, high = differences[~np.isnan(differences)], float(inference.low[row]), float(inference.high[row])
    is_tested = matched > 0 and math.isfinite(low) and math.isfinite(high)
    return ContrastPart(
        matched=matched,
        difference=float(inference.mean[row]) if matched and len(known) else None,
        ci=(low, high) if is_tested else None,
        p_corrected=float(inference.p_corrected[row]) if is_tested else None,
        n=len(known) if matched else 0,
        differing=int(np.count_nonzero(known)),
    )


def _levels(parameter: SweptParameter, level: int) -> LevelsPart:
    return LevelsPart(
        parameter=parameter.name, reference=parameter.levels[0].value, level=parameter.levels[level].value
    )


def _means(values: Scores, weights: Scores, differences: Scores) -> tuple[float | None, float | None]:
    """The means of the references and of the settings, over the queries that count for all of them."""
    known = ~np.isnan(differences)
    if not weights.any() or not known.any():
        return None, None
    means = np.nan_to_num(values[:, known]).mean(axis=1)
    return float(np.maximum(-weights, 0) @ means), float(np.maximum(weights, 0) @ means)


def _by_retriever(pairs: Sequence[MatchedPair], values: Scores) -> dict[str, float]:
    """For each retriever the mean difference of its pairs."""
    found: dict[str, list[MatchedPair]] = {}
    for pair in pairs:
        found.setdefault(pair.retriever, []).append(pair)
    differences = Family(
        values, _stacked([_of_pairs(its, len(values)) for its in found.values()], len(values))
    ).differences
    known = {name: row[~np.isnan(row)] for name, row in zip(found, differences, strict=True)}
    return {name: float(row.mean()) for name, row in known.items() if len(row)}
