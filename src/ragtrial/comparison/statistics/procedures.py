"""Tests and intervals, corrected for the number of comparisons (max-t).

The procedures are sign flips with a bootstrap-t; and if a model judged all queries, two-phase regression.
Source of the latter: Cochran 1977, Sampling Techniques, chapter 12 (double sampling for regression). With a judge's
differences it is now called prediction-powered inference; the degrees of freedom are adapted to few labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from ragtrial.comparison.statistics.flips import critical_of, flipped, shares
from ragtrial.comparison.statistics.resamples import resampled
from ragtrial.comparison.statistics.samples import LEAST_DIFFERENCES, Family, Inference, Procedure, Sample
from ragtrial.evaluation.clusters import Places, linearised, sums_by
from ragtrial.evaluation.grading import Scores
from ragtrial.rankings import Bools

_BLOCK_VALUES = 2_000_000

LEAST_ERRORS = 3
"""A judge that differs from people on fewer of their queries errs so rarely that they do not say by how much."""

MOST_LEVERAGE = 0.9
"""If one query has this share of the judge's spread on people's queries, it alone determines the slope."""


def infer(families: Sequence[Family], procedure: Procedure) -> list[Inference]:
    """Tests and simultaneous intervals of each family, by the same draws for all: they have the same clusters.

    The interval is the mean, more or less ``criticals`` standard errors: the larger value of sign flips and of a
    balanced bootstrap-t. The former keep the level where differences are symmetric and where few questions decide, the
    latter where differences are skewed. So the larger p of the two counts, and p_corrected is at most the level exactly
    where the interval leaves out 0. The correction is max-t: each draw counts with its largest statistic of all
    comparisons of a family.
    """
    samples = [Sample(family) for family in families]
    largest = max((int(np.count_nonzero(sample.tested)) for sample in samples), default=0)
    procedure = procedure.limited_to(largest)
    kinds = zip(samples, flipped(samples, procedure), resampled(samples, procedure), strict=True)
    return [
        sample.inference(
            procedure.level,
            np.maximum(flips.p, draws.p),
            np.maximum(flips.p_corrected, draws.p_corrected),
            np.maximum(flips.criticals, draws.criticals),
        )
        for sample, flips, draws in kinds
    ]


class Basis(StrEnum):
    """The data of an estimate: BOTH, or the reason why only people's labels count."""

    BOTH = "both"
    NOT_JUDGED = "not judged"
    """The judge has no more queries than people."""
    NO_SPREAD = "no spread"
    """The judge's differences are all the same, or all but one."""
    TOO_FEW_ERRORS = "too few errors"
    """The judge's differences equal people's except for a few queries: its errors on other queries are unknown."""


@dataclass(frozen=True, eq=False)
class TwoPhaseSample:
    """Comparisons according to people and to a judge, both of shape (comparisons, queries).

    NaN in ``people`` is a query that people did not judge, NaN in ``judge`` a query that the judge did not judge.
    People's queries must be drawn at random from all. Only queries that the judge judged as well count for people.
    Queries with the same number in ``clusters``, shape (queries,), belong together; None: each query is a cluster.
    """

    people: Scores
    judge: Scores
    clusters: Places | None = None


@dataclass(frozen=True, eq=False)
class TwoPhaseInference:
    """An inference from both sides, and its components. All arrays have the shape (comparisons,).

    ``n`` of ``inference`` is the number of clusters of the ``people`` queries that people judged, which are the same
    without clusters; ``judged`` is the number of queries that the judge judged.
    ``correlation`` is the correlation between people's and the judge's differences, over people's queries; NaN without
    a spread. ``bias`` is the judge's mean difference minus people's, over the same queries, with its standard error.
    ``residual`` is the residual variance of a query's difference; ``fixed`` is the variance that more labels of people
    do not reduce. ``worth`` is the number of people's labels that the judge replaces, 0 if it is not used.
    """

    inference: Inference
    basis: Sequence[Basis]
    people: npt.NDArray[np.int64]
    judged: npt.NDArray[np.int64]
    correlation: Scores
    bias: Scores
    bias_error: Scores
    residual: Scores
    fixed: Scores
    worth: Scores


