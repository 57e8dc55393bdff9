"""Each setting against the baseline, drawn; the tables of verdicts are in comparison_tables."""

from __future__ import annotations

from statistics import mode
from typing import TYPE_CHECKING, Any

from ragtrial.errors import PlotError
from ragtrial.views.plots.forests import MOST_ROWS, ForestRow, claimed, forest
from ragtrial.views.plots.style import shortened
from ragtrial.views.sections.base import PageSection, View, ViewInput, registered

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class DifferencesView(View[None]):
    """The differences with their intervals; the page and plots alone draw them."""

    name, order = "differences", 25

    def as_json(self, part: None) -> dict[str, Any]:
        return {}

    def page(self, given: ViewInput) -> PageSection | None:
        return PageSection("Differences") if given.analysis.comparisons else None


def difference_plot(given: ViewInput) -> Figure:
    """Each setting against the baseline, or else the best one, with the verdict. Raises PlotError."""
    from ragtrial.comparison.comparing import close_comparisons
    from ragtrial.comparison.number_text import percent

    analysis = given.analysis
    close = [part for part in close_comparisons(analysis) if part.difference is not None]
    if not close:
        raise PlotError("there is no plot of differences: no query counts for two settings.")
    procedure = analysis.procedure
    baseline = procedure.baseline or mode(part.baseline for part in close)
    # A baseline that is no setting is a report, of which each setting is set against that of the same name.
    parts = [part for part in close if part.baseline == baseline or baseline not in analysis.settings]
    rows = [
        ForestRow(part.setting, part.difference, part.ci, claimed(part), part.verdict or "")
        for part in parts[:MOST_ROWS]
        if part.difference is not None
    ]
    label = f"difference in {analysis.primary_metric} from {shortened(baseline)},\n"
    label += f"{percent(procedure.confidence)} intervals, margin {procedure.margin:g}"
    if len(parts) > MOST_ROWS:
        label += f"; {len(parts) - MOST_ROWS:,} lower ones not shown"
    return forest(rows, label, margin=procedure.margin)


DIFFERENCES = registered(DifferencesView(differences=difference_plot))
