"""The table of settings and metrics."""

from __future__ import annotations

from collections.abc import Sequence

from ragtrial.errors import ReportError, did_you_mean
from ragtrial.evaluation.metrics import METRICS, parse_metric
from ragtrial.report.model import Report
from ragtrial.report.schema import MeanPart, SettingPart
from ragtrial.views.plain_text import plain

_FEWEST_FOR_P99 = 100
"""Of fewer queries the 99th percentile is the slowest."""


def header_line(report: Report, tag: str | None = None) -> str:
    """One line that says what was run; of the queries with a ``tag``, which."""
    data = report.dataset
    documents = "" if data.documents is None else f"{data.documents:,} documents, "
    tagged = "" if tag is None else f" with the tag {tag}"
    queries = counted(data.queries, "query", "queries")
    again = "" if report.parent is None else f", the rankings of run {report.parent} scored again"
    return f"{report.experiment}: {documents}{queries}{tagged}, run {report.run_id}{again}"


def summary_line(report: Report) -> str:
    """One line that says what came of it: the best setting and its score."""
    best = report.ranked_settings()[0]
    name, score = report.primary_metric, _number(best.scores[report.primary_metric])
    return f"{report.experiment}: {counted(len(report.settings), 'setting')}, {best.name} {name} {score}"


def counted(count: int, noun: str, several: str = "") -> str:
    """``1 setting``, ``2 settings``; ``several`` where that is another word."""
    return f"{count:,} {noun if count == 1 else several or noun + 's'}"


def score_table(
    report: Report, width: int, settings: Sequence[SettingPart] | None = None, metrics: Sequence[str] | None = None
) -> list[list[str]]:
    """A header and one row per setting, best first by the primary metric; as many metrics as ``width`` allows.

    ``n`` is the number of queries behind the first mean; a mean over another number shows its own in brackets.
    """
    settings = report.ranked_settings() if settings is None else settings
    names = list(usual_metrics(report) if metrics is None else metrics)
    rows = _rows(settings, names)
    while metrics is None and len(names) > 1 and table_width(rows) > width:
        names.pop()
        rows = _rows(settings, names)
    return rows


def fitted_scores(
    report: Report, width: int, settings: Sequence[SettingPart] | None = None, metrics: Sequence[str] | None = None
) -> tuple[list[list[str]], list[str]]:
    """``score_table``, and a line that names what it left out and how to see that."""
    table = score_table(report, width, settings, metrics)
    lacking = [name for name in usual_metrics(report) if metrics is None and name not in table[0]]
    told = f"Too wide for {width} columns: {', '.join(lacking)} (ragtrial show --metrics all)."
    return table, [told] if lacking else []


def narrowed(table: list[list[str]], width: int, spare: Sequence[Sequence[str]]) -> tuple[list[list[str]], list[str]]:
    """The table without as many groups of the columns called so, in their order, as fit no ``width``; and their names.

    A table that is too wide without all of them, too, keeps what is left.
    """
    left_out: list[str] = []
    for group in spare:
        if table_width(table) <= width:
            break
        left_out += [name for name in table[0] if name in group]
        kept = [place for place, name in enumerate(table[0]) if name not in group]
        table = [[row[place] for place in kept] for row in table]
    return table, left_out


def budget_table(report: Report, settings: Sequence[SettingPart], width: int) -> list[list[str]]:
    """A header and one row per setting, best first: its scores at equal context; nothing where no budget was given.

    Best by the primary metric, or by the first that does not divide by its cutoff. ``hits`` is how many of the first
    hits fit into the budget, mean over queries.
    """
    known = [(setting, setting.budget) for setting in settings if setting.budget]
    if not known:
        return []
    chosen = [str(parse_metric(name).at(None)) for name in usual_metrics(report)]
    names = [name for name in dict.fromkeys(chosen) if name in known[0][1].scores] or list(known[0][1].scores)
    known.sort(key=lambda pair: -(pair[1].scores[names[0]].mean or 0.0))
    while True:
        rows = [[f"within {known[0][1].tokens:,} tokens", *names, "hits"]]
        for setting, budget in known:
            means = [budget.scores[name] for name in names]
            rows.append([setting.name, *map(_number, means), f"{budget.hits:.1f}"])
        if len(names) == 1 or table_width(rows) <= width:
            return rows
        names.pop()


def context_table(settings: Sequence[SettingPart]) -> list[list[str]]:
    """A header and one row per setting: the mean size of the first k hits, in tokens or else in characters."""
    known = [setting for setting in settings if setting.context]
    if not known:
        return []
    cutoffs = sorted({one.k for setting in known for one in setting.context})
    in_tokens = all(one.tokens is not None for setting in known for one in setting.context)
    rows = [[f"context in {'tokens' if in_tokens else 'characters'}", *(f"@{k}" for k in cutoffs)]]
    for setting in known:
        sizes = {one.k: one.tokens if in_tokens else one.characters for one in setting.context}
        rows.append([setting.name, *("-" if (size := sizes.get(k)) is None else f"{size:,.0f}" for k in cutoffs)])
    return rows


