"""One effect measured on several data sets: its mean over data sets like these, by random effects."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ragtrial.evaluation.grading import Scores


@dataclass(frozen=True)
class CombinedEffect:
    """The mean effect with its interval, and ``spread``, the standard deviation of true effects between data sets."""

    mean: float
    low: float
    high: float
    spread: float


def combined_effect(effects: Scores, variances: Scores, level: float) -> CombinedEffect:
    """Of at least two ``effects``, independent, each with the sampling variance of its estimate, above 0.

    The variance between data sets is estimated as DerSimonian & Laird 1986 do, and the interval is that of Hartung &
    Knapp 2001, Student's t with one degree of freedom less than data sets. It is never narrower than known variances
    would make it (Röver, Knapp & Friede 2015): of two or three effects that happen to agree it is else far too narrow.
    """
    from scipy.special import stdtrit

    freedom = len(effects) - 1
    weights = 1 / variances
    fixed = float(weights @ effects / weights.sum())
    excess = float(weights @ np.square(effects - fixed)) - freedom
    between = max(0.0, excess / float(weights.sum() - np.square(weights).sum() / weights.sum()))
    weights = 1 / (variances + between)
    mean = float(weights @ effects / weights.sum())
    scatter = max(1.0, float(weights @ np.square(effects - mean)) / freedom)
    half = float(stdtrit(freedom, 1 - level / 2)) * math.sqrt(scatter / float(weights.sum()))
    return CombinedEffect(mean, mean - half, mean + half, math.sqrt(between))
