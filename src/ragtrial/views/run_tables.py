"""Runs that were scored, as tables."""

from __future__ import annotations

from ragtrial.records import Mean
from ragtrial.scoring.score_runs import RunScores, Scoring
from ragtrial.views.table import Table


def run_table(scoring: Scoring, width: int) -> Table:
    """One row per run, and the best that any run could have; if that is wider than ``width``, one row per metric.

    ``n`` is the number of queries behind the first mean; a mean over another number shows its own in brackets.
    """
    names, runs = [str(metric) for metric in scoring.protocol.metrics], scoring.runs
    best = [scoring.attainable[name] for name in names if scoring.attainable]
    possible = [_number(mean.mean) for mean in best] or ["-"] * len(names)
    rows = []
    for run in runs:
        n = run.scores[names[0]].n
        rows.append([run.name, *(_mean(run.scores[name], n) for name in names), f"{n:,}"])
    if any(mean.mean not in (None, 1.0) for mean in best):
        rows.append(["(best possible)", *possible, ""])
    table = Table.of(["run", *names, "n"], rows)
    if table.width <= width:
        return table
    rows = []
    for name, most in zip(names, possible, strict=True):
        n = runs[0].scores[name].n
        rows.append([name, *(_mean(run.scores[name], n) for run in runs), most, f"{n:,}"])
    return Table.of(["metric", *(run.name for run in runs), "best possible", "n"], rows)


def tie_table(run: RunScores) -> Table:
    """One row per metric: its mean, and the lowest and the highest it could be in another order of equal scores."""
    rows = []
    for metric, values in run.tie_ranges.items():
        low, high = map(_number, run.mean_range(metric, values)) if values else ("not defined", "not defined")
        rows.append([metric, low, _number(run.scores[metric].mean), high])
    return Table.of([f"{run.name}: equal scores", "lowest", "mean", "highest"], rows)


def time_line(run: RunScores) -> str:
    """One line with the rows that were read, and the time of each stage."""
    parts = ", ".join(f"{stage} {seconds:.2f}" for stage, seconds in run.seconds.items())
    return f"{run.name}: {run.counts.rows:,} rows in {sum(run.seconds.values()):.2f} s ({parts})"


def _mean(mean: Mean, n: int) -> str:
    return _number(mean.mean) + (f" ({mean.n})" if mean.n != n else "")


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value == int(value) and abs(value) > 1 else f"{value:,.4f}"
