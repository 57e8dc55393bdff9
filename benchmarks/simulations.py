"""How often the verdicts are wrong: simulated experiments, whose truth is known, inferred as real ones are.

    python benchmarks/simulations.py [--experiments 10000] [--flips 2000] [--contrast 1000] [--jobs 2]
                                     [--only one,family,power,sets,made,clusters,documents,judge,separation,history]
                                     [--report PATH ...] [--cells REGEX] [--again SHARE] [--json PATH]

(It is not called statistics.py: beside the other benchmarks it would be in for Python's own module of that name.)

Scores are like those of real runs. A query has 1 to 4 relevant documents; a document's rank under a setting comes from
how hard it is (the same for all settings) and from the setting; `ndcg` is nDCG@10 of the ranks, so that many queries
have 0, 1 or the same for two settings; `hit` is 1 where a document stands first. Settings that are equally good have
the same distribution, and depend on one another as the structure says. `normal` are normal differences, `skewed` ones
are exponential less their mean (a few queries gain much, the others lose a little), `sparse` are half zeros, half
normal.

`sets` are the first 21 settings of each report, over queries drawn with replacement, all settings together: what they
have in common, skewness and zeros are as they are. `star 5` and `star 20` compare the next settings with the first one,
`pairs` all 210 of them. The true differences are those of the whole report, or, with `null`, 0: queries are then drawn
with weights in proportion to exp(a weighted sum of the differences), so that shape and zeros are nearly what they were.

`made` are differences with correlation 0.7, a share of zeros, and gamma-distributed values less their mean elsewhere;
their skewness is the one that is named (`2, 90%`: skewness 2, 90% zeros). Their true mean is 0.

Each batch of 100 experiments shares its draws, as the metrics of one experiment do, and each batch has its own: so
``infer`` itself is what is simulated, called with 100 families. With fewer draws than its 10,000 its critical values
vary more, which costs a little power and no errors. `tested` is the share of comparisons with enough differences to be
tested; `covered` is over experiments in which any comparison is. `width` is the mean width of intervals
over that of sign flips alone. Beside max-t stand, with fewer experiments, paired t with Holm's correction and the BCa
bootstrap. OPENBLAS_NUM_THREADS=1 keeps jobs apart. With `--again 0.045`, cells of which more experiments have a wrong
claim are run again with five times as many. The tables `clusters`, `documents`, `judge`, `separation` and `history` are
explained in cluster_simulations.py, judge_simulations.py, separation_simulations.py and history_simulations.py.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import re
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from zlib import crc32

import cluster_simulations
import history_simulations
import judge_simulations
import numpy as np
import separation_simulations
from scipy.optimize import minimize

from ragtrial.comparison.comparison_input import input_of
from ragtrial.comparison.statistics.estimates import detectable_difference, level_of, queries_for
from ragtrial.comparison.statistics.flips import flipped
from ragtrial.comparison.statistics.procedures import infer
from ragtrial.comparison.statistics.samples import Family, Inference, Procedure, Sample
from ragtrial.evaluation.clusters import Places
from ragtrial.evaluation.grading import Scores

BATCH = 100
SETTINGS = 20
SIZES = (15, 30, 60, 300)
FAMILY_SIZES = (15, 60, 300)
CONTRAST_SIZE = 60
PILOT = 60
"""The questions from which the advice names how many are needed."""
SET_SIZES = (30, 60, 150, 300)
DOCUMENTS = (20, 60, 120, 240)
MADE = ((1, 70), (2, 70), (2, 90), (3, 90), (3, 95), (4, 95))
DENSE = ((1, 0), (2, 0))
LEAST_EFFECTIVE = 0.3
"""Of the queries: with weights that rest on fewer, differences are not what they were."""
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
    null: bool = False
    """Whether the questions of a report are weighed so that no setting differs."""


@dataclass(frozen=True)
class Row:
    cell: Cell
    tested: float
    wrong: float
    """Share of experiments with any difference claimed that is not there, or in the wrong direction."""
    covered: float
    """Share of experiments in which all intervals hold, of those with any interval."""
    found: float
    """Share of the true differences that are claimed."""
    width: float
    """Mean width of intervals over that by sign flips alone; NaN for other procedures."""
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
def real_scores(report: str) -> Scores:
    """The primary metric of the first settings of a report, shape (settings, queries); of queries that all have."""
    inputs = input_of([report])
    values: Scores = inputs.scores(inputs.primary).values[: SETTINGS + 1]
    return np.asarray(values[:, ~np.isnan(values).any(axis=0)])


def pairs_of(structure: str) -> Places:
    """The pairs of columns of which a family of a report consists."""
    return all_pairs(SETTINGS + 1) if structure == "pairs" else against_first(int(structure.split()[1]))


@cache
def tilt(report: str, structure: str) -> Scores | None:
    """Weights of the queries, with sum 1, by which no setting of a family differs; None if they rest on too few."""
    differences = Family(real_scores(report), pairs_of(structure)).differences()
    scaled = differences / np.abs(differences).max()

    def loss(steepness: Scores) -> tuple[float, Scores]:
        weights = np.exp(steepness @ scaled)
        return float(np.log(weights.mean())), scaled @ weights / weights.sum()

    found = minimize(loss, np.zeros(len(scaled)), jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 2000})
    weights = np.exp(found.x @ scaled)
    weights /= weights.sum()
    is_null = np.abs(scaled @ weights).max() < 1e-5
    return weights if is_null and 1 / np.square(weights).sum() >= LEAST_EFFECTIVE * len(weights) else None


def made_of(rng: np.random.Generator, cell: Cell) -> Scores:
    """Correlated differences with the skewness and the share of zeros that the shape names."""
    skewness, zeros = (float(number.strip("%")) for number in cell.shape.split(", "))
    count = 1 if cell.structure == "one" else int(cell.structure.split()[1])
    own, common = rng.standard_normal((2, count, cell.queries)), rng.standard_normal((2, 1, cell.queries))
    normals = np.sqrt(0.7) * common + np.sqrt(0.3) * own
    return cluster_simulations.gamma_of(normals, skewness, 1 - zeros / 100)


def family_of(rng: np.random.Generator, cell: Cell) -> Family:
    """One experiment: each setting against the baseline, or the pairs of 7, or one comparison."""
    if cell.table == "clusters":
        return cluster_simulations.clustered(rng, cell.shape, cell.structure, cell.queries)
    if cell.table == "documents":
        return cluster_simulations.drawn_clusters(rng, cell.report, pairs_of(cell.structure), cell.queries)
    if cell.table == "sets":
        known, weights = real_scores(cell.report), tilt(cell.report, cell.structure) if cell.null else None
        return Family(known[:, rng.choice(known.shape[1], cell.queries, p=weights)], pairs_of(cell.structure))
    if cell.table == "made":
        return Family(made_of(rng, cell))
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
        family = Family(real_scores(cell.report), pairs_of(cell.structure))
        return np.zeros(len(family)) if cell.null else family.differences().mean(axis=1)
    if cell.table == "documents":
        values, questions = cluster_simulations.reported(cell.report)
        family = Family(values[:, np.concatenate(questions)], pairs_of(cell.structure))
        return np.asarray(family.differences().mean(axis=1))
    if cell.table in ("made", "clusters"):
        return np.zeros(len(family_of(np.random.default_rng(0), cell)))
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
    sample = Sample(family_of(np.random.default_rng(10**6), replace(cell, queries=100_000)))
    return (sample.scaled_deviation * sample.scale)[:1], sample.skewness[:1]


def infer_t_holm(sample: Sample, procedure: Procedure) -> Inference:
    """Paired t tests with Holm's correction, and simultaneous t intervals with Bonferroni's.

    Holm's test has no informative two-sided intervals that agree with it. Bonferroni's are wider than its claims, never
    narrower: if one excludes 0, the difference is shown.
    """
    from scipy.special import stdtr

    tested, level = sample.tested, procedure.level
    p = np.asarray(2 * stdtr(sample.n[tested] - 1, -sample.studentised[tested]))
    count = max(len(p), 1)
    single = sample.inference(
        level, p, np.minimum(p * count, 1.0), _t_criticals(sample, procedure.with_bonferroni(count).level)
    )
    corrected = sample.for_every_comparison(holm(p))
    claims = np.where(corrected <= level, np.sign(single.mean), 0).astype(np.int8)
    return replace(single, p_corrected=corrected, claims=claims)


def holm(p: Scores) -> Scores:
    """Holm's corrected p (1979): with it, the probability of any wrong claim is at most the level."""
    order = np.argsort(p, kind="stable")
    corrected = np.empty(len(p))
    corrected[order] = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    return np.minimum(corrected, 1.0)


