"""How often the verdicts are wrong: simulated experiments, whose truth is known, inferred as real ones are.

    python benchmarks/simulations.py [--experiments 10000] [--flips 2000] [--contrast 1000] [--jobs 2]
                                     [--only one,family,power,real,sets,judge] [--report PATH] [--cells REGEX]
                                     [--json PATH]

(It is not called statistics.py: beside the other benchmarks it would be in for Python's own module of that name.)

Scores are like those of real runs. A query has 1 to 4 relevant documents; a document's rank under a setting comes from
how hard it is (the same for all settings) and from the setting; `ndcg` is nDCG@10 of the ranks, so that many queries
have 0, 1 or the same for two settings; `hit` is 1 where a document stands first. Settings that are equally good have
the same distribution, and depend on one another as the structure says. `normal` are normal differences, `skewed` ones
are exponential less their mean (a few queries gain much, the others lose a little), `sparse` are half zeros, half
normal.

`real` are the differences between two settings of a report, as its primary metric has them: of some pairs drawn by
chance those with differences for a tenth of the queries. Experiments draw queries of it with replacement, with weights
in proportion to exp(a difference), so that their mean is 0 and shape and zeros are nearly what they were.

`sets` are the first 21 settings of a report, each compared with the first: experiments draw queries of it with
replacement, all settings together, so that the true differences are those of the whole report. What settings have in
common, skewness and zeros are as they are.

Each batch of 100 experiments shares its flips, as the metrics of one experiment do, and each batch has its own: so
``infer`` itself is what is simulated, called with 100 families. With fewer flips than its 10,000 its critical values
vary more, which costs a little power and no errors. An experiment in which a comparison has too few differences to be
tested counts as without error; `tested` is the share of comparisons that were. Beside max-t stand, with fewer
experiments, paired t with Holm's correction and the BCa bootstrap. OPENBLAS_NUM_THREADS=1 keeps jobs
apart. The table `judge` is explained in judge_simulations.py.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from zlib import crc32

import judge_simulations
import numpy as np
from scipy.optimize import brentq

from ragtrial.comparison.contest import contest_of
from ragtrial.comparison.statistics.power import detectable_difference, queries_for
from ragtrial.comparison.statistics.procedures import infer_by
from ragtrial.comparison.statistics.samples import Family, Inference, Places, Procedure, Sample
from ragtrial.evaluation.grading import Scores

BATCH = 100
SETTINGS = 20
SIZES = (15, 30, 60, 300)
FAMILY_SIZES = (15, 60, 300)
CONTRAST_SIZE = 60
REAL_PAIRS = 12
STRONG = 1.0
"""By how much better settings lower the logarithm of ranks, where some are better."""


@dataclass(frozen=True)
class Cell:
    """One row of a table: ``structure`` says how settings depend on one another, ``better`` how many do differ."""

    table: str
    shape: str
    structure: str
    queries: int
    better: int = 0
    shift: float = 0.0
    procedure: str = "max-t"
    experiments: int = 10_000
    flips: int = 2_000
    report: str = ""


@dataclass(frozen=True)
class Row:
    cell: Cell
    tested: float
    wrong: float
    """Share of experiments with any difference claimed that is not there, or in the wrong direction."""
    covered: float
    """Share of experiments in which all intervals hold."""
    found: float
    """Share of the true differences that are claimed."""
    seconds: float


def ndcg_of(latent: Scores) -> Scores:
    """nDCG@10 of documents with these logarithms of ranks, shape (..., documents); NaN for a document that is not."""
    ranks = np.maximum(np.floor(np.exp(latent)), 1.0)
    gains = np.where(ranks <= 10, 1 / np.log2(ranks + 1), 0.0)
    relevant = (~np.isnan(latent)).sum(axis=-1)
    ideal = np.cumsum(1 / np.log2(np.arange(2, latent.shape[-1] + 2)))[relevant - 1]
    made: Scores = np.minimum(np.where(np.isnan(latent), 0.0, gains).sum(axis=-1) / ideal, 1.0)
    return made


def hits_of(latent: Scores) -> Scores:
    """1 where any document stands first."""
    return np.asarray(np.nanmin(latent, axis=-1) < np.log(2), dtype=np.float64)


SCORES: dict[str, Callable[[Scores], Scores]] = {"ndcg": ndcg_of, "hit": hits_of}
SHAPES: dict[str, Callable[[np.random.Generator, tuple[int, ...]], Scores]] = {
    "normal": lambda rng, size: rng.standard_normal(size),
    "sparse": lambda rng, size: rng.standard_normal(size) * (rng.random(size) < 0.5),
    "skewed": lambda rng, size: rng.exponential(size=size) - 1,
}
GROUPS = {
    "independent": list(range(SETTINGS)),
    "star": list(range(SETTINGS)),
    "clones": [0] * 18 + [1, 2],
    "blocks": [setting // 5 for setting in range(SETTINGS)],
}
LIKENESS = {"independent": 0.0, "star": 0.0, "clones": 0.98, "blocks": 0.7}


def effects(rng: np.random.Generator, structure: str, size: tuple[int, ...]) -> Scores:
    """What is each setting's own, shape (settings, *size), normal with deviation 1: groups have most in common."""
    alike, groups = LIKENESS[structure], GROUPS[structure]
    common = rng.standard_normal((max(groups) + 1, *size))[groups]
    return np.asarray(np.sqrt(alike) * common + np.sqrt(1 - alike) * rng.standard_normal((len(groups), *size)))


