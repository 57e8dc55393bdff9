"""The separation of unanswerable questions by scores of first hits, and thresholds for abstaining."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from ragtrial.evaluation.separation import TopScores, top_scores
from ragtrial.rankings import from_rows


def scores_of(answerable: list[float], unanswerable: list[float]) -> TopScores:
    values = np.array([*answerable, *unanswerable], dtype=np.float64)
    names = np.array([f"q{place}" for place in range(len(values))])
    return TopScores(values, np.arange(len(values)) < len(answerable), names)


WORKED = scores_of([3, 4, 5], [1, 2, 4])


def test_the_area_is_that_of_scikit_learn() -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        is_answerable = np.arange(40) < rng.integers(1, 40)
        values = np.round(rng.normal(size=40) + is_answerable, 1)  # many are equal
        values[rng.random(40) < 0.2] = -np.inf
        area = TopScores(values, is_answerable, np.arange(40).astype(str)).area
        assert area == pytest.approx(roc_auc_score(is_answerable, np.maximum(values, -1e9)), abs=1e-12)


def test_equal_scores_count_half_and_a_threshold_may_answer_all_or_none() -> None:
    assert WORKED.area == pytest.approx((2 + 2.5 + 3) / 9)
    assert scores_of([-np.inf, 1], [-np.inf, -7]).area == pytest.approx((0.5 + 0 + 1 + 1) / 4)
    mixed = scores_of([1, 3], [2, 2])
    assert mixed.best_threshold(0.01) == 1
    assert mixed.best_threshold(0.99) == 2.5
    assert 3 < scores_of([1, 2], [1, 3]).best_threshold(0.99) < 3.001
    assert scores_of([-np.inf], [-np.inf]).best_threshold(0.5) == 0


@pytest.mark.parametrize(
    ("prevalence", "threshold"),
    [
        (0.5, 2.5),  # the means of (1, 2/3) and of the others: (1, 1/3) for 1.5, (2/3, 2/3) for 3.5, (1/3, 1) for 4.5
        (0.9, 4.5),  # 0.1 / 3 + 0.9 = 0.933; that of 2.5 is 0.1 + 0.6
        (0.75, 4.5),  # 0.25 / 3 + 0.75 = 0.833; that of 2.5 is 0.25 + 0.5
        (0.1, 2.5),
    ],
)
def test_the_best_threshold_of_a_worked_table(prevalence: float, threshold: float) -> None:
    assert WORKED.best_threshold(prevalence) == threshold


def test_folds_are_alike_in_any_order_and_no_question_decides_itself() -> None:
    apart = scores_of([10.0 + place for place in range(20)], [float(place) for place in range(10)])
    assert apart.abstention(0.25) == (9.5, 0.0, 0.0, 0.75)
    # The highest unanswerable question is above all thresholds without it, as is each answerable one.
    one_high = scores_of([20.0] * 20, [*[1.0] * 9, 19.0])
    threshold, false_answers, false_refusals, coverage = one_high.abstention(0.5)
    assert (threshold, false_answers, false_refusals) == (19.5, 0.1, 0.0)
    assert coverage == pytest.approx(0.5 * 1 + 0.5 * 0.1)
    rng = np.random.default_rng(2)
    whole = scores_of(rng.normal(1, 1, 23).tolist(), rng.normal(0, 1, 17).tolist())
    mixed = whole.of(np.array(rng.permutation(40)))
    assert mixed.abstention(0.3) == whole.abstention(0.3)


def test_an_interval_of_a_difference() -> None:
    rng = np.random.default_rng(3)
    better = scores_of(rng.normal(2, 1, 60).tolist(), rng.normal(0, 1, 60).tolist())
    chance = scores_of(rng.normal(0, 1, 60).tolist(), rng.normal(0, 1, 60).tolist())
    difference, low, high = better.less(chance)
    assert difference == pytest.approx(better.area - chance.area)
    assert 0 < low < difference < high
    assert chance.less(better) == pytest.approx((-difference, -high, -low))
    same, low, high = better.less(better)
    assert (same, -low) == (0, high)
    assert 0 < high < 0.02


def test_the_score_of_the_first_hit_or_none_without_scores() -> None:
    rankings, skipped = from_rows([[3, 4], [], [5], [6]], [[0.5, 0.4], [], [-2.0], [1.0]]), np.array([0, 0, 0, 1], bool)
    np.testing.assert_equal(top_scores(rankings, skipped, are_comparable=True), [0.5, -np.inf, -2, np.nan])
    assert np.isnan(top_scores(rankings, skipped, are_comparable=False)).all()
    nothing = from_rows([[], []], [[], []])
    np.testing.assert_equal(top_scores(nothing, np.zeros(2, bool), are_comparable=True), [-np.inf, -np.inf])
    assert np.isnan(top_scores(from_rows([[3], []]), np.zeros(2, bool), are_comparable=True)).all()
