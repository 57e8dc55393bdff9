"""Claims from differences that are too skewed for so few queries."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from ragtrial.comparison.contest import Pair
from ragtrial.comparison.statistics.samples import Inference
from ragtrial.errors import listed
from ragtrial.records import Caution

_QUERIES_PER_SQUARE = 25
"""With so many times the squared skewness a 95% interval of a mean is wrong in 6% at most (Cochran 1977, 2.15)."""

_MOST_NAMED = 3


def skewed_claims(names: Sequence[str], pairs: Sequence[Pair], inference: Inference) -> Iterator[Caution]:
    """A caution about the claims for ``pairs`` whose differences are too skewed."""
    told = []
    for row in np.flatnonzero(inference.claims).tolist():
        skewness, n = float(inference.skewness[row]), int(inference.n[row])
        needed = math.ceil(_QUERIES_PER_SQUARE * skewness**2)
        if n < needed:
            pair = f"{names[pairs[row].setting]} against {names[pairs[row].baseline]}"
            told.append((needed, f"{pair} (skewness {skewness:+.1f}: {n:,} queries, {needed:,} would do)"))
    if told:
        named = listed([text for _, text in sorted(told, reverse=True)], _MOST_NAMED)
        message = (
            f"a few queries make most of the difference, and such claims are wrong more often than said: {named}. "
            "Look at these queries (--queries), or ask more."
        )
        yield Caution("skewed-differences", message)
