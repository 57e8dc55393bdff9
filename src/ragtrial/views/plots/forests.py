"""Differences with their intervals, one below the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ragtrial.comparison.analysis import Analysis
from ragtrial.comparison.comparing import close_comparisons
from ragtrial.comparison.comparison_parts import ComparisonPart
from ragtrial.comparison.verdicts import percent
from ragtrial.errors import PlotError, listed
from ragtrial.views.effects_table import change_text
from ragtrial.views.plots.style import BETTER, NEUTRAL, PALE, WORSE, new_figure, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_ROWS = 40
_ROW = 0.165
"""Inches."""


@dataclass(frozen=True)
class Row:
    """A difference, or a heading where there is none; ``side`` is 1 for better, -1 for worse, 0 for cannot tell."""

    label: str
    difference: float | None = None
    ci: tuple[float, float] | None = None
    side: int = 0
    beside: str = ""
    """What is said at the right."""


def differences(analysis: Analysis) -> Figure:
    """Each setting against the baseline, or else the best one, with the verdict. Raises PlotError."""
    close = [part for part in close_comparisons(analysis) if part.difference is not None]
    if not close:
        raise PlotError("there is no plot of differences: no query counts for two settings.")
    procedure = analysis.procedure
    baseline = procedure.baseline
    if baseline is None:
        counts = [sum(part.baseline == one.baseline for part in close) for one in close]
        baseline = close[counts.index(max(counts))].baseline
    # A baseline that is no setting is a report, of which each setting is set against that of the same name.
    parts = [part for part in close if part.baseline == baseline or baseline not in analysis.settings]
    rows = [Row(part.setting, part.difference, part.ci, _claimed(part), _verdict(part)) for part in parts[:MOST_ROWS]]
    left_out = len(parts) - len(rows)
    label = f"difference in {analysis.primary_metric} from {shortened(baseline)},\n"
    label += f"{percent(procedure.confidence)} intervals, margin {procedure.margin:g}"
    if left_out:
        label += f"; {left_out:,} lower ones not shown"
    return _forest(rows, label, margin=procedure.margin)


def slices(analysis: Analysis, setting: str | None) -> Figure:
    """One setting against the baseline, by kind of query. Raises PlotError."""
    found = analysis.slices
    parts = [part for part in found.comparisons if part.difference is not None] if found else []
    if not found or not parts:
        raise PlotError("there is no plot of slices: these queries are not parted by tags, length or labels.")
    names = list(dict.fromkeys(part.setting for part in parts))
    differing = (part.setting for part in parts if part.difference)
    chosen = next(differing, names[0]) if setting is None else setting
    if chosen not in names:
        raise PlotError(f"slices do not compare {chosen!r}; they compare {parts[0].baseline} with {listed(names)}.")
    own = [part for part in parts if part.setting == chosen]
    rows: list[Row] = []
    for slicing in found.slicings:
        here = [part for part in own if part.slicing == slicing]
        rows += [Row(f"by {slicing}")] if here else []
        rows += [Row(f"{part.name} ({part.n:,})", part.difference, part.ci, _side(part.ci)) for part in here]
    whole = next(
        (one for one in close_comparisons(analysis) if (one.setting, one.baseline) == (chosen, own[0].baseline)), None
    )
    if whole is not None:
        rows += [Row(""), Row(f"all ({whole.n:,})", whole.difference, whole.ci, _claimed(whole))]
    label = f"difference in {found.metric}: {shortened(chosen)}\nless {shortened(own[0].baseline)}"
    return _forest(rows, label)


def effects(analysis: Analysis) -> Figure:
    """What each parameter of a sweep does, all else equal. Raises PlotError."""
    found = analysis.axes
    parts = [part for part in found.effects if part.difference is not None] if found else []
    if not found or not parts:
        why = "nothing was swept" if not found else "no two settings agree in all but one parameter"
        raise PlotError(f"there is no plot of effects: {why}.")
    rows: list[Row] = []
    for parameter in dict.fromkeys(part.levels.parameter for part in parts):
        rows.append(Row(parameter))
        here = [part for part in parts if part.levels.parameter == parameter]
        rows += [Row(change_text(part.levels), part.difference, part.ci, _side(part.ci)) for part in here]
    return _forest(rows[: 2 * MOST_ROWS], f"effect on {found.metric}, all else equal")


def _claimed(part: ComparisonPart) -> int:
    return 1 if part.verdict == "better" else -1 if (part.verdict or "").startswith("worse") else 0


def _side(ci: tuple[float, float] | None) -> int:
    return 0 if ci is None else int(ci[0] > 0) - int(ci[1] < 0)


def _verdict(part: ComparisonPart) -> str:
    short = {"worse within the margin": "worse, within margin", "too few differences": "cannot tell"}
    verdict = str(part.verdict or "")
    return short.get(verdict, verdict)


def _forest(rows: Sequence[Row], label: str, margin: float | None = None) -> Figure:
    figure = new_figure(0.62 + _ROW * len(rows))
    axes = figure.subplots()
    if margin:
        axes.axvspan(-margin, margin, color="#ededed", linewidth=0, zorder=0)
    axes.axvline(0, color="black", linewidth=0.7, zorder=1)
    for place, row in enumerate(rows):
        _draw(axes, place, row)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_yticks(range(len(rows)), [shortened(row.label) for row in rows])
    for tick, row in zip(axes.get_yticklabels(), rows, strict=True):
        tick.set_fontweight("bold" if row.difference is None else "normal")
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)
    figure.supxlabel(label, fontsize=7.5)  # it may be wider than the axes
    axes.locator_params(axis="x", nbins=5)
    for place, beside in _said(rows):
        axes.annotate(beside, (1.02, place), xycoords=("axes fraction", "data"), va="center", fontsize=7,
                      annotation_clip=False)  # fmt: skip
    return figure


def _draw(axes: Axes, place: int, row: Row) -> None:
    if row.difference is None:
        return
    ink = {1: BETTER, -1: WORSE, 0: NEUTRAL}[row.side]
    if row.ci is not None:
        axes.plot(row.ci, [place, place], color=ink, linewidth=1.3, solid_capstyle="butt", gid=f"interval-{place}")
    sign = {1: "^", -1: "v", 0: "o"}[row.side]
    face = ink if row.side else "white"
    axes.plot([row.difference], [place], sign, color=ink if row.ci else PALE, markerfacecolor=face, markersize=4.5,
              gid=f"difference-{place}")  # fmt: skip


def _said(rows: Sequence[Row]) -> Iterator[tuple[int, str]]:
    return ((place, row.beside) for place, row in enumerate(rows) if row.beside)
