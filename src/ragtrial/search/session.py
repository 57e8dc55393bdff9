"""A search at work: runs the settings that a method asks for, each once, the cheapest first, within its budget."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from ragtrial.components.endpoints.client import requests_sent
from ragtrial.config import ExperimentConfig
from ragtrial.config.search_options import SearchOptions
from ragtrial.config.setting_names import SettingNames
from ragtrial.config.settings import Setting, setting_of
from ragtrial.config.variants import Point, Space, probes_of
from ragtrial.errors import RunError
from ragtrial.evaluation.metrics import parse_metric
from ragtrial.search.split import Split

_DRAWS = 30
"""So many times as many points as settings are drawn before no new setting is expected."""

_LISTED = 20_000
"""Spaces of fewer points are shuffled as a whole."""


@dataclass(frozen=True)
class Measured:
    """What came of a setting: the score of each query that counts, by its id, and what the search limits.

    ``documents`` is how many were searched.
    """

    scores: Mapping[str, float]
    costs: Mapping[str, float | None]
    documents: int = 0


class Engine(Protocol):
    """Runs settings on all queries."""

    def cheapest_first(self, settings: Sequence[Setting], later: Sequence[Setting]) -> Sequence[Setting]:
        """The order in which to run ``settings``. Rankings must be deep enough for those of ``later``, too."""
        ...

    def measured(self, setting: Setting) -> Measured | None:
        """What comes of one of the settings that were ordered last; None if it failed."""
        ...


@dataclass(frozen=True, eq=False)
class Trial:
    """A setting that was tried: its mean score on the ``queries`` to search by.

    ``costs`` has what the search limits, None where it is not known; ``is_within`` says whether all limits are met.
    ``scores`` has all queries, held out or not. ``seconds`` are those since the search began; ``is_screened`` says that
    it searched some of the documents alone.
    """

    setting: Setting
    point: Point
    mean: float
    queries: int
    costs: Mapping[str, float | None]
    is_within: bool
    seconds: float
    is_given: bool
    scores: Mapping[str, float] = field(repr=False)
    documents: int
    is_screened: bool
    sign: int = 1
    """-1 where lower scores are better."""

    @property
    def score(self) -> float:
        """What the search wants to be high: nothing counts of a setting beyond the limits, or without a mean."""
        return self.sign * self.mean if self.is_within and not math.isnan(self.mean) else -math.inf


class SettingsOfSpace:
    """The settings at the points of a space, each made once."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self._made: dict[Point, Setting | None] = {}
        sweep = space.config.sweep
        self._names = SettingNames.of(sweep) if sweep else None

    def at(self, point: Point) -> Setting | None:
        """The setting of a point; None where the config refuses its values, or the sweep leaves them out."""
        if point not in self._made:
            variant = self.space.variant(point.positions)
            made = None
            if variant is not None and self._names is not None:
                setting = setting_of(variant.config, point.entry)
                values = {key: value for key, value in variant.values.items() if setting.is_reached(key)}
                made = replace(setting, name=self._names.name(point.entry, values), values=values)
            self._made[point] = made
        return self._made[point]

    @cached_property
    def reached(self) -> Mapping[str, Sequence[bool]]:
        """For each entry, whether each axis changes settings of it."""
        config = self.space.config
        configs = [config, *(probe.config for probe in probes_of(config))]
        return {
            entry: [
                any(setting_of(one, entry).is_reached(key) for one in configs for key in axis.keys)
                for axis in self.space.axes
            ]
            for entry in self.space.entries
        }

    @cached_property
    def size(self) -> int | None:
        """How many points there are; None with a continuous axis."""
        count = 0
        for reached in self.reached.values():
            axes = [axis for axis, one in zip(self.space.axes, reached, strict=True) if one]
            if any(axis.is_continuous for axis in axes):
                return None
            count += math.prod(axis.count for axis in axes)
        return count

    def all_points(self) -> list[Point] | None:
        """Every point; None where there are too many."""
        if self.size is None or self.size > _LISTED:
            return None
        return [point for entry, reached in self.reached.items() for point in self.space.points(entry, reached)]

    def plain(self, point: Point) -> Point:
        """The same without positions on axes that do not reach its entry."""
        positions = (at if one else None for at, one in zip(point.positions, self.reached[point.entry], strict=True))
        return Point(point.entry, tuple(positions))


