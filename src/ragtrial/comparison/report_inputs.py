"""The reports of a comparison: their names, and the properties that they must have in common."""

from __future__ import annotations

import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, cast

from ragtrial.cache.fingerprints import fingerprint
from ragtrial.comparison.statistics.samples import LEAST_DIFFERENCES
from ragtrial.errors import ComparisonError, Fault, MetricError, ReportError, counted, did_you_mean, listed
from ragtrial.evaluation.metrics import metric_called, parse_metric
from ragtrial.options import from_here
from ragtrial.records import Direction, ReportWarning, highest_grades
from ragtrial.report.find import find_report
from ragtrial.report.model import Report, load_report
from ragtrial.report.schema import QueryPart, SettingPart
from ragtrial.runs.streams import stem_of
from ragtrial.scoring.as_report import score_report
from ragtrial.scoring.score_runs import Scoring
from ragtrial.scoring.tables.reading import Tables, read_tables, table_key, table_of
from ragtrial.scoring.tables.table_report import with_ids_of


class Frame(Protocol):
    """A data frame of pandas or polars, or an Arrow table."""

    @property
    def columns(self) -> Any: ...


Reference = str | Path | Report | Scoring | Frame | Sequence[Mapping[str, object]]
"""A report's folder, id, or ``latest``; a setting of one, ``REPORT:SETTING``; a report, or runs that were scored.

Or a table of scores per question: a file, a data frame, or rows; ``FILE:SETTING`` is one setting of a file.
"""

USUAL_CONFIG = "experiment.yaml"
"""The config that commands read if none is named."""

UNKNOWN_CONFIG = "CONFIG"
"""The placeholder for the config of a report that is not known here."""

_RUN_ID = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{6}")


@dataclass(eq=False)
class ComparedReport:
    """A compared report with its short name and the chosen settings; None means all.

    ``spellings`` are all names of the report.
    """

    report: Report
    chosen: list[str] | None = None
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
    """A setting of a report, or a whole report if ``setting`` is None. ``entry`` None means any report."""

    setting: str | None
    entry: ComparedReport | None


class _Entries(dict[object, ComparedReport]):
    """The reports by their folders: each is read once, however often it is named."""

    def __init__(self, directory: Path, tables: Tables) -> None:
        self._directory, self.tables = directory, tables

    def read(self, reference: Reference) -> ComparedReport:
        """Raises ReportError if there is no such report, or no such setting of it."""
        if (table := table_of(reference)) is not None:
            source, setting = table
            report, settings = self.tables[table_key(source)]
            settings = settings if setting is None else [report.setting(setting).name]
            entry = self.setdefault(id(report), ComparedReport(report, []))
            entry.chosen = [*(entry.chosen or ()), *settings]
            if isinstance(source, str):
                entry.spellings += [stem_of(source) if source == "-" else Path(source).name, source]
            return entry
        if not isinstance(reference, str | Path):
            if id(reference) not in self:
                report = score_report(reference) if isinstance(reference, Scoring) else cast("Report", reference)
                self[id(reference)] = ComparedReport(report)
            return self[id(reference)]
        folder, name, setting = self._found(str(reference))
        key = folder.resolve()
        if key not in self:
            self[key] = ComparedReport(load_report(folder), None if setting is None else [])
        entry = self[key]
        entry.spellings.append(name)
        if setting is None:
            entry.chosen = None
        elif entry.chosen is not None:
            entry.chosen.append(entry.report.setting(setting).name)
        return entry

    def _found(self, written: str) -> tuple[Path, str, str | None]:
        """The folder of a report, how it is called, and the setting that is meant, if one is."""
        try:
            return find_report(written, self._directory), written, None
        except ReportError as error:
            report, _, setting = written.rpartition(":")
            if not report or not setting or "/" in setting or "\\" in setting:
                raise
            try:
                return find_report(report, self._directory), report, setting
            except ReportError:
                raise error from None


