"""The settings of one or more reports that are compared, over the same queries and labels."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from pathlib import Path
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from ragtrial.comparison.report_inputs import (
    Baseline,
    ComparedReport,
    Reference,
    common_metrics,
    common_queries,
    read_entries,
)
from ragtrial.comparison.statistics.samples import Family
from ragtrial.errors import ComparisonError, did_you_mean, listed
from ragtrial.evaluation.clusters import Places, clusters_of
from ragtrial.evaluation.grading import Scores
from ragtrial.records import Direction, ReportWarning
from ragtrial.report.model import Report
from ragtrial.report.schema import QueryPart, ScoredPart, SettingPart, scored_part
from ragtrial.scoring.query_details import over_queries


@dataclass(frozen=True, eq=False)
class ComparedSetting:
    """A setting of a report. ``name`` is ``SETTING``, or ``REPORT:SETTING`` if several reports are compared.

    ``part`` has the scores of the compared queries, in their order, and means over them. ``report_name`` is the name of
    the report in this comparison.
    """

    name: str
    report: Report
    part: SettingPart
    report_name: str = ""


@dataclass(frozen=True)
class Pair:
    """Two settings by index. Their difference is ``setting`` minus ``baseline``."""

    baseline: int
    setting: int


@dataclass(frozen=True, eq=False)
class PairedScores:
    """The values of one metric, shape (settings, queries); NaN if a query does not count for a setting."""

    metric: str
    values: Scores

    @property
    def means(self) -> Scores:
        """The mean of each setting over the queries that count for it, shape (settings,); NaN over none."""
        known = ~np.isnan(self.values)
        with np.errstate(invalid="ignore"):
            return np.asarray(np.where(known, self.values, 0.0).sum(axis=1) / known.sum(axis=1))

    def counts(self, pairs: Sequence[Pair]) -> Places:
        """The number of queries that count for both settings of each pair, shape (pairs,)."""
        known = (~np.isnan(self.values)).astype(np.float64)
        counts = (known @ known.T).astype(np.int64)
        return np.array([counts[pair.setting, pair.baseline] for pair in pairs], dtype=np.int64)

    def sizes_of(self, clusters: Places) -> Places:
        """The number of queries of each cluster that count for any setting, without clusters that have none."""
        return np.unique(clusters[~np.isnan(self.values).all(axis=0)], return_counts=True)[1].astype(np.int64)

    def differences(self, pairs: Sequence[Pair]) -> Scores:
        """Shape (pairs, queries). NaN if a query does not count for both settings, 0 if only rounding differs."""
        return self.family(pairs).differences()

    def family(self, pairs: Sequence[Pair], clusters: Places | None = None) -> Family:
        """The comparisons of ``pairs``, for tests of them together."""
        columns = np.array([(pair.setting, pair.baseline) for pair in pairs], dtype=np.int64).reshape(-1, 2)
        return Family(self.values, columns, clusters)


@dataclass(frozen=True, eq=False)
class ComparisonInput:
    """Settings that may be compared over ``queries`` by ``metrics``. The first metric is the primary one.

    ``baseline`` is an argument of ``pairs``: the name of a setting, or of a report whose settings are compared with the
    settings of equal names in other reports. None compares all pairs.
    """

    settings: tuple[ComparedSetting, ...]
    queries: tuple[QueryPart, ...]
    metrics: tuple[str, ...]
    warnings: tuple[ReportWarning, ...] = ()
    baseline: str | None = None
    people: frozenset[str] | None = None
    """The queries judged by people, if a model judged the rest; None means all."""

    is_common: bool = False
    """True if queries that the reports do not share are left out."""

    @property
    def primary(self) -> str:
        return self.metrics[0]

    @property
    def report(self) -> Report:
        """The first report."""
        return self.settings[0].report

    def sign(self, metric: str) -> int:
        """1 if higher values of ``metric`` are better, -1 if lower values are."""
        return self.report.sign(metric)

    @property
    def are_pairs_by_name(self) -> bool:
        """True if settings of equal names are compared, because the baseline is a report."""
        return self.baseline in self.report_names and self.baseline not in self.names

    def scored_queries(self) -> ScoredPart:
        """How many queries the primary metric scores for any setting, and why it does not score the others."""
        unknown = np.asarray(np.isnan(self.scores(self.primary).values).all(axis=0))
        failed = np.asarray(np.array([setting.part.per_query.skipped for setting in self.settings]).all(axis=0))
        have_labels = any(setting.report.has_rankings for setting in self.settings)
        return scored_part(self.queries, (~unknown).tolist(), failed.tolist(), have_labels=have_labels)

    @cached_property
    def clusters(self) -> Places | None:
        """The number of each query's cluster, shape (queries,); None if each query stands alone."""
        threshold = self.report.relevance_threshold
        return clusters_of(self.queries, by_document=self.are_joined_by_document, threshold=threshold)

    @property
    def are_joined_by_document(self) -> bool:
        """True if questions with a common relevant document are one cluster."""
        return any(setting.report.clusters == "document" for setting in self.settings)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(setting.name for setting in self.settings)

    @property
    def report_names(self) -> tuple[str, ...]:
        """The names of the reports, in their order."""
        return tuple(dict.fromkeys(setting.report_name for setting in self.settings))

    def setting_index(self, name: str) -> int:
        """The index of the setting called ``name``, or ``SETTING`` if only one report has it.

        Raises ComparisonError with the names that exist.
        """
        if name in self.names:
            return self.names.index(name)
        indices = [index for index, setting in enumerate(self.settings) if setting.part.name == name]
        if len(indices) == 1:
            return indices[0]
        if indices:
            several = " or ".join(self.names[index] for index in indices)
            raise ComparisonError(f"several reports have a setting {name!r}; write {several}.")
        near = did_you_mean(name, self.names)
        raise ComparisonError(f"no setting {name!r} is compared.{near} There are: {listed(self.names)}.")

    def pair(self, baseline: str, setting: str) -> Pair:
        """The pair of settings called so. Raises ComparisonError as ``setting_index`` does."""
        return Pair(self.setting_index(baseline), self.setting_index(setting))

    def pairs(self, baseline: str | None = None) -> tuple[Pair, ...]:
        """All pairs, the earlier setting as the baseline; or every other setting against ``baseline``.

        If ``baseline`` is a report, its settings are compared with the settings of equal names.
        """
        if baseline is None:
            return tuple(Pair(first, second) for first, second in combinations(range(len(self.settings)), 2))
        if baseline in self.report_names and baseline not in self.names:
            return self.pairs_by_name(baseline)
        index = self.setting_index(baseline)
        return tuple(Pair(index, other) for other in range(len(self.settings)) if other != index)

    def pairs_by_name(self, report: str) -> tuple[Pair, ...]:
        """Each setting of ``report`` with the settings of equal names in other reports; possibly none."""
        own = {setting.part.name: index for index, setting in enumerate(self.settings) if setting.report_name == report}
        return tuple(
            Pair(own[setting.part.name], index)
            for index, setting in enumerate(self.settings)
            if setting.report_name != report and setting.part.name in own
        )

    def limited_to(self, metrics: Sequence[str]) -> ComparisonInput:
        """A copy by the primary metric and by the other metrics that are in ``metrics``."""
        kept = [name for name in self.metrics[1:] if name in metrics]
        return replace(self, metrics=(self.primary, *kept))

    def over(self, queries: Collection[str]) -> ComparisonInput:
        """A copy over the queries with these ids."""
        rows = [row for row, query in enumerate(self.queries) if query.id in queries]
        settings = (replace(setting, part=over_queries(setting.part, rows)) for setting in self.settings)
        return replace(self, settings=tuple(settings), queries=tuple(self.queries[row] for row in rows))

    def only(self, names: Sequence[str]) -> ComparisonInput:
        """A copy with the settings called ``names``, in this order."""
        return replace(self, settings=tuple(self.settings[self.setting_index(name)] for name in names))

    def scores(self, metric: str) -> PairedScores:
        """The values of a metric for each setting and query.

        If a judge judged the other queries, a query for which people found nothing relevant is a tie with 0.
        """
        values = np.full((len(self.settings), len(self.queries)), np.nan)
        for row, setting in enumerate(self.settings):
            values[row] = setting.part.per_query.evaluations[metric]  # None becomes NaN
        if self.people is not None:
            is_people = np.array([query.id in self.people for query in self.queries])
            values[:, ~is_people] = np.nan
            values[:, is_people & np.isnan(values).all(axis=0)] = 0.0
        return PairedScores(metric, values)


