"""The expected score of the best of many settings on other queries: the best setting is best partly by chance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import Field

from ragtrial.comparison.number_text import mean_number
from ragtrial.comparison.statistics.estimates import interval_of, within
from ragtrial.comparison.statistics.resamples import draws_of
from ragtrial.evaluation.clusters import Places, linearised
from ragtrial.evaluation.grading import Scores
from ragtrial.report.schema import Part

DRAWS = 1000
LEVEL = 0.05
LEAST_QUERIES = 10
"""With fewer queries the effect of chance is unknown."""

_TOLERANCE = 1e-12
"""Two means that differ by less, relatively, are equal: their sums were rounded on different ways."""


class SelectionPart(Part):
    """The winner's mean, and its expected mean on queries that did not choose it."""

    metric: str
    setting: str | None = None
    """The setting with the highest mean, the first of equal settings; null if no query counts for all settings."""

    mean: float | None = None
    """Its mean over the ``n`` queries, on which it was chosen."""

    corrected: float | None = None
    """Expected of it on other queries; null for fewer than two settings or ten queries (or clusters of queries)."""

    ci: tuple[float, float] | None = None
    """95% interval of the mean that it would have on all such queries; null as ``corrected`` is."""

    optimism: float | None = None
    """``mean`` minus ``corrected``: the part that the winner owes to having been chosen on the same queries."""

    chosen: dict[str, float] = Field(default={})
    """The share of draws in which each setting was the best, highest first. Equal settings share a draw; 0 is left
    out."""

    n: int
    """Queries that count for all settings; the others are left out."""

    draws: int = 0
    seed: int
    sentence: str
    """The same in words."""


def select_winner(
    scores: Scores, names: Sequence[str], metric: str, clusters: Places | None = None, *, sign: int = 1,
    draws: int = DRAWS, seed: int = 0,
) -> SelectionPart:  # fmt: skip
    """The best of the settings called ``names``, with its expected score on other queries.

    ``scores`` by ``metric`` have the shape (settings, queries), NaN if a query does not count for a setting. Queries
    with the same number in ``clusters``, shape (queries,), belong together. ``sign`` is -1 if lower scores are better.

    A winner's mean is too high, because chance helped to choose it. ``draws`` resamples of the queries, or of whole
    clusters, estimate by how much (Efron & Tibshirani 1993, chapter 17): each moves the settings' means by some noise,
    one setting is best, and its noise is the gain of the choice. Around the observed means settings would be too far
    apart, because chance spreads these as well; so the noise is added to means that are spread as the true means are
    (``_less_spread``).
    """
    values = sign * scores
    counted = int((~np.isnan(values).all(axis=0)).sum())
    values = values[:, ~np.isnan(values).any(axis=0)]
    settings, n = values.shape
    if not settings or not n:
        sentence = "no question counts for all settings: nothing to choose by"
        return SelectionPart(metric=metric, n=n, seed=seed, sentence=sentence)
    winner = int(_best(values.mean(axis=1)[None])[0].argmax())
    name, mean = names[winner], float(scores[winner, ~np.isnan(scores).any(axis=0)].mean())
    of_clusters = linearised(sign * scores, clusters)
    units = of_clusters.shape[1]
    if settings < 2 or units < LEAST_QUERIES:
        noun = "questions" if clusters is None else "clusters of questions"
        few = f"fewer than {LEAST_QUERIES} {noun} ({units}): how much is luck is not known"
        sentence = "one setting: nothing was chosen" if settings < 2 else few
        return SelectionPart(metric=metric, setting=name, mean=mean, n=n, seed=seed, sentence=sentence)
    gain = expected_gain(of_clusters, winner, draws, seed)
    corrected, ends = mean - sign * gain.mean, sorted((mean - sign * gain.high, mean - sign * gain.low))
    order = [index for index in np.argsort(-gain.chosen, kind="stable").tolist() if gain.chosen[index] > 0]
    which = "the questions" if n == counted else f"the {n:,} questions that count for all settings, those"
    return SelectionPart(
        metric=metric,
        setting=name,
        mean=mean,
        corrected=corrected,
        ci=within((ends[0], ends[1]), metric),
        optimism=gain.mean,
        chosen={names[index]: float(gain.chosen[index]) for index in order},
        n=n,
        draws=draws,
        seed=seed,
        sentence=f"{name} scored {mean_number(mean, n)} on {which} used to pick it; expect about "
        f"{mean_number(corrected, n)} on new ones. It was the best in {gain.chosen[winner]:.0%} of bootstrap resamples",
    )