def read_entries(
    references: Sequence[Reference], settings: Sequence[str] | None, baseline: Reference | None, directory: Path,
    better: Mapping[str, Direction] = MappingProxyType({}), *, apart: bool = False,
) -> tuple[list[ComparedReport], Baseline | None]:  # fmt: skip
    """The reports of ``references`` with their chosen settings, and the baseline.

    Tables of scores become one report together if no two have a setting of one name, unless they are to be ``apart``;
    ``better`` has directions of their metrics. ``settings`` are ``SETTING`` or ``REPORT:SETTING``; None means all. A
    baseline in another report is read as well, and a baseline that is not in ``settings`` is still compared. Raises
    ReportError for missing reports and settings, all at once; ComparisonError for a report without queries or settings.
    """
    if not references:
        raise ComparisonError("no report is given; name one or more: a folder, a run id, or `latest`.")
    reading = _Entries(directory, read_tables([*references, baseline], better, apart=apart))
    faults: list[Fault] = []
    for reference in references:
        try:
            reading.read(reference)
        except ReportError as error:
            faults += error.faults
    ReportError.raise_any(dict.fromkeys(faults))
    meant = None if baseline is None else _read_baseline(reading, baseline)
    entries = list(reading.values())
    for entry in entries:
        entry.report = with_ids_of(entry.report, [other.report for other in entries])
    for number, entry in enumerate(entries, 1):
        entry.spellings = [*_spellings(entry), f"report-{number}"]
    counts = Counter(name for entry in entries for name in entry.spellings)
    for entry in entries:
        entry.name = next(name for name in entry.spellings if counts[name] == 1)
        if not entry.report.queries or not entry.names:
            lacking = "settings" if entry.report.queries else "queries"
            raise ComparisonError(f"{entry.name} has no {lacking}; there is nothing to compare.")
    _choose(entries, settings, meant)
    return entries, meant


def _read_baseline(reading: _Entries, baseline: Reference) -> Baseline:
    """Resolve a baseline: first as a setting, then as a compared report, then as another report."""
    if (table := table_of(baseline)) is not None:
        entry, (source, setting) = reading.read(baseline), table
        settings = reading.tables[table_key(source)][1] if setting is None else [setting]
        if len(settings) < len(entry.names) and len(settings) > 1:
            raise ComparisonError(f"the baseline {source} has several settings; name one: {source}:{settings[0]}.")
        return Baseline(settings[0] if len(settings) == 1 else None, entry)
    if not isinstance(baseline, str | Path):
        return Baseline(None, reading.read(baseline))
    written, entries = str(baseline), list(reading.values())
    if any(written in entry.names for entry in entries):
        return Baseline(written, entries[0] if len(entries) == 1 else None)
    first, _, last = written.rpartition(":")
    for report, setting in ((written, None), (first, last)):
        known = [entry for entry in entries if report in _spellings(entry)]
        if len(known) > 1:
            ids = listed(entry.report.run_id for entry in known)
            raise ComparisonError(f"the baseline's report {report!r} may be any of: {ids}. Write its id.")
        if known:
            return Baseline(known[0].report.setting(setting).name if setting else None, known[0])
    try:
        added = reading.read(written)
    except ReportError as error:
        names = dict.fromkeys(name for entry in entries for name in entry.names)
        raise ComparisonError(
            f"the baseline {written!r} is neither a setting that is compared nor a report."
            f"{did_you_mean(last, names)} The settings are: {listed(names)}."
        ) from error
    return Baseline(added.chosen[-1] if added.chosen else None, added)


def _spellings(entry: ComparedReport) -> list[str]:
    """Names for a report, the shortest first."""
    report = entry.report
    folder = report.folder if report.is_written else None
    written = [name.removesuffix("report.json").rstrip("/\\") for name in entry.spellings]
    names = [name for name in written if re.fullmatch(r"[^/\\:]+", name) and name.strip(".")]
    names += [] if folder is None else [folder.name, f"{folder.parent.name}/{folder.name}"]
    names = [name for name in names if not _RUN_ID.search(name)]
    names += [report.experiment, report.run_id.partition("-")[0], report.run_id]
    names += [] if folder is None else [str(folder)]
    return list(dict.fromkeys(name for name in (*names, *entry.spellings) if name))


