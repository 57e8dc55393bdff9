"""How often a history of runs shows a false step, and how soon it shows a true one.

    python benchmarks/simulations.py --only history [--experiments 2000] [--jobs 2]

A history has 60 runs of the same questions. `noise`: each run has its own noise of mean 0, as an approximate index or a
model has. `walk`: each run adds a change of mean 0 to the scores of the run before, which stays. `changes`: the same,
but only one run in five changes anything; the others repeat the scores. `sparse` noise is 0 for 70% of the questions.
`breaks`: every tenth run has other questions. Settings have the correlation 0.7. Differences between two runs have the
standard deviation 0.2 (of `walk` and `changes`, between two changes). In `step` the scores of run 20 and all later ones
are higher by 0.05, in `change` by 0.05 on average with the deviation 0.2, and noise is a quarter of the other.

``Steps.follow`` is what is simulated. To save time, a run is not inferred if each studentised difference is below 85%
of Student's critical value at its level, and histories with a true step, five times as many, are tested by Student's t
alone; `--check` infers all of these as well.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from zlib import crc32

import numpy as np
from scipy.special import stdtrit

from ragtrial.comparison.comparison_input import Pair, PairedScores
from ragtrial.comparison.history import AFTER_STEP, Outcome, Steps
from ragtrial.comparison.statistics.samples import Procedure, Sample
from ragtrial.evaluation.clusters import Places
from ragtrial.evaluation.grading import Scores

RUNS = 60
STEP_AT = 20
STEP = 0.05
DEVIATION = 0.2
BREAK_EVERY = 10
CORRELATION = 0.7
SCREEN = 0.85
POWER = ("step", "change")


@dataclass(frozen=True)
class Cell:
    """A kind of history: of so many settings and questions, the latter in clusters of this size."""

    kind: str
    settings: int
    questions: int
    cluster: int = 1
    experiments: int = 0
    is_checked: bool = False


class ScreenedSteps(Steps):
    """Steps without the draws of comparisons that are far from any step."""

    def _compared(self, scores: PairedScores, pairs: Sequence[Pair], clusters: Places | None) -> list[Outcome]:
        sample = Sample(scores.family(pairs, clusters))
        level = self.procedure.with_alpha_spending(self.number + 1).level
        critical = -stdtrit(np.maximum(sample.n - 1, 1), level / 2)
        if pairs and (sample.studentised[sample.tested] < SCREEN * critical[sample.tested]).all():
            self.number += bool(sample.tested.any())
            return [Outcome(pair.baseline, 0.0) for pair in pairs]
        return super()._compared(scores, pairs, clusters)


def noise(random: np.random.Generator, cell: Cell) -> Scores:
    """Independent draws of mean 0, shape (runs, settings, questions)."""
    shape = RUNS, cell.settings, cell.questions
    common, own = random.standard_normal((2, *shape))
    values = CORRELATION**0.5 * common[:, :1] + (1 - CORRELATION) ** 0.5 * own
    if cell.cluster > 1:  # half of the variance is common to a cluster
        groups = random.standard_normal((RUNS, 1, -(-cell.questions // cell.cluster)))
        values = (values + np.repeat(groups, cell.cluster, axis=2)[:, :, : cell.questions]) / 2**0.5
    if cell.kind == "sparse":
        values *= random.random((RUNS, 1, cell.questions)) < 0.3
    return np.asarray(values)


def scores_of(random: np.random.Generator, cell: Cell) -> Scores:
    """The scores of a history, shape (runs, settings, questions)."""
    values = noise(random, cell)
    if cell.kind in ("walk", "changes"):
        values *= DEVIATION
        if cell.kind == "changes":
            values *= random.random((RUNS, 1, 1)) < 0.2
        return np.asarray(values.cumsum(axis=0))
    values *= DEVIATION / 2**0.5
    if cell.kind == "step":
        values[STEP_AT:] += STEP
    if cell.kind == "change":
        values /= 4.0
        values[STEP_AT:] += STEP + DEVIATION * random.standard_normal((1, cell.questions))
    return np.asarray(values)


def steps_of(values: Scores, cell: Cell) -> Iterator[tuple[int, int]]:
    """The run and the direction of each step."""
    steps = (Steps if cell.is_checked else ScreenedSteps)(Procedure())
    clusters = None if cell.cluster == 1 else np.arange(cell.questions) // cell.cluster
    length = BREAK_EVERY if cell.kind == "breaks" else RUNS
    for start in range(0, RUNS, length):
        part = values[start : start + length]
        rows = np.arange(part.shape[0] * part.shape[1]).reshape(part.shape[:2])
        runs = [{str(line): int(row) for line, row in enumerate(own)} for own in rows]
        scores = PairedScores("ndcg@10", part.reshape(-1, cell.questions))
        for run, outcomes in enumerate(steps.follow(scores, runs, clusters), start):
            yield from ((run, outcome.claim) for outcome in outcomes.values() if outcome.claim)


def steps_by_student(values: Scores, cell: Cell) -> Iterator[tuple[int, int]]:
    """The same of the only setting, as ``Steps`` goes on, by Student's t."""
    accepted, number = 0, 0
    for run in range(1, RUNS):
        number += 1
        differences = values[run, 0] - values[accepted, 0]
        error = differences.std(ddof=1) / cell.questions**0.5
        critical = -stdtrit(cell.questions - 1, Procedure().with_alpha_spending(number).level / 2)
        if abs(differences.mean()) > critical * error:
            yield run, int(np.sign(differences.mean()))
            accepted, number = run, AFTER_STEP


