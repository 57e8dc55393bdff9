"""How far the score that `compare` expects of a winner is from the score it has, on samples of real runs.

    python benchmarks/winner.py REPORT [REPORT ...] [--experiments 1000] [--draws 1000] [--seed 0] [--json PATH]

The queries of a report stand for all queries: experiments draw some of them with replacement, pick the setting with the
best mean by the primary metric, and compare its mean, and the one that is expected, with its mean over all queries.
`equal` settings have the same scores, dealt out anew for every query, so that whatever wins owes it to chance. From
both errors is taken what the drawn queries are easier for all settings than the others, which no setting can be blamed
for. `error` is the mean over experiments in thousandths, with its standard error. `holds` is the share of experiments
in which the interval contains the winner's mean over all queries, `width` its mean width.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from ragtrial.comparison.comparison_input import input_of
from ragtrial.comparison.selection import expected_gain
from ragtrial.evaluation.grading import Scores

SIZES = (30, 60, 150, 300)


@dataclass(frozen=True)
class Row:
    report: str
    settings: int
    kind: str
    queries: int
    raw: float
    """The mean error of the winner's mean."""
    expected: float
    """The mean error of what is expected of it."""
    standard_error: float
    holds: float
    """The share of experiments in which the interval of the winner's mean holds."""
    width: float


def populations(report: Path) -> Iterator[tuple[str, str, Scores]]:
    """Scores by setting and query: those of the report, and those that equally good settings might have."""
    inputs = input_of([report])
    values = inputs.scores(inputs.primary).values
    values = values[:, ~np.isnan(values).any(axis=0)]
    name = f"{json.loads((report / 'report.json').read_text())['experiment']}, {inputs.primary}"
    yield name, "real", values
    turned = [np.roll(values, shift, axis=0) for shift in range(len(values))]
    yield name, "equal", np.concatenate(turned, axis=1)


def simulate(name: str, kind: str, values: Scores, queries: int, options: argparse.Namespace) -> Row:
    random, experiments = np.random.default_rng([options.seed, queries]), options.experiments
    truth, raw, expected = values.mean(axis=1), [], []
    ends = np.empty((experiments, 2))
    held = 0
    for experiment in range(experiments):
        drawn = values[:, random.integers(0, values.shape[1], queries)]
        means = drawn.mean(axis=1)
        winner = int(means.argmax())
        right = truth[winner] + means.mean() - truth.mean()
        gain = expected_gain(drawn, winner, draws=options.draws, seed=experiment)
        raw.append(means[winner] - right)
        expected.append(means[winner] - gain.mean - right)
        ends[experiment] = np.clip([means[winner] - gain.high, means[winner] - gain.low], 0, 1)
        held += bool(ends[experiment, 0] <= truth[winner] <= ends[experiment, 1])
    error = float(np.std(expected) / np.sqrt(experiments))
    width = float(np.diff(ends).mean())
    mean_errors = float(np.mean(raw)), float(np.mean(expected))
    return Row(name, len(values), kind, queries, *mean_errors, error, held / experiments, width)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", metavar="REPORT", type=Path, nargs="+", help="the folder of a report")
    parser.add_argument("--experiments", type=int, default=1000)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    print(f"{dt.datetime.now(dt.UTC):%Y-%m-%d}, {platform.machine()}, {os.cpu_count()} cores, Python", end=" ")
    print(f"{platform.python_version()}, NumPy {np.__version__}; {options.experiments:,} experiments per row")
    print("| report | settings | | n | error of the mean | of what is expected | holds | width |")
    print("|---|--:|---|--:|--:|--:|--:|--:|")
    rows = []
    for report in options.reports:
        for name, kind, values in populations(report):
            for queries in SIZES:
                row = simulate(name, kind, values, queries, options)
                numbers = f"{1000 * row.raw:+.1f} | {1000 * row.expected:+.1f} ± {1000 * row.standard_error:.1f}"
                numbers += f" | {row.holds:.1%} | {row.width:.3f}"
                print(f"| {row.report} | {row.settings} | {row.kind} | {row.queries} | {numbers} |", flush=True)
                rows.append(row)
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
