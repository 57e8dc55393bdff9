"""Greedy search: the best value of one axis after the other, those first that need no new embedding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ragtrial.config.space import Point
from ragtrial.search.session import Session, Trial

_STEPS = 5
"""Values of a continuous axis that are tried."""


def search_greedily(session: Session) -> None:
    """Begin with the config as it is, and move along one axis at a time, as long as that helps.

    Every axis is looked at again after another one has moved, until none helps or nothing may be tried any more.
    """
    best = session.baseline
    space, unchanged = session.space, 0
    moves = [-1, *sorted(range(len(space.axes)), key=session.is_costly)]  # -1: another entry
    while unchanged < len(moves) and not session.is_over:
        axis = moves[0]
        moves = [*moves[1:], axis]
        before, best = best, _best(best, session, _along(best.point, axis, session))
        unchanged = unchanged + 1 if best is before else 1


def _along(point: Point, axis: int, session: Session) -> Sequence[Point]:
    if axis < 0:
        return [replace(point, entry=entry) for entry in session.space.entries]
    places = session.space.axes[axis].positions(_STEPS)
    rows = ((*point.positions[:axis], place, *point.positions[axis + 1 :]) for place in places)
    return [replace(point, positions=row) for row in rows]


def _best(best: Trial, session: Session, points: Sequence[Point]) -> Trial:
    """The best of what is known and ``points``; the first of equal ones."""
    return max([best, *filter(None, session.try_all(points))], key=lambda trial: trial.score)
