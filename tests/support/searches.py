"""Searches whose settings were all run before: their scores are given, only running them is left out."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ragtrial.config.models import ExperimentConfig
from ragtrial.config.settings import Setting, settings_of
from ragtrial.config.space import Space
from ragtrial.config.strict_yaml import parse_yaml
from ragtrial.search.search_run import Measured, SearchRun, Split, TrialRunner

CONFIG = """\
experiment: searched
dataset: {corpus: documents, queries: labels.json}
chunker: {kind: recursive, size: 200, overlap: 40}
retrievers: {bm25: {kind: bm25}, dense: {kind: dense}}
sweep:
  matrix:
    chunker.size: [100, 200, 400]
    retrievers.bm25.k1: {between: [0.5, 2.0]}
    retrievers.bm25.b: [0.0, 0.5, 1.0]
search: SEARCH
"""
QUERIES = tuple(f"q{number}" for number in range(60))


class Recorded(TrialRunner):
    """A runner that gives each setting a score that its values have, and remembers what it was asked for."""

    def __init__(self, costs: Mapping[str, float | None] | None = None) -> None:
        self.run: list[str] = []
        self._costs = costs

    def cheapest_first(self, settings: Sequence[Setting]) -> Sequence[Setting]:
        return settings

    def measured(self, setting: Setting) -> Measured | None:
        self.run.append(setting.name)
        if setting.values.get("retrievers.bm25.b") == 1.0:
            return None  # it fails
        score, known = score_of(setting), self._costs or {}
        costs = {name: None if cost is None else cost * score for name, cost in known.items()}
        return Measured(dict.fromkeys(QUERIES, score), costs)


def score_of(setting: Setting) -> float:
    """Highest for bm25 with k1 near 1.5, b 0.5 and size 400."""
    score = 0.3 + setting.chunker.model_dump()["size"] / 4000
    if setting.entry == "bm25":
        options = setting.retriever.model_dump()
        score += 0.3 - 0.1 * abs(options["k1"] - 1.5) - 0.1 * abs(options["b"] - 0.5)
    return float(score)


def run_of(
    search: str,
    runner: Recorded,
    minutes: float | None = None,
    text: str = CONFIG,
    calls: Callable[[], int] = lambda: 0,
) -> SearchRun:
    """A search at its beginning, by 40 queries, with 20 held out; each look at its clock takes ``minutes``."""
    config = ExperimentConfig.of(parse_yaml(text.replace("SEARCH", search), "config.yaml", Path.cwd()), None)
    split, ticks = Split(QUERIES[:40], QUERIES[40:]), itertools.count()
    clock = (lambda: 0.0) if minutes is None else (lambda: 60.0 * minutes * next(ticks))
    run = SearchRun(Space(config), settings_of(config)[0], split, runner, clock, calls)
    _ = run.baseline
    return run