def _t_criticals(sample: Sample, level: float) -> Scores:
    from scipy.special import stdtrit

    return np.asarray(-stdtrit(sample.n[sample.tested] - 1, level / 2), dtype=np.float64)


def infer_bootstrap(sample: Sample, procedure: Procedure) -> Inference:
    """BCa bootstrap intervals (Efron 1987), of each comparison by itself, from ``flips`` resamples; no p."""
    from scipy.stats import bootstrap

    found = sample.inference(procedure.level, criticals=_t_criticals(sample, procedure.level))
    ends = np.tile(np.where(sample.tested, found.mean, np.nan), (2, 1))
    for row in np.flatnonzero(sample.tested & (sample.scaled_deviation > 0)):
        (values,) = sample.family.differences(np.array([row])) / sample.scale[row]
        values = values[~np.isnan(values)]
        ends[:, row] = sample.scale[row] * np.asarray(
            bootstrap(
                (values,),
                np.mean,
                n_resamples=procedure.flips,
                batch=max(1, 2_000_000 // len(values)),
                confidence_level=1 - procedure.level,
                method="BCa",
                rng=np.random.default_rng(procedure.seed),
            ).confidence_interval
        )
    low, high = ends
    claims = (low > 0).astype(np.int8) - (high < 0).astype(np.int8)
    return replace(found, low=low, high=high, claims=claims)


def inferred(families: Sequence[Family], procedure: Procedure, name: str) -> list[Inference]:
    """By the procedure of the package, or by one of those that it is measured against."""
    if name == "max-t":
        return infer(families, procedure)
    infers = {"t-holm": infer_t_holm, "bootstrap": infer_bootstrap}[name]
    return [infers(Sample(family), procedure) for family in families]


def batches(cell: Cell) -> Iterator[tuple[list[Family], list[Inference]]]:
    for start in range(0, cell.experiments, BATCH):
        name = crc32(f"{cell.table} {cell.shape} {cell.structure} {cell.report}".encode())
        rng = np.random.default_rng([name, cell.queries, cell.better, start])
        families = [family_of(rng, cell) for _ in range(min(BATCH, cell.experiments - start))]
        yield families, inferred(families, Procedure(flips=cell.flips, seed=start), cell.procedure)


def width_of(families: Sequence[Family], inferences: Sequence[Inference], flips: int) -> list[float]:
    """For each family that is tested, the width of its intervals over that by sign flips alone."""
    samples = [Sample(family) for family in families]
    bounds = flipped(samples, Procedure(flips=flips))
    errors = [(one.deviation / np.sqrt(one.n))[sample.tested] for one, sample in zip(inferences, samples, strict=True)]
    return [
        float((one.criticals[sample.tested] @ error) / (bound.criticals @ error))
        for one, sample, bound, error in zip(inferences, samples, bounds, errors, strict=True)
        if error.any()
    ]


def simulate(cell: Cell) -> Row:
    """Both errors, and the power, of one cell."""
    start = time.process_time()
    truth = true_differences(cell)
    wrong = covered = tested = found = given = 0.0
    widths: list[float] = []
    for families, inferences in batches(cell):
        if cell.table in ("clusters", "documents") and len(widths) < BATCH:
            widths += cluster_simulations.widths(families, inferences, Procedure(flips=cell.flips))
        elif cell.procedure == "max-t" and len(widths) < BATCH:
            widths += width_of(families, inferences, cell.flips)
        for one in inferences:
            wrong += bool((one.claims * np.sign(truth) < (one.claims != 0)).any())
            has_interval = ~np.isnan(one.low)
            given += bool(has_interval.any())
            covered += bool(has_interval.any() and (~((one.low > truth) | (one.high < truth))).all())
            tested += float(has_interval.mean())
            found += float((one.claims[truth != 0] == np.sign(truth[truth != 0])).mean()) if truth.any() else 0.0
    n, width = cell.experiments, float(np.mean(widths)) if widths else float("nan")
    return Row(cell, tested / n, wrong / n, covered / max(given, 1), found / n, width, time.process_time() - start)


def power_cells(options: argparse.Namespace) -> Iterator[Cell]:
    """Cells whose true difference the advice says is found 4 times of 5: by its size, and by the number of queries."""
    kinds = [(shape, "one", queries) for shape in ("normal", "sparse") for queries in SIZES]
    kinds += [(shape, "star", queries) for shape in ("normal", "sparse") for queries in FAMILY_SIZES]
    for shape, structure, queries in kinds:
        cell = Cell("power", shape, structure, queries, experiments=options.experiments, flips=options.flips)
        cell = replace(cell, better=1, shift=detectable(cell))
        yield replace(cell, shift=detectable(cell))  # by the critical values of settings that do differ
    for shape, structure, shift in (("ndcg", "one", 1.0), ("ndcg", "one", 0.5), ("ndcg", "star", 0.5)):
        cell = Cell("power", shape, structure, PILOT, 1, shift, experiments=options.experiments, flips=options.flips)
        deviation, skewness = true_shape(cell)
        level = level_of(np.array([mean_critical(cell)]), np.array([PILOT]))
        (needed,) = queries_for(float(true_differences(cell)[0]), deviation, level, skewness)
        yield replace(cell, queries=int(needed))


def mean_critical(cell: Cell) -> float:
    """The mean critical value of 200 experiments."""
    first = [one for _, some in batches(replace(cell, experiments=2 * BATCH)) for one in some]
    return float(np.nanmean([one.criticals[0] for one in first]))


def detectable(cell: Cell) -> float:
    """The difference that the advice names for the true shape and the mean critical value."""
    deviation, skewness = true_shape(cell)
    critical = np.array([mean_critical(cell)])
    return float(detectable_difference(deviation, np.array([cell.queries]), critical, skewness)[0])


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


def set_cells(options: argparse.Namespace) -> Iterator[Cell]:
    for report in map(str, options.report):
        for structure in ("star 5", "star 20", "pairs"):
            differences = Family(real_scores(report), pairs_of(structure)).differences()
            about = differences - differences.mean(axis=1, keepdims=True)
            skewness = np.abs((about**3).mean(axis=1) / (about**2).mean(axis=1) ** 1.5)
            zeros, median = np.mean(differences == 0), np.median(skewness)
            print(f"{report}, {structure}: {differences.shape[1]} queries, {zeros:.0%} zeros, size of the", end=" ")
            print(f"skewness {median:.1f} (median) to {skewness.max():.1f}")
            for null in (False, True):
                if null and (structure == "pairs" or tilt(report, structure) is None):
                    continue
                for queries in SET_SIZES[structure == "pairs" :]:
                    yield Cell("sets", "real", structure, queries, experiments=options.experiments,
                               flips=options.flips, report=report, null=null)  # fmt: skip


def made_cells(options: argparse.Namespace) -> Iterator[Cell]:
    for skewness, zeros in (*MADE, *DENSE):
        for structure in ("one", "star 5", "star 20"):
            for queries in SET_SIZES:
                yield Cell("made", f"{skewness}, {zeros}%", structure, queries, experiments=options.experiments,
                           flips=options.flips)  # fmt: skip


def cluster_cells(options: argparse.Namespace) -> Iterator[Cell]:
    shapes, families, clusters = ("normal", "sparse", "dense"), (1, 20), cluster_simulations
    for shape, family, size, within in product(shapes, families, clusters.SIZES, clusters.CORRELATIONS):
        for count in clusters.COUNTS:
            yield Cell("clusters", shape, f"{family} x {size}, {within}", count, experiments=options.experiments,
                       flips=options.flips)  # fmt: skip


def document_cells(options: argparse.Namespace) -> Iterator[Cell]:
    for report in map(str, options.report):
        values, questions = cluster_simulations.reported(report)
        print(f"{report}: {values.shape[1]} queries, {len(questions)} clusters, largest {max(map(len, questions))}")
        for structure in ("star 1", "star 5"):
            for count in DOCUMENTS:
                yield Cell("documents", "real", structure, count, experiments=options.experiments,
                           flips=options.flips, report=report)  # fmt: skip


ALONE = {"judge": judge_simulations.run, "separation": separation_simulations.run, "history": history_simulations.run}
TABLES = {"one": one_cells, "family": family_cells, "power": power_cells, "sets": set_cells, "made": made_cells,
          "clusters": cluster_cells, "documents": document_cells}  # fmt: skip


def name_of(cell: Cell) -> str:
    structure = cell.structure + (f" +{cell.better}" if cell.better else "") + " null" * cell.null
    shape = Path(cell.report).parent.name[:7] if cell.report else cell.shape
    return f"{cell.table:9}{shape:8}{structure:16}{cell.queries:5} {cell.shift:6.3f} {cell.procedure:10}"


def printed(row: Row) -> str:
    rest = f"{row.tested:8.1%} {row.wrong:8.2%} {row.covered:8.2%} {row.found:8.2%} {row.width:6.2f}"
    return f"{name_of(row.cell)}{row.cell.experiments:7,} {rest} {row.seconds:6.1f} s"


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
    parser.add_argument(
        "--report", type=Path, nargs="+", help="reports, for the tables sets (21 settings) and documents"
    )
    parser.add_argument("--again", type=float, default=1.0, help="share of experiments with a wrong claim")
    parser.add_argument("--cells", default="", help="which cells: a regular expression, searched in their lines")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--check", action="store_true", help="infer every run of a history")
    options = parser.parse_args()
    for name in ALONE:
        if name in options.only and options.only != name:
            parser.error(f"the table {name} is one by itself: --only {name}.")
    if {"sets", "documents"} & set(options.only.split(",")) and not options.report:
        parser.error("the tables sets and documents are of reports; name them with --report.")
    print(f"{dt.datetime.now(dt.UTC):%Y-%m-%d}, {platform.machine()}, {os.cpu_count()} cores, Python", end=" ")
    print(f"{platform.python_version()}, NumPy {np.__version__}; {options.flips:,} flips")
    if options.only in ALONE:
        ALONE[options.only](options)
        return
    print(f"{'table':9}{'scores':8}{'structure':16}{'n':>5} {'shift':>6} {'procedure':10}{'experim':>7}", end=" ")
    print(f"{'tested':>8} {'wrong':>8} {'covered':>8} {'found':>8} {'width':>6}")
    start, rows = time.perf_counter(), []
    with ProcessPoolExecutor(options.jobs) as pool:
        cells = [cell for name in options.only.split(",") for cell in TABLES[name](options)]
        cells = [cell for cell in cells if re.search(options.cells, name_of(cell))]
        for row in pool.map(simulate, cells):
            print(printed(row), flush=True)
            rows.append(row)
        doubtful = {row.cell: index for index, row in enumerate(rows) if row.wrong > options.again}
        more = (replace(cell, experiments=5 * cell.experiments) for cell in doubtful)
        for index, row in zip(doubtful.values(), pool.map(simulate, more), strict=True):
            print(printed(row), flush=True)
            rows[index] = row
    print(f"{len(rows)} cells in {time.perf_counter() - start:,.0f} s\n")
    print(markdown(rows))
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
