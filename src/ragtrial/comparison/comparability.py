"""What reports must have in common to be compared: metrics that mean the same, over the same queries and labels."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragtrial.comparison.queries.label_differences import Sides, label_difference
from ragtrial.comparison.report_inputs import ComparedReport
from ragtrial.errors import ComparisonError, MetricError, did_you_mean, listed
from ragtrial.evaluation.metrics import Metric, parse_metric
from ragtrial.records import ReportWarning, WarningCode
from ragtrial.report.model import Report
from ragtrial.report.schema import MetricPart, QueryPart

_THRESHOLD = re.compile(r"\(relevant: (grade -?\d+ and above)\)")
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

    The primary metric comes first: ``primary``, else the first of ``metrics``, else that of the first report.
    ``metrics`` None means all that every report has, without geometric means over queries. Raises ComparisonError that
    names every difference, MetricError for a metric that there is not.
    """
    names, warnings = _metrics(entries, primary, metrics)
    first = entries[0]
    differences = [
        fault for other in entries[1:] for fault in _rule_differences(first, other, names, given=metrics is not None)
    ]
    if differences:
        raise ComparisonError(*differences)
    queries, told = _queries(entries, names, common=common)
    return Comparability(queries, names, (*warnings, *told, *_document_warnings(entries)))


def _metrics(
    entries: Sequence[ComparedReport], primary: str | None, metrics: Sequence[str] | None
) -> tuple[tuple[str, ...], list[ReportWarning]]:
    """The names of the metrics to compare by, the primary one first, and which are left out."""
    reports = [entry.report for entry in entries]
    everywhere = [name for name in reports[0].metrics if all(name in report.metrics for report in reports)]
    comparable = [name for name in everywhere if not _is_geometric(name)]
    others = comparable if metrics is None else [_known(name, reports) for name in metrics]
    decisive = others[0] if metrics else reports[0].primary_metric
    decisive = decisive if primary is None else _known(primary, reports)
    names = tuple(dict.fromkeys([decisive, *others]))
    missing = [
        _missing(name, entry, everywhere, decisive) for name in names for entry in entries
        if name not in entry.report.metrics
    ]  # fmt: skip
    missing += [
        f"{name} is {_GEOMETRIC}. Compare by another metric: {listed(comparable, 40)}."
        for name in names if _is_geometric(name)
    ]  # fmt: skip
    if missing:
        raise ComparisonError(*missing)
    warnings = []
    if (
        primary is None
        and metrics is None
        and (unlike := [entry for entry in entries if entry.report.primary_metric != decisive])
    ):
        told = listed(f"{entry.report.primary_metric} in {entry.name}" for entry in unlike)
        message = f"{decisive} decides, the primary metric of {entries[0].name}; it is {told}."
        warnings.append(ReportWarning(WarningCode.OTHER_PRIMARY_METRIC, message))
    if metrics is None:
        if apart := [name for name in everywhere if name not in comparable]:
            warnings.append(
                ReportWarning(WarningCode.METRICS_LEFT_OUT, f"left out, being {_GEOMETRIC}: {listed(apart)}.")
            )
        for entry in entries:
            alone = [name for name in entry.report.metrics if name not in everywhere]
            if alone:
                message = f"left out, since not every report has it: {listed(alone)} ({entry.name})."
                warnings.append(ReportWarning(WarningCode.METRICS_LEFT_OUT, message))
    return names, warnings


def _known(name: str, reports: Sequence[Report]) -> str:
    """The metric that ``name`` means, as reports spell it. Raises MetricError if it is none."""
    if any(name in report.metrics for report in reports):
        return name
    try:
        return str(parse_metric(name))
    except MetricError as error:
        there = dict.fromkeys(metric for report in reports for metric in report.metrics)
        near = did_you_mean(name, there)
        if near and "Did you mean" not in str(error):
            raise MetricError(f"{error}{near}") from error
        raise


def _missing(name: str, entry: ComparedReport, everywhere: Sequence[str], primary: str) -> str:
    what = f"{name}, the metric that decides" if name == primary else name
    kin = [other for other in entry.report.metrics if _kin(other, name)]
    near = f"; it has {listed(kin)}, which is another number" if kin else ""
    there = f"All have: {listed(everywhere, 40)}." if everywhere else "The reports have no metric in common."
    return f"{entry.name} has no {what}{near}. {there}"


