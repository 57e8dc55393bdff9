"""The search methods: how the next settings are chosen."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from ragtrial.config.space import Point
from ragtrial.errors import InputError
from ragtrial.registry import Registry
from ragtrial.search.search_run import SearchRun, Trial

if TYPE_CHECKING:
    import optuna

METHODS: Registry[Callable[[SearchRun], None]] = Registry("search method")

_AT_ONCE = 4
"""The number of settings that Optuna suggests together, so that the cheapest runs first."""

_NOTHING_NEW = 10
"""The search ends after this many rounds without a new setting."""

_AT_RANDOM = 10


@METHODS.register("random")
def search_at_random(run: SearchRun) -> None:
    """Try random settings, drawn before any is scored, so that the choice does not depend on the labels."""
    run.try_all(run.draw(run.left))


@METHODS.register("tpe")
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
