"""The page of the history of an experiment: its state, a plot of each setting over time, and its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragtrial.comparison.history import HistoryPart, HistoryRunPart, PointPart
from ragtrial.comparison.number_text import mean_number, percent, signed, signed_interval
from ragtrial.errors import counted
from ragtrial.views.page.html_page import asset, content_policy, template
from ragtrial.views.page.verdict import Axis, axis_over

MOST_PLOTS = 12
"""The settings of the newest run that have a plot, best mean first."""

_TICKS = 5


@dataclass(frozen=True)
class LinePlot:
    """A setting over time: each run that has a mean of it, with its number among all runs."""

    setting: str
    axis: Axis
    points: Sequence[tuple[int, HistoryRunPart, PointPart]]

    def height(self, value: float) -> str:
        """The place of a mean, in per cent from the top."""
        return f"{100 * (self.axis.high - value) / (self.axis.high - self.axis.low):.1f}%"

    @property
    def levels(self) -> list[tuple[int, int, float]]:
        """The first and the last run that are compared with an accepted run, and its mean."""
        levels: list[tuple[int, int, float]] = []
        for number, _, point in self.points:
            if levels and point.accepted:
                levels[-1] = (levels[-1][0], number, levels[-1][2])
            if point.accepted is None or point.step:
                levels.append((number, number, point.mean or 0.0))
        return levels


def history_page(history: HistoryPart, pages: Mapping[str, str]) -> bytes:
    """The bytes of the page; ``pages`` has the address of the page of each run that has one."""
    style, runs = asset("assets/page.css") + asset("assets/history.css"), history.runs
    newest = best_first(history)
    page = template("history.html").render(
        history=history,
        policy=content_policy(style),
        style=style,
        pages=pages,
        plots=[line_plot(history, point.setting) for point in newest[:MOST_PLOTS]],
        left_out=len(newest) - MOST_PLOTS,
        across=[f"{100 * (number + 0.5) / len(runs):.2f}%" for number in range(len(runs))],
        level=percent(history.confidence),
        risk=percent(round(1 - history.confidence, 12)),
        count=counted(len(runs), "run"),
        words=point_words,
    )
    return page.encode()


def best_first(history: HistoryPart) -> list[PointPart]:
    """The settings of the newest run, best mean first; settings without one last."""
    sign = 1 if history.better == "higher" else -1
    return sorted(history.runs[-1].points, key=lambda point: (point.mean is None, -sign * (point.mean or 0.0)))


def line_plot(history: HistoryPart, setting: str) -> LinePlot:
    points = [
        (number, run, point)
        for number, run in enumerate(history.runs)
        for point in run.points
        if point.setting == setting and point.mean is not None
    ]
    means = [point.mean for _, _, point in points if point.mean is not None]
    ends = [(point.accepted_mean or 0.0) + end for _, _, point in points for end in point.ci or ()]
    return LinePlot(setting, axis_over([*means, *ends] or [0.0, 1.0], _TICKS, has_zero=False), points)


def point_words(point: PointPart) -> str:
    """A run of a setting in words: ``0.612, -0.021 (-0.050 to +0.008) from run ...: no step``."""
    mean = "no score" if point.mean is None else mean_number(point.mean, point.n)
    if point.accepted is None:
        return f"{mean}, the first run of this line"
    interval = f" ({signed_interval(point.ci, point.n, ' to ')})" if point.ci else ""
    step = f"a step, {point.step}" if point.step else "no step"
    return f"{mean}, {signed(point.difference, point.n)}{interval} from run {point.accepted}: {step}"
