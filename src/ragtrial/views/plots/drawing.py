"""From a plot's name to the bytes of its file."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragtrial.errors import PlotError, did_you_mean
from ragtrial.views.plots.style import styled
from ragtrial.views.sections import View, all_views
from ragtrial.views.sections.base import ViewInput

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ragtrial.comparison.comparison_input import ComparisonInput
    from ragtrial.views.analysis import Analysis

_FORMATS = (".svg", ".png")
_METADATA: dict[str, dict[str, str | None]] = {"svg": {"Date": None}, "png": {"Software": None}}
"""Nothing that changes from one day or one installation to the next."""


def plot_names() -> list[str]:
    """The plots of all views."""
    return [name for view in all_views() for name in view.plots]


def view_of(name: str) -> View[Any]:
    """The view that has the plot called ``name``. Raises PlotError if none has it."""
    for view in all_views():
        if name in view.plots:
            return view
    known = plot_names()
    raise PlotError(f"unknown plot {name!r}.{did_you_mean(name, known)} Plots: {', '.join(known)}.")


def check_plot(name: str, output: str) -> None:
    """Nothing; raises PlotError for a plot that there is not, and for a file that is neither svg nor png."""
    view_of(name)
    if Path(output).suffix.lower() not in _FORMATS:
        raise PlotError(f"{output}: a plot is written as .svg or .png; name such a file.")


def draw(name: str, contest: ComparisonInput, analysis: Analysis) -> Figure:
    """The plot called ``name``; ``analysis`` must have what its view computes.

    Raises PlotError where the reports have no data for it, and where matplotlib is not installed.
    """
    with styled():
        return view_of(name).plots[name](ViewInput(contest, analysis))


def image(figure: Figure, output: str) -> bytes:
    """The file: the same bytes for the same figure."""
    kind = Path(output).suffix.lower().removeprefix(".")
    made = io.BytesIO()
    with styled(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # signs that the font lacks become boxes in png, and stay in svg
        figure.savefig(made, format=kind, metadata=_METADATA[kind])
    return made.getvalue()
