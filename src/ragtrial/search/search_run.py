"""A search over settings: the questions it searches by, the settings it tries, and the methods that choose them."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ragtrial.comparison.statistics.estimates import detectable_difference, queries_for
from ragtrial.comparison.statistics.samples import LEAST_DIFFERENCES, Procedure
from ragtrial.components.endpoints.client import Client
from ragtrial.config.settings import Setting
from ragtrial.config.space import Point, Space
from ragtrial.config.sweep import METHODS, SearchMethod, SearchOptions
from ragtrial.errors import Fault, InputError, LabelsError, RagtrialError, RunError, counted, did_you_mean, listed
from ragtrial.evaluation.clusters import Places, clusters_of
from ragtrial.evaluation.metrics import parse_metric
from ragtrial.pipeline.corpus_stages import EmbeddingStage
from ragtrial.pipeline.run import Run, RunOutcome
from ragtrial.pipeline.scored_setting import ScoredSetting
from ragtrial.pipeline.stage import NotBuiltError, Stage, all_needs
from ragtrial.records import Query

if TYPE_CHECKING:
    import optuna

USUAL_DEVIATION = 0.2
"""The standard deviation of the differences of two settings in nDCG@10 by query, on public data sets."""

_SETTLES = 0.05
"""A difference that is worth a search."""


@dataclass(frozen=True)
class Split:
    """The ids of the queries to search by, and of the held-out queries, in the order of the labels."""

    searched: tuple[str, ...]
    held_out: tuple[str, ...]
    is_clustered: bool = False

    @property
    def judging(self) -> tuple[str, ...]:
        """The queries that decide the verdict: the held-out queries, or all if none are."""
        return self.held_out or self.searched


def split_of(run: Run, options: SearchOptions) -> Split:
    """The split of the labels of ``run``, whose config says whether documents make clusters."""
    by_document = run.config.evaluators.clusters == "document"
    labels, file = run.resolved.labels, run.dataset.labels_file
    return split_queries(labels.queries, options, run.config.seed, file, by_document=by_document)


def split_queries(
    queries: Sequence[Query], options: SearchOptions, seed: int, file: str, *, by_document: bool = False
) -> Split:
    """Hold out a share of ``queries``, drawn with ``seed``, or the queries with a tag.

    The queries of a cluster stay on one side of a share; ``by_document`` is as in ``clusters_of``. Queries without
    relevant documents count for neither side. Raises LabelsError if a side has too few queries to compare anything by.
    """
    counted_queries = [query for query in queries if query.relevant_docs]
    clusters = clusters_of(counted_queries, by_document=by_document or options.group_by == "document")
    if isinstance(options.held_out, list):
        held_ids = _tagged(counted_queries, options.held_out, file)
    elif options.held_out is None:
        held_ids = set()
    else:
        held_ids = _drawn(counted_queries, options.held_out, seed, clusters)
    searched = tuple(query.id for query in counted_queries if query.id not in held_ids)
    held_out = tuple(query.id for query in counted_queries if query.id in held_ids)
    if options.held_out is not None and min(len(searched), len(held_out)) < LEAST_DIFFERENCES:
        largest = 0 if clusters is None else int(np.bincount(clusters).max())
        of_group = f" The largest cluster has {largest} queries, which stay together." if largest else ""
        message = (
            f"search.held_out leaves {len(searched)} queries to search by and {len(held_out)} for the verdict; each "
            f"takes at least {LEAST_DIFFERENCES}.{of_group} Change the share, label more, or use method: random "
            "without it."
        )
        raise LabelsError(Fault(file, message=message))
    return Split(searched, held_out, clusters is not None)


def detectable_with(queries: int, comparisons: int) -> float:
    """The difference that a verdict on ``queries`` detects with 80% power, corrected for ``comparisons``."""
    from scipy.special import stdtrit

    critical = np.array([-stdtrit(queries - 1, Procedure().with_bonferroni(comparisons).level / 2)])
    return float(detectable_difference(np.array([USUAL_DEVIATION]), np.array([queries]), critical)[0])


def power_sentence(split: Split, options: SearchOptions) -> str:
    """The difference from the baseline that can be shown, and how to show smaller differences."""
    n, held_out = len(split.judging), bool(split.held_out)
    detectable = detectable_with(n, 1 if held_out else options.settings)
    corrected = f"{counted(n, 'question')}, and corrected for {options.settings} settings,"
    by = f"{n} held-out questions" if held_out else corrected
    sentence = f"With {by} a difference from the baseline of about {detectable:.2f} can be shown"
    sentence += " (with 80% power, at a typical spread)."
    sentence += " Questions that belong together count for less, so it may take a larger one." * split.is_clustered
    needed = queries_for(_SETTLES, np.array([USUAL_DEVIATION]), np.array([Procedure().level]))[0] - n
    if not held_out or needed <= 0:
        return sentence
    return f"{sentence} To see smaller ones, hold out about {needed:.0f} more to show {_SETTLES:g}."


def _tagged(queries: Sequence[Query], tags: Sequence[str], file: str) -> set[str]:
    known = sorted({tag for query in queries for tag in query.tags})
    faults = [
        Fault(file, message=f"no query has the tag {tag!r} of search.held_out.{did_you_mean(tag, known)} "
              f"Tags: {listed(known) or 'none'}.")
        for tag in tags
        if tag not in known
    ]  # fmt: skip
    LabelsError.raise_any(faults)
    return {query.id for query in queries if not set(tags).isdisjoint(query.tags)}


def _drawn(queries: Sequence[Query], share: float, seed: int, clusters: Places | None) -> set[str]:
    """Random clusters, as long as they fit into the share."""
    groups: list[list[str]] = [[] for _ in queries]
    for cluster, query in zip(range(len(queries)) if clusters is None else clusters.tolist(), queries, strict=True):
        groups[cluster].append(query.id)
    groups = [group for group in groups if group]
    random.Random(seed).shuffle(groups)  # noqa: S311 - not a secret
    wanted, drawn = round(share * len(queries)), set[str]()
    for group in groups:
        if len(drawn) + len(group) <= wanted:
            drawn.update(group)
    return drawn


_DRAWS = 30
"""Attempts per requested setting before the search gives up on new settings."""


@dataclass(frozen=True)
class Measured:
    """The score of each query that counts for a setting, by its id, and the costs that the search limits."""

    scores: Mapping[str, float]
    costs: Mapping[str, float | None]


class TrialRunner:
    """Runs one setting after the other. A model is released when the next setting does not use it."""

    def __init__(self, run: Run) -> None:
        self._run = self._batch = run
        self._options = run.config.search
        self._embedders: set[Any] = set()
        self.scored: dict[tuple[str, int], ScoredSetting] = {}
        """The scored settings, by their keys."""

    @property
    def measures_latency(self) -> bool:
        """True if latency is limited, or the config asks for it."""
        limits = self._options.within if self._options else ()
        return bool(self._run.config.latency) or any(name.startswith("latency.") for name in limits)

    def cheapest_first(self, settings: Sequence[Setting]) -> Sequence[Setting]:
        """The order in which to run ``settings``: first without a new embedding, then grouped by new embedding."""
        latency = self.measures_latency
        self._batch = self._run.of_settings(settings, latency=latency, keeps_models=True)
        if len(settings) < 2:
            return settings

        def work(setting: Setting) -> tuple[int, list[str], int]:
            try:
                needed = all_needs(self._batch.graph.ranking_stage(setting))
            except RagtrialError:  # it fails when it is run
                needed = []
            missing = [stage for stage in needed if self._is_missing(stage)]
            embeddings = [stage.build_free_fingerprint for stage in missing if isinstance(stage, EmbeddingStage)]
            return len(embeddings), sorted(embeddings), len(missing)

        return sorted(settings, key=work)

    def measured(self, setting: Setting) -> Measured | None:
        """The scores and costs of one of the settings that were ordered last; None if it failed."""
        embedders = {part.embedder for part in setting.tree()}
        for embedder in self._embedders - embedders:
            self._run.corpus.resources.release(embedder)
        self._embedders = embedders
        scored = self._batch.score(setting, RunOutcome())
        if scored is None:
            return None
        self.scored[setting.key] = scored
        evaluation = scored.evaluations[str(self._run.metrics.primary)]
        values = zip(scored.query_ids, evaluation.as_list(), strict=True)
        scores = {name: value for name, value in values if value is not None}
        limits = self._options.within if self._options else {}
        part = scored.to_part() if limits else None
        return Measured(scores, {name: part.cost(name) for name in limits} if part else {})

    def _is_missing(self, stage: Stage[Any]) -> bool:
        try:
            return stage.is_kept and stage.kept_key(self._run.corpus.resources.workspace) is None
        except NotBuiltError:
            return True


@dataclass(frozen=True, eq=False)
class Trial:
    """A setting that was tried, with its mean score on the ``queries`` to search by.

    ``costs`` are the limited costs, None if unknown; ``is_within`` is whether all limits are met. ``seconds`` is the
    time since the search began.
    """

    setting: Setting
    point: Point
    mean: float
    queries: int
    costs: Mapping[str, float | None]
    is_within: bool
    seconds: float
    is_given: bool
    sign: int = 1
    """-1 if lower scores are better."""

    @property
    def score(self) -> float:
        """The objective, to be maximised: -inf if the setting exceeds a limit or has no mean."""
        return self.sign * self.mean if self.is_within and not math.isnan(self.mean) else -math.inf


@dataclass(eq=False)
class SearchRun:
    """The state of a search, with the operations for methods. ``given`` are the settings of the config as it is.

    ``clock`` returns seconds, ``calls`` the number of requests to endpoints so far. ``trials`` are in the order of the
    requests.
    """

    space: Space
    given: Sequence[Setting]
    split: Split
    runner: TrialRunner
    clock: Callable[[], float] = time.monotonic
    calls: Callable[[], int] = lambda: Client.requests_sent
    trials: list[Trial] = field(default_factory=list)
    failed: dict[Setting, Point | None] = field(default_factory=dict)
    _tried: set[tuple[str, int]] = field(default_factory=set)
    _known: dict[tuple[str, int], Trial] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.config, self.seed = self.space.config, self.space.config.seed
        self.options = self.config.search or SearchOptions()
        primary = self.config.evaluators.primary_metric
        self.sign = -1 if primary and parse_metric(primary).definition.better == "lower" else 1
        self._began, self._called = self.clock(), self.calls()

    # --- the budget

    @cached_property
    def baseline(self) -> Trial:
        """The config as it is, tried first, with all retrievers and the settings of ``include``. Raises RunError."""
        entry = self.options.baseline or self.space.entries[0]
        self._run([(setting, None) for setting in self.given], is_free=True)
        baseline = next((trial for trial in self.trials if trial.setting.name == entry), None)
        if baseline is None:
            raise RunError(f"the baseline {entry!r} failed, and nothing can be compared with it.")
        return baseline

    @property
    def left(self) -> int:
        """How many more settings may be tried."""
        return 0 if self._is_spent else self.unused

    @property
    def unused(self) -> int:
        """How many settings of the budget were not tried."""
        return self.options.settings - len(self._tried)

    @property
    def _is_late(self) -> bool:
        minutes = self.options.minutes
        return minutes is not None and self.clock() - self._began >= 60 * minutes

    @property
    def _is_spent(self) -> bool:
        calls = self.options.calls
        return self._is_late or (calls is not None and self.calls() - self._called >= calls)

    @property
    def ended(self) -> str:
        """Why the search ended, in words."""
        if self._is_spent:
            limit = "minutes" if self._is_late else "calls"
            return f"the limit search.{limit} was reached; the same command continues"
        return "the limit search.settings was reached" if self.left <= 0 else "no other setting is left to try"

    # --- trying

    def draw(self, count: int) -> list[Point]:
        """``count`` random points, each another setting that was not tried; fewer if there are no more."""
        chance, space = random.Random(self.seed), self.space  # noqa: S311 - not a secret
        candidates = self.space.all_points()
        if candidates is not None:
            chance.shuffle(candidates)
        drawn: dict[tuple[str, int], Point] = {}
        known = {trial.setting.key for trial in self.trials}
        for number in range(len(candidates) if candidates is not None else _DRAWS * count + 100):
            if len(drawn) >= count:
                break
            point = candidates[number] if candidates is not None else self.space.plain(space.drawn(chance))
            setting = self.space.at(point)
            if setting is not None and setting.key not in known:
                drawn.setdefault(setting.key, point)
        return list(drawn.values())

    def try_all(self, points: Sequence[Point]) -> list[Trial | None]:
        """Run the settings of ``points``, settings with cached stages first, and return the trial of each point.

        None for a point that is no setting, that failed, or that exceeds the budget.
        """
        settings = [self.space.at(point) for point in points]
        wanted = {setting.key: (setting, point) for setting, point in zip(settings, points, strict=True) if setting}
        failed = {setting.key for setting in self.failed}
        self._run([pair for key, pair in wanted.items() if key not in self._known and key not in failed])
        return [self._known.get(setting.key) if setting else None for setting in settings]

    def _run(self, wanted: Sequence[tuple[Setting, Point | None]], *, is_free: bool = False) -> None:
        points, trials = dict(wanted), dict[Setting, Trial]()
        for setting in self.runner.cheapest_first(list(points)):
            if not is_free and (self._is_spent or (self.left <= 0 and setting.key not in self._tried)):
                break
            if not is_free:
                self._tried.add(setting.key)
            measured = self.runner.measured(setting)
            if measured is None:
                self.failed[setting] = points[setting]
                continue
            point = points[setting] or Point(setting.entry, (None,) * len(self.space.axes))
            trials[setting] = trial = self._trial(setting, point, measured)
            self._known[setting.key] = trial
        # Keep the order of the request: which of equal settings comes first must not depend on the cache.
        self.trials += [trials[setting] for setting in points if setting in trials]

    def _trial(self, setting: Setting, point: Point, measured: Measured) -> Trial:
        scores = [measured.scores[name] for name in self.split.searched if name in measured.scores]
        known = {name: math.inf if cost is None else cost for name, cost in measured.costs.items()}
        return Trial(
            setting=setting,
            point=point,
            mean=float(np.mean(scores)) if scores else math.nan,
            queries=len(scores),
            costs=measured.costs,
            is_within=all(known[name] <= limit for name, limit in self.options.within.items()),
            seconds=self.clock() - self._began,
            is_given=setting in self.given,
            sign=self.sign,
        )


_AT_ONCE = 4
"""The number of settings that Optuna suggests together, so that the cheapest runs first."""

_NOTHING_NEW = 10
"""The search ends after this many rounds without a new setting."""

_AT_RANDOM = 10


def search_at_random(run: SearchRun) -> None:
    """Try random settings, drawn before any is scored, so that the choice does not depend on the labels."""
    run.try_all(run.draw(run.left))


METHODS.register("random")(SearchMethod(search_at_random, is_adaptive=False))


def search_by_tpe(run: SearchRun) -> None:
    """Try what Optuna's tree-structured Parzen estimator suggests. Raises InputError if Optuna is not installed."""
    study, idle = _study(run.seed, min(_AT_RANDOM, max(2, run.left // 4))), 0
    while run.left > 0 and idle < _NOTHING_NEW:
        before = run.left
        suggestions = [study.ask() for _ in range(min(_AT_ONCE, run.left))]
        trials = run.try_all([_point(suggestion, run) for suggestion in suggestions])
        for suggestion, trial in zip(suggestions, trials, strict=True):
            _report(study, suggestion, trial, run)
        idle = idle + 1 if run.left == before else 0


METHODS.register("tpe")(SearchMethod(search_by_tpe, packages={"optuna": "search"}))


def _study(seed: int, startup: int) -> optuna.Study:
    try:
        import optuna
    except ImportError as error:
        message = "search.method tpe needs Optuna: pip install 'ragtrial[search]', or take method: random."
        raise InputError(message) from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)  # it logs every trial, and names studies at random
    sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=startup)
    return optuna.create_study(direction="maximize", sampler=sampler)


def _point(suggestion: optuna.Trial, run: SearchRun) -> Point:
    """The point that Optuna suggests. Positions in a list of numbers are ordered, other positions are not."""
    space = run.space
    entry = suggestion.suggest_categorical("retriever", space.entries) if len(space.entries) > 1 else space.entries[0]
    positions: list[float | None] = []
    for axis, is_reached in zip(space.axes, space.reached[entry], strict=True):
        name = ", ".join(axis.keys)
        if not is_reached:
            positions.append(None)
        elif axis.is_continuous:
            positions.append(suggestion.suggest_float(name, 0.0, 1.0))
        elif axis.is_ordered:
            positions.append(float(suggestion.suggest_int(name, 0, len(axis.positions) - 1)))
        else:
            positions.append(float(suggestion.suggest_categorical(name, range(len(axis.positions)))))
    return Point(entry, tuple(positions))


def _report(study: optuna.Study, suggestion: optuna.Trial, trial: Trial | None, run: SearchRun) -> None:
    import optuna

    if trial is None or math.isnan(trial.mean):
        study.tell(suggestion, state=optuna.trial.TrialState.FAIL)
        return
    for name, limit in run.options.within.items():
        cost = trial.costs[name]
        suggestion.set_constraint(name, 1.0 if cost is None else cost - limit)
    study.tell(suggestion, trial.mean)