def input_of(
    references: Sequence[Reference],
    metrics: Sequence[str] | None = None,
    *,
    primary: str | None = None,
    settings: Sequence[str] | None = None,
    baseline: Reference | None = None,
    all_pairs: bool = False,
    common: bool = False,
    may_be_one: bool = False,
    may_be_unlabelled: bool = False,
    directory: str | Path = "results",
    better: Mapping[str, Direction] = MappingProxyType({}),
) -> ComparisonInput:
    """The settings of reports, if they may be compared.

    A reference is a report's folder, its id or ``latest``, one of its settings (``REPORT:SETTING``), a ``Report``,
    scored runs, or a table of scores, of whose metrics ``better`` gives directions; ids are looked up in ``directory``.
    ``metrics`` None means all metrics that every report has and that count for any query. ``primary`` is the deciding
    metric (default: the first of ``metrics``, or else the primary
    metric of the first report). ``settings`` limits the comparison to ``SETTING`` or ``REPORT:SETTING``. ``baseline``
    is a setting or a whole report; it is read as well if it is not among the references. By default the first of
    several reports is the baseline if another report has settings of the same names, unless ``all_pairs`` is set.
    ``common`` limits the comparison to the queries that are the same in all reports. A single setting is an error
    unless ``may_be_one``; so are reports without a label that counts, unless ``may_be_unlabelled``.

    Raises ReportError for reports that cannot be read; ComparisonError if reports differ in labels, queries or the
    meaning of metrics, and if there is nothing to compare; MetricError for an unknown metric.
    """
    entries, meant = read_entries(references, settings, baseline, Path(directory), better)
    names, about_metrics = common_metrics(entries, primary, metrics)
    queries, about_queries = common_queries(entries, names, common=common)
    queries, about_search = _unseen(entries, queries)
    compared = tuple(_compared(entries, [query.id for query in queries]))
    if len(compared) < 2 and not may_be_one:
        raise ComparisonError(_nothing_to_compare(entries[0], compared[0].name))
    inputs = ComparisonInput(compared, queries, names, is_common=common)
    if not all_pairs:
        inputs = replace(inputs, baseline=_baseline_name(inputs, entries, meant))
    known = {metric: ~np.isnan(inputs.scores(metric).values) for metric in inputs.metrics}
    if not may_be_unlabelled and not known[inputs.primary].any():
        raise ComparisonError(_no_value(inputs, has_others=any(values.any() for values in known.values())))
    kept = [name for name in inputs.metrics if metrics is not None or name == inputs.primary or known[name].any()]
    warnings = [*_about_reports(entries), *about_metrics, *about_queries, *about_search]
    warnings += [*_left_out(inputs, known[inputs.primary]), *_without_partner(inputs), *_out_of_order(inputs, entries)]
    return replace(inputs, metrics=tuple(kept), warnings=tuple(warnings))