@dataclass(frozen=True, eq=False)
class _Estimate:
    """One comparison: its ``influence`` has the shape (clusters,); its squares sum to the variance of ``mean``."""

    mean: float
    influence: Scores
    freedom: float
    fixed: float
    basis: Basis


def infer_two_phase(samples: Sequence[TwoPhaseSample], procedure: Procedure) -> list[TwoPhaseInference]:
    """The inference from people's labels of some queries and a judge's labels of all; a family per sample.

    An estimate is mean(y) + b (mean f over all - mean f over people's): y are people's differences, f the judge's, b
    the slope of y on f. So it is a weighted sum of y. Its variance is the variance of the weighted residuals, each over
    the root of 1 minus its leverage (MacKinnon & White 1985, HC2), plus b^2 times the variance of mean f over all.
    Errors of the judge make the residuals larger, and do not move the estimate.

    The degrees of freedom are those for the sum of both variances (Satterthwaite 1946). People's part has separate
    degrees of freedom (see ``_freedom``); in the other part, b is the most uncertain. They are at most n - 2: if chance
    makes people's part too small, the other part seems to have more weight, and critical values would be too small as
    well.

    Simultaneous intervals: normal multipliers of each query's influence, the same for all comparisons, give the
    distribution of the largest studentised estimate (Chernozhukov, Chetverikov & Kato 2013). Its quantile is converted
    to a level, and the level to each comparison's t. A single comparison uses the level directly.

    With clusters, the influence of queries is summed by cluster, and there are no more degrees of freedom than clusters
    less one. The samples have the same clusters.
    """
    estimates = [
        [_estimate(*rows, sample.clusters) for rows in zip(sample.people, sample.judge, strict=True)]
        for sample in samples
    ]
    people = [Sample(Family(_jointly(sample), None, sample.clusters)) for sample in samples]
    tested = [[row for row, ok in zip(own, sample.tested, strict=True) if ok]
              for own, sample in zip(estimates, people, strict=True)]  # fmt: skip
    highest = _largest([np.array([estimate.influence for estimate in own]) for own in tested], procedure)
    return [
        _inferred(sample, own, known, most, procedure.level)
        for sample, own, known, most in zip(samples, estimates, people, highest, strict=True)
    ]


def _jointly(sample: TwoPhaseSample) -> Scores:
    return np.where(np.isnan(sample.judge), np.nan, sample.people)


def _estimate(people: Scores, judge: Scores, clusters: Places | None) -> _Estimate:
    """The two-phase estimate of one comparison; or the estimate from people's labels if necessary."""
    judged = ~np.isnan(judge)
    both = judged & ~np.isnan(people)
    y, f, n, everywhere = people[both], judge[both], int(both.sum()), int(judged.sum())
    alone = _people_alone(y, both, clusters)
    basis = _basis(y, f, everywhere)
    if basis is not Basis.BOTH:
        return replace(alone, basis=basis)
    about = f - f.mean()
    spread = float(about @ about)
    slope = float(about @ y) / spread
    mean_of_all = float(judge[judged].mean())
    weights = 1 / n + (mean_of_all - f.mean()) * about / spread
    residuals = y - y.mean() - slope * about
    leverage = 1 / n + np.square(about) / spread
    by_query = np.zeros((2, len(people)))
    by_query[0, both] = weights * residuals / np.sqrt(1 - leverage)
    by_query[1] = np.where(judged, judge - mean_of_all, 0.0) / np.sqrt(everywhere * (everywhere - 1))
    of_people, of_all = (_by_cluster(*rows, clusters) for rows in zip(by_query, (both, judged), strict=True))
    fixed = slope**2 * float(of_all @ of_all)
    # A query's residual and the judge's difference of another query of its cluster may vary together.
    covariance = 0.0 if clusters is None else float(of_people @ of_all - by_query[0] @ by_query[1])
    variance = max(float(of_people @ of_people) + fixed + 2 * slope * covariance, float(of_people @ of_people))
    freedom = _freedom(np.square(weights) / (1 - leverage), leverage, about / np.sqrt(spread))
    if fixed > 0:
        share, of_slope = min(fixed / variance, 1.0), float(residuals @ residuals) / (n - 2) / spread
        doubt = share**2 / (_count(judged, clusters) - 1) + 2 * share * of_slope * float(of_all @ of_all) / variance
        freedom = min(1 / ((1 - share) ** 2 / freedom + doubt), n - 2)
    freedom = min(freedom, _count(both, clusters) - 1)
    influence = of_people + slope * of_all
    size = float(influence @ influence)
    influence *= np.sqrt(variance / size) if size > 0 else 0.0
    return _Estimate(float(weights @ y), influence, freedom, fixed, Basis.BOTH)


