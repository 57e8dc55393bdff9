"""A report as tables and lines: its scores, its costs, and the losses of its indexes."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ragtrial.comparison.gates import known_metric
from ragtrial.comparison.number_text import mean_number, number, signed, signed_interval
from ragtrial.comparison.report_inputs import query_fingerprint, references_to
from ragtrial.errors import ReportError, counted
from ragtrial.evaluation.metrics import METRICS, metric_called
from ragtrial.evaluation.metrics.spelling import spellings
from ragtrial.evaluation.separation import FEWEST_CLUSTERS
from ragtrial.report.find import list_reports
from ragtrial.report.model import Report
from ragtrial.report.schema import SettingPart
from ragtrial.views.table import Column, Table, mean_row, mean_table, mean_text, money

_FEWEST_FOR_P99 = 100
"""With fewer queries the 99th percentile is the slowest query."""

_MOST_METRICS = 6


def show_command(report: Report, *options: str) -> str:
    """The command that shows ``report``; the latest report in results/ needs no name."""
    latest = list_reports(Path("results"))[-1:]
    names = [name for name in references_to(report) if not latest or not latest[0].samefile(name)]
    return shlex.join(["ragtrial", "show", *names, *options])


def header_line(report: Report, tag: str | None = None) -> str:
    """One line that names the run and counts its scored questions; with a ``tag``, the questions that have it."""
    settings, data = counted(len(report.settings), "setting"), report.dataset
    documents = "" if data.documents is None else f" on {counted(data.documents, 'document')}"
    questions, _, scored = report.scored_queries().sentence.partition(" (")
    tagged = "" if tag is None else f" with the tag {tag}"
    questions += tagged + (f" ({scored}" if scored else "")
    again = "" if report.parent is None else f", the rankings of run {report.parent} scored again"
    return f"{report.experiment}: {settings}{documents}, {questions}, run {report.run_id}{again}"


def scores_json(report: Report) -> list[dict[str, Any]]:
    """The means of each setting, best first, as `--json` has them."""
    return [
        {
            "name": setting.name,
            "scores": {name: vars(mean) for name, mean in setting.scores.items()},
            **({"separation": setting.separation.model_dump(mode="json")} if setting.separation else {}),
        }
        for setting in report.ranked_settings()
    ]


def score_table(
    report: Report, width: int, settings: Sequence[SettingPart] | None = None, metrics: Sequence[str] | None = None,
    verdicts: Mapping[str, str] | None = None,
) -> Table:  # fmt: skip
    """One row per setting, best first by the primary metric: ``metrics``, or as many usual metrics as fit ``width``.

    The second column has the ``verdicts`` of the settings, if there are any. ``n``, the number of queries behind the
    first mean, is there if means are over different numbers; a mean over another number has its own in brackets.
    """
    names = usual_metrics(report) if metrics is None else metrics
    chosen = report.ranked_settings() if settings is None else settings
    rows = [mean_row(setting.name, [setting.scores[name] for name in names]) for setting in chosen]
    table = mean_table("setting", names, rows)
    if len({setting.scores[name].n for setting in chosen for name in names}) == 1:
        table = table.without("n")
    if verdicts:
        rows = [[*row[:2], verdicts.get(row[0], ""), *row[2:]] for row in table.rows]
        columns = [*table.columns[:2], Column("verdict", is_text=True), *table.columns[2:]]
        table = replace(table, columns=columns, rows=rows)
    return table.fitted(width, show_command(report, "--metrics", "all")) if metrics is None else table


def budget_table(report: Report, settings: Sequence[SettingPart], width: int) -> Table:
    """One row per setting, best first: its scores at equal context; no row without a budget.

    Best by the primary metric, or by the first metric that does not divide by its cutoff. ``hits`` is the mean number
    of hits that fit into the budget.
    """
    known = [(setting, setting.budget) for setting in settings if setting.budget]
    if not known:
        return Table((), ())
    chosen = [str(metric_called(name).at(None)) for name in usual_metrics(report)]
    names = [name for name in dict.fromkeys(chosen) if name in known[0][1].scores] or list(known[0][1].scores)
    known.sort(key=lambda pair: -(pair[1].scores[names[0]].mean or 0.0))
    rows = [
        [setting.name, *(mean_number(mean.mean, mean.n) for mean in map(budget.scores.__getitem__, names)),
         f"{budget.hits:.1f}"]
        for setting, budget in known
    ]  # fmt: skip
    table = mean_table(f"within {known[0][1].tokens:,} tokens", names, rows)
    hits = replace(table.columns[-1], title="hits")
    return replace(replace(table, columns=[*table.columns[:-1], hits]).fitted(width, ""), notes=())


def context_table(settings: Sequence[SettingPart]) -> Table:
    """One row per setting: the mean size of the first k hits, in tokens or else in characters."""
    known = [setting for setting in settings if setting.context]
    cutoffs = sorted({size.k for setting in known for size in setting.context})
    unit = _context_unit(known)
    rows = []
    for setting in known:
        sizes = {size.k: getattr(size, unit) for size in setting.context}
        rows.append([setting.name, *(number(sizes.get(k), 0) for k in cutoffs)])
    return Table.of([f"context in {unit}", *(f"@{k}" for k in cutoffs)], rows)


_PAID = {"embedding_cost": "embed cost", "query_cost": "1,000 q"}


def cost_table(settings: Sequence[SettingPart]) -> Table:
    """One row per setting: its costs; no row if nothing was measured, and no column that is known of no setting.

    The mean size of its whole ranking in tokens, or in characters if tokens are not known; milliseconds per query;
    seconds to embed its texts and to build its index, megabytes of the index, and bytes per vector where they differ.
    If endpoints are paid, the cost of embedding its texts, and of a thousand queries.
    """
    depths = {max(size.k for size in one.context) for one in settings if one.context}
    unit = _context_unit(settings) + (f"@{max(depths)}" if len(depths) == 1 else "")
    timed = [setting.latency.n for setting in settings if setting.latency]
    last = "slowest" if max(timed, default=0) < _FEWEST_FOR_P99 else "p99"
    vectors = [setting.costs.vector_bytes if setting.costs else None for setting in settings]
    per_vector = ["B/vector"] if len({*vectors} - {None}) > 1 else []  # equal numbers would not help to choose
    rows = []
    for setting, vector in zip(settings, vectors, strict=True):
        latency, costs = setting.latency, setting.costs
        times = [latency.p50, latency.p95, latency.p99] if latency else [None] * 3
        made = [costs.embedding_seconds, costs.indexing_seconds] if costs else [None] * 2
        size = costs.index_bytes / 1e6 if costs and costs.index_bytes is not None else None
        whole = max(setting.context, key=lambda one: one.k, default=None)
        read = None if whole is None else getattr(whole, unit.partition("@")[0])
        shown = [number(None if time is None else time * 1000, 1) for time in times]
        own = [money(getattr(costs, name, None)) for name in _PAID]
        own = [number(vector, 0), *own] if per_vector else own
        rows.append([setting.name, number(read, 0), *shown, *(number(one, 1) for one in (*made, size)), *own])
    rows = rows if any(setting.costs or setting.latency for setting in settings) else []
    is_embedded = any(setting.costs and setting.costs.embedding_seconds for setting in settings)
    notes = ["embed s: of the model alone; the line `embeddings` of a run has loading it and writing vectors, too."]
    titles = ["costs", unit, "ms p50", "p95", last, "embed s", "index s", "index MB", *per_vector, *_PAID.values()]
    return replace(Table.of(titles, rows).known(), notes=notes if is_embedded else [])


def _context_unit(settings: Sequence[SettingPart]) -> str:
    """Tokens, if they are known of all that have a context."""
    in_tokens = all(size.tokens is not None for setting in settings for size in setting.context)
    return "tokens" if in_tokens else "characters"


def audit_table(report: Report, settings: Sequence[SettingPart]) -> Table:
    """One row per setting with an index that is not exact; none if no index misses anything.

    Changes are the effect of the index on the primary metric: below 0, it loses. The last column, if any query is
    short, counts queries with fewer hits than exact search finds.
    """
    audits = [setting.audit for setting in settings if setting.audit]
    if all(audit.lowest_overlap == 1 and not audit.short_queries for audit in audits):
        return Table((), ())
    rows = []
    some_are_short = any(setting.audit and setting.audit.short_queries for setting in settings)
    for setting in settings:
        if setting.audit:
            lost = setting.audit.lost[report.primary_metric]
            shares = (setting.audit.overlap, setting.audit.lowest_overlap)
            change = signed(None if lost is None else -lost, setting.scores[report.primary_metric].n)
            short = [f"{setting.audit.short_queries:,}"] if some_are_short else []
            rows.append([setting.name, *map(number, shares), change, *short])
    columns = ["index against exact search", "ANN recall", "lowest", "change", *(["short"] if some_are_short else [])]
    note = f"lowest: of one question; change: of {report.primary_metric}, below 0 the index loses."
    return replace(Table.of(columns, rows), notes=[note])


def separation_tables(report: Report, settings: Sequence[SettingPart]) -> list[Table]:
    """Separation of unanswerable questions, and the best threshold for abstaining: one row per setting that has them.

    None without enough unanswerable questions.
    """
    known = [(setting.name, setting.separation) for setting in settings if setting.separation]
    if not known:
        return []
    areas, costs = list[list[str]](), list[list[str]]()
    for name, part in known:
        n = min(part.answerable, part.unanswerable)
        areas.append([name, mean_number(part.area, n), signed(part.difference, n), signed_interval(part.ci, n, " to ")])
        shares = [f"{share:.0%}" for share in (part.false_answers, part.false_refusals, part.coverage)]
        costs.append([name, number(part.threshold), *shares])
    first, others = known[0][1], {part.against for _, part in known if part.against}
    notes = [f"{counted(first.unanswerable, 'unanswerable question')}, {first.answerable:,} answerable with labels."]
    notes += [f"Difference: from the separation by {other}, the best by {report.primary_metric}." for other in others]
    if first.clusters is not None and first.clusters < FEWEST_CLUSTERS:
        questions = f"the questions of one kind are in {counted(first.clusters, 'cluster')}"
        notes.append(f"No interval: {questions}, fewer than {FEWEST_CLUSTERS}. Other questions may be quite different.")
    areas_table = Table.of(["unanswerable", "separation", "difference", "95% interval"], areas)
    costs_table = Table.of(["abstaining", "threshold", "false answers", "false refusals", "answered"], costs)
    in_use = f"Thresholds for {first.share:.0%} unanswerable questions in use; no question is decided by its own score."
    return [replace(areas_table, notes=notes), replace(costs_table, notes=[in_use])]


def metric_table(report: Report, settings: Sequence[SettingPart]) -> Table:
    """One row per metric, with a column per setting, and n; a mean over fewer has its own in brackets."""
    rows = []
    for name in report.metrics:
        means = [setting.scores[name] for setting in settings]
        n = max(mean.n for mean in means)
        rows.append([name, *(mean_text(mean, n) for mean in means), f"{n:,}"])
    return Table.of(["metric", *(setting.name for setting in settings), "n"], rows)


def named_metrics(report: Report, text: str) -> list[str]:
    """The metrics of ``report`` that a list like ``ndcg@10,MRR@10`` names. Raises ReportError, MetricError."""
    if names := [known_metric(part, list(report.metrics)) for part in spellings(text)]:
        return names
    raise ReportError(f"{text!r} names no metric. Run {report.run_id} has: {', '.join(report.metrics)}.")


def fact_table(setting: SettingPart) -> Table:
    """One row for each thing that the setting's retriever or refiner reports of its work."""
    rows = [[name, _fact(value)] for name, value in setting.facts.items() if value is not None]
    return Table.of([f"{setting.name} reports", ""], rows)


