"""A comparison as tables and lines for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from ragtrial.comparison.comparison_parts import Comparison, ComparisonPart
from ragtrial.views.table import counted

MOST_ROWS = 15
"""Of all pairs more are shown only on request."""


def heading(comparison: Comparison) -> str:
    """One line that says what was compared."""
    against = f"against {comparison.procedure.baseline}" if comparison.procedure.baseline else "all pairs"
    settings, queries = len(comparison.settings), comparison.queries
    noun = "query" if queries == 1 else "queries"
    return f"{counted(settings, 'setting')}, {queries:,} {noun}, {comparison.primary_metric}, {against}"


def verdict_table(comparison: Comparison, rows: Sequence[ComparisonPart]) -> list[list[str]]:
    """A header and one row per comparison, the largest difference first: means, interval, p, won queries, verdict.

    Where all have one baseline it is a row of its own, with its mean.
    """
    interval = f"{comparison.procedure.confidence:.0%} interval"
    shared = len({part.baseline for part in rows}) == 1
    numbers = ["mean", "difference", interval, "p", "won", "tied", "lost", "n", "verdict"]
    table = [["setting", *([] if shared else ["against"]), *numbers]]
    ordered = sorted(rows, key=lambda part: -(part.difference or 0.0))
    for part in ordered:
        names = [part.setting] if shared else [part.setting, part.baseline]
        table.append([*names, *_cells(part)])
    if shared:
        mean = _score(rows[0].mean_baseline) if len({part.mean_baseline for part in rows}) == 1 else ""
        place = 1 + sum((part.difference or 0.0) > 0 for part in ordered)
        table.insert(place, [rows[0].baseline, mean, *[""] * (len(numbers) - 2), "(baseline)"])
    return table


def shown(comparison: Comparison, metric: str, *, everything: bool) -> tuple[list[ComparisonPart], str]:
    """The comparisons by ``metric`` that a reader looks at first, and a line about those left out, or nothing.

    Of many pairs these are the ones with the best setting, which is the baseline of all of them.
    """
    rows = [part for part in comparison.comparisons if part.metric == metric]
    if everything or comparison.procedure.baseline or len(rows) <= MOST_ROWS:
        return rows, ""
    best = max(rows, key=lambda part: part.mean_baseline or 0.0).baseline
    line = f"All {len(rows):,} pairs were compared; shown are those with {best}, the highest mean. --all shows all."
    return [part for part in rows if part.baseline == best], line


def best_line(comparison: Comparison) -> str:
    """Which settings cannot be told from the best."""
    names = comparison.not_worse_than_best[comparison.primary_metric]
    if len(names) == len(comparison.settings):
        return f"No setting is shown to be worse than another by {comparison.primary_metric}, all pairs compared."
    if len(names) == 1:
        return f"The best by {comparison.primary_metric}, all pairs compared: {names[0]}."
    return f"Not to be told from the best by {comparison.primary_metric}, all pairs compared: {', '.join(names)}."


def descriptive_table(
    comparison: Comparison, metrics: Sequence[str], rows: Sequence[ComparisonPart]
) -> list[list[str]]:
    """A header and, for each pair in ``rows``, its differences by other metrics, about which nothing is claimed."""
    if not metrics:
        return []
    pairs = {(part.setting, part.baseline): part for part in rows}
    known = {(part.setting, part.baseline, part.metric): part for part in comparison.comparisons}
    shared = len({part.baseline for part in rows}) == 1
    table = [["differences, descriptive", *([] if shared else ["against"]), *metrics]]
    for setting, baseline in pairs:
        cells = [_signed(known[setting, baseline, metric].difference) for metric in metrics]
        table.append([setting, *([] if shared else [baseline]), *cells])
    return table


def _cells(part: ComparisonPart) -> list[str]:
    interval = "-" if part.ci is None else f"{part.ci[0]:+.4f} {part.ci[1]:+.4f}"
    return [
        _score(part.mean),
        _signed(part.difference),
        interval,
        "-" if part.p_corrected is None else _probability(part.p_corrected),
        f"{part.wins:,}",
        f"{part.ties:,}",
        f"{part.losses:,}",
        f"{part.n:,}",
        part.sentence,
    ]


def _score(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{value + 0.0:+.4f}"


def _probability(p: float) -> str:
    return f"{p:.4f}" if p < 0.1 else f"{p:.2f}"
