"""The reports of a comparison: their names, and the properties that they must have in common."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragtrial.errors import ComparisonError, Fault, MetricError, ReportError, counted, did_you_mean, listed
from ragtrial.evaluation.metrics import Metric, parse_metric
from ragtrial.records import ReportWarning, highest_grades
from ragtrial.report.find import find_report
from ragtrial.report.model import Report, load_report
from ragtrial.report.schema import QueryPart, SettingPart

Reference = str | Path | Report
"""A report's folder, id, or ``latest``; a setting of one, ``REPORT:SETTING``; or a report."""

_RUN_ID = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{6}")


@dataclass(eq=False)
class ComparedReport:
    """A compared report with its short name and the chosen settings; None means all.

    ``spellings`` are all names of the report.
    """

    report: Report
    chosen: list[str] | None
    name: str = ""
    spellings: list[str] = field(default_factory=list)

    @property
    def settings(self) -> list[SettingPart]:
        return [setting for setting in self.report.settings if self.chosen is None or setting.name in self.chosen]

    @property
    def names(self) -> list[str]:
        """The names of all settings of the report."""
        return [setting.name for setting in self.report.settings]


@dataclass(frozen=True, eq=False)
class Baseline:
    """A setting of a report, or a whole report if ``setting`` is None. ``report`` None means any report."""

    setting: str | None
    report: Report | None


@dataclass(eq=False)
class _Reading:
    """Reads each report once, however often it is named."""

    directory: Path
    entries: dict[object, ComparedReport] = field(default_factory=dict)

    def add(self, reference: Reference) -> ComparedReport:
        """Raises ReportError if there is no such report, or no such setting of it."""
        if isinstance(reference, Report):
            return self.entries.setdefault(id(reference), ComparedReport(reference, None))
        folder, name, setting = self.found(str(reference))
        key = folder.resolve()
        if key not in self.entries:
            report = load_report(folder)
            self.entries[key] = ComparedReport(report, None if setting is None else [])
        entry = self.entries[key]
        entry.spellings += [name] if name not in entry.spellings else []
        if setting is None:
            entry.chosen = None
        elif entry.chosen is not None:
            entry.chosen.append(entry.report.setting(setting).name)
        return entry

    def found(self, written: str) -> tuple[Path, str, str | None]:
        """The folder of a report, how it is called, and the setting that is meant, if one is."""
        try:
            return find_report(written, self.directory), written, None
        except ReportError as error:
            report, _, setting = written.rpartition(":")
            if not report or not setting or "/" in setting or "\\" in setting:
                raise
            try:
                return find_report(report, self.directory), report, setting
            except ReportError:
                raise error from None


def read_entries(
    references: Sequence[Reference],
    settings: Sequence[str] | None,
    baseline: Reference | None,
    directory: Path,
) -> tuple[list[ComparedReport], Baseline | None]:
    """The reports of ``references`` with their chosen settings, and the baseline.

    ``settings`` are ``SETTING`` or ``REPORT:SETTING``; None means all. A baseline in another report is read as well,
    and a baseline that is not in ``settings`` is still compared. Raises ReportError for missing reports and settings,
    ComparisonError for a report that contradicts itself; each with all faults at once.
    """
    if not references:
        raise ComparisonError("no report is given; name one or more: a folder, a run id, or `latest`.")
    reading = _Reading(directory)
    faults: list[Fault] = []
    for reference in references:
        try:
            reading.add(reference)
        except ReportError as error:
            faults += error.faults
    if faults:
        raise ReportError(*dict.fromkeys(faults))
    meant = None if baseline is None else _read_baseline(reading, baseline)
    entries = list(reading.entries.values())
    faults = [Fault(_place(entry.report), message=told) for entry in entries for told in _contradictions(entry.report)]
    if faults:
        raise ComparisonError(*faults)
    _name(entries)
    _choose(entries, settings, meant)
    return entries, meant