def _fact(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:,.2f}".rstrip("0").rstrip(".")


def lowest_queries(report: Report, setting: SettingPart, width: int, most: int = 5) -> str:
    """The queries for which a setting scored worst: where to look first. Empty without a score."""
    texts = {query.id: query.text for query in report.queries}
    scored = zip(setting.per_query.evaluations[report.primary_metric], texts, strict=True)
    sign = report.sign(report.primary_metric)
    lowest = sorted((sign * value, name) for value, name in scored if value is not None)[:most]
    worst = "lowest" if sign > 0 else "highest"
    lines = [f"{worst} {report.primary_metric} of {setting.name} ({show_command(report, '--query', 'ID')}):"]
    longest = max((len(name) for _, name in lowest), default=0)
    for value, name in lowest:
        line = f"  {name.ljust(longest)}  {sign * value:,.4f}  {' '.join(texts[name].split())}".rstrip()
        lines.append(line if len(line) <= width else line[: width - 3] + "...")
    return "\n".join(lines) if lowest else ""


def usual_metrics(report: Report) -> list[str]:
    """The primary metric, then each usual one at its cutoff or the nearest below; six, the share of labelled hits last.

    Under unit: span text without a label is not judged, so its share is left out. A table has its own metrics.
    """
    if not report.has_rankings:
        return list(dict.fromkeys([report.primary_metric, *report.metrics]))[:_MOST_METRICS]
    cutoff = metric_called(report.primary_metric).k or 0
    names = [report.primary_metric]
    columns = {name: own.columns[report.unit] for name, own in METRICS.registered() if report.unit in own.columns}
    for usual in sorted(columns, key=columns.__getitem__):
        same = [name for name in report.metrics if metric_called(name).name == usual]
        same.sort(key=lambda name: abs((metric_called(name).k or 0) - cutoff))
        names += [name for name in same[:1] if name not in names and metric_called(names[0]).name != usual]
    labelled = [name for name in names[1:] if name.startswith("judged@")]
    return [*[name for name in names if name not in labelled][: _MOST_METRICS - len(labelled)], *labelled]


def baseline_columns(
    report: Report, settings: Sequence[SettingPart], metrics: Sequence[str]
) -> Mapping[str, Sequence[object]]:
    """The scores of each question, for a file that is committed: a row for each setting and question, by question id.

    Values are in full, so that verdicts are those of the report; None where a metric is not defined for a question. The
    ``fingerprint`` shows later whether the labels or the text of the question have changed.
    """
    rows = sorted(range(len(report.queries)), key=lambda row: report.queries[row].id)
    queries = [report.queries[row] for row in rows]
    scores = [setting.per_query.evaluations for setting in settings]
    return {
        "query_id": [query.id for query in queries] * len(settings),
        "setting": [setting.name for setting in settings for _ in queries],
        "fingerprint": [query_fingerprint(report, query) for query in queries] * len(settings),
        **{metric: [own[metric][row] for own in scores for row in rows] for metric in metrics},
    }
