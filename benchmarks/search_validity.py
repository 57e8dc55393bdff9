"""How often a search is wrong about its winner: simulated searches, whose truth is known, judged as real ones are.

    python benchmarks/search_validity.py [--searches 1000] [--methods random,tpe] [--sizes 60,200]
                                         [--held-out 0.5] [--settings 100] [--report REPORT --splits 200] [--json PATH]

A/A: 100 settings and the baseline are equally good: nDCG@10 of ranks as in simulations.py. The axes, the methods, their
budget, the split, the choice and what is said of it are those of the package; only running a setting is replaced, by
looking up its row of a matrix of scores. `claims` are searches whose verdict says that the winner is better or worse
than the baseline, of which at most 5% should be. `covered` are searches whose 95% interval of the winner's score
contains its score on new questions. `optimism` is what the winner scores on the questions that chose it, less its true
score, and `said` what the search says of that.

--report: settings of a report of a full grid. Of its queries half are searched by, and regret is measured on the other:
the best mean of the whole grid there, less that of the setting that was chosen, in thousandths, with its standard
error over splits. Methods try a third of the grid; `grid` tries all. `one pass` is the greedy search of other tools:
each axis once, in the order of the config, from its first values.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from simulations import ndcg_of

from ragtrial.comparison.comparing import ComparisonOptions
from ragtrial.comparison.comparison_input import ComparedSetting, ComparisonInput, PairedScores, input_of
from ragtrial.comparison.statistics.samples import Procedure
from ragtrial.config import ExperimentConfig
from ragtrial.config.settings import Setting, settings_of
from ragtrial.config.space import Point, Space
from ragtrial.config.strict_yaml import parse_yaml
from ragtrial.config.sweep import METHODS, SearchOptions
from ragtrial.evaluation.grading import Scores
from ragtrial.records import Judgment, Query
from ragtrial.report.model import load_report
from ragtrial.report.schema import QueryPart
from ragtrial.search.search_run import Measured, SearchRun, Split, TrialRunner, split_queries
from ragtrial.search.searched import Choice, Findings, decide

CONFIG = """
experiment: simulated
dataset: {corpus: documents, queries: labels.json}
retrievers: {bm25: {kind: bm25}}
sweep:
  matrix:
    retrievers.bm25.k1: [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    retrievers.bm25.b: [0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.09, 0.1]
search: {method: METHOD, settings: SETTINGS, held_out: HELD_OUT}
"""
SEARCH = "search: {method: METHOD, settings: SETTINGS, held_out: HELD_OUT}\n"
METRIC = "ndcg@10"
Key = tuple[str, int]


class Matrix(TrialRunner):
    """A runner whose settings were all run before: ``values`` has the scores of each query, by the setting's key."""

    def __init__(self, keys: Sequence[Key], rows: Scores, queries: Sequence[str]) -> None:
        self.values = {key: dict(zip(queries, row, strict=True)) for key, row in zip(keys, rows.tolist(), strict=True)}

    def cheapest_first(self, settings: Sequence[Setting]) -> Sequence[Setting]:
        return settings

    def measured(self, setting: Setting) -> Measured:
        return Measured(self.values[setting.key], {})


@dataclass(frozen=True, eq=False)
class MatrixContest(ComparisonInput):
    """A inputs whose scores are ``rows`` of a matrix, by the names of settings, without reports."""

    rows: Mapping[str, Scores] = field(default_factory=dict)

    def scores(self, metric: str) -> PairedScores:
        return PairedScores(metric, np.array([self.rows[name] for name in self.names]))

    def over(self, queries: Collection[str]) -> MatrixContest:
        held = [place for place, query in enumerate(self.queries) if query.id in queries]
        rows = {name: row[held] for name, row in self.rows.items()}
        return replace(self, rows=rows, queries=tuple(self.queries[place] for place in held))


def inputs(names: Sequence[str], rows: Scores, queries: Sequence[QueryPart]) -> ComparisonInput:
    """The inputs of ``rows`` of scores; settings carry what a comparison looks at beside scores, which is a name."""
    none: Any = SimpleNamespace(scores={}, queries=[])
    settings = tuple(ComparedSetting(name, none, none, "simulated") for name in names)
    return MatrixContest(settings, tuple(queries), (METRIC,), rows=dict(zip(names, rows, strict=True)))


def config_of(method: str, settings: int, held_out: float | None, text: str = CONFIG) -> ExperimentConfig:
    text = text.replace("METHOD", method).replace("SETTINGS", str(settings))
    text = text.replace("HELD_OUT", "null" if held_out is None else str(held_out))
    content = parse_yaml(text, "simulated.yaml", Path.cwd())
    return ExperimentConfig.of(content, None)


def scores_of(rng: np.random.Generator, settings: int, queries: int) -> Scores:
    """nDCG@10 of equally good settings, shape (settings, queries)."""
    hard = rng.normal(0.6, 1.0, (queries, 4))
    hard[np.arange(4) >= rng.integers(1, 5, queries)[:, None]] = np.nan
    return ndcg_of(hard + 0.6 * rng.standard_normal((settings, queries, 4)))


def searched(made: Space, given: Sequence[Setting], split: Split, engine: Matrix, seed: int) -> SearchRun:
    session = SearchRun(made, given, split, engine)
    session.seed = seed
    _ = session.baseline
    METHODS[session.options.method].search(session)
    return session


def judged(session: SearchRun, engine: Matrix, queries: Sequence[QueryPart], flips: int, seed: int) -> Findings:
    """What the package says of a search, of the settings that were tried."""
    rows = np.array([[engine.values[trial.setting.key][query.id] for query in queries] for trial in session.trials])
    of_all = inputs([trial.setting.name for trial in session.trials], rows, queries)
    scores = np.array([trial.score for trial in session.trials])
    choice = Choice(of_all, scores, session.split.held_out, "bm25")
    return decide(choice, ComparisonOptions(procedure=Procedure(flips=flips, seed=seed)))


@dataclass(frozen=True)
class Row:
    method: str
    n: int
    held_out: int
    searches: int
    claims: float
    covered: float
    width: float
    optimism: float
    said: float
    seconds: float


def equal_searches(method: str, n: int, options: argparse.Namespace) -> Row:
    """A/A searches of one method."""
    held_out = None if method == "random" else options.held_out
    tried = options.settings if method != "tpe" else min(options.settings, options.tpe_settings)
    config = config_of(method, tried, held_out)
    made, given = Space(config), settings_of(config)[0]
    keys = keys_of(made, given)
    labels = [Query(f"q{place}", "", (Judgment("d", 1),)) for place in range(n)]
    parts = [QueryPart(id=query.id, text="", tags=[], relevant_docs=[]) for query in labels]
    truth = float(np.mean([scores_of(np.random.default_rng(10**6 + one), 1, 100_000).mean() for one in range(20)]))
    start, claims, covered, widths, gains, said = time.perf_counter(), 0, 0, [], [], []
    for number in range(options.first_seed, options.first_seed + options.searches):
        rng = np.random.default_rng([n, number])
        engine = Matrix(keys, scores_of(rng, len(keys), n), [query.id for query in labels])
        split = split_queries(labels, session_options(config), number, "labels")
        session = searched(made, given, split, engine, number)
        found = judged(session, engine, parts, options.flips, number)
        claims += found.verdict is not None and found.verdict.verdict in ("better", "worse", "worse within the margin")
        assert found.winner is not None
        expected = found.winner.expected
        if expected is not None and expected.ci is not None:
            covered += expected.ci[0] <= truth <= expected.ci[1]
            widths.append(expected.ci[1] - expected.ci[0])
        gains.append(found.winner.searched - truth)
        said.append(found.winner.optimism or 0.0)
    count = options.searches
    return Row(
        method, n, len(split.held_out), count, claims / count, covered / count, float(np.mean(widths)),
        float(np.mean(gains)), float(np.mean(said)), time.perf_counter() - start,
    )  # fmt: skip


def keys_of(made: Space, given: Sequence[Setting]) -> list[Key]:
    """Those of all settings that any method may try: the grid, and the config as it is."""
    positions = [[None, *([0, 0.25, 0.5, 0.75, 1] if axis.is_continuous else axis.positions)] for axis in made.axes]
    points = (Point("bm25", row) for row in product(*positions))
    return list(dict.fromkeys([*(one.key for one in given), *(one.key for at in points if (one := made.at(at)))]))


def session_options(config: ExperimentConfig) -> SearchOptions:
    assert config.search is not None
    return config.search


def one_pass(session: SearchRun) -> None:
    """Each axis once, in the order of the config, the others at their first values or the best that was found."""
    best = Point(session.space.entries[0], tuple(0.0 for _ in session.space.axes))
    for axis, moved in enumerate(session.space.axes):
        points = [
            replace(best, positions=(*best.positions[:axis], float(at), *best.positions[axis + 1 :]))
            for at in ((0, 0.25, 0.5, 0.75, 1) if moved.is_continuous else moved.positions)
        ]
        trials = [trial for trial in session.try_all(points) if trial is not None]
        best = max(trials, key=lambda trial: trial.score).point if trials else best


def regrets(reference: str, options: argparse.Namespace) -> Iterator[tuple[str, float, float, float]]:
    """Of each method the mean regret on unseen halves, its standard error, and the settings tried."""
    report = load_report(reference)
    values = input_of([report]).scores(report.primary_metric)
    known = np.asarray(~np.isnan(values.values).any(axis=0))
    rows, names = values.values[:, known], [setting.name for setting in report.settings]
    ids = [query.id for query, one in zip(report.queries, known, strict=True) if one]
    text = (report.folder / "config.yaml").read_text(encoding="utf-8")
    of_name = {setting.name: setting for setting in settings_of(config_of("", 0, None, text))[0]}
    place_of = {of_name[name].key: place for place, name in enumerate(names)}
    engine = Matrix(list(place_of), rows, ids)
    methods = {"one pass": one_pass, **{str(name): method.search for name, method in METHODS.members()}}
    for name in ("grid", "one pass", *options.methods.split(",")):
        lost, tried = [], []
        budget = len(names) // 3 if name != "grid" else len(names)
        method = name if name in METHODS else "random"
        config = config_of(method, budget, 0.5, f"{text}\n{SEARCH}")
        made = Space(config)
        given = settings_of(config)[0]
        for number in range(options.splits):
            order = np.random.default_rng(number).permutation(len(ids))
            half, other = order[: len(ids) // 2], order[len(ids) // 2 :]
            split = Split(tuple(ids[place] for place in half), tuple(ids[place] for place in other))
            session = SearchRun(made, given, split, engine)
            session.seed = number
            _ = session.baseline
            (methods[name] if name in methods else METHODS["random"].search)(session)
            best = max(session.trials, key=lambda trial: trial.score)
            unseen = rows[:, other].mean(axis=1)
            lost.append(float(unseen.max() - unseen[place_of[best.setting.key]]))
            tried.append(len(session.trials))
        yield name, float(np.mean(lost)), float(np.std(lost) / np.sqrt(len(lost))), float(np.mean(tried))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--searches", type=int, default=1000)
    parser.add_argument("--first-seed", type=int, default=0, help="other simulations than those of earlier seeds")
    parser.add_argument("--methods", default="random,tpe")
    parser.add_argument("--sizes", default="60,200")
    parser.add_argument("--held-out", type=float, default=0.5)
    parser.add_argument("--settings", type=int, default=100)
    parser.add_argument("--tpe-settings", type=int, default=40, help="fewer, since Optuna takes its time")
    parser.add_argument("--flips", type=int, default=2000)
    parser.add_argument("--report")
    parser.add_argument("--splits", type=int, default=200)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.report:
        print("method     regret / 1000  tried")
        for name, lost, error, tried in regrets(options.report, options):
            print(f"{name:10} {1000 * lost:6.1f} ± {1000 * error:.1f}  {tried:5.0f}", flush=True)
        return
    rows = []
    print("method    n    held out  claims  covered  width  optimism  said   seconds")
    for n in map(int, options.sizes.split(",")):
        for method in options.methods.split(","):
            row = equal_searches(method, n, options)
            rows.append(row)
            print(f"{method:9} {n:<4} {row.held_out:<9} {row.claims:6.1%}  {row.covered:6.1%}  {row.width:.3f}  "
                  f"{row.optimism:+.3f}    {row.said:+.3f}  {row.seconds:.0f}", flush=True)  # fmt: skip
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
