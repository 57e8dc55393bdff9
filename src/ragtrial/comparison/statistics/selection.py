"""What the best of many settings can be expected to score on other queries: the best one is best partly by luck."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ragtrial.comparison.contest import ComparisonSet
from ragtrial.evaluation.grading import Scores
from ragtrial.report.schema import Part

DRAWS = 1000
LEAST_QUERIES = 10
"""Of fewer queries too few are left out of a draw to say anything."""

_BLOCK_VALUES = 4_000_000
_TOLERANCE = 1e-12
"""Two means that differ by less, relatively, are equal: their sums were rounded on different ways."""


class SelectionPart(Part):
    """The winner's mean, and what is left of it when the winner is chosen on other queries than it is scored on."""

    metric: str
    setting: str | None
    """The setting with the highest mean, the first of equal ones; null where no query counts for all settings."""

    mean: float | None
    """Its mean over the ``n`` queries, on which it was chosen."""

    corrected: float | None
    """Expected of a winner on other queries; null for fewer than two settings or ten queries."""

    optimism: float | None
    """``mean`` less ``corrected``: what the winner owes to having been chosen on the queries that score it."""

    chosen: dict[str, float]
    """The share of draws in which each setting was the best, highest first; equal ones share a draw; 0 is left out."""

    n: int
    """Queries that count for all settings; the others are left out."""

    draws: int
    seed: int
    sentence: str
    """The same in words."""


def select_winner(contest: ComparisonSet, draws: int = DRAWS, seed: int = 0) -> SelectionPart:
    """The best setting by the primary metric, with its expected score when chosen on other queries.

    Queries are drawn with replacement, as many as there are; the setting that is best on those drawn is scored on those
    that were not, on average over ``draws`` (bootstrap bias corrected cross-validation: Tsamardinos, Greasidou &
    Borboudakis 2018, section 3). Computed as the winner's mean plus the mean over draws of what the setting chosen in
    the draw has on the queries left out, less what the winner has on them. That has the same expectation, since over
    draws the queries left out are a fair sample of all, and less noise: where the winner is always chosen, it is
    exactly the winner's mean. A choice on fewer distinct queries (63%) is a little worse than one on all: the corrected
    score errs low.
    """
    values = contest.scores(contest.primary).values
    counted = int((~np.isnan(values).all(axis=0)).sum())
    values = values[:, ~np.isnan(values).any(axis=0)]
    settings, n = values.shape
    made: dict[str, Any] = {"metric": contest.primary, "setting": None, "mean": None, "corrected": None,
                            "optimism": None, "chosen": {}, "n": n, "draws": 0, "seed": seed}  # fmt: skip
    if not settings or not n:
        return SelectionPart(**made, sentence="no query counts for all settings: nothing to choose by")
    winner = int(_best(values.mean(axis=1)[None])[0].argmax())
    name, mean = contest.names[winner], float(values[winner].mean())
    made |= {"setting": name, "mean": mean}
    if settings < 2:
        return SelectionPart(**made, sentence="one setting: nothing was chosen")
    if n < LEAST_QUERIES:
        few = f"fewer than {LEAST_QUERIES} queries ({n}): how much is luck is not known"
        return SelectionPart(**made, sentence=few)
    gain, shares = _drawn(values, winner, draws, seed)
    order = [place for place in np.argsort(-shares, kind="stable").tolist() if shares[place] > 0]
    made |= {"corrected": mean + gain, "optimism": 0.0 - gain, "draws": draws}
    made["chosen"] = {contest.names[place]: float(shares[place]) for place in order}
    here = "the questions" if n == counted else f"the {n:,} questions that count for all settings, those"
    said = (
        f"{name} scored {mean:.4f} on {here} used to pick it; expect about {mean + gain:.4f} on new ones. It was the "
        f"best in {shares[winner]:.0%} of bootstrap resamples"
    )
    return SelectionPart(**made, sentence=said)


def _drawn(values: Scores, winner: int, draws: int, seed: int) -> tuple[float, Scores]:
    """What the choices of draws have on the queries left out, less what ``winner`` has there; and what they chose.

    The mean over draws, and for each setting its share of the draws, shape (settings,).
    """
    total, taken, chosen = 0.0, 0, np.zeros(len(values))
    for counts in _draws(values.shape[1], draws, seed):
        best = _best(counts @ values.T)
        best /= best.sum(axis=1, keepdims=True)
        left_out = counts == 0
        sizes = left_out.sum(axis=1)
        gains = np.where(left_out, best @ values - values[winner], 0.0).sum(axis=1)
        total += float((gains[sizes > 0] / sizes[sizes > 0]).sum())
        taken += int(np.count_nonzero(sizes))
        chosen += best.sum(axis=0)
    return total / taken if taken else 0.0, chosen / draws


def _draws(n: int, draws: int, seed: int) -> Iterator[Scores]:
    """How often each of ``n`` queries is drawn, in blocks of shape (some draws, queries)."""
    random, rows = np.random.default_rng(seed), max(1, _BLOCK_VALUES // n)
    for start in range(0, draws, rows):
        count = min(rows, draws - start)
        drawn = random.integers(0, n, size=(count, n)) + n * np.arange(count)[:, None]
        yield np.bincount(drawn.ravel(), minlength=count * n).reshape(count, n).astype(np.float64)


def _best(sums: Scores) -> Scores:
    """1 for the highest of each row and those equal to it, 0 for the rest."""
    highest = sums.max(axis=1, keepdims=True)
    return np.asarray((sums >= highest - np.abs(highest) * _TOLERANCE).astype(np.float64))
