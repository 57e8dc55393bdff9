"""How many questions detect which difference: the table of docs/how-many-questions.md.

    python benchmarks/questions.py REPORT ... [--draws 200] [--pair bm25:dense ...]

Questions are drawn with replacement from those of each report, as a smaller or larger set of labels would be. In each
draw the comparison names the smallest difference that it detects with 80% power. The table has the median over the
draws, from the lowest to the highest of all reports and pairs; `different` are settings of different kinds, `alike`
settings that share most of their hits.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ragtrial.comparison.comparison_input import input_of
from ragtrial.comparison.evidence import evidence_of
from ragtrial.comparison.statistics.procedures import infer
from ragtrial.comparison.statistics.samples import Family, Procedure
from ragtrial.evaluation.grading import Scores

SIZES = (20, 30, 60, 100, 200, 400)
METRICS = ("ndcg@10", "recall@10", "rr@10", "hit_rate@10", "precision@10")
PAIRS = {"different": ("bm25:dense",), "alike": ("bm25:plain", "bm25:low")}
FLIPS = 2000


def differences_of(report: str, pair: str) -> Scores:
    """The differences of two settings by each metric, shape (metrics, questions)."""
    inputs = input_of([report])
    before, after = (inputs.setting_index(name) for name in pair.split(":"))
    values = np.stack([inputs.scores(metric).values for metric in METRICS])
    differences = values[:, after] - values[:, before]
    return np.asarray(differences[:, ~np.isnan(differences).any(axis=0)])


def medians_of(differences: Scores, size: int, draws: int) -> Scores:
    """The median detectable difference of ``size`` questions, by metric; NaN if most draws are too alike to test."""
    random = np.random.default_rng([size, differences.shape[1]])
    made = []
    for draw in range(draws):
        drawn = differences[:, random.integers(0, differences.shape[1], size)]
        families = [Family(row[None]) for row in drawn]
        inferences = infer(families, Procedure(flips=FLIPS, seed=draw))
        made.append([evidence_of(inference, 0.02)[0].detectable for inference in inferences])
    values = np.array(made, dtype=np.float64)
    few = np.isnan(values).mean(axis=0) > 0.5
    return np.where(few, np.nan, np.nanmedian(np.where(few, 0.0, values), axis=0))


def printed(values: Sequence[float]) -> str:
    known = [value for value in values if not np.isnan(value)]
    if not known:
        return "-"
    low, high = f"{min(known):.2f}", f"{max(known):.2f}"
    return low if low == high else f"{low} to {high}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", nargs="+", type=Path)
    parser.add_argument("--draws", type=int, default=200)
    options = parser.parse_args()
    for kind, pairs in PAIRS.items():
        print(f"\n{kind}\n\n| metric | {' | '.join(map(str, SIZES))} |\n|---|{'--:|' * len(SIZES)}")
        sets = [differences_of(str(report), pair) for report in options.reports for pair in pairs]
        cells = [[medians_of(rows, size, options.draws) for rows in sets] for size in SIZES]
        for place, metric in enumerate(METRICS):
            row = [printed([float(values[place]) for values in column]) for column in cells]
            print(f"| {metric} | {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
