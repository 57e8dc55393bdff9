"""Optuna's tree-structured Parzen estimator: more of what scored well, less of what did not."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ragtrial.config.variants import Point
from ragtrial.errors import InputError
from ragtrial.search.session import Session, Trial

if TYPE_CHECKING:
    import optuna

_AT_ONCE = 4
"""Settings that are asked for together, so that those come first that cost least."""

_NOTHING_NEW = 10
"""After so many rounds without a new setting the search is over."""

_AT_RANDOM = 10


def search_by_tpe(session: Session) -> None:
    """Ask Optuna for settings, and say how they scored. Raises InputError where Optuna is not installed."""
    study, idle = _study(session.seed, min(_AT_RANDOM, max(2, session.left // 4))), 0
    while not session.is_over and idle < _NOTHING_NEW:
        before = session.left
        asked = [study.ask() for _ in range(min(_AT_ONCE, session.left))]
        trials = session.try_all([_point(one, session) for one in asked])
        for one, trial in zip(asked, trials, strict=True):
            _tell(study, one, trial, session)
        idle = idle + 1 if session.left == before else 0


def _study(seed: int, startup: int) -> optuna.Study:
    try:
        import optuna
    except ImportError as error:
        message = "search.method tpe needs Optuna: pip install 'ragtrial[search]', or take method: random."
        raise InputError(message) from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)  # it logs every trial, and names studies at random
    sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=startup)
    return optuna.create_study(direction="maximize", sampler=sampler)


def _point(asked: optuna.Trial, session: Session) -> Point:
    """What Optuna suggests. Places in a list of numbers have an order, others have none."""
    space = session.space
    entry = asked.suggest_categorical("retriever", space.entries) if len(space.entries) > 1 else space.entries[0]
    positions: list[float | None] = []
    for number, axis in enumerate(space.axes):
        name = ", ".join(axis.keys)
        if not session.is_reached(entry, number):
            positions.append(None)
        elif axis.is_continuous:
            positions.append(asked.suggest_float(name, 0.0, 1.0))
        elif axis.is_ordered:
            positions.append(float(asked.suggest_int(name, 0, axis.count - 1)))
        else:
            positions.append(float(asked.suggest_categorical(name, range(axis.count))))
    return Point(entry, tuple(positions))


def _tell(study: optuna.Study, asked: optuna.Trial, trial: Trial | None, session: Session) -> None:
    import optuna

    if trial is None or math.isnan(trial.mean):
        study.tell(asked, state=optuna.trial.TrialState.FAIL)
        return
    for name, limit in session.options.within.items():
        cost = trial.costs[name]
        asked.set_constraint(name, 1.0 if cost is None else cost - limit)
    study.tell(asked, trial.mean)
