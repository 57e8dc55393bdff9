"""Intervals of a winner's score, and effects of axes: against known truths."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from ragtrial.comparison.statistics.means import mean_interval
from ragtrial.comparison.statistics.samples import Procedure
from ragtrial.search.importance import importance_of


def test_the_interval_of_symmetric_values_is_student_s() -> None:
    values = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
    expected = stats.t.interval(0.95, 4, values.mean(), stats.sem(values))
    assert mean_interval(values, 0.05) == pytest.approx(expected)


def test_values_that_are_all_equal_have_no_interval() -> None:
    assert mean_interval(np.full(20, 0.3), 0.05) is None
    assert mean_interval(np.array([0.5]), 0.05) is None


def test_the_interval_of_skewed_values_holds_where_student_s_does_not() -> None:
    """Scores most of which are 1, as of a good setting: 30 of them, 4,000 times."""
    rng = np.random.default_rng(0)
    samples = 1 - rng.beta(0.3, 2.5, (4000, 30))
    truth = 1 - 0.3 / 2.8
    found = [mean_interval(row, 0.05) for row in samples]
    held = np.mean([one is not None and one[0] <= truth <= one[1] for one in found])
    student = stats.t.interval(0.95, 29, samples.mean(axis=1), stats.sem(samples, axis=1))
    assert held > np.mean((student[0] <= truth) & (truth <= student[1]))
    assert held == pytest.approx(0.95, abs=0.035)


def test_the_axis_that_moves_the_score_comes_first_with_its_effect() -> None:
    rng = np.random.default_rng(1)
    settings = [{"size": size, "k1": float(k1)} for size in (100, 200) for k1 in rng.uniform(0.5, 2.0, 20)]
    effect = np.array([0.2 if one["size"] == 200 else 0.0 for one in settings])
    values = 0.4 + effect[:, None] + rng.normal(0, 0.02, (40, 50)) + rng.normal(0, 0.2, 50)
    first, second = importance_of(settings, values, Procedure(flips=500))
    assert (first.axis, first.reference, first.level) == ("size", 100, 200)
    assert first.difference == pytest.approx(0.2, abs=0.01)
    assert first.ci is not None
    assert first.ci[0] < 0.2 < first.ci[1]
    assert second.difference < 0.02


def test_few_settings_say_nothing_of_axes() -> None:
    assert importance_of([{"size": 100}, {"size": 200}], np.zeros((2, 30)), Procedure()) == []