def _read_baseline(reading: _Reading, baseline: Reference) -> Baseline:
    """Resolve a baseline: first as a setting, then as a compared report, then as another report."""
    if isinstance(baseline, Report):
        return Baseline(None, reading.add(baseline).report)
    written = str(baseline)
    entries = list(reading.entries.values())
    if any(written in entry.names for entry in entries):
        return Baseline(written, entries[0].report if len(entries) == 1 else None)
    first, _, last = written.rpartition(":")
    for report, setting in ((written, None), (first, last)):
        known = [entry for entry in entries if report in _spellings(entry)]
        if len(known) > 1:
            ids = listed(entry.report.run_id for entry in known)
            raise ComparisonError(f"the baseline's report {report!r} may be any of: {ids}. Write its id.")
        if known:
            return Baseline(known[0].report.setting(setting).name if setting else None, known[0].report)
    try:
        added = reading.add(written)
    except ReportError as error:
        names = dict.fromkeys(name for entry in entries for name in entry.names)
        raise ComparisonError(
            f"the baseline {written!r} is neither a setting that is compared nor a report."
            f"{did_you_mean(last, names)} The settings are: {listed(names)}."
        ) from error
    return Baseline(added.chosen[-1] if added.chosen else None, added.report)


def _contradictions(report: Report) -> Iterator[str]:
    """Find contradictions that no valid report has."""
    known = [query.id for query in report.queries]
    all_names = {"setting": [setting.name for setting in report.settings], "query": known}
    for what, names in all_names.items():
        if twice := [name for name, count in Counter(names).items() if count > 1]:
            yield f"has two of the {what} {listed(map(repr, twice), 3)}. It was changed by hand; run it again."
    if not report.queries or not report.settings:
        yield f"has no {'settings' if report.queries else 'queries'}; there is nothing to compare."


def _folder(report: Report) -> Path | None:
    """The folder of a report; None if it was never written."""
    try:
        return report.folder
    except ReportError:
        return None


def _place(report: Report) -> str:
    folder = _folder(report)
    return f"report {report.run_id}" if folder is None else str(folder / "report.json")


def _spellings(entry: ComparedReport) -> list[str]:
    """Names for a report, the shortest first."""
    report, folder = entry.report, _folder(entry.report)
    written = [name.removesuffix("report.json").rstrip("/\\") for name in entry.spellings]
    names = [name for name in written if re.fullmatch(r"[^/\\:]+", name) and name.strip(".")]
    names += [] if folder is None else [folder.name, f"{folder.parent.name}/{folder.name}"]
    names = [name for name in names if not _RUN_ID.search(name)]
    names += [report.experiment, report.run_id.partition("-")[0], report.run_id]
    names += [] if folder is None else [str(folder)]
    return list(dict.fromkeys(name for name in (*names, *entry.spellings) if name))


def _name(entries: Sequence[ComparedReport]) -> None:
    """Give each entry the first of its names that no other has, a number where it has none, and all its spellings."""
    for number, entry in enumerate(entries, 1):
        entry.spellings = [*_spellings(entry), f"report-{number}"]
    counts = Counter(name for entry in entries for name in entry.spellings)
    for entry in entries:
        entry.name = next(name for name in entry.spellings if counts[name] == 1)


def _choose(entries: Sequence[ComparedReport], settings: Sequence[str] | None, baseline: Baseline | None) -> None:
    """Limit the entries to the settings in ``settings`` and to the baseline."""
    wanted = {entry.name: {setting.name for setting in entry.settings} for entry in entries}
    if settings is not None:
        wanted = _wanted(entries, settings)
    for entry in entries:
        names = wanted[entry.name]
        if baseline is not None and baseline.setting is not None and baseline.report in (None, entry.report):
            names |= {baseline.setting} & set(entry.names)
        entry.chosen = [name for name in entry.names if name in names]
        if not entry.chosen:
            asked = listed(settings or ())
            raise ComparisonError(f"{entry.name} has none of the settings {asked}; it has: {listed(entry.names)}.")