def scores_of(rng: np.random.Generator, cell: Cell, settings: int) -> Scores:
    """Scores of a baseline and ``settings`` more, shape (1 + settings, queries)."""
    size = (cell.queries, 4)
    hard = rng.normal(0.6, 1.0, size)
    hard[np.arange(4) >= rng.integers(1, 5, cell.queries)[:, None]] = np.nan
    own = np.concatenate([rng.standard_normal((1, *size)), effects(rng, cell.structure, size)[:settings]])
    own[1 : 1 + cell.better] -= cell.shift
    return SCORES[cell.shape](hard + 0.6 * own)


@cache
def real_differences(report: str) -> dict[str, Scores]:
    """By the names of two settings, their differences by the primary metric of a report; of a few pairs."""
    contest = contest_of([report])
    scores, pairs = contest.scores(contest.primary), contest.pairs()
    drawn = np.random.default_rng(0).permutation(len(pairs))[:REAL_PAIRS]
    found = {}
    for pair in [pairs[place] for place in sorted(drawn)]:
        (differences,) = scores.differences([pair])
        known = differences[~np.isnan(differences)]
        if np.count_nonzero(known) >= len(known) / 10 and known.min() < 0 < known.max():
            found[f"{contest.names[pair.setting]} - {contest.names[pair.baseline]}"] = known
    return found


@cache
def real_scores(report: str) -> Scores:
    """The primary metric of the first settings of a report, shape (settings, queries); of queries that all have."""
    contest = contest_of([report])
    values: Scores = contest.scores(contest.primary).values[: SETTINGS + 1]
    return np.asarray(values[:, ~np.isnan(values).any(axis=0)])


@cache
def tilt(report: str, pair: str) -> Scores:
    """Weights of the pair's differences, with sum 1, by which their mean is 0."""
    differences = real_differences(report)[pair]
    scaled = differences / np.abs(differences).max()
    steepness = brentq(lambda one: float(scaled @ np.exp(one * scaled)), -100.0, 100.0)
    weights = np.exp(steepness * scaled)
    return np.asarray(weights / weights.sum())


def family_of(rng: np.random.Generator, cell: Cell) -> Family:
    """One experiment: each setting against the baseline, or the pairs of 7, or one comparison."""
    if cell.table == "sets":
        known = real_scores(cell.report)
        return Family(known[:, rng.integers(known.shape[1], size=cell.queries)], against_first(len(known) - 1))
    if cell.report:
        differences, weights = real_differences(cell.report)[cell.structure], tilt(cell.report, cell.structure)
        return Family(rng.choice(differences, (1, cell.queries), p=weights))
    settings = {"one": 1, "pairs": 6}.get(cell.structure, SETTINGS)
    if cell.shape in SHAPES:
        make = SHAPES[cell.shape]
        if cell.structure == "star":
            made = make(rng, (SETTINGS + 1, cell.queries))
            made[1 : 1 + cell.better] += cell.shift
            return Family(made, against_first(SETTINGS))
        differences = make(rng, (settings, cell.queries))
        differences[: cell.better] += cell.shift
        return Family(differences)
    if cell.structure in ("one", "pairs"):
        return Family(scores_of(rng, replace(cell, structure="star"), settings), all_pairs(settings + 1))
    return Family(scores_of(rng, cell, SETTINGS), against_first(SETTINGS))


def against_first(settings: int) -> Places:
    return np.array([(setting, 0) for setting in range(1, settings + 1)])


def all_pairs(columns: int) -> Places:
    first, second = np.triu_indices(columns, 1)
    return np.stack([second, first], axis=1)


@cache
def worth_of(shape: str, shift: float) -> float:
    """By how much a setting that finds everything earlier scores higher."""
    cell = Cell("truth", shape, "one", 100_000, 1, shift)
    return float(np.mean([family_of(np.random.default_rng(seed), cell).differences().mean() for seed in range(10)]))


