"""The score of a winner that is chosen on other queries."""

from __future__ import annotations

from itertools import combinations
from math import factorial

import numpy as np
import pytest

from hand_made import contest_between
from ragtrial.comparison.statistics import selection
from ragtrial.comparison.statistics.selection import select_winner


def named(values: np.ndarray) -> dict[str, np.ndarray]:
    return {f"s{row}": one for row, one in enumerate(values)}


def test_it_is_what_a_plain_loop_over_the_same_draws_gives() -> None:
    random = np.random.default_rng(5)
    values = random.random((4, 25)).round(1)  # rounded, so that settings tie in some draws
    part = select_winner(contest_between(named(values)), draws=300, seed=7)
    drawn = np.random.default_rng(7).integers(0, 25, size=(300, 25))
    winner = int(values.mean(axis=1).argmax())
    gains, chosen = [], dict.fromkeys(range(4), 0.0)
    for draw in drawn.tolist():
        means = [float(np.mean([one[query] for query in draw])) for one in values]
        best = [row for row in range(4) if means[row] > max(means) - 1e-12]
        left_out = [query for query in range(25) if query not in draw]
        if left_out:
            scored = np.mean([np.mean([values[row][query] for query in left_out]) for row in best])
            gains.append(scored - np.mean([values[winner][query] for query in left_out]))
        for row in best:
            chosen[row] += 1 / len(best) / 300
    assert part.setting == f"s{winner}"
    assert part.mean == pytest.approx(values[winner].mean(), abs=1e-14)
    assert part.corrected == pytest.approx(values[winner].mean() + np.mean(gains), abs=1e-12)
    assert part.chosen == pytest.approx({f"s{row}": share for row, share in chosen.items() if share})
    assert list(part.chosen.values()) == sorted(part.chosen.values(), reverse=True)


def test_its_expectation_is_that_of_the_published_estimate_over_every_possible_draw() -> None:
    """Ten queries drawn ten times: 92,378 outcomes, each with its probability, scored as published."""
    values = np.random.default_rng(2).random((3, 10))
    bars = np.array(list(combinations(range(19), 9)))
    edges = np.hstack([np.full((len(bars), 1), -1), bars, np.full((len(bars), 1), 19)])
    counts = np.diff(edges, axis=1) - 1
    factorials = np.array([factorial(number) for number in range(11)], dtype=np.float64)
    probability = factorials[10] / factorials[counts].prod(axis=1) / 10.0**10
    assert probability.sum() == pytest.approx(1)
    best = (counts @ values.T).argmax(axis=1)
    left_out = counts == 0
    some = left_out.any(axis=1)
    scored = (values[best] * left_out).sum(axis=1)[some] / left_out.sum(axis=1)[some]
    exact = float((scored * probability[some]).sum() / probability[some].sum())
    part = select_winner(contest_between(named(values)), draws=100_000)
    assert part.corrected == pytest.approx(exact, abs=0.002)
    assert part.mean is not None
    assert part.mean - exact > 0.01  # there is something to correct


def test_of_settings_that_are_equally_good_the_raw_score_is_too_high_and_the_corrected_one_is_not() -> None:
    raw, corrected = [], []
    for seed in range(50):
        values = np.random.default_rng(seed).beta(2, 2, size=(10, 40))  # expected: 0.5
        part = select_winner(contest_between(named(values)), draws=200)
        assert part.mean is not None
        assert part.corrected is not None
        raw.append(part.mean)
        corrected.append(part.corrected)
    error = np.std(corrected) / np.sqrt(50)
    assert np.mean(raw) > 0.5 + 10 * error
    assert abs(np.mean(corrected) - 0.5) < 3 * error


def test_a_winner_that_wins_every_query_keeps_its_score() -> None:
    low = np.linspace(0, 0.5, 12)
    part = select_winner(contest_between({"low": low, "high": low + 0.1}))
    assert (part.setting, part.corrected, part.optimism, part.chosen) == ("high", part.mean, 0.0, {"high": 1.0})


def test_identical_settings_share_the_draws_and_nothing_is_corrected() -> None:
    same = np.linspace(0, 1, 15)
    part = select_winner(contest_between({"one": same, "two": same, "three": same}))
    assert part.setting == "one"
    assert part.corrected == pytest.approx(part.mean, abs=1e-14)
    assert part.chosen == pytest.approx({"one": 1 / 3, "two": 1 / 3, "three": 1 / 3})


def test_all_scores_equal_are_no_fault() -> None:
    part = select_winner(contest_between({"one": [0.0] * 12, "two": [0.0] * 12}))
    assert (part.mean, part.corrected, part.optimism) == (0.0, 0.0, 0.0)


def test_queries_that_do_not_count_for_a_setting_are_left_out_for_all() -> None:
    one, two = np.linspace(0, 1, 15), np.linspace(1, 0, 15) ** 2
    whole = select_winner(contest_between({"one": one[:12], "two": two[:12]}))
    holes = np.where(np.arange(15) < 12, two, np.nan)
    found = select_winner(contest_between({"one": one, "two": holes}))
    assert found.model_copy(update={"sentence": whole.sentence}) == whole
    assert whole.n == 12


@pytest.mark.parametrize(
    ("scores", "setting", "sentence"),
    [
        ({"one": [0.5] * 20}, "one", "one setting: nothing was chosen"),
        ({"one": [0.5] * 9, "two": [0.6] * 9}, "two", "fewer than 10 queries (9): how much is luck is not known"),
        ({"one": [0.5], "two": [0.6]}, "two", "fewer than 10 queries (1): how much is luck is not known"),
        ({"one": [None, 1.0], "two": [1.0, None]}, None, "no query counts for all settings: nothing to choose by"),
        ({"one": [], "two": []}, None, "no query counts for all settings: nothing to choose by"),
    ],
)
def test_where_nothing_can_be_corrected_it_says_why(
    scores: dict[str, list[float | None]], setting: str | None, sentence: str
) -> None:
    part = select_winner(contest_between(scores))
    assert (part.setting, part.corrected, part.optimism, part.sentence) == (setting, None, None, sentence)
    assert (part.draws, part.chosen) == (0, {})


def test_the_sentence_has_both_scores_and_how_often_the_winner_is_chosen() -> None:
    low = np.linspace(0, 0.5, 12)
    part = select_winner(contest_between({"low": low, "high": low + 0.1}))
    assert part.sentence == (
        "high scored 0.3500 on the questions used to pick it; expect about 0.3500 on new ones. It was the best in "
        "100% of bootstrap resamples"
    )


def test_the_sentence_says_where_a_setting_lacks_queries_that_count_for_others() -> None:
    low = np.linspace(0, 0.5, 12)
    part = select_winner(contest_between({"low": [None, *low], "high": [1.0, *(low + 0.1)]}))
    assert part.sentence.startswith(
        "high scored 0.3500 on the 12 questions that count for all settings, those used to pick it; expect"
    )


def test_the_size_of_blocks_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    contest = contest_between(named(np.random.default_rng(1).random((3, 30))))
    whole = select_winner(contest, draws=100)
    monkeypatch.setattr(selection, "_BLOCK_VALUES", 7 * 30)
    blocks = select_winner(contest, draws=100)
    assert blocks.corrected == pytest.approx(whole.corrected, abs=1e-14)
    assert blocks.chosen == pytest.approx(whole.chosen)


def test_the_seed_decides_the_draws() -> None:
    contest = contest_between(named(np.random.default_rng(1).random((3, 30))))
    assert select_winner(contest, seed=1) == select_winner(contest, seed=1)
    assert select_winner(contest, seed=1).corrected != select_winner(contest, seed=2).corrected
