"""What the first labels of `ragtrial pool` settle, beside as many of random unjudged hits.

    python benchmarks/pool.py REPORT [--hide 0.5] [--budget 10] [--seeds 30] [--baseline NAME] [--metric NAME]

Of the labels of REPORT a share is hidden, by seed (each query keeps one relevant document, so that it stays in the
mean), and its rankings are scored again by the rest. Then the first ten hits of the pool are labelled by the hidden
labels (grade 0 where there is none), and so are ten random ones: of all unjudged hits that the settings have among
their first k, and, harder to beat, of those alone that the two settings of the primary verdict have there. Each time
the rankings are scored again, and the range of the primary comparison over all grades of what is still unjudged is
worked out anew. `times` is how much narrower the pool makes it, over how much narrower the random ones do.

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

from ragtrial import load_report
from ragtrial.comparison.comparing import ComparisonOptions
from ragtrial.comparison.contest import ComparisonSet, Pair, contest_of
from ragtrial.labelling.pooling.pooling import Pool, PooledHit
from ragtrial.report.model import Report
from ragtrial.scoring.rescoring.rescore import rescore

Grades = dict[str, dict[str, int]]
"""By query and document."""


@dataclass(frozen=True)
class Narrowed:
    """By how much the range of the primary comparison, ``width`` wide, is narrower with each choice of labels."""

    width: float
    pool: float
    random: float
    random_of_pair: float
    unjudged: int
    seconds: float

    def times(self, name: str) -> float:
        """How much more the pool does than another choice; infinite where that does nothing."""
        other = float(getattr(self, name))
        return self.pool / other if other > 1e-12 else float("inf")


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
    for name in ("width", "unjudged", "pool", "random", "random_of_pair", "seconds"):
        print(f"  {name:21}{quartiles([float(getattr(one, name)) for one in found])}")
    for name in ("random", "random_of_pair"):
        times = [one.times(name) for one in found]
        print(f"  times {name:15}{quartiles(times)}  at least twice in {np.mean(np.array(times) >= 2):.0%}")


def quartiles(values: Sequence[float]) -> str:
    low, middle, high = (np.quantile(values, share, method="nearest") for share in (0.25, 0.5, 0.75))
    return f"{middle:10.4g} ({low:.4g} to {high:.4g})"


def narrowed(
    report: Report, seed: int, folder: Path, *, hide: float, budget: int,
    baseline: str | None = None, metric: str | None = None,
) -> Narrowed:  # fmt: skip
    """What labels of the pool, and random ones, settle where a share ``hide`` of the labels of ``report`` is hidden."""
    rng = random.Random(seed)
    everything = grades_of(report)
    kept = hidden(everything, hide, rng)
    contest = scored(report, kept, folder / "hidden", baseline, metric)
    start = time.perf_counter()
    pool = Pool(contest, ComparisonOptions(contest.baseline))
    choice = pool.choose(budget)
    seconds = time.perf_counter() - start
    first = choice.settled[0]
    unjudged = pool.hits(judged=False)
    pair = None if first.baseline is None else Pair(contest.place(first.baseline), contest.place(first.setting))
    value = pool.label_value(pair)
    of_pair = [PooledHit(int(value.hits.rows[one]), int(value.hits.codes[one])) for one in pool.candidates(value)]
    left = []
    for number, hits in enumerate(
        (choice.hits, rng.sample(unjudged, min(budget, len(unjudged))), rng.sample(of_pair, min(budget, len(of_pair))))
    ):
        known = {query: dict(grades) for query, grades in kept.items()}
        for hit in hits:
            query, doc = contest.queries[hit.row].id, str(pool.lists.unit_of(hit.code))
            known[query][doc] = everything[query].get(doc, 0)
        again = scored(report, known, folder / str(number), baseline, metric)
        left.append(first.width - Pool(again, ComparisonOptions(again.baseline)).label_value(pair).width)
    return Narrowed(first.width, left[0], left[1], left[2], len(unjudged), seconds)


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
) -> ComparisonSet:
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
    return contest_of([made], primary=metric, baseline=baseline).limited_to([])


if __name__ == "__main__":
    main()