def _choose(entries: Sequence[ComparedReport], settings: Sequence[str] | None, baseline: Baseline | None) -> None:
    """Limit the entries to the settings in ``settings`` and to the baseline."""
    wanted = {entry.name: {setting.name for setting in entry.settings} for entry in entries}
    if settings is not None:
        wanted = _wanted(entries, settings)
    for entry in entries:
        names = wanted[entry.name]
        if baseline is not None and baseline.entry in (None, entry):
            names |= {name for name in entry.names if name == baseline.setting}
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
        matching = [entry for entry in asked if setting in entry.names]
        for entry in matching:
            wanted[entry.name].add(setting)
        if not matching:
            names = dict.fromkeys(name for entry in asked or entries for name in entry.names)
            faults.append(f"no setting {written!r}.{did_you_mean(setting, names)} There are: {listed(names)}.")
    ComparisonError.raise_any(faults)
    return wanted


_MOST_NAMED = 3


def common_queries(
    entries: Sequence[ComparedReport], names: Sequence[str], *, common: bool
) -> tuple[tuple[QueryPart, ...], list[ReportWarning]]:
    """The queries over which ``entries`` may be compared by the metrics called ``names``, and warnings about them.

    With ``common`` these are the equal queries. Without it reports may also be compared if queries were only added:
    each report has all queries of its neighbour, with the same labels. Raises ComparisonError with every difference.
    """
    first, warnings = entries[0], list[ReportWarning]()
    ranked = [entry for entry in entries if entry.report.has_rankings]
    differences = [fault for entry in ranked[1:] for fault in _rule_differences(ranked[0], entry, names)]
    if differences:
        raise ComparisonError(*differences, "Run or score one again by the rules of the other.")
    orders = _need_orders(names)
    shared = {query.id for query in first.report.queries}
    faults: list[str] = []
    only_added = True
    for other in entries[1:]:
        same, differing = _query_differences(first, other, orders=orders)
        only_added &= len(same) == min(len(first.report.queries), len(other.report.queries))
        shared &= same
        faults += differing
    if faults and not ((common or only_added) and shared):
        scored = shared.intersection(*(_scored_queries(entry, names[0]) for entry in entries))
        raise ComparisonError(*faults, _remedy(entries, len(shared), len(scored)))
    if faults:
        count = counted(len(shared), "query that is", "queries that are")
        message = f"compared over the {count} the same everywhere. Left out: {' '.join(faults)}"
        warnings.append(ReportWarning.of_verdict("common-queries", message))
    # `score` knows no texts of questions: each query is taken from the first report that does
    texts = {query.id: query for entry in reversed(entries) for query in entry.report.queries if query.text}
    clusters = _clusters(entries)
    warnings += _cluster_warnings(entries, clusters, shared)
    compared = [texts.get(query.id, query) for query in first.report.queries if query.id in shared]
    queries = tuple(query.model_copy(update={"cluster": clusters.get(query.id)}) for query in compared)
    return queries, [*warnings, *_document_warnings(entries)]


def why_incomparable(first: Report, other: Report, metric: str) -> list[str]:
    """The reasons why ``metric`` does not score the same queries by the same labels and rules in two runs.

    The sentences call them "the runs before" and "this run". Empty if the runs are comparable.
    """
    before, after = ComparedReport(first, name="the runs before"), ComparedReport(other, name="this run")
    rules = list(_rule_differences(before, after, [metric]))
    return rules or _query_differences(before, after, orders=_need_orders([metric]))[1]


def _need_orders(names: Sequence[str]) -> bool:
    return any(metric_called(name).definition.needs == "order" for name in names)


def _clusters(entries: Sequence[ComparedReport]) -> Mapping[str, str]:
    """The clusters of queries in the first report whose labels name any."""
    named = ({query.id: query.cluster for query in entry.report.queries if query.cluster} for entry in entries)
    return next(filter(None, named), {})


def _cluster_warnings(
    entries: Sequence[ComparedReport], clusters: Mapping[str, str], shared: Collection[str]
) -> Iterator[ReportWarning]:
    for entry in entries:
        own = _clusters([entry])
        if own and any(own.get(name) != clusters.get(name) for name in shared):
            message = f"{entry.name} names other clusters of queries; those of the first report with clusters count."
            yield ReportWarning.of_verdict("other-clusters", message)