def true_differences(cell: Cell) -> Scores:
    """The comparisons' true means."""
    if cell.table == "sets":
        known = real_scores(cell.report)
        return np.asarray((known[1:] - known[0]).mean(axis=1))
    if cell.report:
        return np.zeros(1)
    family = family_of(np.random.default_rng(0), replace(cell, queries=1))
    if cell.shape in SHAPES or not cell.shift:
        means = np.zeros(len(family))
        means[: cell.better] = cell.shift
        return means
    lifted = np.zeros((len(family.columns), 1))
    lifted[1 : 1 + cell.better] = worth_of(cell.shape, cell.shift)
    return replace(family, columns=lifted).differences()[:, 0]


def true_shape(cell: Cell) -> tuple[Scores, Scores]:
    """Deviation and skewness of the first comparison's differences, nearly; both of shape (1,)."""
    sample = Sample(family_of(np.random.default_rng(10**6), replace(cell, queries=10_000)))
    return (sample.scaled_deviation * sample.scale)[:1], sample.skewness[:1]


def batches(cell: Cell) -> Iterator[list[Inference]]:
    for start in range(0, cell.experiments, BATCH):
        rng = np.random.default_rng(
            [crc32(f"{cell.table} {cell.shape} {cell.structure}".encode()), cell.queries, cell.better, start]
        )
        families = [family_of(rng, cell) for _ in range(min(BATCH, cell.experiments - start))]
        yield infer_by(cell.procedure, families, Procedure(flips=cell.flips, seed=start))


def simulate(cell: Cell) -> Row:
    """Both errors, and the power, of one cell."""
    start = time.perf_counter()
    truth = true_differences(cell)
    wrong = covered = tested = found = 0.0
    for inferences in batches(cell):
        for one in inferences:
            wrong += bool((one.claims * np.sign(truth) < (one.claims != 0)).any())
            covered += bool((~((one.low > truth) | (one.high < truth))).all())
            tested += float((~np.isnan(one.criticals) | ~np.isnan(one.p_corrected)).mean())
            found += float((one.claims[truth != 0] == np.sign(truth[truth != 0])).mean()) if truth.any() else 0.0
    n = cell.experiments
    return Row(cell, tested / n, wrong / n, covered / n, found / n, time.perf_counter() - start)


def power_cells(options: argparse.Namespace) -> Iterator[Cell]:
    """Cells whose true difference the advice says is found 4 times of 5: by its size, and by the number of queries."""
    kinds = [(shape, "one", queries) for shape in ("normal", "sparse") for queries in SIZES]
    kinds += [("normal", "star", queries) for queries in FAMILY_SIZES]
    for shape, structure, queries in kinds:
        cell = Cell("power", shape, structure, queries, experiments=options.experiments, flips=options.flips)
        yield replace(cell, better=1, shift=detectable(cell))
    for shift in (1.0, 0.5, 0.25):
        cell = Cell("power", "ndcg", "one", 0, 1, shift, experiments=options.experiments, flips=options.flips)
        deviation, skewness = true_shape(cell)
        (needed,) = queries_for(float(true_differences(cell)[0]), deviation, np.array([0.05]), skewness)
        yield replace(cell, queries=int(needed))


def detectable(cell: Cell) -> float:
    """The difference that the advice names for the true shape and the mean critical value of 200 experiments."""
    first = [one for some in batches(replace(cell, experiments=2 * BATCH)) for one in some]
    critical = float(np.nanmean([one.criticals[0] for one in first]))
    deviation, skewness = true_shape(cell)
    return float(detectable_difference(deviation, np.array([cell.queries]), np.array([critical]), skewness)[0])


def one_cells(options: argparse.Namespace) -> Iterator[Cell]:
    for shape in ("normal", "sparse", "ndcg", "hit", "skewed"):
        for better in (0, 1):
            shift = better * {"normal": 1.0, "skewed": 1.0}.get(shape, 0.5)
            for queries in SIZES:
                cell = Cell("one", shape, "one", queries, better, shift, "max-t", options.experiments, options.flips)
                yield cell
                yield replace(cell, procedure="t-holm", experiments=options.contrast)
                if queries == CONTRAST_SIZE:
                    yield replace(cell, procedure="bootstrap", experiments=options.contrast)


def family_cells(options: argparse.Namespace) -> Iterator[Cell]:
    kinds = [("normal", "independent", 0), ("ndcg", "star", 0), ("ndcg", "clones", 0), ("ndcg", "blocks", 0)]
    kinds += [("ndcg", "pairs", 0), ("hit", "star", 0), ("ndcg", "star", 10), ("ndcg", "clones", 10)]
    kinds += [("normal", "independent", 15), ("ndcg", "pairs", 3)]
    for shape, structure, better in kinds:
        for queries in FAMILY_SIZES:
            shift = STRONG if better else 0.0
            cell = Cell("family", shape, structure, queries, better, shift, "max-t", options.experiments, options.flips)
            yield cell
            yield replace(cell, procedure="t-holm", experiments=options.contrast)


