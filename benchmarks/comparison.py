"""What comparing costs: settings x queries x metrics, all pairs, beside ranx with its Fisher test in the same run.

    OPENBLAS_NUM_THREADS=2 python benchmarks/comparison.py [--settings 20] [--queries 5000] [--metrics 6]
                                                           [--flips 10000] [--ranx 1000]

Scores are random with steps of a tenth, so that many queries tie. Our time is that of ``infer``: from arrays of scores
to p, intervals and claims of every pair and metric; memory is the most that the process has held. ranx is given the
same scores (its ``compute_statistical_significance``, which its ``compare`` calls once it has scored), warmed up
before. ``--ranx 0`` leaves it out.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import platform
import resource
import time

import numpy as np
from quiet import refuse_if_busy

from ragtrial.comparison.statistics.procedures import infer
from ragtrial.comparison.statistics.samples import Family, Procedure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("settings", 20), ("queries", 5_000), ("metrics", 6), ("flips", 10_000), ("ranx", 1_000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    size = (options.metrics, options.settings, options.queries)
    scores = np.clip(np.round(rng.normal(0.6, 0.1, (*size[:1], 1, size[2])) + rng.normal(0, 0.2, size), 1), 0, 1)
    print(f"{dt.datetime.now(dt.UTC):%Y-%m-%d}, {platform.machine()}, {os.cpu_count()} cores, Python", end=" ")
    print(f"{platform.python_version()}, NumPy {np.__version__}")
    first, second = np.triu_indices(options.settings, 1)
    pairs = np.stack([second, first], axis=1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start, cpu = time.perf_counter(), time.process_time()
    found = infer([Family(one, pairs) for one in scores], Procedure(flips=options.flips))
    ours, cpu = time.perf_counter() - start, time.process_time() - cpu
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    claims = sum(int(np.count_nonzero(one.claims)) for one in found)
    print(
        f"ragtrial {ours:8.2f} s ({cpu:.2f} s of processor)  {most / 1024:,.0f} MiB, {before / 1024:,.0f} before",
        end="",
    )
    print(f"  {options.flips:,} flips, {len(pairs)} pairs, {claims} claims")
    if options.ranx:
        theirs = ranx_seconds(scores, options.ranx)
        print(f"ranx     {theirs:8.2f} s  {options.ranx:,} permutations  {theirs / ours:.1f} times ours")


def ranx_seconds(scores: np.ndarray[tuple[int, ...], np.dtype[np.float64]], permutations: int) -> float:
    from ranx.meta.compare import compute_statistical_significance

    def work(given: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> None:
        names = [f"s{number}" for number in range(given.shape[1])]
        metrics = [f"m{number}" for number in range(len(given))]
        compute_statistical_significance(
            model_names=names,
            metric_scores={
                name: {metric: given[place, row] for place, metric in enumerate(metrics)}
                for row, name in enumerate(names)
            },
            stat_test="fisher",
            n_permutations=permutations,
            max_p=0.01,
            random_seed=42,
        )

    work(scores[:1, :2, :50])
    start = time.perf_counter()
    work(scores)
    return time.perf_counter() - start


if __name__ == "__main__":
    refuse_if_busy()
    main()