def _freedom(shares: Scores, leverage: Scores, about: Scores) -> float:
    """The degrees of freedom of a sum of ``shares`` times the squared residuals of a fitted line.

    They belong to the chi-square distribution with the same mean and variance if all values are equally uncertain:
    tr(A)^2 / tr(A A), A = D (I - P) with D = ``shares`` and the projection P = 1/n + ``about`` ``about``' (Bell &
    McCaffrey 2002). Near n - 2, fewer if few queries have most weight.
    """
    n = len(shares)
    mean = float(shares @ (1 - leverage))
    square = float(np.square(shares) @ (1 - 2 * leverage)) + (float(shares.sum()) / n) ** 2
    square += 2 * float(shares @ about) ** 2 / n + float(shares @ np.square(about)) ** 2
    return mean**2 / square


def _count(counted: Bools, clusters: Places | None) -> int:
    """The number of clusters of the ``counted`` queries, shape (queries,)."""
    return int(counted.sum()) if clusters is None else len(np.unique(clusters[counted]))


def _by_cluster(influence: Scores, counted: Bools, clusters: Places | None) -> Scores:
    """The influence of each cluster from that of the ``counted`` queries, both of shape (queries,), as CR1 has it."""
    n, count = int(counted.sum()), _count(counted, clusters)
    ratio = count / (count - 1) / (n / (n - 1)) if count > 1 else np.nan
    return np.asarray(sums_by(clusters, influence[None])[0] * (1.0 if clusters is None else np.sqrt(ratio)))


def _people_alone(y: Scores, both: Bools, clusters: Places | None) -> _Estimate:
    influence, n = np.zeros(len(both)), len(y)
    if n > 1:
        influence[both] = (y - y.mean()) / np.sqrt(n * (n - 1))
    influence, freedom = _by_cluster(influence, both, clusters), _count(both, clusters) - 1
    return _Estimate(float(y.mean()) if n else np.nan, influence, freedom, 0.0, Basis.NOT_JUDGED)


def _basis(y: Scores, f: Scores, everywhere: int) -> Basis:
    n = len(y)
    if n < LEAST_DIFFERENCES or everywhere <= n:
        return Basis.NOT_JUDGED
    about = np.square(f - f.mean())
    if about.max() <= 1e-24 * max(float(np.square(f).max()), 1e-300) or about.max() >= MOST_LEVERAGE * about.sum():
        return Basis.NO_SPREAD
    wrong = np.count_nonzero(np.abs(y - f) > 1e-12 * (np.abs(y) + np.abs(f)))
    return Basis.TOO_FEW_ERRORS if wrong < LEAST_ERRORS else Basis.BOTH


def _largest(families: Sequence[Scores], procedure: Procedure) -> list[Scores]:
    """The largest |z| of each family in each draw, ascending, shape (draws,); nothing for fewer than two of them."""
    highest: list[list[Scores]] = [[] for _ in families]
    several = [index for index, family in enumerate(families) if len(family) > 1]
    if several:
        scaled = {index: _standardised(families[index]) for index in several}
        for drawn in _normals(families[several[0]].shape[1], procedure):
            for index, influence in scaled.items():
                highest[index].append(np.abs(influence @ drawn).max(axis=0))
    return [np.sort(np.concatenate(draws)) if draws else np.zeros(0) for draws in highest]


