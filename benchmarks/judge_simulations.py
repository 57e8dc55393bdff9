"""Do verdicts from few labels of people and many of a model keep what they promise? The table judge of simulations.py.

People judge n queries, a model these and `more`. Differences of settings from one baseline are `normal`, or those of
nDCG@10 (`ndcg`: many are 0). The model's differences have the correlation rho with people's:

- `noisy`: rho times people's, the rest is of other queries of the same shape.
- `biased`: the same, and in 4 of 10 queries it sees each setting better by half a standard deviation.
- `partial`: people's own for a share rho of the queries, for the others those of another query.
- `rare`: people's own, but for a tenth of the queries, where each setting gains two standard deviations.

No setting differs in truth. `holds`: experiments in which all intervals contain 0; 100% less that is the family-wise
error. `people` are the intervals of max-t from people's labels alone, `judge` are t intervals (Bonferroni's) of the
model's differences alone. `width` is the mean width over that of people alone, `bound` the least that any linear
estimator can have, sqrt(1 - rho^2 more / (n + more)). `used` is the share of the comparisons that did use the model.

A comparison with fewer than ten differences has no interval; `tested` is the share that has one. Experiments go on
until as many as asked for (a third for families) have any interval, and only these count: those without one would hold
by saying nothing. The standard error of 95% is 0.15 points with 20,000 experiments. `--cells` is a regular expression
that the first columns must match, such as "ndcg .* 15$" or "20 (30|60)$".
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from itertools import count
from zlib import crc32

import numpy as np
from scipy.special import stdtrit

from ragtrial.comparison.statistics.procedures import Basis, TwoPhaseInference, TwoPhaseSample, infer, infer_two_phase
from ragtrial.comparison.statistics.samples import Family, Inference, Procedure
from ragtrial.evaluation.grading import Scores

BATCH = 50
SIZES = (15, 30, 60, 300)
BIAS, BIASED = 0.5, 0.4
RARE, FAVOUR = 0.1, 2.0


@dataclass(frozen=True)
class Cell:
    shape: str
    judge: str
    rho: float
    family: int
    queries: int
    experiments: int
    flips: int

    def __str__(self) -> str:
        return f"{self.shape} {self.judge} {self.rho:g} {self.family} {self.queries}"

    @property
    def more(self) -> int:
        """How many queries the model judges beside people's."""
        return 400 if self.queries < 300 else 2000

    @property
    def bound(self) -> float:
        return float(np.sqrt(1 - self.rho**2 * self.more / (self.queries + self.more)))


@dataclass(frozen=True)
class Row:
    cell: Cell
    experiments: int
    """Those that count."""
    tested: float
    used: float
    holds: float
    people: float
    judge: float
    width: float
    seconds: float


def differences(rng: np.random.Generator, shape: str, family: int, queries: int) -> Scores:
    """Those of equally good settings and a baseline, with variance 1, shape (family, queries)."""
    made = rng.standard_normal((family + 1, queries))
    if shape == "normal":
        return np.asarray((made[1:] - made[0]) / np.sqrt(2))
    ranks = np.maximum(np.floor(np.exp(rng.normal(0.6, 1.0, queries) + 0.6 * made)), 1.0)
    gains = np.where(ranks <= 10, 1 / np.log2(ranks + 1), 0.0)
    return np.asarray((gains[1:] - gains[0]) / NDCG_DEVIATION)


NDCG_DEVIATION = 0.2693
"""Of the differences of nDCG, over many queries."""


def judged(rng: np.random.Generator, cell: Cell, people: Scores) -> Scores:
    """The model's differences."""
    other, queries = differences(rng, cell.shape, *people.shape), people.shape[1]
    if cell.judge == "partial":
        return np.where(rng.random(queries) < cell.rho, people, other)
    if cell.judge == "rare":
        return people + FAVOUR * (rng.random(queries) < RARE)
    left = 1 - cell.rho**2
    if cell.judge == "noisy":
        return np.asarray(cell.rho * people + np.sqrt(left) * other)
    left -= BIAS**2 * BIASED * (1 - BIASED)
    return np.asarray(cell.rho * people + np.sqrt(left) * other + BIAS * (rng.random(people.shape) < BIASED))