def simulated(cell: Cell) -> list[list[tuple[int, int]]]:
    """The steps of each history."""
    random = np.random.default_rng([20261126, crc32(repr(cell).encode())])
    steps, count = (steps_of, 1) if cell.kind not in POWER or cell.is_checked else (steps_by_student, 5)
    return [list(steps(scores_of(random, cell), cell)) for _ in range(count * cell.experiments)]


def cells(options: argparse.Namespace) -> list[Cell]:
    kinds = [("noise", 1, 30, 1), ("noise", 1, 100, 1), ("noise", 3, 100, 1), ("noise", 1, 100, 4),
             ("sparse", 1, 100, 1), ("sparse", 3, 100, 1), ("walk", 1, 100, 1), ("walk", 3, 100, 1),
             ("changes", 3, 100, 1), ("breaks", 1, 100, 1), ("breaks", 3, 30, 1)]  # fmt: skip
    kinds += [(kind, 1, questions, 1) for kind in POWER for questions in (100, 200, 400)]
    return [Cell(*kind, options.experiments, options.check) for kind in kinds]


def line_of(cell: Cell, histories: Sequence[Sequence[tuple[int, int]]]) -> str:
    is_true = cell.kind in POWER
    false = [any(not is_true or run < STEP_AT or claim < 0 for run, claim in steps) for steps in histories]
    found = [next((run - STEP_AT + 1 for run, claim in steps if run >= STEP_AT and claim > 0), RUNS)
             for steps in histories]  # fmt: skip
    again = [sum(run >= STEP_AT for run, _ in steps) > cell.settings for steps in histories]
    shares = [f"{np.mean(false):.1%}"]
    shares += [f"{np.mean(np.array(found) <= within):.0%}" for within in (1, 5, 20)] if is_true else [""] * 3
    shares += [f"{np.mean(again):.1%}" if is_true else ""]
    clusters = f", clusters of {cell.cluster}" if cell.cluster > 1 else ""
    return "| " + " | ".join([cell.kind, f"{cell.settings}", f"{cell.questions}{clusters}", *shares]) + " |"


def run(options: argparse.Namespace) -> None:
    """Print the table, a line for each cell."""
    print("| history | settings | questions | false step | true one in 1 run | in 5 | in 20 | another one after it |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    with ProcessPoolExecutor(options.jobs) as pool:
        own = cells(options)
        for cell, histories in zip(own, pool.map(simulated, own), strict=True):
            print(line_of(cell, histories), flush=True)