class Session:
    """What a method may ask of a search. ``given`` are the settings of the config as it is.

    ``whole`` runs settings on all documents, where ``engine`` screens them on some. ``clock`` gives seconds, ``calls``
    the number of requests to endpoints so far.
    """

    def __init__(
        self,
        settings: SettingsOfSpace,
        given: Sequence[Setting],
        split: Split,
        engine: Engine,
        clock: Callable[[], float] = time.monotonic,
        calls: Callable[[], int] = requests_sent,
        whole: Engine | None = None,
    ) -> None:
        self.settings = settings
        self.space = settings.space
        self.config: ExperimentConfig = self.space.config
        self.options = self.config.search or SearchOptions()
        primary = self.config.evaluators.primary_metric
        self.sign = -1 if primary and parse_metric(primary).definition.better == "lower" else 1
        self.split = split
        self.seed = self.config.seed
        self.trials: list[Trial] = []
        """All that was tried, in the order in which it was asked for."""
        self.failed: dict[Setting, Point | None] = {}
        self._given = given
        self._engine = engine
        self._whole = whole
        self._clock, self._calls = clock, calls
        self._began, self._called = clock(), calls()
        self._tried: set[tuple[str, int]] = set()
        self._known: dict[tuple[str, int], Trial] = {}

    # --- what there is

    @cached_property
    def baseline(self) -> Trial:
        """The config as it is, which is tried first, with all retrievers and what ``include`` adds. Raises RunError."""
        entry = self.options.baseline or self.space.entries[0]
        self._run([(setting, None) for setting in self._given], is_free=True)
        found = next((trial for trial in self.trials if trial.setting.name == entry), None)
        if found is None:
            raise RunError(f"the baseline {entry!r} failed, and nothing can be compared with it.")
        return found

    @property
    def left(self) -> int:
        """How many more settings may be tried."""
        return 0 if self._is_spent else self.unused

    @property
    def unused(self) -> int:
        """How many settings of the budget were not tried."""
        return self.options.settings - len(self._tried)

    @property
    def is_over(self) -> bool:
        """Whether no other setting may be tried."""
        return self.left <= 0

    @property
    def _is_late(self) -> bool:
        minutes = self.options.minutes
        return minutes is not None and self._clock() - self._began >= 60 * minutes

    @property
    def _is_spent(self) -> bool:
        calls = self.options.calls
        return self._is_late or (calls is not None and self._calls() - self._called >= calls)

    @property
    def ended(self) -> str:
        """Why it ended, in words."""
        if self._is_spent:
            limit = "minutes" if self._is_late else "calls"
            return f"the limit search.{limit} was reached; the same command continues"
        return "the limit search.settings was reached" if self.left <= 0 else "no other setting is left to try"

    def is_reached(self, entry: str, axis: int) -> bool:
        """Whether the axis changes settings of that entry."""
        return self.settings.reached[entry][axis]

    # --- what may be tried

    def draw(self, count: int) -> list[Point]:
        """So many points at random, each another setting that was not tried; fewer where there are no more."""
        chance, space = random.Random(self.seed), self.space  # noqa: S311 - not a secret
        candidates = self.settings.all_points()
        if candidates is not None:
            chance.shuffle(candidates)
        drawn: dict[tuple[str, int], Point] = {}
        known = {trial.setting.key for trial in self.trials}
        for number in range(len(candidates) if candidates is not None else _DRAWS * count + 100):
            if len(drawn) >= count:
                break
            point = candidates[number] if candidates is not None else self.settings.plain(space.drawn(chance))
            setting = self.settings.at(point)
            if setting is not None and setting.key not in known:
                drawn.setdefault(setting.key, point)
        return list(drawn.values())

    # --- trying

    def try_all(self, points: Sequence[Point]) -> list[Trial | None]:
        """Run the settings of ``points``, those first whose stages are cached, and give the trial of each point.

        None for a point that is no setting, that failed, or for which nothing was left of the budget.
        """
        placed = [(self.settings.at(point), point) for point in points]
        wanted = {setting.key: (setting, point) for setting, point in placed if setting is not None}
        failed = {setting.key for setting in self.failed}
        new = [one for key, one in wanted.items() if key not in self._known and key not in failed]
        self._run(new)
        return [None if setting is None else self._known.get(setting.key) for setting, _ in placed]

    def confirm(self) -> None:
        """Where settings were screened: run the baseline and the best of them on all documents, in no budget."""
        if self._whole is None:
            return
        whole = [trial for trial in self.trials if trial.score > -math.inf]
        whole.sort(key=lambda trial: -trial.score)  # which keeps equal ones in their order
        chosen = [self.baseline, *whole[: self.options.finalists]]
        self._engine, self._whole = self._whole, None
        self._run(list({trial.setting: trial.point for trial in chosen}.items()), is_free=True)

    def _run(self, wanted: Sequence[tuple[Setting, Point | None]], *, is_free: bool = False) -> None:
        points, made = dict(wanted), dict[Setting, Trial]()
        for setting in self._engine.cheapest_first(list(points), self._deepest(wanted)):
            if not is_free and (self._is_spent or (self.left <= 0 and setting.key not in self._tried)):
                break
            if not is_free:
                self._tried.add(setting.key)
            found = self._engine.measured(setting)
            if found is None:
                self.failed[setting] = points[setting]
                continue
            point = points[setting] or Point(setting.entry, (None,) * len(self.space.axes))
            made[setting] = trial = self._trial(setting, point, found)
            self._known[setting.key] = trial
        # In the order in which they were asked for: which of equal ones is the first is not up to the cache.
        self.trials += [made[setting] for setting in points if setting in made]

    def _deepest(self, wanted: Sequence[tuple[Setting, Point | None]]) -> list[Setting]:
        """The same settings with rankings looked at as deep as any setting on their axes has it."""
        found = []
        for setting, point in wanted:
            positions = point.positions if point else (None,) * len(self.space.axes)
            deepest = self.settings.at(Point(setting.entry, self.space.deepest(positions)))
            found += [setting, *([] if deepest is None else [deepest])]
        return found

    def _trial(self, setting: Setting, point: Point, found: Measured) -> Trial:
        scores = [found.scores[name] for name in self.split.searched if name in found.scores]
        known = {name: math.inf if cost is None else cost for name, cost in found.costs.items()}
        return Trial(
            setting=setting,
            point=point,
            mean=float(np.mean(scores)) if scores else math.nan,
            queries=len(scores),
            costs=found.costs,
            is_within=all(known[name] <= limit for name, limit in self.options.within.items()),
            seconds=self._clock() - self._began,
            is_given=setting in self._given,
            scores=found.scores,
            documents=found.documents,
            is_screened=self._whole is not None,
            sign=self.sign,
        )