def holds(found: Inference) -> bool:
    return not ((found.low > 0) | (found.high < 0)).any()


def judge_holds(judge: Scores) -> bool:
    """Whether intervals from the model alone contain 0."""
    family, queries = judge.shape
    error = judge.std(axis=1, ddof=1) / np.sqrt(queries)
    return bool((np.abs(judge.mean(axis=1)) <= -stdtrit(queries - 1, 0.025 / family) * error).all())


def simulate(cell: Cell) -> Row:
    start, counted, made = time.perf_counter(), 0, 0
    tested, used, widths, held = 0.0, 0.0, np.zeros(2), np.zeros(3)
    for batch in count(0, BATCH):
        if counted >= cell.experiments:
            break
        for two, people, model in experiments(cell, batch):
            found = two.inference
            both = ~np.isnan(found.low) & ~np.isnan(people.low)
            made, tested = made + 1, tested + float((~np.isnan(found.low)).mean())
            used += float(np.mean([one is Basis.BOTH for one in two.basis]))
            if both.any():
                counted += 1
                widths += [np.sum((one.high - one.low)[both]) for one in (found, people)]
                held += [holds(found), holds(people), judge_holds(model)]
    own, people_alone, judge_alone = (held / counted).tolist()
    width = float(widths[0] / widths[1])
    return Row(cell, counted, tested / made, used / made, own, people_alone, judge_alone, width,
               time.perf_counter() - start)  # fmt: skip


def experiments(cell: Cell, batch: int) -> Iterator[tuple[TwoPhaseInference, Inference, Scores]]:
    """What both allow to say, people alone, and the model's differences; a batch of experiments with shared flips."""
    rng = np.random.default_rng([crc32(f"{cell.shape} {cell.judge} {cell.rho}".encode()), cell.family, cell.queries,
                                 batch])  # fmt: skip
    procedure = Procedure(flips=cell.flips, seed=batch)
    size = cell.queries + cell.more
    truths = [differences(rng, cell.shape, cell.family, size) for _ in range(BATCH)]
    models = [judged(rng, cell, one) for one in truths]
    by_people = np.arange(size) < cell.queries
    samples = [
        TwoPhaseSample(np.where(by_people, one, np.nan), model) for one, model in zip(truths, models, strict=True)
    ]
    alone = infer([Family(one[:, : cell.queries]) for one in truths], procedure)
    return zip(infer_two_phase(samples, procedure), alone, models, strict=True)


def cells(options: argparse.Namespace) -> Iterator[Cell]:
    of_one, of_family = options.experiments, max(options.experiments // 3, BATCH)
    for family, experiments in ((1, of_one), (20, of_family)):
        for shape in ("normal", "ndcg"):
            for rho in (0.0, 0.5, 0.8):
                for judge in ("noisy", "biased"):
                    for queries in SIZES:
                        yield Cell(shape, judge, rho, family, queries, experiments, options.flips)
    for shape in ("normal", "ndcg"):
        for judge, rho in (("partial", 0.8), ("rare", 0.857)):
            for queries in SIZES[:-1]:
                yield Cell(shape, judge, rho, 1, queries, of_one, options.flips)


def run(options: argparse.Namespace) -> None:
    print("| differences | judge | rho | family | n | more | experiments | tested | used | holds | people", end=" ")
    print("| judge | width | bound |\n|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    rows, chosen = [], [cell for cell in cells(options) if re.search(options.cells, str(cell))]
    with ProcessPoolExecutor(options.jobs) as pool:
        for row in pool.map(simulate, chosen):
            one = row.cell
            shares = " | ".join(f"{share:.1%}" for share in (row.tested, row.used, row.holds, row.people, row.judge))
            first = " | ".join([*str(one).split(), f"{one.more:,}", f"{row.experiments:,}"])
            print(f"| {first} | {shares} | {row.width:.2f} | {one.bound:.2f} |", flush=True)
            rows.append(row)
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")
