"""The score of a winner that is chosen on other queries."""

import numpy as np
import pytest
from scipy.linalg import sqrtm

from expectations import present
from hand_made import contest_between
from ragtrial.comparison.comparison_input import ComparisonInput
from ragtrial.comparison.selection import SelectionPart, select_winner


def winner_of(inputs: ComparisonInput, draws: int = 1000, seed: int = 0) -> SelectionPart:
    return select_winner(inputs.scores(inputs.primary).values, inputs.names, inputs.primary, draws=draws, seed=seed)


def named(values: np.ndarray) -> dict[str, np.ndarray]:
    return {f"s{row}": one for row, one in enumerate(values)}


def test_it_is_what_a_plain_loop_over_the_same_draws_gives() -> None:
    random = np.random.default_rng(5)
    values = (random.random((4, 25)) + 0.05 * np.arange(4)[:, None]).round(1)  # rounded: settings tie in some draws
    part = winner_of(contest_between(named(values)), draws=300, seed=7)
    drawn = np.random.default_rng(7).integers(0, 25, size=(300, 25))
    means = [float(np.mean(one)) for one in values]
    winner = means.index(max(means))
    average = np.eye(4) - 0.25
    differences = average @ means
    by_chance = average @ np.cov(values) @ average / 25
    true = (differences @ differences - np.trace(by_chance)) / 3
    assert true > 0
    root = sqrtm(true * np.linalg.inv(true * np.eye(4) + by_chance)).real
    likely = np.mean(means) + root @ differences
    gains, chosen = [], dict.fromkeys(range(4), 0.0)
    for draw in drawn.tolist():
        noise = [float(np.mean([one[query] for query in draw])) - mean for one, mean in zip(values, means, strict=True)]
        moved = [spread + more for spread, more in zip(likely, noise, strict=True)]
        gains.append(noise[moved.index(max(moved))] - noise[winner])
        observed = [mean + more for mean, more in zip(means, noise, strict=True)]
        best = [row for row in range(4) if observed[row] > max(observed) - 1e-12]
        for row in best:
            chosen[row] += 1 / len(best) / 300
    assert part.setting == f"s{winner}"
    mean, optimism = present(part.mean), present(part.optimism)
    assert mean == pytest.approx(means[winner], abs=1e-14)
    assert optimism == pytest.approx(np.mean(gains), abs=1e-12)
    assert optimism > 0.001
    assert part.corrected == pytest.approx(mean - optimism, abs=1e-14)
    assert part.chosen == pytest.approx({f"s{row}": share for row, share in chosen.items() if share})
    assert list(part.chosen.values()) == sorted(part.chosen.values(), reverse=True)


@pytest.mark.parametrize(("gap", "least"), [(0.0, 0.01), (0.01, 0.005), (0.03, 0.001)])
def test_what_it_expects_is_what_the_chosen_setting_has_on_all_queries(gap: float, least: float) -> None:
    """Six settings whose true means are ``gap`` apart, over scores in steps as nDCG has them: within 0.003."""
    random = np.random.default_rng(8)
    hard = random.beta(1, 1, size=(1, 4000))
    every = (hard + 0.35 * random.standard_normal((6, 4000))).clip(0, 1).round(1)
    every += 0.5 - every.mean(axis=1, keepdims=True) + gap * np.arange(6)[:, None]
    raw, expected = [], []
    for seed in range(300):
        drawn = every[:, np.random.default_rng(seed).integers(0, 4000, 100)]
        part = winner_of(contest_between(named(drawn)), draws=100, seed=seed)
        # Less what all settings owe to the queries that were drawn.
        truth = 0.5 + gap * int(present(part.setting)[1:]) + drawn.mean() - every.mean()
        raw.append(present(part.mean) - truth)
        expected.append(present(part.corrected) - truth)
    assert np.mean(raw) > least
    assert abs(np.mean(expected)) < 0.003