def _kin(one: str, other: str) -> bool:
    """Whether they are one metric at one cutoff with other parameters: another gain, another threshold."""
    return _split(one) == _split(other)


def _split(name: str) -> tuple[str, str]:
    return name.partition("(")[0].partition("@")[0], name.rpartition("@")[2] if "@" in name else ""


def _rule_differences(
    first: ComparedReport, other: ComparedReport, names: Sequence[str], *, given: bool
) -> Iterator[str]:
    """How the rules by which two reports were scored differ, as far as ``names`` depend on them."""
    if first.report.unit != other.report.unit:
        words = {"document": "ranks documents", "span": "looks for passages in chunks"}
        yield (
            f"other units: {first.name} {words[first.report.unit]}, {other.name} {words[other.report.unit]}. "
            "Run one again with the other's evaluators.unit."
        )
        return
    for title, remedy, rule in _RULES:
        texts = {name: (rule(first.report.metrics[name]), rule(other.report.metrics[name])) for name in names}
        unlike = [name for name, (one, two) in texts.items() if one != two]
        if unlike:
            one, two = texts[unlike[0]]
            same = [name for name in names if name not in unlike]
            instead = f", or compare by metrics that do not depend on it: {listed(same)}" if same and not given else ""
            yield (
                f"{title}: {one or 'none'} in {first.name}, {two or 'none'} in {other.name} "
                f"({listed(unlike, _MOST_NAMED)}). {remedy}{instead}."
            )
    yield from _coverage_difference(first, other)
    yield from _scoring_differences(first, other, names)


def _threshold(metric: MetricPart) -> str:
    found = _THRESHOLD.search(metric.counted)
    return f"{found[1]} is relevant" if found else ""


_RULES: tuple[tuple[str, str, Callable[[MetricPart], str]], ...] = (
    ("other relevance thresholds", "Run one again with the other's evaluators.relevance_threshold", _threshold),
    (
        "other queries are counted",
        "Run one again with the other's evaluators.no_relevant",
        lambda metric: _THRESHOLD.sub("", metric.counted).strip(),
    ),
    ("other formulas", "Run both again with the same ragtrial", lambda metric: metric.formula),
)
"""What a metric means in a report: how a difference is called, what helps, and what the report says."""


def _coverage_difference(first: ComparedReport, other: ComparedReport) -> Iterator[str]:
    one, two = coverage_of(first.report), coverage_of(other.report)
    if first.report.unit == "span" and one != two:
        yield (
            f"other span_coverage: a passage is found with the share {one} of its characters in {first.name}, {two} in "
            f"{other.name}. Run one again with the other's evaluators.span_coverage."
        )


def coverage_of(report: Report) -> object:
    """The share of a passage that must be found; as the config has it, where it is of before reports had it."""
    if report.span_coverage is not None:
        return report.span_coverage
    written = report.config.get("evaluators")
    return written.get("span_coverage", 0.5) if isinstance(written, Mapping) else 0.5


def _scoring_differences(first: ComparedReport, other: ComparedReport, names: Sequence[str]) -> Iterator[str]:
    """Rules of ``ragtrial score``; a run has none of them, and scores rankings as they are."""
    one, two = _scoring(first.report), _scoring(other.report)
    for rule in ("judged_only", "trec_compat"):
        if bool(one.get(rule)) != bool(two.get(rule)):
            with_it, without = (first, other) if one.get(rule) else (other, first)
            yield (
                f"other rules: {with_it.name} was scored with {rule}, {without.name} was not. "
                "Score one again by the other's rules."
            )
    deep = [name for name in names if (metric := _metric(name)) and metric.k is None]
    if one.get("depth") != two.get("depth") and deep:
        depths = " and ".join(f"{side.get('depth') or 'all'} hits in {entry.name}" for side, entry in
                              ((one, first), (two, other)))  # fmt: skip
        yield f"other depths: {depths} are scored, and {listed(deep, _MOST_NAMED)} has no cutoff of its own."


def _scoring(report: Report) -> Mapping[str, Any]:
    rules = report.config.get("score")
    return rules if isinstance(rules, Mapping) else {}


