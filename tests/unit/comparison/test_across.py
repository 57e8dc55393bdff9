"""Settings on several data sets: the verdict over all of them, one row for each verdict."""

import statistics
from pathlib import Path

import numpy as np
import pytest

from contests import report_of
from ragtrial.comparison.across import AcrossPart, compare_across
from ragtrial.comparison.statistics.estimates import combined_effect
from ragtrial.report.model import write_folder

QUERIES = 24
PATTERN = np.tile([1.0, -1.0], QUERIES // 2)


def over(tmp_path: Path, means: list[float], spreads: list[float], metric: str = "ndcg@3") -> AcrossPart:
    """``new`` against ``old`` on data sets whose differences have these means, and these distances from them."""
    for number, (mean, spread) in enumerate(zip(means, spreads, strict=True)):
        old = np.full(QUERIES, 0.5)
        report = report_of({"old": old.tolist(), "new": (old + mean + spread * PATTERN).tolist()}, metric)
        own = report.dataset.model_copy(update={"documents_fingerprint": str(number)})
        write_folder(report.model_copy(update={"dataset": own}), tmp_path / f"set{number}", {}, [], {})
    folders = [tmp_path / f"set{number}" for number in range(len(means))]
    (part,) = compare_across(folders, baseline="old", margin=0.02).settings
    return part


@pytest.mark.parametrize(
    ("means", "spreads", "verdict"),
    [
        ([0.1, 0.11, 0.09, 0.1], [0.05] * 4, "better"),
        ([0.004, 0.005, 0.004, 0.005], [0.002] * 4, "better"),
        ([-0.1, -0.11, -0.09, -0.1], [0.05] * 4, "worse"),
        ([-0.012, -0.01, -0.011, -0.011], [0.005] * 4, "worse within the margin"),
        ([0.001, -0.001, 0.002, -0.002], [0.01] * 4, "no worse"),
        ([0.01, 0.012, 0.011, 0.01], [0.05] * 4, "no worse"),
        ([0.001, -0.001, 0.002, -0.002], [0.2] * 4, "inconclusive"),
        ([-0.03, 0.02, -0.01, 0.0], [0.05] * 4, "inconclusive"),
        ([0.1, -0.1], [0.01] * 2, "inconclusive"),
        ([0.1, 0.1, 0.0], [0.05, 0.05, 0.0], "inconclusive"),
        ([0.0, 0.0], [0.0, 0.0], "identical"),
    ],
)
def test_the_verdict_is_the_interval_s(tmp_path: Path, means: list[float], spreads: list[float], verdict: str) -> None:
    part = over(tmp_path, means, spreads)
    assert part.verdict == verdict
    if 0.0 in spreads:  # identical there: nothing is known of how its difference varies
        assert (part.ci, part.difference, part.spread) == (None, None, None)
        return
    variances = [statistics.variance((mean + spread * PATTERN).tolist()) / QUERIES
                 for mean, spread in zip(means, spreads, strict=True)]  # fmt: skip
    expected = combined_effect(np.array(means), np.array(variances), 0.05)
    assert part.ci == pytest.approx((expected.low, expected.high))
    assert (part.difference, part.spread) == pytest.approx((expected.mean, expected.spread), abs=1e-12)


def test_each_data_set_is_better_worse_or_undecided(tmp_path: Path) -> None:
    part = over(tmp_path, [0.1, -0.1, -0.011, 0.0, 0.0], [0.05, 0.05, 0.005, 0.2, 0.0])
    assert (part.better_on, part.worse_on, part.undecided_on) == (["set0"], ["set1", "set2"], ["set3"])
    assert part.identical_on == ["set4"]


def test_where_lower_values_are_better_verdicts_turn_and_numbers_stay(tmp_path: Path) -> None:
    means, spreads = [-0.1, -0.11, -0.09, -0.1], [0.05] * 4
    fewer = over(tmp_path, means, spreads, "unjudged@3")
    assert (fewer.verdict, fewer.better_on) == ("better", ["set0", "set1", "set2", "set3"])
    higher = over(tmp_path / "higher", means, spreads)
    assert (fewer.difference, fewer.ci, fewer.mean) == (higher.difference, higher.ci, higher.mean)
    assert fewer.ci is not None
    assert fewer.ci[0] < -0.1 < fewer.ci[1] < 0