def common_metrics(
    entries: Sequence[ComparedReport], primary: str | None, metrics: Sequence[str] | None
) -> tuple[tuple[str, ...], list[ReportWarning]]:
    """The names of the metrics to compare by, the primary one first, and warnings about those that are left out.

    The primary metric is ``primary``, else the first of ``metrics``, else that of the first report. ``metrics`` None
    means all metrics that every report has. Raises ComparisonError for a metric that a report lacks, MetricError for an
    unknown metric.
    """
    first = entries[0]
    everywhere = [name for name in first.report.metrics if all(name in entry.report.metrics for entry in entries)]
    others = everywhere if metrics is None else [_known(name, entries) for name in metrics]
    usual = others[0] if metrics else first.report.primary_metric
    decisive = usual if primary is None else _known(primary, entries)
    names = tuple(dict.fromkeys([decisive, *others]))
    faults = [
        f"{entry.name} has no {name}{', the metric that decides' if name == decisive else ''}. "
        f"All have: {listed(everywhere, 40) or 'no metric'}."
        for name in names
        for entry in entries
        if name not in entry.report.metrics
    ]
    ComparisonError.raise_any(faults)
    if metrics is not None:
        return names, []
    warnings = []
    primaries = {entry.name: entry.report.primary_metric for entry in entries}
    unlike = [f"{metric} in {name}" for name, metric in primaries.items() if metric != decisive]
    if unlike and primary is None:
        message = f"{decisive} decides, the primary metric of {first.name}; it is {listed(unlike)}."
        warnings.append(ReportWarning("other-primary-metric", message))
    left_out = dict.fromkeys(name for entry in entries for name in entry.report.metrics if name not in everywhere)
    if left_out:
        message = f"left out, not in every report: {listed(left_out)}."
        warnings.append(ReportWarning("metrics-left-out", message))
    if primary is None and len(everywhere) > 1 and not first.report.has_rankings:
        why = "" if decisive == everywhere[0] else " that is not a time or a cost"
        first_of = f"the first of {len(everywhere)} metrics{why}"
        message = f"{decisive} decides, {first_of}; --metric NAME chooses another one."
        warnings.append(ReportWarning("first-metric-decides", message))
    return names, warnings


def _known(name: str, entries: Sequence[ComparedReport]) -> str:
    """The metric that ``name`` means, as reports spell it. Raises MetricError if it is none."""
    if any(name in entry.report.metrics for entry in entries):
        return name
    if not all(entry.report.has_rankings for entry in entries):
        known = dict.fromkeys(metric for entry in entries for metric in entry.report.metrics)
        raise MetricError(f"there is no metric {name!r}.{did_you_mean(name, known)} There are: {listed(known, 40)}.")
    return str(parse_metric(name))


def _rule_differences(first: ComparedReport, other: ComparedReport, names: Sequence[str]) -> Iterator[str]:
    """How the rules by which two reports were scored differ, as far as ``names`` depend on them."""
    names = names if first.report.unit == other.report.unit else ()
    theirs = _rules(other.report, names)
    unlike: dict[tuple[str, object, object], list[str]] = {}
    for (rule, metric), value in _rules(first.report, names).items():
        if value != theirs[rule, metric]:
            unlike.setdefault((rule, value, theirs[rule, metric]), []).append(metric)
    for (rule, one, two), metrics in unlike.items():
        about = f" ({listed(metrics, _MOST_NAMED)})" if any(metrics) else ""
        yield f"other {rule}{about}: {one} in {first.name}, {two} in {other.name}."


def _rules(report: Report, names: Sequence[str]) -> dict[tuple[str, str], object]:
    """The rules by which a report was scored: (rule, metric) with its value."""
    score = report.config.get("score")
    scoring: Mapping[str, Any] = score if isinstance(score, Mapping) else {}
    rules: dict[tuple[str, str], object] = {("unit", ""): report.unit}
    if report.unit == "span":
        rules["span_coverage", ""] = report.span_coverage or 0.5
    for rule in ("judged_only", "trec_compat"):
        rules[rule, ""] = bool(scoring.get(rule))
    for name in names:
        rules["queries that are counted", name] = report.metrics[name].counted
        rules["formula", name] = report.metrics[name].formula
        if metric_called(name).k is None:
            rules["depth", name] = scoring.get("depth") or "all hits"
    return rules


