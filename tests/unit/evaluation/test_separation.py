"""The separation of unanswerable questions by scores of first hits, and thresholds for abstaining."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t
from sklearn.metrics import roc_auc_score

from ragtrial.evaluation.separation import TopScores, top_scores
from ragtrial.rankings import from_rows


def scores_of(answerable: list[float], unanswerable: list[float]) -> TopScores:
    values = np.array([*answerable, *unanswerable], dtype=np.float64)
    places = np.arange(len(values))
    return TopScores(values, places < len(answerable), np.array([f"q{place}" for place in places]), places)


WORKED = scores_of([3, 4, 5], [1, 2, 4])


def test_the_area_is_scikit_learns_and_equal_scores_count_half() -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        is_answerable = np.arange(40) < rng.integers(1, 40)
        values = np.round(rng.normal(size=40) + is_answerable, 1)  # many are equal
        values[rng.random(40) < 0.2] = -np.inf
        area = TopScores(values, is_answerable, np.arange(40).astype(str), np.arange(40)).area
        assert area == pytest.approx(roc_auc_score(is_answerable, np.maximum(values, -1e9)), abs=1e-12)
    assert WORKED.area == pytest.approx((2 + 2.5 + 3) / 9)
    assert scores_of([-np.inf, 1], [-np.inf, -7]).area == pytest.approx((0.5 + 0 + 1 + 1) / 4)
    mixed = scores_of([1, 3], [2, 2])
    assert mixed.best_threshold(0.01) == 1
    assert mixed.best_threshold(0.99) == 2.5
    assert 3 < scores_of([1, 2], [1, 3]).best_threshold(0.99) < 3.001
    assert scores_of([-np.inf], [-np.inf]).best_threshold(0.5) == 0
    rankings, skipped = from_rows([[3, 4], [], [5], [6]], [[0.5, 0.4], [], [-2.0], [1.0]]), np.array([0, 0, 0, 1], bool)
    np.testing.assert_equal(top_scores(rankings, skipped, are_comparable=True), [0.5, -np.inf, -2, np.nan])
    assert np.isnan(top_scores(rankings, skipped, are_comparable=False)).all()
    nothing = from_rows([[], []], [[], []])
    np.testing.assert_equal(top_scores(nothing, np.zeros(2, bool), are_comparable=True), [-np.inf, -np.inf])
    assert np.isnan(top_scores(from_rows([[3], []]), np.zeros(2, bool), are_comparable=True)).all()


@pytest.mark.parametrize(("prevalence", "threshold"), [
    (0.5, 2.5),  # the means of (1, 2/3) and of the others: (1, 1/3) for 1.5, (2/3, 2/3) for 3.5, (1/3, 1) for 4.5
    (0.9, 4.5),  # 0.1 / 3 + 0.9 = 0.933; that of 2.5 is 0.1 + 0.6
    (0.75, 4.5),  # 0.25 / 3 + 0.75 = 0.833; that of 2.5 is 0.25 + 0.5
    (0.1, 2.5),
])  # fmt: skip
def test_the_best_threshold_of_a_worked_table(prevalence: float, threshold: float) -> None:
    assert WORKED.best_threshold(prevalence) == threshold


def test_folds_are_alike_in_any_order_and_differences_have_intervals() -> None:
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


def test_a_variance_of_clusters_is_that_of_obuchowski() -> None:
    """Obuchowski 1997, Biometrics 53, as it is printed; some clusters have both kinds of question, some one."""
    rng = np.random.default_rng(4)
    is_answerable, clusters = np.arange(900) < 450, rng.integers(0, 60, 900)
    shared = rng.normal(0, 1, (2, 60))[:, clusters]
    values = np.round(shared + rng.normal(0, 1, (2, 900)) + is_answerable, 1)
    one, other = (TopScores(row, is_answerable, np.arange(900).astype(str), clusters) for row in values)
    wins = [
        (row[:450, None] > row[None, 450:]) + 0.5 * (row[:450, None] == row[None, 450:]).astype(float) for row in values
    ]
    apart = wins[0] - wins[1]
    area = apart.mean()
    x, y = np.zeros((2, 60))
    np.add.at(x, clusters[:450], apart.mean(axis=1) - area)
    np.add.at(y, clusters[450:], apart.mean(axis=0) - area)
    counts = [len(set(clusters[kind])) for kind in (is_answerable, ~is_answerable)]
    # One more cluster of each kind, whose placements differ by 0.25, with the correlation 0.3.
    added = [450 / n * 0.25**2 * (1 + 0.3 * (450 / n - 1)) for n in counts]
    own = [n / (n - 1) / 450 * (row @ row + more) for n, row, more in zip(counts, (x, y), added, strict=True)]
    variance = sum(own) / 450 + 2 * 60 / 59 * (x @ y) / 450**2
    difference, low, high = one.less(other)
    assert difference == pytest.approx(area)
    freedom = sum(own) ** 2 / sum(part**2 / (n - 1) for part, n in zip(own, counts, strict=True))
    assert high - low == pytest.approx(2 * t.ppf(0.975, min(freedom, 59)) * variance**0.5, rel=1e-9)


def test_a_question_asked_several_times_in_a_cluster_counts_once() -> None:
    rng = np.random.default_rng(5)
    once = [scores_of(rng.normal(1, 1, 40).tolist(), rng.normal(0, 1, 40).tolist()) for _ in range(2)]
    often = [scores.of(np.repeat(np.arange(80), 5)) for scores in once]
    left, right = once[0].less(once[1]), often[0].less(often[1])
    assert right == pytest.approx(left, abs=0.002)  # the added question has less weight
    assert often[0].abstention(0.3) == pytest.approx(once[0].abstention(0.3))
    assert (often[0].fewest, often[0].fewest_clusters) == (200, 40)


def test_no_question_is_decided_by_one_of_its_cluster() -> None:
    """Only questions of one cluster show that 10 is unanswerable."""
    alone = scores_of([9.0] * 20 + [11.0] * 20, [0.0] * 8 + [10.0] * 24)
    assert alone.abstention(0.5)[:3] == (10.5, 0, 0.5)
    together = replace(alone, clusters=np.where(alone.values == 10, 48, alone.clusters))
    assert together.abstention(0.5)[:2] == (10.5, 0.75)
    giant = replace(alone, clusters=np.where(alone.is_answerable, alone.clusters, 40))
    assert giant.fewest_clusters == 1
    assert giant.abstention(0.5) == alone.abstention(0.5)
