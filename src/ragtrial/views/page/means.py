"""The means of the page as tables, best first: at the cutoffs of metrics, and within the budget of tokens."""

from __future__ import annotations

import sys

from ragtrial.comparison.comparison_input import ComparisonInput
from ragtrial.evaluation.metrics import parse_metric
from ragtrial.views.report_tables import budget_table, usual_metrics
from ragtrial.views.sections.curves_view import best_first
from ragtrial.views.table import Table, mean_row, mean_table


def means_by_metric(contest: ComparisonInput) -> Table:
    """One row per setting, best first by the primary metric; the share of judged hits comes last."""
    report, settings = contest.report, [one.part for one in contest.settings]
    k = parse_metric(contest.primary).k
    wanted = [contest.primary, *usual_metrics(report), "judged" if k is None else f"judged@{k}"]
    metrics = [name for name in dict.fromkeys(wanted) if all(name in setting.scores for setting in settings)]
    best = map(contest.place, best_first(contest))
    rows = [mean_row(contest.names[place], [settings[place].scores[name] for name in metrics]) for place in best]
    return mean_table("setting", metrics, rows)


def means_by_budget(contest: ComparisonInput) -> Table:
    """The same for the first hits that fit into so many tokens; no row where not all have the same budget."""
    report = contest.report
    settings = [one.part.model_copy(update={"name": one.name}) for one in contest.settings]
    budgets = {setting.budget.tokens if setting.budget else None for setting in settings}
    is_whole = len(contest.queries) == len(report.queries)
    return budget_table(report, settings if is_whole and len(budgets) == 1 else [], sys.maxsize)


def column_texts(contest: ComparisonInput) -> dict[str, str]:
    """What metrics mean, by their names with and without cutoffs."""
    formulas = {name: part.formula for name, part in contest.report.metrics.items()}
    return {str(parse_metric(name).at(None)): formula for name, formula in formulas.items()} | formulas


def have_best(table: Table) -> dict[str, str]:
    """The columns of metrics that have a best mean: the highest, or the lowest."""
    return {column.title: column.best for column in table.columns if column.best}
