"""Procedures that look at each comparison by itself, t, Wilcoxon and bootstrap, and what corrects their p."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ragtrial.comparison.statistics.samples import Inference, Procedure, Sample, TestNumbers, claimed
from ragtrial.evaluation.grading import Scores

_DECIMALS = 12
"""Differences are ranked by so many decimals of the largest: equal ones may have been rounded on different ways."""

_MOST_EXACT = 50
"""Of more differences, or with ties or zeros, the normal distribution stands for that of the ranks, as in scipy."""

_BLOCK_VALUES = 2_000_000


def holm(p: Scores) -> Scores:
    """Holm's corrected p (1979): with it, the probability of any wrong claim is at most the level."""
    order = np.argsort(p, kind="stable")
    corrected = np.empty(len(p))
    corrected[order] = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    return np.minimum(corrected, 1.0)


def benjamini_hochberg(p: Scores) -> Scores:
    """Benjamini and Hochberg's corrected p (1995): with it, the expected share of wrong claims is at most the level."""
    from scipy.stats import false_discovery_control

    return np.asarray(false_discovery_control(p), dtype=np.float64) if len(p) else p


def t_probabilities(sample: Sample) -> Scores:
    """Two-sided p of the paired t test of each comparison that is tested; 0 where all differences are equal."""
    from scipy.special import stdtr

    tested = sample.tested
    return np.asarray(2 * stdtr(sample.n[tested] - 1, -sample.studentised[tested]))


def _t_criticals(sample: Sample, level: float) -> Scores:
    from scipy.special import stdtrit

    return np.asarray(-stdtrit(sample.n[sample.tested] - 1, level / 2), dtype=np.float64)


def infer_t_holm(sample: Sample, procedure: Procedure) -> Inference:
    """Paired t tests with Holm's correction, and simultaneous t intervals with Bonferroni's.

    Holm's test has no two-sided intervals that agree with it and tell anything; Bonferroni's are wider than its claims,
    never narrower: where one leaves out 0, the difference is shown.
    """
    p = t_probabilities(sample)
    count = max(len(p), 1)
    single = sample.inference(
        procedure.level, TestNumbers(p, np.minimum(p * count, 1.0), _t_criticals(sample, procedure.level / count))
    )
    corrected = sample.spread(holm(p))
    return replace(single, p_corrected=corrected, claims=claimed(corrected, single.mean, procedure.level))


def infer_t_bh(sample: Sample, procedure: Procedure) -> Inference:
    """Paired t tests with Benjamini and Hochberg's correction, and the intervals that go with it.

    The intervals are those of Benjamini & Yekutieli 2005: with R claims among m comparisons, at R / m of the level, so
    that they leave out 0 exactly where a difference is claimed.
    """
    p = t_probabilities(sample)
    corrected = benjamini_hochberg(p)
    kept = max(int(np.count_nonzero(corrected <= procedure.level)), 1) / max(len(p), 1)
    return sample.inference(procedure.level, TestNumbers(p, corrected, _t_criticals(sample, procedure.level * kept)))


def infer_wilcoxon(sample: Sample, procedure: Procedure) -> Inference:
    """Wilcoxon's signed-rank tests with Holm's correction; queries without a difference as Pratt (1959) has them.

    Exact up to 50 queries that all differ, each by another amount; else by the normal distribution. There is no
    interval: the test is of ranks, not of the mean. Where the ranks point to one setting and the mean to the other,
    nothing is claimed.
    """
    from scipy.stats import rankdata, wilcoxon

    p, directions = np.full(len(sample.n), np.nan), np.zeros(len(sample.n))
    for row in np.flatnonzero(sample.tested):
        differences = np.round(sample.values[row][sample.known[row]], _DECIMALS)
        sizes = np.abs(differences)
        is_exact = len(sizes) <= _MOST_EXACT and bool(sizes.all()) and len(np.unique(sizes)) == len(sizes)
        method = "exact" if is_exact else "asymptotic"
        p[row] = wilcoxon(differences, zero_method="pratt", method=method).pvalue
        directions[row] = np.sign(rankdata(sizes) @ np.sign(differences))
    numbers = TestNumbers(p[sample.tested], holm(p[sample.tested]))
    found = sample.inference(procedure.level, numbers)
    agree = directions == np.sign(found.mean)
    return replace(
        found, claims=np.where(agree, claimed(found.p_corrected, found.mean, procedure.level), 0).astype(np.int8)
    )


def infer_bootstrap(sample: Sample, procedure: Procedure) -> Inference:
    """BCa bootstrap intervals (Efron 1987), of each comparison by itself, from ``flips`` resamples; no p."""
    from scipy.stats import bootstrap

    found = sample.inference(procedure.level, TestNumbers(criticals=_t_criticals(sample, procedure.level)))
    low, high = np.where(sample.tested, found.mean, np.nan), np.where(sample.tested, found.mean, np.nan)
    for row in np.flatnonzero(sample.tested & (sample.scaled_deviation > 0)):
        values = sample.values[row][sample.known[row]]
        low[row], high[row] = sample.scale[row] * np.asarray(
            bootstrap(
                (values,),
                np.mean,
                n_resamples=procedure.flips,
                batch=max(1, _BLOCK_VALUES // len(values)),
                confidence_level=1 - procedure.level,
                method="BCa",
                rng=np.random.default_rng(procedure.seed),
            ).confidence_interval
        )
    claims = (low > 0).astype(np.int8) - (high < 0).astype(np.int8)
    return replace(found, low=low, high=high, claims=claims)