def real_cells(options: argparse.Namespace) -> Iterator[Cell]:
    report = str(options.report)
    for pair, differences in real_differences(report).items():
        weights = tilt(report, pair)
        about = differences - weights @ differences
        skewness = weights @ about**3 / (weights @ about**2) ** 1.5
        print(f"{pair}: skewness {skewness:+.2f}, {np.mean(differences == 0):.0%} zeros")
        for queries in SIZES[:-1]:
            yield Cell("real", "real", pair, queries, 0, 0.0, "max-t", options.experiments, options.flips, report)


def set_cells(options: argparse.Namespace) -> Iterator[Cell]:
    report = str(options.report)
    known = real_scores(report)
    differences = known[1:] - known[0]
    about = differences - differences.mean(axis=1, keepdims=True)
    skewness = (about**3).mean(axis=1) / (about**2).mean(axis=1) ** 1.5
    print(
        f"{len(differences)} comparisons, {known.shape[1]} queries, {np.mean(differences == 0):.0%} zeros; skewness",
        end=" ",
    )
    print(f"from {skewness.min():+.2f} to {skewness.max():+.2f}, median of its size {np.median(np.abs(skewness)):.2f}")
    for queries in (*SIZES[1:], 1000):
        yield Cell("sets", "real", "star", queries, 0, 0.0, "max-t", options.experiments, options.flips, report)


TABLES = {"one": one_cells, "family": family_cells, "power": power_cells, "real": real_cells, "sets": set_cells}


def printed(row: Row) -> str:
    cell, rest = row.cell, f"{row.tested:8.1%} {row.wrong:8.2%} {row.covered:8.2%} {row.found:8.2%}"
    structure = cell.structure + (f" +{cell.better}" if cell.better else "")
    return (
        f"{cell.table:7}{cell.shape:8}{structure:16}{cell.queries:5} {cell.shift:6.3f} {cell.procedure:10}"
        f"{cell.experiments:7,} {rest} {row.seconds:6.1f} s"
    )


def markdown(rows: Sequence[Row]) -> str:
    """The table for docs/statistics.md: a line for each cell, the procedures beside one another."""
    lines = ["| scores | settings | n | tested | wrong | intervals hold | found | t: wrong, hold | BCa: wrong, hold |"]
    lines.append("|---|---|--:|--:|--:|--:|--:|--:|--:|")
    of: dict[Cell, dict[str, Row]] = {}
    for row in rows:
        key = replace(row.cell, procedure="", experiments=0, flips=0)
        of.setdefault(key, {})[row.cell.procedure] = row
    for cell, by in of.items():
        main, t, other = by["max-t"], by.get("t-holm"), by.get("bootstrap")
        settings = cell.structure + (f", {cell.better} better" if cell.better else "")
        found = f"{main.found:.0%}" if cell.better else ""
        beside = [f"{one.wrong:.1%}, {one.covered:.1%}" if one else "" for one in (t, other)]
        numbers = [f"{main.tested:.0%}", f"{main.wrong:.1%}", f"{main.covered:.1%}", found, *beside]
        lines.append("| " + " | ".join([cell.shape, settings, f"{cell.queries:,}", *numbers]) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("experiments", 10_000), ("flips", 2_000), ("contrast", 1_000), ("jobs", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--only", default="one,family,power", help="tables, separated by commas")
    parser.add_argument("--report", type=Path, help="a report of several settings, for the table real")
    parser.add_argument("--cells", default="", help="which cells of the table judge: a regular expression")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if "judge" in options.only and options.only != "judge":
        parser.error("the table judge is one by itself: --only judge.")
    if {"real", "sets"} & set(options.only.split(",")) and not options.report:
        parser.error("the tables real and sets are of a report; name it with --report.")
    print(f"{dt.datetime.now(dt.UTC):%Y-%m-%d}, {platform.machine()}, {os.cpu_count()} cores, Python", end=" ")
    print(f"{platform.python_version()}, NumPy {np.__version__}; {options.flips:,} flips")
    if options.only == "judge":
        judge_simulations.run(options)
        return
    print(f"{'table':7}{'scores':8}{'structure':16}{'n':>5} {'shift':>6} {'procedure':10}{'experim':>7}", end=" ")
    print(f"{'tested':>8} {'wrong':>8} {'covered':>8} {'found':>8}")
    start, rows = time.perf_counter(), []
    with ProcessPoolExecutor(options.jobs) as pool:
        cells = [cell for name in options.only.split(",") for cell in TABLES[name](options)]
        for row in pool.map(simulate, cells):
            print(printed(row), flush=True)
            rows.append(row)
    print(f"{len(rows)} cells in {time.perf_counter() - start:,.0f} s\n")
    print(markdown(rows))
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
