"""Successive halving: many settings on a few queries, the better third of them on three times as many, and so on.

It saves work where each query costs something, as with a reranker; a search over all queries is one stage otherwise.
Source: Jamieson & Talwalkar 2016.
"""

from __future__ import annotations

import math
import random

from ragtrial.comparison.statistics.samples import LEAST_DIFFERENCES
from ragtrial.search.session import Session

_KEPT = 3
"""One of so many goes on."""


def halve(session: Session) -> None:
    """Draw settings as random search does, and try only the best of them on all queries."""
    queries = list(session.split.searched)
    random.Random(session.seed).shuffle(queries)  # noqa: S311 - not a secret
    points = session.draw(session.left)
    sizes = [len(queries)]
    while sizes[0] // _KEPT >= LEAST_DIFFERENCES and len(points) > _KEPT ** len(sizes):
        sizes.insert(0, sizes[0] // _KEPT)
    for size in sizes[:-1]:
        trials = session.try_all(points, queries[:size])
        known = [(trial.score, point) for trial, point in zip(trials, points, strict=True) if trial is not None]
        known.sort(key=lambda one: -one[0])  # which keeps equal ones in their order
        points = [point for _, point in known[: math.ceil(len(points) / _KEPT)]]
    session.try_all(points)