@dataclass(frozen=True, eq=False)
class Gain:
    """The part of a winner's mean that is chance.

    ``mean`` is the gain of the choice, at least 0. With 95% probability the mean is too high by an amount between
    ``low`` and ``high``. ``chosen`` are shares of draws, shape (settings,).
    """

    mean: float
    low: float
    high: float
    chosen: Scores


def expected_gain(values: Scores, winner: int, draws: int, seed: int) -> Gain:
    """The gain of choosing ``winner`` by ``values``, and how often each setting is chosen.

    ``values`` have the shape (settings, queries), or (settings, clusters) as ``linearised`` makes them.

    The noise of ``winner`` in a draw, which is 0 on average, is subtracted: if it is always chosen, the gain is 0. The
    interval has the form of ``interval_of``, with variance and skewness of the settings that draws choose. Its squared
    standard error is half-way between that of such a setting by itself and that of the chosen mean, which the choice
    makes smaller by an amount that is only estimated. It grows by the share of the winner's spread that comes from a
    single query: if one question in thirty fails, another sample has two or none.
    """
    n = values.shape[1]
    means, likely_means = values.mean(axis=1), _less_spread(values)
    gained, chosen, often, errors = 0.0, np.zeros(len(values)), np.zeros(len(values)), []
    for counts in draws_of(n, draws, seed):
        drawn = counts @ values.T / n
        noise = drawn - means
        best = _best(likely_means + noise)
        gained += float((best * (noise - noise[:, [winner]])).sum())
        chosen += _best(drawn).sum(axis=0)
        often += best.sum(axis=0)
        errors.append((best * noise).sum(axis=1))
    gain, about = max(0.0, gained / draws), values - means[:, None]
    variance, third = ((often / draws) @ (about**power).mean(axis=1) for power in (2, 3))
    squares = np.square(about[winner])
    leverage = float(squares.max() / squares.sum()) if squares.any() else 0.0
    error = math.sqrt((variance + n * np.concatenate(errors).var()) / 2 / (n - 1) * (1 + leverage))
    skewness = float(third) / float(variance) ** 1.5 if variance > 0 else 0.0
    low, high = interval_of(-gain, error, skewness, n, LEVEL)
    return Gain(gain, -high, -low, chosen / draws)


def _less_spread(values: Scores) -> Scores:
    """The means of settings, moved together so that they are probably spread as the true means are.

    Means are spread by true differences and by chance. Chance is known, as the covariance of the mean differences from
    the average setting; the rest of their sum of squares is the variance of the true differences. In each direction the
    observed differences are shrunk by the root of its share, which keeps the spread right (Louis 1984). The full share
    would be the best guess of each mean, but with too little spread. Two settings whose means differ by t standard
    errors are moved together by the factor sqrt(1 - 1 / t^2), or entirely.
    """
    from_average = values - values.mean(axis=0)
    differences = from_average.mean(axis=1)
    by_chance, directions = np.linalg.eigh(np.cov(from_average) / values.shape[1])
    by_chance = np.maximum(by_chance, 0.0)
    true = max(0.0, float((np.square(differences).sum() - by_chance.sum()) / (len(values) - 1)))
    kept = np.sqrt(true / (true + by_chance)) if true > 0 else np.zeros(len(values))
    return np.asarray(values.mean() + directions @ (kept * (directions.T @ differences)))


def _best(means: Scores) -> Scores:
    """The highest of each row shares 1 with those equal to it; the rest has 0."""
    rounding = np.abs(means).max(axis=1, keepdims=True) * _TOLERANCE
    is_best = means >= means.max(axis=1, keepdims=True) - rounding
    return np.asarray(is_best / is_best.sum(axis=1, keepdims=True))
