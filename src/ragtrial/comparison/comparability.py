"""What reports must have in common to be compared: metrics that mean the same, over the same queries and labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragtrial.comparison.report_inputs import ComparedReport
from ragtrial.errors import ComparisonError, MetricError, counted, listed
from ragtrial.evaluation.metrics import Metric, parse_metric
from ragtrial.records import ReportWarning, WarningCode, highest_grades
from ragtrial.report.schema import QueryPart

_MOST_NAMED = 3
_GEOMETRIC = "a geometric mean over queries; differences of such are no means of differences by query"


@dataclass(frozen=True)
class Comparability:
    """Over which queries, and by which metrics, reports may be compared; and what should be known of it."""

    queries: tuple[QueryPart, ...]
    metrics: tuple[str, ...]
    warnings: tuple[ReportWarning, ...]


def agreement_of(
    entries: Sequence[ComparedReport], primary: str | None, metrics: Sequence[str] | None, *, common: bool
) -> Comparability:
    """What the reports of ``entries`` agree on; with ``common`` the queries that do.

    Without it they may also be compared where each has all queries of the one before, or of the one after, and these
    have the same labels: queries were added.
    The primary metric comes first: ``primary``, else the first of ``metrics``, else that of the first report.
    ``metrics`` None means all that every report has, without geometric means over queries. Raises ComparisonError that
    names every difference, MetricError for a metric that there is not.
    """
    names, warnings = _metrics(entries, primary, metrics)
    first = entries[0]
    differences = [fault for other in entries[1:] for fault in _rule_differences(first, other, names)]
    if differences:
        raise ComparisonError(*differences, "Run or score one again by the rules of the other.")
    orders = any((metric := _metric(name)) and metric.definition.needs == "order" for name in names)
    shared = {query.id for query in first.report.queries}
    faults: list[str] = []
    only_added = True
    for other in entries[1:]:
        same, found = _query_differences(first, other, orders=orders)
        only_added &= len(same) == min(len(first.report.queries), len(other.report.queries))
        shared &= same
        faults += found
    if faults and not ((common or only_added) and shared):
        raise ComparisonError(*faults, _remedy(len(shared)))
    if faults:
        count = counted(len(shared), "query that is", "queries that are")
        said = f"compared over the {count} the same everywhere. Left out: {' '.join(faults)}"
        warnings.append(ReportWarning(WarningCode.COMMON_QUERIES, said))
    queries = tuple(query for query in _fullest(entries) if query.id in shared)
    return Comparability(queries, names, (*warnings, *_document_warnings(entries)))


def _metrics(
    entries: Sequence[ComparedReport], primary: str | None, metrics: Sequence[str] | None
) -> tuple[tuple[str, ...], list[ReportWarning]]:
    """The names of the metrics to compare by, the primary one first, and which are left out."""
    reports = {entry.name: entry.report for entry in entries}
    usual = entries[0].report.primary_metric
    everywhere = [name for name in entries[0].report.metrics if all(name in one.metrics for one in reports.values())]
    comparable = [name for name in everywhere if not _is_geometric(name)]
    others = comparable if metrics is None else [_known(name, entries) for name in metrics]
    decisive = _known(primary, entries) if primary is not None else others[0] if metrics else usual
    names = tuple(dict.fromkeys([decisive, *others]))
    faults = [
        f"{report} has no {name}{', the metric that decides' if name == decisive else ''}. "
        f"All have: {listed(everywhere, 40) or 'no metric'}."
        for name in names
        for report in reports
        if name not in reports[report].metrics
    ]
    faults += [
        f"{name} is {_GEOMETRIC}. Compare by another metric: {listed(comparable, 40)}."
        for name in names
        if _is_geometric(name)
    ]
    if faults:
        raise ComparisonError(*faults)
    warnings = []
    unlike = [f"{one.primary_metric} in {name}" for name, one in reports.items() if one.primary_metric != decisive]
    if unlike and primary is None and metrics is None:
        message = f"{decisive} decides, the primary metric of {entries[0].name}; it is {listed(unlike)}."
        warnings.append(ReportWarning(WarningCode.OTHER_PRIMARY_METRIC, message))
    left_out = dict.fromkeys(name for one in reports.values() for name in one.metrics if name not in comparable)
    if left_out and metrics is None:
        message = f"left out, not in every report, or geometric means over queries: {listed(left_out)}."
        warnings.append(ReportWarning(WarningCode.METRICS_LEFT_OUT, message))
    return names, warnings


def _known(name: str, entries: Sequence[ComparedReport]) -> str:
    """The metric that ``name`` means, as reports spell it. Raises MetricError if it is none."""
    return name if any(name in entry.report.metrics for entry in entries) else str(parse_metric(name))


def _is_geometric(name: str) -> bool:
    """Whether the mean over queries of a metric is a geometric one, so that it is not compared query by query."""
    metric = _metric(name)
    return metric is not None and metric.definition.aggregate == "geometric"


def _metric(name: str) -> Metric | None:
    """None for one that another version of ragtrial, or a plug-in, knows."""
    try:
        return parse_metric(name)
    except MetricError:
        return None


def _rule_differences(first: ComparedReport, other: ComparedReport, names: Sequence[str]) -> Iterator[str]:
    """How the rules by which two reports were scored differ, as far as ``names`` depend on them."""
    names = names if first.report.unit == other.report.unit else ()
    theirs = _rules(other, names)
    unlike: dict[tuple[str, object, object], list[str]] = {}
    for (rule, metric), value in _rules(first, names).items():
        if value != theirs[rule, metric]:
            unlike.setdefault((rule, value, theirs[rule, metric]), []).append(metric)
    for (rule, one, two), metrics in unlike.items():
        about = f" ({listed(metrics, _MOST_NAMED)})" if any(metrics) else ""
        yield f"other {rule}{about}: {one} in {first.name}, {two} in {other.name}."


def _rules(entry: ComparedReport, names: Sequence[str]) -> dict[tuple[str, str], object]:
    """By which rules a report was scored: each rule, with the metric that it is about, and what it was."""
    report, score = entry.report, entry.report.config.get("score")
    scoring: Mapping[str, Any] = score if isinstance(score, Mapping) else {}
    rules: dict[tuple[str, str], object] = {("unit", ""): report.unit}
    if report.unit == "span":
        written = report.config.get("evaluators")
        before = written.get("span_coverage", 0.5) if isinstance(written, Mapping) else 0.5
        rules["span_coverage", ""] = before if report.span_coverage is None else report.span_coverage
    for rule in ("judged_only", "trec_compat"):
        rules[rule, ""] = bool(scoring.get(rule))
    for name in names:
        rules["queries that are counted", name] = report.metrics[name].counted
        rules["formula", name] = report.metrics[name].formula
        if (metric := _metric(name)) and metric.k is None:
            rules["depth", name] = scoring.get("depth") or "all hits"
    return rules


def _query_differences(first: ComparedReport, other: ComparedReport, *, orders: bool) -> tuple[set[str], list[str]]:
    """The queries that two reports have with equal labels, and how the others differ.

    Of documents the highest grade counts; of passages each, with its place, or, in other documents, its length: there
    the same passage may stand elsewhere. The ``orders`` of labels matter to metrics of orders.
    """
    spans = first.report.unit == "span"
    places = first.report.dataset.documents_fingerprint == other.report.dataset.documents_fingerprint
    ours = {query.id: query for query in first.report.queries}
    theirs = {query.id: query for query in other.report.queries}
    told: dict[str, str] = {}
    for name in ours.keys() & theirs.keys():
        one, two = ours[name], theirs[name]
        ones, twos = (_labels(query, spans=spans, places=places) for query in (one, two))
        if one.text and two.text and one.text != two.text:
            told[name] = "another text"
        elif unlike := [doc for doc in {**ones, **twos} if ones.get(doc) != twos.get(doc)]:
            told[name] = f"other labels of {unlike[0]!r}"
        elif orders and _order(one) != _order(two):
            told[name] = "another order of its labels"
    faults = []
    for entry, own, others in ((first, ours, theirs), (other, theirs, ours)):
        if alone := [repr(name) for name in own if name not in others]:
            counts = f"{len(alone):,} of {counted(len(own), 'query', 'queries')}"
            are = "is" if len(alone) == 1 else "are"
            faults.append(f"{counts} {are} only in {entry.name} ({listed(alone, _MOST_NAMED)}).")
    if told:
        shown = listed([f"query {name!r} has {told[name]}" for name in ours if name in told], _MOST_NAMED)
        have = f"{counted(len(told), 'query has', 'queries have')} other labels"
        faults.append(f"{have} in {first.name} and {other.name} ({shown}).")
    return (ours.keys() & theirs.keys()) - told.keys(), faults


def _labels(query: QueryPart, *, spans: bool, places: bool) -> Mapping[str, object]:
    """For each document its highest grade; of passages every grade with its stretches of the document."""
    if not spans:
        return highest_grades((one.doc, one.relevance) for one in query.relevant_docs)
    found: dict[str, list[tuple[int, list[tuple[int, int]]]]] = {}
    for one in query.relevant_docs:
        passage = sorted((span.start * places, span.end - span.start) for span in one.spans)
        found.setdefault(one.doc, []).append((one.relevance, passage))
    return {doc: sorted(labels) for doc, labels in found.items()}


def _order(query: QueryPart) -> list[str] | None:
    return list(dict.fromkeys(one.doc for one in query.relevant_docs)) if query.ordered else None


def _remedy(shared: int) -> str:
    again = "Score their rankings by the same labels (`ragtrial rescore REPORT --labels FILE` searches nothing)"
    if not shared:
        return f"No query is the same in all of them. {again}."
    same = f"{counted(shared, 'query that is', 'queries that are')} the same"
    return f"{again}, or compare over the {same}: --common."


def _fullest(entries: Sequence[ComparedReport]) -> Iterator[QueryPart]:
    """The queries of the first report, each as the first one has it that knows its text: `score` does not know it."""
    with_text: dict[str, QueryPart] = {}
    for entry in entries:
        for query in entry.report.queries:
            if query.text:
                with_text.setdefault(query.id, query)
    for query in entries[0].report.queries:
        yield with_text.get(query.id, query)


def _document_warnings(entries: Sequence[ComparedReport]) -> Iterator[ReportWarning]:
    first = entries[0]
    for other in entries[1:]:
        searched = [entry.report.dataset.documents_fingerprint for entry in (first, other)]
        if None in searched or searched[0] != searched[1]:
            code = WarningCode.DOCUMENTS_UNKNOWN if None in searched else WarningCode.OTHER_DOCUMENTS
            are = "are not known to be" if None in searched else "are not"
            both = f"{first.name} and {other.name}"
            yield ReportWarning(code, f"the documents of {both} {are} the same: differences may come from these.")
