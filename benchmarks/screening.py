"""How far settings on some of the documents rank as on all, and how good extrapolated scores are.

    python benchmarks/screening.py CONFIG [--sizes 1000,2000,5000] [--seeds 5] [--extrapolate]

All settings of the config run on all documents, and on all judged documents with others at random, so many together.
`tau` is Kendall's tau of the means of the primary metric, over all settings and over the best ten on all documents;
`lost` what the best setting of the screen has less on all documents than the best of all; `higher` by how much scores
are higher on the screen. Means over seeds, each of which draws other documents, and the lowest and highest tau.

--extrapolate: the scores with all documents, extrapolated from 1, 10 and 100% of smaller corpora, beside the true ones:
`held` are settings whose 95% interval contains the true score of the same questions.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping

import numpy as np
from scipy.stats import kendalltau

from ragtrial import load_config
from ragtrial.dataset.library import document_samples
from ragtrial.evaluation.grading import Scores
from ragtrial.pipeline.run import Run
from ragtrial.search.extrapolation import SHARES, extrapolation

_BEST = 10


def scores_of(run: Run) -> Mapping[str, Scores]:
    """By the name of each setting its scores, by the primary metric, of the questions that count."""
    found = {}
    for setting in run.one_by_one():
        scored = run.score(setting)
        values = scored.evaluations[str(run.metrics.primary)].as_list()
        found[setting.name] = np.array([value for value in values if value is not None])
    return found


def means(scores: Mapping[str, Scores]) -> Scores:
    return np.array([one.mean() for one in scores.values()])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config")
    parser.add_argument("--sizes", default="1000,2000,5000")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--extrapolate", action="store_true")
    options = parser.parse_args()
    config = load_config(options.config)
    run = Run.of(config)
    library, queries = run.corpus.library, run.resolved.labels.queries
    of_all = scores_of(run)
    whole = means(of_all)
    best = np.argsort(-whole)[:_BEST]
    print(f"{len(whole)} settings, {len(library):,} documents, {len(queries)} questions", flush=True)
    print("documents  tau    (lowest, highest)  best ten  (lowest, highest)  lost     higher", flush=True)
    for size in map(int, options.sizes.split(",")):
        rows = []
        for seed in range(options.seeds):
            samples = document_samples(library, queries, seed)
            one = means(scores_of(run.for_documents(samples.of(size - len(samples.judged)))))
            rows.append((
                kendalltau(one, whole).statistic, kendalltau(one[best], whole[best]).statistic,
                whole.max() - whole[one.argmax()], (one - whole).mean(),
            ))  # fmt: skip
        draws = np.array(rows)
        (tau, tau_best, lost, higher), low, high = draws.mean(axis=0), draws.min(axis=0), draws.max(axis=0)
        print(f"{size:9,}  {tau:.3f}  ({low[0]:.3f} to {high[0]:.3f})  {tau_best:8.3f}  "
              f"({low[1]:.3f} to {high[1]:.3f})  {lost:.4f}  {higher:+.4f}", flush=True)  # fmt: skip
    if not options.extrapolate:
        return
    print("from       true    extrapolated  error    off by  largest  held", flush=True)
    for size in map(int, options.sizes.split(",")):
        errors, guesses, held = [], [], []
        for seed in range(options.seeds):
            samples = document_samples(library, queries, seed)
            others = size - len(samples.judged)
            counts = [*(round(share * others) for share in SHARES), others]
            parts = [scores_of(run.for_documents(samples.of(count))) for count in counts]
            values = {name: np.stack([part[name] for part in parts]) for name in of_all}
            sizes = [count + len(samples.judged) for count in counts]
            for found in extrapolation(str(run.metrics.primary), sizes, values, len(library)).settings:
                true = float(of_all[found.setting].mean())
                guesses.append(found.expected)
                errors.append(found.expected - true)
                held.append(found.ci is not None and found.ci[0] <= true <= found.ci[1])
        print(f"{size:9,}  {whole.mean():.4f}  {np.mean(guesses):.4f}        {np.mean(errors):+.4f}  "
              f"{np.mean(np.abs(errors)):.4f}  {np.max(np.abs(errors)):.4f}   "
              f"{np.mean(held):.0%}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
