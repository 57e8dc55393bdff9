"""The procedures of tests and intervals that a comparison can use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ragtrial.comparison.statistics.flips import flipped
from ragtrial.comparison.statistics.resamples import resampled
from ragtrial.comparison.statistics.samples import DEFAULT, Family, Inference, Procedure, Sample
from ragtrial.errors import ReportError, did_you_mean, listed
from ragtrial.evaluation.grading import Scores

_BLOCK_VALUES = 2_000_000


def infer_t_holm(sample: Sample, procedure: Procedure) -> Inference:
    """Paired t tests with Holm's correction, and simultaneous t intervals with Bonferroni's.

    Holm's test has no informative two-sided intervals that agree with it. Bonferroni's are wider than its claims, never
    narrower: if one excludes 0, the difference is shown.
    """
    from scipy.special import stdtr

    tested, level = sample.tested, procedure.level
    p = np.asarray(2 * stdtr(sample.n[tested] - 1, -sample.studentised[tested]))
    count = max(len(p), 1)
    single = sample.inference(
        level, p, np.minimum(p * count, 1.0), _t_criticals(sample, procedure.split_over(count).level)
    )
    corrected = sample.spread(holm(p))
    claims = np.where(corrected <= level, np.sign(single.mean), 0).astype(np.int8)
    return replace(single, p_corrected=corrected, claims=claims)


def holm(p: Scores) -> Scores:
    """Holm's corrected p (1979): with it, the probability of any wrong claim is at most the level."""
    order = np.argsort(p, kind="stable")
    corrected = np.empty(len(p))
    corrected[order] = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    return np.minimum(corrected, 1.0)


def _t_criticals(sample: Sample, level: float) -> Scores:
    from scipy.special import stdtrit

    return np.asarray(-stdtrit(sample.n[sample.tested] - 1, level / 2), dtype=np.float64)


def infer_bootstrap(sample: Sample, procedure: Procedure) -> Inference:
    """BCa bootstrap intervals (Efron 1987), of each comparison by itself, from ``flips`` resamples; no p."""
    from scipy.stats import bootstrap

    found = sample.inference(procedure.level, criticals=_t_criticals(sample, procedure.level))
    ends = np.tile(np.where(sample.tested, found.mean, np.nan), (2, 1))
    for row in np.flatnonzero(sample.tested & (sample.scaled_deviation > 0)):
        (values,) = sample.values(np.array([row]))
        values = values[~np.isnan(values)]
        ends[:, row] = sample.scale[row] * np.asarray(
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
    low, high = ends
    claims = (low > 0).astype(np.int8) - (high < 0).astype(np.int8)
    return replace(found, low=low, high=high, claims=claims)


@dataclass(frozen=True)
class ProcedureCard:
    """The description of a procedure; ``infers`` is its function, None for the default procedure.

    ``draws`` names its random draws if they are not flips; empty if it draws nothing.
    """

    name: str
    sentence: str
    caveat: str
    infers: Callable[[Sample, Procedure], Inference] | None = None
    draws: str = ""


PROCEDURES = {
    card.name: card
    for card in (
        ProcedureCard(
            DEFAULT,
            "Sign flips and a balanced bootstrap-t, the same draws for all comparisons; the larger p and the wider "
            "simultaneous interval of the two count.",
            "It assumes that questions are independent and like those of your users.",
        ),
        ProcedureCard(
            "t-holm",
            "Paired t tests with Holm's correction, and t intervals with Bonferroni's.",
            "It is blind to what comparisons have in common, so near-clones cost it power; the interval of a "
            "significant difference may contain 0.",
            infer_t_holm,
        ),
        ProcedureCard(
            "bootstrap",
            "BCa bootstrap intervals of each comparison by itself, without p.",
            "It is not corrected for the number of comparisons, and below some hundred queries the intervals hold less "
            "often than they say.",
            infer_bootstrap,
            draws="resamples",
        ),
    )
}


def infer_by(families: Sequence[Family], procedure: Procedure) -> list[Inference]:
    """The inference of each family by the procedure of this name. Raises ReportError with the known names."""
    name = procedure.name
    if name not in PROCEDURES:
        near = did_you_mean(name, list(PROCEDURES))
        raise ReportError(f"no procedure is called {name!r}.{near} There are: {listed(list(PROCEDURES))}.")
    infers = PROCEDURES[name].infers
    return infer(families, procedure) if infers is None else [infers(Sample(family), procedure) for family in families]


def infer(families: Sequence[Family], procedure: Procedure) -> list[Inference]:
    """Tests and simultaneous intervals of each family, by the same draws for all: they have the same clusters.

    The interval is the mean, more or less ``criticals`` standard errors: the larger value of sign flips and of a
    balanced bootstrap-t. The former keep the level where differences are symmetric and where few questions decide, the
    latter where differences are skewed. So the larger p of the two counts, and p_corrected is at most the level exactly
    where the interval leaves out 0.
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
