"""How often intervals of differences between separations of unanswerable questions hold.

    python benchmarks/simulations.py --only separation [--experiments 2000] [--jobs 2]

Scores of first hits are normal, with another mean for answerable questions; those of two settings are correlated within
each kind of question. So the true area under the ROC curve is the normal distribution function of the difference of
means over the square root of 2. In clusters, scores of a setting have the correlation that is named; clusters are of
one kind of question, or `mixed`, with as many questions of both kinds.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from zlib import crc32

import numpy as np
from scipy.special import ndtri

from ragtrial.evaluation.separation import FEWEST_FOR_INTERVAL, TopScores

SIZES = ((FEWEST_FOR_INTERVAL, FEWEST_FOR_INTERVAL), (FEWEST_FOR_INTERVAL, 300), (100, FEWEST_FOR_INTERVAL))
AREAS = ((0.5, 0.5), (0.8, 0.7), (0.95, 0.7), (0.95, 0.85), (0.95, 0.9), (0.95, 0.95))
CORRELATIONS = (0.0, 0.8, 0.95)

CLUSTERS = tuple(product((10, 15, 30, 100), (3, 8), (0.0, 0.3, 0.6), (False, True)))
CLUSTER_AREAS = ((0.5, 0.5), (0.8, 0.7), (0.95, 0.9))


@dataclass(frozen=True)
class Cell:
    """Questions of each kind, true areas of two settings, and the correlation between their scores.

    ``size`` questions of a kind are in each cluster, or, if it is ``is_mixed``, of both kinds; their scores by one
    setting have the correlation ``within``.
    """

    sizes: tuple[int, int]
    areas: tuple[float, float]
    correlation: float
    experiments: int
    size: int = 1
    within: float = 0.0
    is_mixed: bool = False

    @property
    def columns(self) -> list[str]:
        row = [f"{self.sizes[0]}, {self.sizes[1]}", f"{self.areas[0]}, {self.areas[1]}", f"{self.correlation:g}"]
        if self.size == 1:
            return [*row, ""]
        return [*row, f"{self.sizes[0] // self.size} of {self.size}{' mixed' * self.is_mixed}, {self.within:g}"]


def intervals_that_hold(cell: Cell) -> tuple[float, float]:
    """The share of intervals that have the true difference in them, and their mean width."""
    rng = np.random.default_rng([20261126, crc32(repr(cell).encode())])
    questions = sum(cell.sizes)
    is_answerable = np.arange(questions) < cell.sizes[0]
    names, means = np.arange(questions).astype(str), 2**0.5 * ndtri(cell.areas)
    clusters = np.arange(questions) // cell.size
    if cell.is_mixed:
        clusters %= cell.sizes[0] // cell.size
    hold, width = 0, 0.0
    for _ in range(cell.experiments):
        own, shared = rng.standard_normal((2, 2, questions))
        own = cell.within**0.5 * shared[:, clusters] + (1 - cell.within) ** 0.5 * own
        second = cell.correlation * own[0] + (1 - cell.correlation**2) ** 0.5 * own[1]
        scores = [
            TopScores(x + mean * is_answerable, is_answerable, names, clusters)
            for x, mean in zip((own[0], second), means, strict=True)
        ]
        _, low, high = scores[0].less(scores[1])
        hold += low <= cell.areas[0] - cell.areas[1] <= high
        width += high - low
    return hold / cell.experiments, width / cell.experiments


def cells(experiments: int) -> Iterator[Cell]:
    """Questions that stand alone, then clusters."""
    for sizes, areas, correlation in product(SIZES, AREAS, CORRELATIONS):
        yield Cell(sizes, areas, correlation, experiments)
    for (count, size, within, is_mixed), areas in product(CLUSTERS, CLUSTER_AREAS):
        yield Cell((count * size, count * size), areas, 0.8, experiments, size, within, is_mixed)


def run(options: argparse.Namespace) -> None:
    """Print the table, a line for each cell."""
    known = [cell for cell in cells(options.experiments) if re.search(options.cells, " | ".join(cell.columns))]
    print("| answerable, unanswerable | true separations | correlation | clusters, correlation | hold | width |")
    print("|---|---|--:|---|--:|--:|")
    shares = []
    with ProcessPoolExecutor(options.jobs) as pool:
        for cell, (share, width) in zip(known, pool.map(intervals_that_hold, known), strict=True):
            shares.append(share)
            print("| " + " | ".join([*cell.columns, f"{share:.1%}", f"{width:.3f}"]) + " |", flush=True)
    print(f"\nfewest: {min(shares):.1%}")
