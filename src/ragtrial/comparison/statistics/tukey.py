"""Randomised Tukey: which setting has which score of a query is drawn at random, and the range of means looked at."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ragtrial.comparison.statistics.flips import critical_of, shares
from ragtrial.comparison.statistics.samples import Family, Inference, Numbers, Procedure, Sample
from ragtrial.evaluation.grading import Scores

_BLOCK_VALUES = 2_000_000
_TOLERANCE = 1e-10


def infer_ranges(families: Sequence[Family], procedure: Procedure) -> list[Inference]:
    """Randomised Tukey's honestly significant differences (Carterette 2012, section 4.2), with simultaneous intervals.

    The scores of each query are given to the settings at random, ``flips`` times; p_corrected is the share of times in
    which the best and the worst mean are at least as far apart as the two settings compared. All intervals have the
    same width. A query that does not count for one setting is left out for all. There is no p of a comparison by
    itself. Raises ValueError for comparisons that are not pairs of settings.
    """
    return [_infer_one(family, procedure) for family in families]


def _infer_one(family: Family, procedure: Procedure) -> Inference:
    pairs = (np.sort(family.weights, axis=1)[:, [0, -1]] == [-1, 1]).all(axis=1)
    if not (pairs & (np.count_nonzero(family.weights, axis=1) == 2)).all():
        raise ValueError("randomised Tukey compares pairs of settings, not other sums of columns.")
    known = ~np.isnan(family.columns).any(axis=0)
    sample = Sample(Family(family.columns[:, known], family.weights))
    if not sample.tested.any():
        return sample.inference(procedure.level)
    columns = family.columns[:, known][(family.weights != 0).any(axis=0)]
    ranges = np.sort(_ranges(columns - columns.mean(axis=0), procedure))
    slack = _TOLERANCE * float(np.abs(columns).max())
    mean, error = np.abs(sample.mean[sample.tested]), sample.error[sample.tested]
    corrected = shares(len(ranges) - np.searchsorted(ranges, mean - slack), len(ranges), exact=False)
    width = critical_of(ranges, procedure.level, exact=False) + slack
    with np.errstate(divide="ignore"):
        numbers = Numbers(p_corrected=corrected, criticals=width / error)
    return sample.inference(procedure.level, numbers, widths=np.full(len(mean), width))


def _ranges(columns: Scores, procedure: Procedure) -> Scores:
    """The largest mean less the smallest, each time that the scores of each query are dealt anew."""
    random = np.random.default_rng(procedure.seed)
    rows = max(1, _BLOCK_VALUES // columns.size)
    ranges = np.empty(procedure.flips)
    for start in range(0, procedure.flips, rows):
        dealt = np.repeat(columns.T[None], min(rows, procedure.flips - start), axis=0)
        random.permuted(dealt, axis=2, out=dealt)
        means = dealt.mean(axis=1)
        ranges[start : start + len(dealt)] = means.max(axis=1) - means.min(axis=1)
    return ranges