def _wanted(entries: Sequence[ComparedReport], settings: Sequence[str]) -> dict[str, set[str]]:
    """For each entry the settings that were asked for."""
    wanted: dict[str, set[str]] = {entry.name: set() for entry in entries}
    faults = []
    for written in settings:
        report, _, setting = written.rpartition(":")
        asked = [entry for entry in entries if not report or report in entry.spellings]
        found = [entry for entry in asked if setting in entry.names]
        for entry in found:
            wanted[entry.name].add(setting)
        if not found:
            names = dict.fromkeys(name for entry in asked or entries for name in entry.names)
            faults.append(f"no setting {written!r}.{did_you_mean(setting, names)} There are: {listed(names)}.")
    if faults:
        raise ComparisonError(*faults)
    return wanted


_MOST_NAMED = 3
_GEOMETRIC = "a geometric mean over queries; differences of such are no means of differences by query"


@dataclass(frozen=True)
class Comparability:
    """The queries and metrics by which reports may be compared, and warnings about them."""

    queries: tuple[QueryPart, ...]
    metrics: tuple[str, ...]
    warnings: tuple[ReportWarning, ...]


def agreement_of(
    entries: Sequence[ComparedReport], primary: str | None, metrics: Sequence[str] | None, *, common: bool
) -> Comparability:
    """The common queries and metrics of ``entries``; with ``common`` only the equal queries.

    Without ``common`` they may also be compared if queries were only added: each report has all queries of its
    neighbour, with the same labels. The primary metric comes first: ``primary``, else the first of ``metrics``, else
    that of the first report. ``metrics`` None means all metrics that every report has, except geometric means over
    queries. Raises ComparisonError with every difference, MetricError for an unknown metric.
    """
    names, warnings = _metrics(entries, primary, metrics)
    first = entries[0]
    differences = [fault for entry in entries[1:] for fault in _rule_differences(first, entry, names)]
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
        warnings.append(ReportWarning("common-queries", said))
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
        warnings.append(ReportWarning("other-primary-metric", message))
    left_out = dict.fromkeys(name for one in reports.values() for name in one.metrics if name not in comparable)
    if left_out and metrics is None:
        message = f"left out, not in every report, or geometric means over queries: {listed(left_out)}."
        warnings.append(ReportWarning("metrics-left-out", message))
    return names, warnings


def _known(name: str, entries: Sequence[ComparedReport]) -> str:
    """The metric that ``name`` means, as reports spell it. Raises MetricError if it is none."""
    return name if any(name in entry.report.metrics for entry in entries) else str(parse_metric(name))


def _is_geometric(name: str) -> bool:
    """True if the mean over queries is geometric, so that a metric is not compared query by query."""
    metric = _metric(name)
    return metric is not None and metric.definition.aggregate == "geometric"


def _metric(name: str) -> Metric | None:
    """The metric of this name; None if another version of ragtrial, or a plug-in, defines it."""
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
    """The rules by which a report was scored: (rule, metric) with its value."""
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
    """The queries with equal labels in two reports, and the differences of the others.

    For documents the highest grade counts. For passages each grade counts, with its position, or with its length if the
    documents differ: the same passage may be elsewhere in them. The ``orders`` of labels matter to metrics of orders.
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
        return highest_grades((judgment.doc, judgment.relevance) for judgment in query.relevant_docs)
    found: dict[str, list[tuple[int, list[tuple[int, int]]]]] = {}
    for one in query.relevant_docs:
        passage = sorted((span.start * places, span.end - span.start) for span in one.spans)
        found.setdefault(one.doc, []).append((one.relevance, passage))
    return {doc: sorted(labels) for doc, labels in found.items()}


def _order(query: QueryPart) -> list[str] | None:
    return list(dict.fromkeys(judgment.doc for judgment in query.relevant_docs)) if query.ordered else None


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
            code = "documents-unknown" if None in searched else "other-documents"
            are = "are not known to be" if None in searched else "are not"
            both = f"{first.name} and {other.name}"
            yield ReportWarning(code, f"the documents of {both} {are} the same: differences may come from these.")
