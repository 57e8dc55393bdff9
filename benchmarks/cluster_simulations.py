"""Differences of questions that belong together, for the tables `clusters` and `documents` of simulations.py.

`clusters` has clusters of 2, 5, 8 or uneven size (`20 x 5, 0.3`: a family of 20, clusters of 5, correlation 0.3 within
them; n is their number). Differences of settings have the correlation 0.7 and the true mean 0; `sparse` ones are 70%
zeros, with skewness 2, `dense` ones have the same skewness and no zeros.

`documents` are the settings of reports with `evaluators.clusters: document`: n of their clusters, drawn with
replacement. The true differences are those of the whole report.

`width` is the mean width over that of intervals that take questions as independent and over the ratio of two quantiles:
those of the largest |t| of a family of as many normal comparisons, over as many independent questions as there are
clusters, and over as many as there are questions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
from scipy.special import gammaincinv, ndtr, ndtri

from ragtrial.comparison.comparison_input import input_of
from ragtrial.comparison.statistics.procedures import infer
from ragtrial.comparison.statistics.samples import Family, Inference, Procedure
from ragtrial.evaluation.clusters import Places
from ragtrial.evaluation.grading import Scores

COUNTS = (10, 20, 60, 200)
SIZES = ("2", "5", "8", "uneven")
CORRELATIONS = (0.0, 0.1, 0.3, 0.5)
KEPT = {"sparse": 0.3, "dense": 1.0}
SETTINGS_ALIKE = 0.7
"""The correlation between the differences of two settings."""
_LARGEST_DRAWS = 20_000
_GRID = np.linspace(-9, 9, 4_001)


def gamma_of(normals: Scores, skewness: float, kept: float) -> Scores:
    """Gamma-distributed values less their mean from two arrays of normal values; a share ``kept`` of them is not 0."""
    which, how = normals
    return np.where(which < ndtri(kept), np.interp(how, _GRID, gamma_quantiles(4 / (skewness**2 * kept))), 0.0)


@cache
def gamma_quantiles(alpha: float) -> Scores:
    """The values of a gamma distribution less its mean where a normal one has those of ``_GRID``."""
    return np.asarray(gammaincinv(alpha, ndtr(_GRID)) - alpha)


def alike(rng: np.random.Generator, size: tuple[int, ...]) -> Scores:
    """Normal values of shape (..., settings, questions), correlated between settings."""
    own, common = rng.standard_normal(size), rng.standard_normal((*size[:-2], 1, size[-1]))
    return np.asarray(np.sqrt(SETTINGS_ALIKE) * common + np.sqrt(1 - SETTINGS_ALIKE) * own)


@cache
def clusters_of_size(size: str, count: int) -> Places:
    """The cluster of each question, the same in all experiments of a cell."""
    uneven = np.ceil(np.random.default_rng(count).lognormal(0.9, 0.9, count)).astype(np.int64)
    return np.repeat(np.arange(count), uneven if size == "uneven" else int(size))


def clustered(rng: np.random.Generator, shape: str, structure: str, count: int) -> Family:
    """One experiment over ``count`` clusters; ``structure`` has settings, size of clusters and correlation."""
    settings, size, within = structure.replace(",", "").replace(" x ", " ").split()
    clusters, share = clusters_of_size(size, count), float(within)
    kinds = (1 if shape == "normal" else 2, int(settings))
    of_clusters, own = (alike(rng, (*kinds, n)) for n in (count, len(clusters)))
    values = np.sqrt(share) * of_clusters[:, :, clusters] + np.sqrt(1 - share) * own
    return Family(values[0] if shape == "normal" else gamma_of(values, 2.0, KEPT[shape]), None, clusters)


@cache
def reported(report: str) -> tuple[Scores, list[Places]]:
    """The primary metric of a report, shape (settings, questions), and the questions of each cluster."""
    inputs = input_of([report])
    values = inputs.scores(inputs.primary).values
    clusters = inputs.clusters
    assert clusters is not None, f"{report} has no clusters"
    known = ~np.isnan(values).any(axis=0)
    return values, [np.flatnonzero(known & (clusters == cluster)) for cluster in np.unique(clusters[known])]


def drawn_clusters(rng: np.random.Generator, report: str, pairs: Places, count: int) -> Family:
    """``count`` clusters of a report, drawn with replacement; those drawn twice are two clusters."""
    values, questions = reported(report)
    drawn = [questions[index] for index in rng.integers(0, len(questions), count)]
    numbers = np.repeat(np.arange(count), [len(own) for own in drawn])
    return Family(values[:, np.concatenate(drawn)], pairs, numbers)


@cache
def largest_t(comparisons: int, n: int, level: float = 0.05) -> float:
    """The quantile of the largest |t| of correlated normal comparisons without any difference."""
    rng, rows = np.random.default_rng(n), max(1, 4_000_000 // (comparisons * n))
    largest = []
    for start in range(0, _LARGEST_DRAWS, rows):
        values = alike(rng, (min(rows, _LARGEST_DRAWS - start), comparisons, n))
        largest.append(np.abs(values.mean(axis=2) / values.std(axis=2, ddof=1)).max(axis=1) * np.sqrt(n))
    return float(np.quantile(np.concatenate(largest), 1 - level))


def widths(families: Sequence[Family], inferences: Sequence[Inference], procedure: Procedure) -> list[float]:
    """For each family that is tested, its `width`."""
    alone = [infer([replace(family, clusters=None)], procedure)[0] for family in families]
    found = []
    for family, one, other in zip(families, inferences, alone, strict=True):
        both = ~np.isnan(one.low) & ~np.isnan(other.low)
        if both.any():
            ratio = float((one.high - one.low)[both].mean() / (other.high - other.low)[both].mean())
            found.append(ratio * largest_t(len(family), int(other.n[0])) / largest_t(len(family), int(one.n[0])))
    return found
