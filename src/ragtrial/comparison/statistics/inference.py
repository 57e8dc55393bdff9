"""Tests and simultaneous intervals: sign flips and resamples together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ragtrial.comparison.statistics.flips import flipped
from ragtrial.comparison.statistics.resamples import resampled
from ragtrial.comparison.statistics.samples import Family, Inference, Procedure, Sample


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