def _nothing_to_compare(entry: ComparedReport, name: str) -> str:
    if not entry.report.has_rankings:
        return (
            f"there is nothing to compare {name!r} with, the only setting of {entry.name}. Name the scores of another "
            "system as well (`ragtrial compare A.csv B.csv`), or put both into one table, with a column `system`."
        )
    others = [other for other in entry.names if other != name]
    another = f"Name another setting ({listed(others)})" if others else "Run a config with several retrievers"
    return (
        f"there is nothing to compare {name!r} with, the only setting of {entry.name} that is chosen. {another}, or "
        "name another report; `ragtrial list runs` shows them."
    )


def _no_value(inputs: ComparisonInput, *, has_others: bool) -> str:
    advice = (
        "Compare by another metric."
        if has_others
        else "Every score of it is missing."
        if not inputs.report.has_rankings
        else "No other metric has one: label answers, for example with "
        '`ragtrial search CONFIG "a question" --label`, and run again.'
    )
    counted = inputs.report.metrics[inputs.primary].counted
    return f"{inputs.primary} has no value for any query: it counts {counted}. {advice}"


def _unseen(
    entries: Sequence[ComparedReport], queries: tuple[QueryPart, ...]
) -> tuple[tuple[QueryPart, ...], list[ReportWarning]]:
    """Leave out queries whose scores a search used to choose settings, because they void any test."""
    warnings = []
    for entry in entries:
        search = entry.report.search
        if search is not None and search.is_adaptive:
            queries = tuple(query for query in queries if query.id in set(search.held_out))
            message = (
                f"{entry.name}: compared on the {len(queries):,} queries that the search held out; by the others it "
                "chose these settings, so that no test on them is valid."
            )
            warnings.append(ReportWarning.of_verdict("held-out", message))
    if not queries:
        raise ComparisonError("no query is left that none of the searches has chosen settings by.")
    return queries, warnings