def _standardised(influence: Scores) -> Scores:
    size = np.sqrt(np.square(influence).sum(axis=1, keepdims=True))
    return np.asarray(np.divide(influence, size, out=np.zeros_like(influence), where=size > 0))


def _normals(queries: int, procedure: Procedure) -> Iterator[Scores]:
    random, rows = np.random.default_rng(procedure.seed), max(1, _BLOCK_VALUES // queries)
    for start in range(0, procedure.flips, rows):
        yield random.standard_normal((queries, min(rows, procedure.flips - start)))


def _inferred(
    sample: TwoPhaseSample, estimates: Sequence[_Estimate], people: Sample, highest: Scores, level: float
) -> TwoPhaseInference:
    from scipy.special import ndtr, ndtri, stdtr, stdtrit

    tested, n = people.tested, people.n
    mean = np.array([estimate.mean for estimate in estimates])
    error = np.sqrt([float(estimate.influence @ estimate.influence) for estimate in estimates])
    freedom = np.array([estimate.freedom for estimate in estimates])[tested]
    with np.errstate(invalid="ignore", divide="ignore"):
        studentised = np.abs(mean / error)[tested]
    p = np.asarray(2 * stdtr(freedom, -studentised))
    corrected, adjusted = p, level
    if len(highest):
        reached = len(highest) - np.searchsorted(highest, -ndtri(p / 2))
        corrected = np.maximum(shares(reached, len(highest), exact=False), p)
        adjusted = min(2 * float(ndtr(-critical_of(highest, level, exact=False))), level)
    criticals = people.for_every_comparison(-stdtrit(freedom, adjusted / 2))
    low, high = mean - criticals * error, mean + criticals * error
    claims = (low > 0).astype(np.int8) - (high < 0).astype(np.int8)
    deviation = np.where(n > 1, error * np.sqrt(n), np.nan)
    inference = Inference(n, people.differing, mean, deviation, people.skewness, people.for_every_comparison(p),
                          people.for_every_comparison(corrected), low, high, claims, criticals)  # fmt: skip
    fixed = np.array([estimate.fixed for estimate in estimates])
    basis = [estimate.basis for estimate in estimates]
    # Of a query: with clusters, the one of as many independent queries.
    queries = (~np.isnan(_jointly(sample))).sum(axis=1)
    own = np.square(people.scaled_deviation * people.scale) * (queries / np.maximum(n, 1))
    with np.errstate(invalid="ignore", divide="ignore"):
        is_used = np.array([estimate.basis is Basis.BOTH for estimate in estimates])
        worth = np.where(is_used, own / np.square(error) - queries, 0.0)
    return TwoPhaseInference(inference, basis, queries, (~np.isnan(sample.judge)).sum(axis=1),
                             *_errors_of_judge(sample), (np.square(error) - fixed) * queries, fixed, worth)  # fmt: skip


def _errors_of_judge(sample: TwoPhaseSample) -> tuple[Scores, Scores, Scores]:
    """Correlation of the differences, the judge's bias, and its standard error."""
    both = ~np.isnan(sample.people) & ~np.isnan(sample.judge)
    numbers = np.full((3, len(both)), np.nan)
    for row, known in enumerate(both):
        y, f = sample.people[row, known], sample.judge[row, known]
        if len(y) > 1:
            (errors,) = linearised((sample.judge - sample.people)[row : row + 1], sample.clusters)
            numbers[1:, row] = (f - y).mean(), errors.std(ddof=1) / np.sqrt(len(errors))
            if np.ptp(y) > 0 and np.ptp(f) > 0:
                numbers[0, row] = np.corrcoef(y, f)[0, 1]
    correlation, bias, error = numbers
    return correlation, bias, error
