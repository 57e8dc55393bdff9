"""The result of a search: the winner, and all settings tried."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from ragtrial.comparison.number_text import mean_number
from ragtrial.errors import counted
from ragtrial.views.sections.base import AnalysisInput, PageSection, View, registered
from ragtrial.views.table import Table

if TYPE_CHECKING:
    from ragtrial.search.searched import SearchResult

_MOST_ROWS = 10
"""Rows of a table in the terminal, unless everything is asked for."""


class SearchView(View["SearchResult"]):
    """The search behind a report; nothing if all settings were in the config, or if several reports are compared."""

    name, order = "search", 5
    help = "Result of the search for the best setting."
    is_on_page = True

    def compute(self, given: AnalysisInput) -> SearchResult | None:
        from ragtrial.search.searched import load_result

        first = given.inputs.report
        return load_result(first) if len(given.inputs.report_names) == 1 else None

    def blocks(self, part: SearchResult | None, width: int, *, everything: bool) -> Iterator[str | Table]:
        if part is None:
            yield "\nNo search: all settings of this report were in its config."
            return
        yield from part.sentences
        yield from search_tables(part, everything=everything).values()
        yield f"\n{budget_line(part)}"

    def section(self, part: SearchResult) -> PageSection:
        tables = list(search_tables(part, everything=True).items())
        return PageSection("Search", tables, [*part.sentences, budget_line(part), *part.refused])


def search_tables(result: SearchResult, *, everything: bool = False) -> dict[str, Table]:
    """The tables by their captions; without ``everything`` only the first rows of long tables."""
    return {"Settings in the order of trying": _first(trial_table(result), everything=everything)}


def trial_table(result: SearchResult) -> Table:
    """One row per setting that was tried, in that order."""
    limited = list(result.trials[0].costs) if result.trials else []
    rows = []
    for trial in result.trials:
        means = [mean_number(mean, trial.queries) for mean in (trial.score, trial.best)]
        means += [mean_number(trial.held_out, result.held_out)] if result.held_out else []
        costs = ["-" if (cost := trial.costs.get(name)) is None else f"{cost:,.3g}" for name in limited]
        rows.append([trial.setting, str(trial.queries), *means, *costs, f"{trial.seconds:,.0f}"])
    held_out = ["held out"] if result.held_out else []
    return Table.of(["tried", "queries", "searched", "best so far", *held_out, *limited, "s"], rows)


def _first(table: Table, *, everything: bool) -> Table:
    if everything or len(table.rows) <= _MOST_ROWS:
        return table
    note = f"{counted(len(table.rows) - _MOST_ROWS, 'more row')}: ragtrial compare REPORT --search --full."
    return replace(table, rows=table.rows[:_MOST_ROWS], notes=[*table.notes, note])


def budget_line(result: SearchResult) -> str:
    """How many settings were tried, of how many, and why no others."""
    of = f" of {result.possible:,} possible" if result.possible else ""
    tried = f"{counted(result.settings, 'setting')}{of} tried by {result.method} search, seed {result.seed}"
    return f"{tried}: {result.ended}."


SEARCH = registered(SearchView())