def _compared(entries: Sequence[ComparedReport], queries: Sequence[str]) -> Iterator[ComparedSetting]:
    for entry in entries:
        row_of = {query.id: row for row, query in enumerate(entry.report.queries)}
        rows = [row_of[query] for query in queries]
        for part in entry.settings:
            name = f"{entry.name}:{part.name}" if len(entries) > 1 else part.name
            yield ComparedSetting(name, entry.report, over_queries(part, rows), entry.name)


def _baseline_name(inputs: ComparisonInput, entries: Sequence[ComparedReport], baseline: Baseline | None) -> str | None:
    """The name of the baseline, a setting or a report; None for all pairs."""
    if baseline is None:
        return entries[0].name if len(entries) > 1 and inputs.pairs_by_name(entries[0].name) else None
    entry = baseline.entry
    if baseline.setting is not None:
        qualifier = f"{entry.name}:" if entry is not None and len(entries) > 1 else ""
        return inputs.names[inputs.setting_index(qualifier + baseline.setting)]
    if entry is not None and not inputs.pairs_by_name(entry.name):
        raise ComparisonError(
            f"no report has a setting of the same name as one of {entry.name}, which is the baseline. Name one of its "
            f"settings: {listed(setting.name for setting in inputs.settings if setting.report_name == entry.name)}."
        )
    return None if entry is None else entry.name


_TAKEN_OVER = ("files-missing", "chunk-labels", "few-queries-match", "no-documents-match", "queries-not-retrieved")
"""The codes of a report's warnings that say that its scores may not be what they look like."""


def _about_reports(entries: Sequence[ComparedReport]) -> Iterator[ReportWarning]:
    """Warnings about settings that failed when they were run, missing files, and labels that are chunks."""
    for entry in entries:
        for warning in entry.report.warnings:
            if warning.code in _TAKEN_OVER or not entry.report.has_rankings:
                yield ReportWarning(**dict(warning))
        for failure in entry.report.failures:
            message = f"{entry.name}: {failure.name} failed when it was run, and is not compared."
            yield ReportWarning("setting-failed", message)


def _left_out(inputs: ComparisonInput, known: npt.NDArray[np.bool_]) -> Iterator[ReportWarning]:
    """Warnings about queries that have a value for other settings but not for this one.

    ``known`` marks the values of the primary metric, shape (settings, queries).
    """
    anywhere = known.any(axis=0)
    for setting, own in zip(inputs.settings, known, strict=True):
        rows = np.flatnonzero(anywhere & ~own).tolist()
        if rows:
            is_failed = all(setting.part.per_query.skipped[row] for row in rows)
            why = "could not be answered" if is_failed else f"without {inputs.primary}"
            names = listed([repr(inputs.queries[row].id) for row in rows], 3)
            yield ReportWarning.of_verdict(
                "queries-left-out",
                f"{setting.name}: queries {why}, left out of every comparison with it: {len(rows):,} of "
                f"{int(anywhere.sum()):,} ({names}). They may be the harder ones.",
            )


def _without_partner(inputs: ComparisonInput) -> Iterator[ReportWarning]:
    """Warns about settings that no other report has, if reports are compared name by name."""
    base = inputs.baseline
    paired = {index for pair in inputs.pairs(base) for index in (pair.baseline, pair.setting)}
    alone = [name for index, name in enumerate(inputs.names) if index not in paired]
    if alone and base is not None:
        message = f"without a setting of the same name to compare with, {base} being the baseline: {listed(alone)}."
        yield ReportWarning("no-partner", message)


def _out_of_order(inputs: ComparisonInput, entries: Sequence[ComparedReport]) -> Iterator[ReportWarning]:
    """Warns if a report that is compared with a baseline, name by name, scores an earlier run than the baseline."""
    times = {entry.name: entry.report.original_run.partition("-")[0] for entry in entries}
    base = inputs.baseline if inputs.are_pairs_by_name else None
    for entry in entries:
        if base and entry.report.parent and times[entry.name] < times[base]:
            message = (
                f"{entry.name} is the earlier run {entry.report.parent} scored again, and {base}, the baseline, is a "
                f"later run: an improvement is shown as a loss. Name {entry.name} first, or as the baseline."
            )
            yield ReportWarning.of_verdict("later-baseline", message)
