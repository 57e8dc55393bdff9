"""Runs that were scored, as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ragtrial.evaluation.bounds import Bounds
from ragtrial.records import Mean
from ragtrial.scoring.score_runs import RunScores, Scoring


def run_table(scoring: Scoring) -> list[list[str]]:
    """A header and one row per run, and the best that any run could have; n stands beside the means it belongs to.

    ``n`` is the number of queries behind the first mean; a mean over another number shows its own in brackets.
    """
    names = [str(metric) for metric in scoring.protocol.metrics]
    rows = [["run", *names, "n"]]
    rows += [[run.name, *_cells(run.scores, names), f"{run.scores[names[0]].n:,}"] for run in scoring.runs]
    best = scoring.attainable
    if any(one is not None and one.mean not in (None, 1.0) for one in best.values()):
        cells = ["-" if mean is None else _number(mean.mean) for mean in (best[name] for name in names)]
        rows.append(["(best possible)", *cells, ""])
    return rows


def metric_rows(scoring: Scoring) -> list[list[str]]:
    """A header and one row per metric, with a column per run, the best that is possible, and n."""
    rows = [["metric", *(run.name for run in scoring.runs), "best possible", "n"]]
    for metric in map(str, scoring.protocol.metrics):
        means = [run.scores[metric] for run in scoring.runs]
        best = scoring.attainable[metric]
        cells = [_number(mean.mean) + (f" ({mean.n})" if mean.n != means[0].n else "") for mean in means]
        rows.append([metric, *cells, _number(best.mean) if best else "-", f"{means[0].n:,}"])
    return rows


def range_table(run: RunScores, ranges: Mapping[str, Bounds | None], title: str) -> list[list[str]]:
    """A header and one row per metric: its mean, and the lowest and the highest it could be."""
    rows = [[f"{run.name}: {title}", "lowest", "mean", "highest"]]
    for metric, values in ranges.items():
        mean = _number(run.scores[metric].mean)
        low, high = map(_number, run.mean_range(metric, values)) if values else ("not defined", "not defined")
        rows.append([metric, low, mean, high])
    return rows


def reason_lines(run: RunScores) -> list[str]:
    """For each metric without bounds, why."""
    return [f"{metric}: not defined: {reason.rstrip('.')}." for metric, reason in run.unbounded.items()]


def time_line(run: RunScores) -> str:
    """One line that says what was read, and where the time went."""
    parts = ", ".join(f"{stage} {seconds:.2f}" for stage, seconds in run.seconds.items())
    return f"{run.name}: {run.counts.rows:,} rows in {sum(run.seconds.values()):.2f} s ({parts})"


def _cells(scores: Mapping[str, Mean], names: Sequence[str]) -> list[str]:
    n = scores[names[0]].n
    return [_number(scores[name].mean) + (f" ({scores[name].n})" if scores[name].n != n else "") for name in names]


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value == int(value) and abs(value) > 1 else f"{value:.4f}"