def _query_differences(first: ComparedReport, other: ComparedReport, *, orders: bool) -> tuple[set[str], list[str]]:
    """The queries with equal labels in two reports, and the differences of the others.

    For documents the highest grade counts. For passages each grade counts, with its position, or with its length if the
    documents differ: the same passage may be elsewhere in them. The ``orders`` of labels matter to metrics of orders.
    """
    is_span = first.report.unit == "span"
    have_labels = first.report.has_rankings and other.report.has_rankings
    places = first.report.dataset.documents_fingerprint == other.report.dataset.documents_fingerprint
    ours, theirs = ({query.id: query for query in entry.report.queries} for entry in (first, other))
    unlike: dict[str, str] = {}
    for name in (name for name in ours if name in theirs):
        query, twin = ours[name], theirs[name]
        labels, others = (_labels(own, is_span=is_span, places=places) for own in (query, twin))
        if query.text and twin.text and query.text != twin.text:
            unlike[name] = "another text"
        elif not have_labels:
            prints = query_fingerprint(first.report, query), query_fingerprint(other.report, twin)
            if how := _other_fingerprint(*prints):
                unlike[name] = how
        elif docs := [doc for doc in {**labels, **others} if labels.get(doc) != others.get(doc)]:
            unlike[name] = f"other labels of {docs[0]!r}"
        elif orders and _order(query) != _order(twin):
            unlike[name] = "another order of its labels"
    faults = []
    for entry, own, known in ((first, ours, theirs), (other, theirs, ours)):
        if alone := [repr(name) for name in own if name not in known]:
            counts = f"{len(alone):,} of {counted(len(own), 'query', 'queries')}"
            are = "is" if len(alone) == 1 else "are"
            faults.append(f"{counts} {are} only in {entry.name} ({listed(alone, _MOST_NAMED)}).")
    if unlike:
        shown = listed([f"query {name!r} has {how}" for name, how in unlike.items()], _MOST_NAMED)
        have = f"{counted(len(unlike), 'query has', 'queries have')} other labels"
        faults.append(f"{have} in {first.name} and {other.name} ({shown}).")
    return (ours.keys() & theirs.keys()) - unlike.keys(), faults


def query_fingerprint(report: Report, query: QueryPart) -> str:
    """Two hashes of 8 digits: of the rules of scoring and the labels, then of the text, if it is known.

    Passages count with their lengths: they may move in documents that change. Empty for a table without fingerprints.
    """
    if not report.has_rankings:
        return query.fingerprint or ""
    rules = [[rule, value] for (rule, _), value in _rules(report, ()).items()]
    labels = _labels(query, is_span=report.unit == "span", places=False)
    scored_by = [rules, report.relevance_threshold, labels, _order(query)]
    return "-".join(fingerprint(part)[:8] for part in (scored_by, query.text) if part)


def _other_fingerprint(one: str, other: str) -> str:
    """How the labels or texts behind two fingerprints differ; empty if they do not, or if it is not known."""
    (labels, _, text), (others, _, twin) = one.partition("-"), other.partition("-")
    if text and twin and text != twin:
        return "another text"
    return "other labels or rules of scoring" if labels and others and labels != others else ""


def _labels(query: QueryPart, *, is_span: bool, places: bool) -> Mapping[str, object]:
    """For each document its highest grade; of passages every grade with its stretches of the document."""
    if not is_span:
        grades = highest_grades(((label.doc, label.group), label.relevance) for label in query.relevant_docs)
        return {doc if group is None else f"{doc} in {group!r}": grade for (doc, group), grade in grades.items()}
    passages = defaultdict(list)
    for label in query.relevant_docs:
        spans = sorted((span.start * places, span.end - span.start) for span in label.spans)
        passages[label.doc].append((label.relevance, label.group or "", spans))
    return {doc: sorted(labels) for doc, labels in passages.items()}


def _order(query: QueryPart) -> list[str] | None:
    return list(dict.fromkeys(judgment.doc for judgment in query.relevant_docs)) if query.ordered else None


def _scored_queries(entry: ComparedReport, metric: str) -> set[str]:
    """The queries that ``metric`` scores for any chosen setting of a report."""
    columns = [setting.per_query.evaluations[metric] for setting in entry.settings]
    rows = zip(entry.report.queries, zip(*columns, strict=True), strict=True)
    return {query.id for query, scores in rows if any(score is not None for score in scores)}


