"""How often intervals of differences between separations of unanswerable questions hold.

    python benchmarks/simulations.py --only separation [--experiments 2000] [--jobs 2]

Scores of first hits are normal, with another mean for answerable questions; those of two settings are correlated within
each kind of question. So the true area under the ROC curve is the normal distribution function of the difference of
means over the square root of 2.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from zlib import crc32

import numpy as np
from scipy.special import ndtri

from ragtrial.evaluation.separation import FEWEST_FOR_INTERVAL, TopScores

SIZES = ((FEWEST_FOR_INTERVAL, FEWEST_FOR_INTERVAL), (FEWEST_FOR_INTERVAL, 300), (100, FEWEST_FOR_INTERVAL))
AREAS = ((0.5, 0.5), (0.8, 0.7), (0.95, 0.7), (0.95, 0.85), (0.95, 0.9), (0.95, 0.95))
CORRELATIONS = (0.0, 0.8, 0.95)

Cell = tuple[tuple[int, int], tuple[float, float], float, int]


def intervals_that_hold(cell: Cell) -> tuple[float, float]:
    """The share of intervals that have the true difference in them, and their mean width."""
    sizes, areas, correlation, experiments = cell
    rng = np.random.default_rng([20261126, crc32(repr(cell).encode())])
    is_answerable = np.arange(sum(sizes)) < sizes[0]
    names, means = np.arange(sum(sizes)).astype(str), 2**0.5 * ndtri(areas)
    hold, width = 0, 0.0
    for _ in range(experiments):
        first, own = rng.standard_normal((2, sum(sizes)))
        second = correlation * first + (1 - correlation**2) ** 0.5 * own
        scores = [
            TopScores(x + mean * is_answerable, is_answerable, names)
            for x, mean in zip((first, second), means, strict=True)
        ]
        _, low, high = scores[0].less(scores[1])
        hold += low <= areas[0] - areas[1] <= high
        width += high - low
    return hold / experiments, width / experiments


def run(options: argparse.Namespace) -> None:
    """Print the table, a line for each cell."""
    cells = [(*cell, options.experiments) for cell in product(SIZES, AREAS, CORRELATIONS)]
    print("| answerable, unanswerable | true separations | correlation | intervals hold | mean width |")
    print("|---|---|--:|--:|--:|")
    shares = []
    with ProcessPoolExecutor(options.jobs) as pool:
        for (sizes, areas, correlation, _), (share, width) in zip(
            cells, pool.map(intervals_that_hold, cells), strict=True
        ):
            shares.append(share)
            row = [f"{sizes[0]}, {sizes[1]}", f"{areas[0]}, {areas[1]}", f"{correlation:g}"]
            print("| " + " | ".join([*row, f"{share:.1%}", f"{width:.3f}"]) + " |", flush=True)
    print(f"\nfewest: {min(shares):.1%}")