def cost_table(settings: Sequence[SettingPart]) -> list[list[str]]:
    """A header and one row per setting: what it takes beside its quality; nothing where nothing was measured.

    Milliseconds per query, seconds to embed its texts and to build its index, megabytes of that, and the mean size of
    its whole ranking in tokens, or in characters where these are not known.
    """
    if not any(setting.costs or setting.latency for setting in settings):
        return []
    in_tokens = all(setting.context[-1].tokens is not None for setting in settings if setting.context)
    context = "tokens" if in_tokens else "characters"
    timed = [setting.latency.n for setting in settings if setting.latency]
    last = "slowest" if max(timed, default=0) < _FEWEST_FOR_P99 else "p99"
    rows = [["costs", "ms p50", "p95", last, "embed s", "index s", "index MB", context]]
    for setting in settings:
        latency, costs = setting.latency, setting.costs
        times = [latency.p50, latency.p95, latency.p99] if latency else [None] * 3
        made = [costs.embedding_seconds, costs.indexing_seconds] if costs else [None] * 2
        size = costs.index_bytes if costs else None
        whole = max(setting.context, key=lambda one: one.k, default=None)
        read = None if whole is None else whole.tokens if in_tokens else whole.characters
        cells = [*(_rounded(time, 1000) for time in times), *map(_rounded, made), _rounded(size, 1e-6)]
        rows.append([setting.name, *cells, "-" if read is None else f"{read:,.0f}"])
    return rows


def _rounded(value: float | None, factor: float = 1) -> str:
    return "-" if value is None else f"{value * factor:,.1f}"


def audit_table(report: Report, settings: Sequence[SettingPart]) -> list[list[str]]:
    """A header and one row per setting with an index that is not exact; nothing if there is none.

    Changes are what the index adds to the primary metric: below 0, it loses.
    """
    rows = [["index against exact search", "overlap", "lowest", report.primary_metric, "unreachable"]]
    for setting in settings:
        if setting.audit:
            lost = setting.audit.lost[report.primary_metric]
            shares = (setting.audit.overlap, setting.audit.lowest_overlap)
            cells = ["-" if share is None else f"{share:.4f}" for share in shares]
            change = "-" if lost is None else f"{-lost + 0.0:+.4f}"
            rows.append([setting.name, *cells, change, f"{setting.audit.unreachable:,}"])
    return rows if len(rows) > 1 else []


def metric_table(report: Report, settings: Sequence[SettingPart]) -> list[list[str]]:
    """A header and one row per metric, with a column per setting, and n; a mean over fewer has its own in brackets."""
    rows = [["metric", *(setting.name for setting in settings), "n"]]
    for name in report.metrics:
        means = [setting.scores[name] for setting in settings]
        n = max(mean.n for mean in means)
        cells = [_number(mean) + (f" ({mean.n})" if 0 < mean.n < n else "") for mean in means]
        rows.append([name, *cells, str(n)])
    return rows


def named_metrics(report: Report, text: str) -> list[str]:
    """The metrics of ``report`` that a list like ``ndcg@10,MRR@10`` names. Raises ReportError, MetricError."""
    names = [str(parse_metric(part)) for part in text.split(",") if part.strip()]
    if not names:
        raise ReportError(f"{text!r} names no metric. Run {report.run_id} has: {', '.join(report.metrics)}.")
    for name in names:
        if name not in report.metrics:
            near = did_you_mean(name, report.metrics)
            raise ReportError(f"run {report.run_id} has no {name!r}.{near} It has: {', '.join(report.metrics)}.")
    return names


def fact_table(setting: SettingPart) -> list[list[str]]:
    """A header and one row for each thing that the setting's retriever or refiner tells of its work; or nothing."""
    rows = [[name, _fact(value)] for name, value in setting.facts.items() if value is not None]
    return [[f"{setting.name} tells", ""], *rows] if rows else []


def _fact(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:,.2f}".rstrip("0").rstrip(".")


def lowest_queries(report: Report, setting: SettingPart, width: int, most: int = 5) -> str:
    """The queries for which a setting scored lowest: where to look first."""
    texts = {query.id: query.text for query in report.queries}
    scored = [(one.evaluations[report.primary_metric], one.id) for one in setting.queries]
    lowest = sorted((value, name) for value, name in scored if value is not None)[:most]
    known = report.run_id if report.folder.name == report.run_id else report.folder
    lines = [f"lowest {report.primary_metric} of {setting.name} (ragtrial show {known} --query ID):"]
    longest = max((len(name) for _, name in lowest), default=0)
    for value, name in lowest:
        line = f"  {name.ljust(longest)}  {value:.4f}  {' '.join(texts[name].split())}".rstrip()
        lines.append(plain(line if len(line) <= width else line[: width - 3] + "..."))
    return "\n".join(lines)


def usual_metrics(report: Report) -> list[str]:
    """The primary metric, then each usual one at its cutoff or the nearest below."""
    cutoff = parse_metric(report.primary_metric).k or 0
    names = [report.primary_metric]
    columns = {name: one.columns[report.unit] for name, one in METRICS.members() if report.unit in one.columns}
    for usual in sorted(columns, key=columns.__getitem__):
        same = [name for name in report.metrics if parse_metric(name).name == usual]
        same.sort(key=lambda name: abs((parse_metric(name).k or 0) - cutoff))
        names += [name for name in same[:1] if name not in names and parse_metric(names[0]).name != usual]
    return names


def _rows(settings: Sequence[SettingPart], names: Sequence[str]) -> list[list[str]]:
    rows = [["setting", *names, "n"]]
    for setting in settings:
        means = [setting.scores[name] for name in names]
        n = means[0].n
        cells = [_number(mean) + (f" ({mean.n})" if mean.n != n else "") for mean in means]
        rows.append([setting.name, *cells, str(n)])
    return rows


def _number(mean: MeanPart) -> str:
    return "-" if mean.mean is None else f"{mean.mean:.4f}"


def table_width(rows: Sequence[Sequence[str]]) -> int:
    """How many columns of the terminal it takes."""
    return sum(max(map(len, column)) + 2 for column in zip(*rows, strict=True)) - 2
