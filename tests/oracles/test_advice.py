"""Simulated experiments, whose truth is known: errors are as rare as promised, and power is what the advice said.

Bounds are four standard errors wide or so: a procedure that is right passes for any seed.
"""

from collections.abc import Callable

import numpy as np
import pytest

from family_strategies import against_first
from ragtrial.comparison.evidence import evidence_of
from ragtrial.comparison.statistics.estimates import detectable_difference, level_of, queries_for
from ragtrial.comparison.statistics.procedures import infer
from ragtrial.comparison.statistics.samples import Family, Inference, Procedure

pytestmark = pytest.mark.slow

Draw = Callable[[np.random.Generator], Family]


def simulated(draw: Draw, experiments: int, flips: int = 399) -> list[Inference]:
    """Experiments in batches of 100, which share their flips as the metrics of one experiment do."""
    found: list[Inference] = []
    for seed in range(experiments // 100):
        rng = np.random.default_rng(seed)
        found += infer([draw(rng) for _ in range(100)], Procedure(flips=flips, seed=seed))
    return found


def share(found: list[Inference], holds: Callable[[Inference], object]) -> float:
    return float(np.mean([bool(holds(one)) for one in found]))


@pytest.mark.parametrize("queries", [15, 60])
def test_equal_settings_are_told_apart_in_one_experiment_of_twenty(queries: int) -> None:
    def draw(rng: np.random.Generator) -> Family:
        return Family(rng.standard_normal((1, queries)))

    assert share(simulated(draw, 2000), lambda one: one.claims.any()) == pytest.approx(0.05, abs=0.015)


def test_twenty_settings_of_which_most_are_clones_are_told_apart_no_more_often() -> None:
    def draw(rng: np.random.Generator) -> Family:
        columns = rng.standard_normal((21, 20))
        columns[3:] = columns[2] + 0.1 * columns[3:]
        return Family(columns, against_first(20))

    assert share(simulated(draw, 1000), lambda one: one.claims.any()) == pytest.approx(0.048, abs=0.02)


def test_a_setting_that_is_equal_is_not_claimed_beside_others_that_are_better() -> None:
    def draw(rng: np.random.Generator) -> Family:
        made = rng.standard_normal((6, 20))
        made[:3] += 3.0
        return Family(made)

    assert share(simulated(draw, 1000), lambda one: one.claims[3:].any()) < 0.05


def test_intervals_of_settings_that_differ_hold_together_in_nineteen_experiments_of_twenty() -> None:
    truth = np.repeat([4.0, 0.0], [9, 1])

    def draw(rng: np.random.Generator) -> Family:
        return Family(rng.standard_normal((10, 20)) + truth[:, None])

    found = simulated(draw, 1000)
    held = share(found, lambda one: ((one.low <= truth) & (truth <= one.high)).all())
    assert held == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize("deviation", [1.0, 0.2])
def test_the_queries_that_the_advice_names_find_the_difference_four_times_of_five(deviation: float) -> None:
    needed = int(queries_for(0.5 * deviation, np.array([deviation]), np.array([0.05]))[0])

    def draw(rng: np.random.Generator) -> Family:
        return Family(rng.normal(0.5 * deviation, deviation, (1, needed)))

    assert share(simulated(draw, 1000), lambda one: one.claims[0] > 0) == pytest.approx(0.8, abs=0.05)


@pytest.mark.parametrize("side", [1, -1])
def test_the_queries_that_the_advice_names_for_skewed_differences_find_them_as_often(side: int) -> None:
    """By the critical value that sixty such queries have: resamples make it larger than Student's."""

    def draw(rng: np.random.Generator, queries: int) -> Family:
        return Family(0.3 + side * (rng.exponential(size=(1, queries)) - 1))

    critical = np.array([np.mean([one.criticals[0] for one in simulated(lambda rng: draw(rng, 60), 400)])])
    level = level_of(critical, np.array([60]))
    needed = int(queries_for(0.3, np.ones(1), level, 2.0 * side)[0])
    found = share(simulated(lambda rng: draw(rng, needed), 1000), lambda one: one.claims[0] > 0)
    assert found == pytest.approx(0.8, abs=0.05)
    unskewed = int(queries_for(0.3, np.ones(1), level)[0])
    assert abs(share(simulated(lambda rng: draw(rng, unskewed), 1000), lambda one: one.claims[0] > 0) - 0.8) > 0.02


def test_the_detectable_difference_is_found_four_times_of_five_in_a_family_too() -> None:
    def draw(rng: np.random.Generator, shift: float = 0.0) -> Family:
        columns = rng.standard_normal((9, 40))
        columns[1] += shift
        return Family(columns, against_first(8))

    critical = float(np.mean([one.criticals[0] for one in simulated(draw, 200)]))
    (shift,) = detectable_difference(np.array([np.sqrt(2)]), np.array([40]), np.array([critical]))
    found = simulated(lambda rng: draw(rng, shift), 1000)
    assert share(found, lambda one: one.claims[0] > 0) == pytest.approx(0.8, abs=0.05)


@pytest.mark.parametrize("queries", [15, 30])
def test_of_skewed_differences_wrong_claims_without_a_warning_are_as_rare_as_promised(queries: int) -> None:
    def draw(rng: np.random.Generator) -> Family:
        return Family(rng.exponential(size=(1, queries)) - 1)

    wrong = [one for one in simulated(draw, 2000) if one.claims.any()]
    assert len(wrong) / 2000 < 0.075
    assert sum(evidence_of(one, 0.02)[0].caution != "skewed" for one in wrong) / 2000 < 0.05
