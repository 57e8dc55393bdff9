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
        yield trial_table(part, None if everything else _MOST_ROWS)
        yield f"\n{budget_line(part)}"

    def section(self, part: SearchResult) -> PageSection:
        tables = [("Settings in the order of trying", trial_table(part))]
        return PageSection("Search", tables, [*part.sentences, budget_line(part), *part.refused])


def trial_table(result: SearchResult, most: int | None = None) -> Table:
    """One row for each of the first ``most`` settings that were tried, or for all; a note counts the others."""
    limited = list(result.trials[0].costs) if result.trials else []
    rows = []
    for trial in result.trials:
        means = [mean_number(mean, trial.queries) for mean in (trial.score, trial.best)]
        means += [mean_number(trial.held_out, result.held_out)] if result.held_out else []
        costs = ["-" if (cost := trial.costs.get(name)) is None else f"{cost:,.3g}" for name in limited]
        rows.append([trial.setting, str(trial.queries), *means, *costs, f"{trial.seconds:,.0f}"])
    held_out = ["held out"] if result.held_out else []
    table = Table.of(["tried", "questions", "searched", "best so far", *held_out, *limited, "s"], rows[:most])
    left_out = len(rows) - len(table.rows)
    note = f"{counted(left_out, 'more row')}: ragtrial compare REPORT --search --full."
    return replace(table, notes=[note] if left_out else [])


def budget_line(result: SearchResult) -> str:
    """How many settings were tried, of how many, and why no others."""
    of = f" of {result.possible:,} possible" if result.possible else ""
    tried = f"{counted(result.settings, 'setting')}{of} tried by {result.method} search, seed {result.seed}"
    return f"{tried}: {result.ended}."


SEARCH = registered(SearchView())
