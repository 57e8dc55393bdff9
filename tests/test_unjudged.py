"""What the difference of two settings could be if somebody judged what they found: extremes over all gradings."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from joint import Case, all_labellings, differences, joined, metrics_of, pairs
from ragtrial.comparison import joint_bounds
from ragtrial.comparison.joint_bounds import MOST
from ragtrial.metrics import Metric, parse_metric

EVERY = tuple(MOST)
GRADES = st.integers(-1, 3)


def bounds(metric: Metric | str, case: Case, threshold: int = 1) -> tuple[float, float]:
    made = parse_metric(metric) if isinstance(metric, str) else metric
    found = joint_bounds.joint_bounds(made, joined([case], threshold))
    return float(found.low[0]), float(found.high[0])


@given(case=pairs(4, GRADES), metrics=metrics_of(EVERY), threshold=st.integers(1, 2))
@settings(max_examples=60)
def test_bounds_are_the_extremes_over_every_way_of_grading_the_open_hits(
    case: Case, metrics: list[Metric], threshold: int
) -> None:
    highest = max([0, *case[2].values()])
    ways = all_labellings(case, highest)
    for metric in metrics:
        reached = differences(metric, case, ways, threshold)
        found = bounds(metric, case, threshold)
        assert found == pytest.approx((reached.min(), reached.max()), abs=1e-10), metric
