"""By how much the first labels of `ragtrial pool` narrow what unjudged hits could change, beside as many random ones.

    python benchmarks/pool.py REPORT [--hide 0.5] [--budget 10] [--seeds 30] [--baseline NAME] [--metric NAME]

Of the labels of REPORT a share is hidden, by seed (each query keeps one relevant document, so that it stays in the
mean), and its rankings are scored again by the rest. Then the first ten hits of the pool are labelled by the hidden
labels (grade 0 where there is none), and so are ten random ones of all unjudged hits that the settings have among
their first k. Each time the rankings are scored again, and so is the primary comparison by the two extreme gradings of
what is still unjudged (`compare --unjudged`). `times` is how much nearer to each other the pool brings these two, over
how much nearer the random labels do.

A report of the sample data is made by `ragtrial run configs/hybrid.yaml`.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import random
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from quiet import refuse_if_busy

from ragtrial import load_report
from ragtrial.comparison.comparing import ComparisonOptions, close_comparisons, compare_settings
from ragtrial.comparison.comparison_input import ComparisonInput, input_of
from ragtrial.comparison.comparison_parts import ComparisonPart
from ragtrial.comparison.judged_rankings import unjudged_parts
from ragtrial.labelling.pooling import Pool
from ragtrial.report.model import Report
from ragtrial.scoring.rescore import rescore

Grades = dict[str, dict[str, int]]
"""By query and document."""


@dataclass(frozen=True)
class Narrowed:
    """By how much the two ends of the primary comparison, ``width`` apart, are nearer with each choice of labels."""

    width: float
    pool: float
    random: float
    unjudged: int
    seconds: float

    @property
    def times(self) -> float:
        """How much more the pool does than random labels; infinite where these do nothing."""
        return self.pool / self.random if self.random > 1e-12 else float("inf")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path)
    parser.add_argument("--hide", type=float, default=0.5)
    parser.add_argument("--budget", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--baseline")
    parser.add_argument("--metric")
    options = parser.parse_args()
    report = load_report(options.report)
    print(f"{dt.datetime.now(dt.UTC):%Y-%m-%d}, {platform.machine()}, {os.cpu_count()} cores, Python", end=" ")
    print(f"{platform.python_version()}, NumPy {np.__version__}")
    found = []
    for seed in range(options.seeds):
        with tempfile.TemporaryDirectory() as folder:
            found.append(
                narrowed(report, seed, Path(folder), hide=options.hide, budget=options.budget,
                         baseline=options.baseline, metric=options.metric)
            )  # fmt: skip
    print(
        f"{report.experiment}: {len(report.settings)} settings, {len(report.queries)} queries, "
        f"{options.metric or report.primary_metric}, {options.hide:.0%} of the labels hidden, {options.budget} "
        f"labelled, {options.seeds} seeds; median (quartiles)"
    )
    for name in ("width", "unjudged", "pool", "random", "seconds", "times"):
        print(f"  {name:10}{quartiles([float(getattr(one, name)) for one in found])}")
    print(f"  at least twice in {np.mean(np.array([one.times for one in found]) >= 2):.0%}")


def quartiles(values: Sequence[float]) -> str:
    low, middle, high = (np.quantile(values, share, method="nearest") for share in (0.25, 0.5, 0.75))
    return f"{middle:10.4g} ({low:.4g} to {high:.4g})"


def narrowed(
    report: Report, seed: int, folder: Path, *, hide: float, budget: int,
    baseline: str | None = None, metric: str | None = None,
) -> Narrowed:  # fmt: skip
    """What labels of the pool, and random ones, do where a share ``hide`` of the labels of ``report`` is hidden."""
    rng = random.Random(seed)
    everything = grades_of(report)
    kept = hidden(everything, hide, rng)
    contest = scored(report, kept, folder / "hidden", baseline, metric)
    first = close_comparisons(compare_settings(contest, ComparisonOptions(contest.baseline)))[0]
    width = width_of(contest, first)
    start = time.perf_counter()
    hits = [(one.row, str(one.found)) for one in Pool(contest).unjudged]
    seconds = time.perf_counter() - start
    left = []
    for number, labelled in enumerate((hits[:budget], rng.sample(hits, min(budget, len(hits))))):
        known = {query: dict(grades) for query, grades in kept.items()}
        for row, doc in labelled:
            query = contest.queries[row].id
            known[query][doc] = everything[query].get(doc, 0)
        again = scored(report, known, folder / str(number), baseline, metric)
        left.append(width - width_of(again, first))
    return Narrowed(width, left[0], left[1], len(hits), seconds)


def width_of(contest: ComparisonInput, pair: ComparisonPart) -> float:
    """How far the differences by the two extreme gradings are apart."""
    (part,) = unjudged_parts(contest, [pair], margin=0.02)
    return (part.high or 0.0) - (part.low or 0.0)


def grades_of(report: Report) -> Grades:
    return {query.id: {one.doc: one.relevance for one in query.relevant_docs} for query in report.queries}


def hidden(grades: Grades, share: float, rng: random.Random) -> Grades:
    """The grades without a share of them; of each query that has a relevant document one stays."""
    kept: Grades = {}
    for query, own in grades.items():
        relevant = [doc for doc, grade in own.items() if grade > 0]
        stays = rng.choice(relevant) if relevant else None
        kept[query] = {doc: grade for doc, grade in own.items() if doc == stays or rng.random() >= share}
    return kept


def scored(
    report: Report, grades: Mapping[str, Mapping[str, int]], folder: Path, baseline: str | None, metric: str | None
) -> ComparisonInput:
    """The settings of ``report`` by other labels."""
    folder.mkdir()
    rows = [
        {
            "id": query.id,
            "text": query.text,
            "relevant_docs": [{"doc": doc, "relevance": grade} for doc, grade in grades[query.id].items()],
        }
        for query in report.queries
    ]
    (folder / "labels.json").write_text(json.dumps({"queries": rows}), encoding="utf-8")
    made = rescore(report, folder / "labels.json", target=folder / "report")
    return input_of([made], primary=metric, baseline=baseline).limited_to([])


if __name__ == "__main__":
    refuse_if_busy()
    main()
