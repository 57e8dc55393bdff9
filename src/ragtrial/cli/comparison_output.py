"""What `ragtrial compare` says in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from ragtrial.cli.terminal import Terminal, visible
from ragtrial.comparison.analysis import Analysis, Wanted
from ragtrial.comparison.comparing import close_comparisons
from ragtrial.records import Caution
from ragtrial.report.schema import WarningPart
from ragtrial.views import comparison_tables as view
from ragtrial.views import (
    effects_table as effects,
)
from ragtrial.views import (
    query_moves as moves,
)
from ragtrial.views import (
    slices_table as slices,
)
from ragtrial.views import (
    tradeoffs_table as tradeoffs,
)


def say_analysis(
    terminal: Terminal, made: Analysis, wanted: Wanted, *, everything: bool, every_metric: bool = False
) -> None:
    """The verdicts first, then what was asked for beside them, and warnings on stderr.

    ``every_metric``: all that were compared are shown, however wide that is.
    """
    if made.query is not None:
        terminal.say(moves.side_text(made.query, terminal.width))
        _warn(terminal, made.warnings)
        return
    rows = close_comparisons(made, everything=everything)
    terminal.say(visible(view.heading(made)) + "\n")
    table, about_columns = view.fitted_verdicts(made, rows, terminal.width)
    terminal.table(table, texts=(0, len(table[0]) - 1))
    terminal.say()
    lines = [view.left_out_line(made, rows), view.best_line(made)]
    lines += view.looked_into_lines(made)
    for line in filter(None, [*lines, *about_columns, made.procedure.sentence]):
        terminal.say(visible(line))
    others = [name for name in made.metrics if name != made.primary_metric]
    differences, lacking = view.fitted_differences(made, others, rows, terminal.width)
    if every_metric:
        differences, lacking = view.descriptive_table(made, others, rows), []
    terminal.table(differences, after="\n")
    for line in lacking:
        terminal.say(line)
    if wanted.unjudged:
        terminal.table(moves.unjudged_table(made.unjudged), texts=(0, 1), after="\n")
        for line in moves.unjudged_reasons(made.unjudged):
            terminal.say(line)
    _say_sections(terminal, made, everything=everything)
    if wanted.axes and made.axes is None:
        terminal.say("\nNo axes: these settings are no sweep over the values of a parameter.")
    warnings = [
        *made.warnings,
        *(made.slices.warnings if made.slices else ()),
        *(made.costs.warnings if made.costs else ()),
    ]
    _warn(terminal, warnings)


def _warn(terminal: Terminal, warnings: Sequence[WarningPart]) -> None:
    terminal.warn([Caution(warning.code, warning.message) for warning in warnings])


def _say_sections(terminal: Terminal, made: Analysis, *, everything: bool) -> None:
    if made.slices is not None:
        terminal.say("\n" + slices.slice_heading(made.slices))
        terminal.table(slices.slice_overview(made.slices, terminal.width))
    if made.axes is not None:
        terminal.table(effects.effect_table(made.axes, everything=everything), after="\n")
        terminal.table(effects.interaction_table(made.axes, everything=everything), after="\n")
        terminal.say(effects.left_out_line(made.axes, everything=everything))
    if made.costs is not None:
        terminal.table(tradeoffs.tradeoff_table(made.costs), after="\n")
    if made.won_and_lost is not None and made.shared_queries is not None:
        terminal.say("\n" + moves.differences_line(made.won_and_lost))
        terminal.table(moves.differences_table(made.won_and_lost, None if everything else 10), texts=(0, 4))
        terminal.say("\n" + "\n".join(moves.shared_lines(made.shared_queries)))
