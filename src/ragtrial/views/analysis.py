"""A comparison with the parts that views add, and their plots."""

from __future__ import annotations

import io
import warnings
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from ragtrial.comparison.comparing import ComparisonOptions, compare_settings
from ragtrial.comparison.comparison_input import ComparisonInput
from ragtrial.comparison.comparison_parts import Comparison
from ragtrial.errors import PlotError, did_you_mean
from ragtrial.report.schema import WarningPart
from ragtrial.views.sections import VIEWS, View, all_views, plot_names
from ragtrial.views.sections.base import AnalysisInput, ViewInput
from ragtrial.views.sections.plots import styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Analysis(Comparison):
    """A comparison with the parts that views add; as JSON, one document with all parts."""

    found: dict[str, Any] = Field(exclude=True)
    """The parts by the name of their view; None if a view has nothing. Views that were not asked for are absent."""

    @model_serializer(mode="wrap")
    def _with_all_parts(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        parts: dict[str, Any] = handler(self)
        for view in all_views():
            parts |= view.as_json(self.found.get(view.name))
        return parts

    @property
    def all_warnings(self) -> list[WarningPart]:
        """The warnings of the comparison, then the warnings of its views."""
        parts = [(view, view.of(self)) for view in all_views()]
        of_views = (view.warnings(part) for view, part in parts if part is not None)
        return [*self.warnings, *chain.from_iterable(of_views)]


def analyse(inputs: ComparisonInput, options: ComparisonOptions, **views: bool) -> Analysis:
    """The comparison, the views that are always computed, and the ``views`` that are asked for, as ``slices=True``.

    Raises ComparisonError if the baseline is missing, KeyError for an unknown view.
    """
    chosen = {VIEWS[name].name for name, is_asked in views.items() if is_asked}
    comparison = compare_settings(inputs, replace(options, shows_axes="axes" in chosen))
    given = AnalysisInput(inputs, options, comparison, chosen)
    found = {view.name: view.compute(given) for view in all_views() if view.is_always_computed or view.name in chosen}
    return Analysis(**dict(comparison), found=found)


_FORMATS = (".svg", ".png")
_METADATA: dict[str, dict[str, str | None]] = {"svg": {"Date": None}, "png": {"Software": None}}
"""Nothing that changes from one day or one installation to the next."""


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


def draw(name: str, inputs: ComparisonInput, analysis: Analysis) -> Figure:
    """The plot called ``name``; ``analysis`` must have the part of its view.

    Raises PlotError if the reports have no data for it, or matplotlib is not installed.
    """
    with styled():
        return view_of(name).plots[name](ViewInput(inputs, analysis))


def image(figure: Figure, output: str) -> bytes:
    """The file: the same bytes for the same figure."""
    kind = Path(output).suffix.lower().removeprefix(".")
    file = io.BytesIO()
    with styled(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # signs that the font lacks become boxes in png, and stay in svg
        figure.savefig(file, format=kind, metadata=_METADATA[kind])
    return file.getvalue()