def _queries(
    entries: Sequence[ComparedReport], names: Sequence[str], *, common: bool
) -> tuple[tuple[QueryPart, ...], list[ReportWarning]]:
    """The queries of the first report that every other has with equal labels. Without ``common`` all must be."""
    orders = any((metric := _metric(name)) and metric.definition.needs == "order" for name in names)
    first = entries[0]
    shared = {query.id for query in first.report.queries}
    faults: list[str] = []
    for other in entries[1:]:
        sides = Sides.of(first, other, orders=orders)
        theirs = {query.id: query for query in other.report.queries}
        differing = {
            query.id: difference
            for query in first.report.queries
            if query.id in theirs and (difference := label_difference(sides, query, theirs[query.id]))
        }
        shared &= theirs.keys() - differing.keys()
        faults += _query_faults(first, other, differing)
    if faults and not (common and shared):
        raise ComparisonError(*faults, _remedy(entries, len(shared)))
    fullest = _fullest(entries)
    queries = tuple(fullest[query.id] for query in first.report.queries if query.id in shared)
    return queries, [
        ReportWarning(WarningCode.COMMON_QUERIES, _common_text(entries, len(shared), faults))
    ] if faults else []


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


def _query_faults(first: ComparedReport, other: ComparedReport, differing: Mapping[str, str]) -> Iterator[str]:
    ours = dict.fromkeys(query.id for query in first.report.queries)
    theirs = dict.fromkeys(query.id for query in other.report.queries)
    only_ours, only_theirs = [one for one in ours if one not in theirs], [one for one in theirs if one not in ours]
    if only_ours or only_theirs:
        told = [
            f"{len(names):,} of {len(all_names):,} are in {entry.name} alone ({listed(map(repr, names), _MOST_NAMED)})"
            for entry, names, all_names in ((first, only_ours, ours), (other, only_theirs, theirs))
            if names
        ]
        yield f"other queries: {', '.join(told)}."
    if differing:
        told = list(differing.values())[:_MOST_NAMED]
        more = f"; and {len(differing) - len(told):,} more" if len(differing) > len(told) else ""
        count = f"{len(differing):,} of {len(theirs.keys() & ours.keys()):,} queries"
        yield f"other labels in {first.name} and {other.name} ({count}): {'; '.join(told)}{more}."


def _remedy(entries: Sequence[ComparedReport], shared: int) -> str:
    again = "Score their rankings by the same labels (`ragtrial rescore REPORT --labels FILE` searches nothing again)"
    if not shared:
        return f"No query is the same in all of them. {again}."
    fewest = min(len(entry.report.queries) for entry in entries)
    return f"{again}, or compare over the {shared:,} of {fewest:,} queries that are the same: --common."


def _common_text(entries: Sequence[ComparedReport], shared: int, faults: Sequence[str]) -> str:
    of = ", ".join(f"{len(entry.report.queries):,} of {entry.name}" for entry in entries)
    return f"compared over the {shared:,} queries that are the same everywhere, of {of}. Left out: {' '.join(faults)}"


def _fullest(entries: Sequence[ComparedReport]) -> Mapping[str, QueryPart]:
    """Each query as the first report has it that knows its text: where runs were scored alone, it is not known."""
    known: dict[str, QueryPart] = {}
    for entry in entries:
        for query in entry.report.queries:
            if query.id not in known or (query.text and not known[query.id].text):
                known[query.id] = query
    return known


def _document_warnings(entries: Sequence[ComparedReport]) -> Iterator[ReportWarning]:
    first = entries[0]
    for other in entries[1:]:
        one, two = first.report.dataset, other.report.dataset
        if one.documents_fingerprint is None or two.documents_fingerprint is None:
            unknown = first if one.documents_fingerprint is None else other
            message = (
                f"what {unknown.name} searched is not known; if it is not what "
                f"{(other if unknown is first else first).name} searched, differences may come from the documents."
            )
            yield ReportWarning(WarningCode.DOCUMENTS_UNKNOWN, message)
        elif one.documents_fingerprint != two.documents_fingerprint:
            message = (
                f"{first.name} searched {one.documents:,} documents, {other.name} {two.documents:,}, and not the same: "
                "differences may come from the documents, not from the settings."
            )
            yield ReportWarning(WarningCode.OTHER_DOCUMENTS, message)