def _remedy(entries: Sequence[ComparedReport], shared: int, scored: int) -> str:
    """What to do about queries of which ``shared`` are equal, and ``scored`` of these have scores in all reports."""
    again = "Score their rankings by the same labels (`ragtrial rescore REPORT --labels FILE` searches nothing)"
    if any(query.fingerprint for entry in entries for query in entry.report.queries):
        again = "Write the scores again, from a run with these labels (`ragtrial export REPORT FILE --baseline`)"
    elif len(entries) == 2 and all(entry.report.is_written for entry in entries):
        first, last = sorted((entry.report for entry in entries), key=lambda report: report.run_id)
        again = _rescore(first, last, [entry.report for entry in entries])
    if not shared:
        return f"No query is the same in all of them. {again}."
    if scored < LEAST_DIFFERENCES:
        return f"{again}."
    return f"{again}. Or add --common to this command, to compare over the {scored:,} scored queries that are the same."


def _rescore(first: Report, last: Report, compared: Sequence[Report]) -> str:
    """How to score the earlier report by the labels of the later one, and to compare both in the order ``compared``.

    Another run, if the labels cannot be used: passages are places in documents, and queries need a ranking.
    """
    is_span = first.unit == "span"
    are_other = first.dataset.documents_fingerprint != last.dataset.documents_fingerprint
    texts, others = ({(query.id, query.text) for query in report.queries} for report in (first, last))
    if (is_span and are_other) or texts.isdisjoint(others):
        return "Run the settings of the earlier report again, on the documents and labels of the later one"
    target, (labels,) = f"rescored-{first.run_id}", references_to(last)
    rescore = ["ragtrial", "rescore", *references_to(first), "--labels", labels, "-o", target]
    about = ""
    if is_span and any(not label.spans for query in last.queries for label in query.relevant_docs):
        config = config_of(last, first)  # a label of a whole document means all its passages
        rescore += ["--config", config]
        about = " (CONFIG is the config of one of these runs)" if config == UNKNOWN_CONFIG else ""
    both = [target if report is first else references_to(report)[0] for report in compared]
    return (
        "Score the earlier report again by the labels of the later one, which searches nothing: "
        f"`{shlex.join(rescore)}`{about}; then compare its report: `{shlex.join(['ragtrial', 'compare', *both])}`"
    )


def references_to(report: Report) -> Sequence[str]:
    """The report as commands name it: its folder, or the files of a table; nothing for a report in memory."""
    if report.is_written:
        return [from_here(report.folder)]
    files = [] if report.has_rankings else report.config["scores"]["files"]
    return files if all(Path(file).is_file() for file in files) else []


def config_of(*reports: Report) -> str:
    """The config here that has the text of the first report's own, else of the next's; a placeholder if there is none.

    It is only named, for a person to judge: nothing follows it. A report does not lead to files around itself.
    """
    here = Path.cwd()
    below = [*sorted(here.glob("configs/*.y*ml")), *sorted(here.glob(f"*/{USUAL_CONFIG}"))]
    files = [file for file in (here / USUAL_CONFIG, *sorted(here.glob("*.y*ml")), *below) if file.is_file()]
    for report in (report for report in reports if report.is_written):
        copy, folder = report.file("config.yaml"), report.folder.resolve()
        text = copy.read_bytes() if copy.is_file() else b""
        for file in files:
            is_own = file.resolve().is_relative_to(folder)
            if text and not is_own and file.stat().st_size == len(text) and file.read_bytes() == text:
                return str(file.relative_to(here))
    return UNKNOWN_CONFIG


def _document_warnings(entries: Sequence[ComparedReport]) -> Iterator[ReportWarning]:
    first, *others = [entry for entry in entries if entry.report.has_rankings] or entries[:1]
    for other in others:
        searched = [entry.report.dataset.documents_fingerprint for entry in (first, other)]
        if None in searched or searched[0] != searched[1]:
            code = "documents-unknown" if None in searched else "other-documents"
            are = "are not known to be" if None in searched else "are not"
            both = f"{first.name} and {other.name}"
            message = f"the documents of {both} {are} the same: differences may come from these."
            yield ReportWarning(code, message, may_change_verdict=None not in searched)
