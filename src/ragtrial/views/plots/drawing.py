"""From a plot's name to the bytes of its file."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ragtrial.comparison.analysis import Analysis
from ragtrial.comparison.contest import Contest, Pair
from ragtrial.comparison.queries.moves import query_differences
from ragtrial.errors import PlotError, did_you_mean
from ragtrial.views.plots import forests, points
from ragtrial.views.plots.style import styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES = ("differences", "curves", "scatter", "distribution", "slices", "effects", "tradeoff")
_OF_A_SETTING = ("scatter", "distribution", "slices")
_FORMATS = (".svg", ".png")
_METADATA: dict[str, dict[str, str | None]] = {"svg": {"Date": None}, "png": {"Software": None}}
"""Nothing that changes from one day or one installation to the next."""


def check_plot(name: str, output: str, setting: str | None = None) -> None:
    """Nothing; raises PlotError for a plot that there is not, and for a file that is neither svg nor png."""
    if name not in NAMES:
        raise PlotError(f"there is no plot {name!r}.{did_you_mean(name, NAMES)} There are: {', '.join(NAMES)}.")
    if setting is not None and name not in _OF_A_SETTING:
        raise PlotError(f"--setting is for {', '.join(_OF_A_SETTING)}; {name} shows all settings.")
    if Path(output).suffix.lower() not in _FORMATS:
        raise PlotError(f"{output}: a plot is written as .svg or .png; name such a file.")


def draw(name: str, contest: Contest, analysis: Analysis, setting: str | None = None) -> Figure:
    """The plot called ``name``; ``analysis`` must have slices, axes and costs.

    ``setting`` is the one that is shown where there is room for one only: None takes the one with the largest mean.
    Raises PlotError where the reports have no data for it, and where matplotlib is not installed.
    """
    with styled():
        match name:
            case "differences":
                return forests.differences(analysis)
            case "slices":
                return forests.slices(analysis, setting and contest.names[contest.place(setting)])
            case "effects":
                return forests.effects(analysis)
            case "curves":
                return points.curves(contest)
            case "tradeoff":
                return points.tradeoff(analysis)
        pair = _pair(contest, analysis, setting)
        if pair.baseline == pair.setting:
            raise PlotError(
                f"{name} would show {contest.names[pair.setting]!r} against itself; choose another --setting."
            )
        found = query_differences(contest, pair)
        if not found.queries:
            raise PlotError(f"there is no plot {name}: no query counts for {found.baseline} and {found.setting}.")
        return _OF_QUERIES[name](found)


def image(figure: Figure, output: str) -> bytes:
    """The file: the same bytes for the same figure."""
    kind = Path(output).suffix.lower().removeprefix(".")
    made = io.BytesIO()
    with styled(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # signs that the font lacks become boxes in png, and stay in svg
        figure.savefig(made, format=kind, metadata=_METADATA[kind])
    return made.getvalue()


def _pair(contest: Contest, analysis: Analysis, setting: str | None) -> Pair:
    """The setting, or else the best one, and the baseline, or else the best of the others that differs from it."""
    order = [contest.place(name) for name in points.best_first(contest)]
    chosen = None if setting is None else contest.place(setting)
    base = analysis.procedure.baseline
    if base in contest.names:
        place = contest.place(str(base))
        return Pair(place, _other(contest, order, place) if chosen is None else chosen)
    place = order[0] if chosen is None else chosen
    return Pair(_other(contest, order, place), place)


def _other(contest: Contest, order: Sequence[int], place: int) -> int:
    """The first that is not the same on every query, or else the first."""
    values = contest.scores(contest.primary).values
    others = [one for one in order if one != place]
    differing = (one for one in others if not np.array_equal(values[one], values[place], equal_nan=True))
    return next(differing, others[0])


_OF_QUERIES = {"scatter": points.scatter, "distribution": points.distribution}
