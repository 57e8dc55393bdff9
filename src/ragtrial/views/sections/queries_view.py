"""Two settings query by query: which won, which lost, and which no setting can answer."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ragtrial.comparison.figures import signed
from ragtrial.errors import PlotError
from ragtrial.views.plots.style import BETTER, NEUTRAL, WORSE, new_figure, shortened
from ragtrial.views.sections.base import AnalysisInput, Plot, View, ViewInput, registered
from ragtrial.views.table import Table, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ragtrial.comparison.comparison_parts import Comparison
    from ragtrial.comparison.contest import ComparisonSet, Pair
    from ragtrial.comparison.queries.moves import QueryDifferences, SharedQueries

MOST_SHOWN = 10

_BINS = 12
"""On each side of 0."""


class QueriesPart(NamedTuple):
    """Between the two settings of the first row, and over all settings."""

    won_and_lost: QueryDifferences
    shared_queries: SharedQueries


class QueriesView(View[QueriesPart]):
    """Queries won and lost by the first row, and those that none can answer."""

    name, order = "queries", 60
    help = "Queries won and lost by the first row, and those that none can answer."

    def compute(self, given: AnalysisInput) -> QueriesPart:
        from ragtrial.comparison.queries.moves import query_differences, shared_queries

        return QueriesPart(query_differences(given.contest, given.pair), shared_queries(given.contest))

    def as_json(self, part: QueriesPart | None) -> dict[str, Any]:
        return {
            "won_and_lost": part.won_and_lost.model_dump(mode="json") if part else None,
            "shared_queries": part.shared_queries.model_dump(mode="json") if part else None,
        }

    def blocks(self, part: QueriesPart | None, width: int, *, everything: bool) -> Iterator[str | Table]:
        if part:
            yield "\n" + differences_line(part.won_and_lost)
            yield differences_table(part.won_and_lost, None if everything else MOST_SHOWN)
            yield "\n" + "\n".join(shared_lines(part.shared_queries))


def differences_line(found: QueryDifferences) -> str:
    """One line: how many queries a setting wins and loses."""
    counts = f"{found.won:,} won, {found.lost:,} lost, {found.tied:,} tied"
    left_out = f"; {found.not_counted:,} not counted" if found.not_counted else ""
    return f"{found.setting} against {found.baseline} by {found.metric}: {counts}{left_out}"


def differences_table(found: QueryDifferences, most: int | None = MOST_SHOWN) -> Table:
    """One row per query: the ``most`` largest losses, then the ``most`` largest gains, or all.

    Ties are left out, unless all are wanted.
    """
    lost = [query for query in found.queries if query.outcome == "lost"]
    won = [query for query in reversed(found.queries) if query.outcome == "won"]
    tied = [query for query in found.queries if query.outcome == "tied"]
    shown = [*lost[:most], *won[:most]] if most is not None else [*lost, *won, *tied]
    titles = ["query", found.baseline, found.setting, "difference", ""]
    rows = [
        [query.id, number(query.baseline), number(query.setting), signed(query.difference), _short(query.text, 60)]
        for query in shown
    ]
    return Table.of(titles, rows, texts=(0, -1), prose=-1)


def shared_lines(shared: SharedQueries, most: int = 5) -> list[str]:
    """The queries that all settings fail, and those that none separates, up to ``most`` of each by name."""
    lines = [f"Queries that fail with all settings ({shared.metric}): {shared.failed_count:,} of {shared.queries:,}"]
    lines += [f"  {query.id}  {_short(query.text)}".rstrip() for query in shared.failed[:most]]
    if shared.settings > 1:
        lines.append(f"Queries on which all settings score the same: {shared.equal_count:,} more")
        lines += [
            f"  {number(query.value)}  {query.id}  {_short(query.text)}".rstrip() for query in shared.equal[:most]
        ]
    return lines


def _short(text: str, width: int = 56) -> str:
    return textwrap.shorten(text, width, placeholder=" ...")


def scatter(found: QueryDifferences) -> Figure:
    """Each query: the baseline across, the setting up."""
    figure = new_figure(3.4)
    axes = figure.subplots()
    highest = max([1.0, *(max(one.baseline, one.setting) for one in found.queries)])
    axes.plot([0, highest], [0, highest], color=NEUTRAL, linewidth=0.7)
    signs = {"won": ("^", BETTER), "lost": ("v", WORSE), "tied": ("o", NEUTRAL)}
    for outcome, (sign, ink) in signs.items():
        own = [one for one in found.queries if one.outcome == outcome]
        face = "none" if outcome == "tied" else ink
        axes.plot([one.baseline for one in own], [one.setting for one in own], sign, color=ink, markerfacecolor=face,
                  markersize=4, alpha=0.75, gid=f"queries-{outcome}",
                  label=f"{len(own):,} {outcome}")  # fmt: skip
    axes.set_aspect("equal")
    axes.set_xlabel(f"{found.metric}, {shortened(found.baseline)}")
    axes.set_ylabel(f"{found.metric}, {shortened(found.setting)}")
    axes.legend(loc="lower right", handletextpad=0.2)
    return figure


def distribution(found: QueryDifferences) -> Figure:
    """How many queries differ by how much; ties are counted, and have no bar."""
    import numpy as np

    differences = np.array([one.difference for one in found.queries])
    reach = float(np.abs(differences).max(initial=0.0)) or 1.0
    edges = np.linspace(0.0, reach, _BINS + 1)
    figure = new_figure(2.4)
    axes = figure.subplots()
    # Sides are counted apart, so that no bar holds both; a value on an edge belongs to the bin nearer to 0.
    looks: dict[tuple[str, int], dict[str, Any]] = {
        ("won", 1): {"color": BETTER, "edgecolor": "white"},
        ("lost", -1): {"color": "white", "edgecolor": WORSE, "hatch": "////"},
    }
    for (outcome, sign), look in looks.items():
        sizes = sign * differences[sign * differences > 0]
        counts = np.bincount(np.clip(np.searchsorted(edges, sizes) - 1, 0, _BINS - 1), minlength=_BINS)
        for place in np.flatnonzero(counts).tolist():
            axes.bar(sign * edges[place], counts[place], width=sign * reach / _BINS, align="edge", linewidth=0.5,
                     gid=f"{outcome}-{place}", **look)  # fmt: skip
    axes.axvline(0, color="black", linewidth=0.7)
    axes.set_xlim(-1.04 * reach, 1.04 * reach)
    axes.yaxis.get_major_locator().set_params(integer=True)  # type: ignore[call-arg]
    axes.grid(visible=False, axis="x")
    axes.set_ylabel("queries")
    axes.set_xlabel(f"difference in {found.metric}: {shortened(found.setting)}\nless {shortened(found.baseline)}")
    axes.set_title(f"{found.lost:,} lost", loc="left", fontsize=7, color=WORSE)
    axes.set_title(f"{found.tied:,} tied", loc="center", fontsize=7, color=NEUTRAL)
    axes.set_title(f"{found.won:,} won", loc="right", fontsize=7, color=BETTER)
    return figure


def _plot_of(name: str, shape: Callable[[QueryDifferences], Figure]) -> Plot:
    """A plot of the queries of two settings. It raises PlotError where there are no two, or no query."""

    def draw(given: ViewInput) -> Figure:
        from ragtrial.comparison.queries.moves import query_differences

        contest = given.contest
        pair = _pair(contest, given.analysis, given.setting)
        if pair.baseline == pair.setting:
            shown = contest.names[pair.setting]
            raise PlotError(f"{name} would show {shown!r} against itself; choose another --setting.")
        found = query_differences(contest, pair)
        if not found.queries:
            raise PlotError(f"there is no plot {name}: no query counts for {found.baseline} and {found.setting}.")
        return shape(found)

    return Plot(draw, shows_one_setting=True)


def _pair(contest: ComparisonSet, analysis: Comparison, setting: str | None) -> Pair:
    """The setting, or else the best one, and the baseline, or else the best of the others."""
    from ragtrial.comparison.contest import Pair

    order = [contest.place(name) for name in best_first(contest)]
    chosen = None if setting is None else contest.place(setting)
    if analysis.procedure.baseline in contest.names:
        base = contest.place(str(analysis.procedure.baseline))
        return Pair(base, next(one for one in order if one != base) if chosen is None else chosen)
    chosen = order[0] if chosen is None else chosen
    return Pair(next(one for one in order if one != chosen), chosen)


def best_first(contest: ComparisonSet) -> Sequence[str]:
    """Names by the mean of the primary metric."""
    import numpy as np

    values = contest.scores(contest.primary).values
    known = ~np.isnan(values)
    means = np.where(known, values, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    return [contest.names[place] for place in np.argsort(-means, kind="stable").tolist()]


QUERIES = registered(
    QueriesView(scatter=_plot_of("scatter", scatter), distribution=_plot_of("distribution", distribution))
)