@pytest.mark.parametrize("queries", [30, 60])
def test_the_interval_of_a_winner_that_fails_on_few_questions_holds(queries: int) -> None:
    """Twelve settings that find almost all answers, each failing on its own 4% of the questions and on a common 2%."""
    random = np.random.default_rng(queries)
    every = np.where(random.random((12, 5000)) < 0.04, 0.3, 1.0) * np.where(random.random((1, 5000)) < 0.02, 0.0, 1.0)
    truth, held = every.mean(axis=1), 0
    for seed in range(300):
        drawn = every[:, np.random.default_rng(seed).integers(0, 5000, queries)]
        part = winner_of(contest_between(named(drawn)), draws=100, seed=seed)
        low, high = present(part.ci)
        held += low <= truth[int(present(part.setting)[1:])] <= high
    assert held / 300 >= 0.93


@pytest.mark.parametrize("scores", [[1.0] * 14 + [0.0], [0.0] * 14 + [1.0], [1.0] * 8 + [0.0] * 7])
def test_the_interval_of_a_mean_in_0_to_1_stays_there(scores: list[float]) -> None:
    part = winner_of(contest_between({"one": scores, "two": scores}))
    assert part.ci is not None
    assert 0 <= part.ci[0] < np.mean(scores) < part.ci[1] <= 1


def test_identical_settings_share_draws_and_the_sentence_has_both_scores() -> None:
    same = np.linspace(0, 1, 15)
    part = winner_of(contest_between({"one": same, "two": same, "three": same}))
    assert part.setting == "one"
    assert part.corrected == pytest.approx(part.mean, abs=1e-14)
    assert part.chosen == pytest.approx({"one": 1 / 3, "two": 1 / 3, "three": 1 / 3})
    one, two = np.linspace(0, 1, 15), np.linspace(1, 0, 15) ** 2
    whole = winner_of(contest_between({"one": one[:12], "two": two[:12]}))
    holes = np.where(np.arange(15) < 12, two, np.nan)
    found = winner_of(contest_between({"one": one, "two": holes}))
    assert found.model_copy(update={"sentence": whole.sentence}) == whole
    assert whole.n == 12
    low = np.linspace(0, 0.5, 12)
    part = winner_of(contest_between({"low": low, "high": low + 0.1}))
    assert part.sentence == (
        "high scored 0.350 on the questions used to pick it; expect about 0.350 on new ones. It was the best in "
        "100% of bootstrap resamples"
    )
    part = select_winner(np.array([[0.0] * 12, [1.0] * 12]), ["one", "two"], "forbidden@5", sign=-1)
    assert part.sentence.startswith("one scored 0.000 on the questions used to pick it; expect about 0.000 on")
    assert part.draws == 1_000  # as docs/comparing-sweeps.md says
    part = winner_of(contest_between({"low": [None, *low], "high": [1.0, *(low + 0.1)]}))
    assert part.sentence.startswith(
        "high scored 0.350 on the 12 questions that count for all settings, those used to pick it; expect"
    )


@pytest.mark.parametrize(("scores", "setting", "sentence"), [
    ({"one": [0.5] * 20}, "one", "one setting: nothing was chosen"),
    ({"one": [0.5] * 9, "two": [0.6] * 9}, "two", "fewer than 10 questions (9): how much is luck is not known"),
    ({"one": [0.5], "two": [0.6]}, "two", "fewer than 10 questions (1): how much is luck is not known"),
    ({"one": [None, 1.0], "two": [1.0, None]}, None, "no question counts for all settings: nothing to choose by"),
    ({"one": [], "two": []}, None, "no question counts for all settings: nothing to choose by"),
])  # fmt: skip
def test_a_winner_alone_is_explained(scores: dict[str, list[float | None]], setting: str | None, sentence: str) -> None:
    part = winner_of(contest_between(scores))
    assert (part.setting, part.corrected, part.optimism, part.sentence) == (setting, None, None, sentence)
    assert (part.draws, part.chosen) == (0, {})
