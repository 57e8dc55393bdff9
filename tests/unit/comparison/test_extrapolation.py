"""Extrapolated scores: exact on the line that they assume, and intervals that hold for other questions."""

from __future__ import annotations

import numpy as np
import pytest

from ragtrial.search.extrapolation import extrapolation

SIZES = [200, 1_100, 10_100]


def curve(documents: np.ndarray | float) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-(4.0 - 0.9 * np.log10(documents)))))


def test_means_on_the_line_are_extrapolated_along_it() -> None:
    means = curve(np.array(SIZES, dtype=float))
    values = np.stack([np.clip(means + shift, 0, 1) for shift in (-0.1, 0.1)] * 10, axis=1)
    (found,) = extrapolation("ndcg@10", SIZES, {"one": values}, 1_000_000).settings
    assert found.expected == pytest.approx(float(curve(1_000_000.0)))
    assert found.scores == pytest.approx(means.tolist())


def test_the_interval_holds_the_true_score_of_other_questions() -> None:
    """Questions find their document first with a probability that falls along the line; 300 times 80 of them."""
    rng, held = np.random.default_rng(0), 0
    truth = float(curve(1_000_000.0))
    for _ in range(300):
        hard = rng.uniform(size=80)  # the same question stays hard as documents are added
        values = (hard[None, :] < curve(np.array(SIZES, dtype=float))[:, None]).astype(float)
        (found,) = extrapolation("hit_rate@1", SIZES, {"one": values}, 1_000_000).settings
        assert found.ci is not None
        held += found.ci[0] <= truth <= found.ci[1]
    assert held / 300 >= 0.93


def test_scores_off_the_line_widen_the_interval() -> None:
    straight = curve(np.array(SIZES, dtype=float))
    bent = straight + np.array([0.0, 0.05, 0.0])
    spread = np.linspace(-0.1, 0.1, 40)
    one, other = (
        extrapolation("ndcg@10", SIZES, {"one": means[:, None] + spread}, 100_000).settings[0].ci
        for means in (straight, bent)
    )
    assert one is not None
    assert other is not None
    assert other[1] - other[0] > 1.5 * (one[1] - one[0])


def test_a_setting_that_falls_faster_is_said_to_be_overtaken() -> None:
    slow, fast = (np.tile(np.array(means)[:, None], 20) for means in ([0.70, 0.68, 0.66], [0.9, 0.8, 0.67]))
    found = extrapolation("ndcg@10", SIZES, {"fast": fast, "slow": slow}, 1_000_000)
    assert [one.setting for one in found.settings] == ["slow", "fast"]
    assert "fast, the best with 10,100, falls faster." in found.sentences


def test_perfect_scores_stay_numbers() -> None:
    (found,) = extrapolation("ndcg@10", SIZES, {"one": np.ones((3, 20))}, 1_000_000).settings
    assert 0.9 < found.expected < 1
    assert found.ci is None
