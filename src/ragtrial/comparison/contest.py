"""What is compared: settings of one or more reports, over the same queries and labels."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ragtrial.comparison.comparability import Comparability, agreement_of
from ragtrial.comparison.report_inputs import Baseline, ComparedReport, Reference, read_entries
from ragtrial.comparison.statistics.samples import unrounded
from ragtrial.errors import ComparisonError, did_you_mean, listed
from ragtrial.evaluation.grading import Scores
from ragtrial.records import ReportWarning, WarningCode
from ragtrial.report.model import Report
from ragtrial.report.schema import QueryPart, SettingPart
from ragtrial.report.scored import ScoredPart, scored_part
from ragtrial.scoring.report_subsets import over_queries


@dataclass(frozen=True, eq=False)
class ComparedSetting:
    """A setting of a report. ``name`` is ``SETTING``, or ``REPORT:SETTING`` where several reports are compared.

    ``setting`` has the scores of the queries that are compared, in their order, and means over them.
    ``report_name`` is what the report is called here.
    """

    name: str
    report: Report
    setting: SettingPart
    report_name: str = ""


@dataclass(frozen=True)
class Pair:
    """Two contenders, by their place: the difference is that of ``setting`` less that of ``baseline``."""

    baseline: int
    setting: int


@dataclass(frozen=True, eq=False)
class PairedScores:
    """One metric's values, shape (contenders, queries); NaN where a query does not count for a contender."""

    metric: str
    values: Scores

    def differences(self, pairs: Sequence[Pair]) -> Scores:
        """Shape (pairs, queries); NaN where a query does not count for both, 0 where only rounding differs."""
        after, before = self.values[[pair.setting for pair in pairs]], self.values[[pair.baseline for pair in pairs]]
        return unrounded(after - before, np.abs(after) + np.abs(before))


@dataclass(frozen=True, eq=False)
class ComparisonSet:
    """Contenders that may be compared, over ``queries``, by ``metrics``, of which the first is the primary one.

    ``baseline`` is what ``pairs`` takes: a contender's name, or a report's, of which each setting is the baseline of
    those of the same name; None where all pairs are compared.
    """

    contenders: tuple[ComparedSetting, ...]
    queries: tuple[QueryPart, ...]
    metrics: tuple[str, ...]
    warnings: tuple[ReportWarning, ...] = ()
    baseline: str | None = None
    people: frozenset[str] | None = None
    """The queries whose labels count, where a judge has judged the others too; None for all."""

    @property
    def primary(self) -> str:
        return self.metrics[0]

    def sign(self, metric: str) -> int:
        """1 where higher values of ``metric`` are better, -1 where lower ones are."""
        return self.contenders[0].report.sign(metric)

    @property
    def are_pairs_by_name(self) -> bool:
        """Whether settings of equal names are compared: the baseline is a report."""
        return self.baseline in self.report_names and self.baseline not in self.names

    def scored_queries(self) -> ScoredPart:
        """How many queries the primary metric scores for any contender, and why not the others."""
        unknown = np.asarray(np.isnan(self.scores(self.primary).values).all(axis=0))
        failed = np.asarray(np.array([one.setting.per_query.skipped for one in self.contenders]).all(axis=0))
        return scored_part(self.queries, (~unknown).tolist(), failed.tolist())

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(contender.name for contender in self.contenders)

    @property
    def report_names(self) -> tuple[str, ...]:
        """What the reports are called, in their order."""
        return tuple(dict.fromkeys(contender.report_name for contender in self.contenders))

    def place(self, name: str) -> int:
        """Where the contender called ``name`` stands: its name, or ``SETTING`` where only one report has it.

        Raises ComparisonError with those that there are.
        """
        if name in self.names:
            return self.names.index(name)
        found = [place for place, contender in enumerate(self.contenders) if contender.setting.name == name]
        if len(found) == 1:
            return found[0]
        if found:
            several = " or ".join(self.names[place] for place in found)
            raise ComparisonError(f"several reports have a setting {name!r}; write {several}.")
        near = did_you_mean(name, self.names)
        raise ComparisonError(f"no setting {name!r} is compared.{near} There are: {listed(self.names)}.")

    def pairs(self, baseline: str | None = None) -> tuple[Pair, ...]:
        """All pairs, where there is no ``baseline``; of two contenders the one that stands first is it.

        Against a baseline every other contender; if it is a report, its settings with those of the same name.
        """
        if baseline is None:
            return tuple(Pair(first, second) for first, second in combinations(range(len(self.contenders)), 2))
        if baseline in self.report_names and baseline not in self.names:
            return self.pairs_by_name(baseline)
        place = self.place(baseline)
        return tuple(Pair(place, other) for other in range(len(self.contenders)) if other != place)

    def pairs_by_name(self, report: str) -> tuple[Pair, ...]:
        """Each setting of ``report`` with those of the same name in the others; maybe none."""
        own = {one.setting.name: place for place, one in enumerate(self.contenders) if one.report_name == report}
        return tuple(
            Pair(own[one.setting.name], place)
            for place, one in enumerate(self.contenders)
            if one.report_name != report and one.setting.name in own
        )

    def limited_to(self, metrics: Sequence[str]) -> ComparisonSet:
        """The same by those of its metrics that are among ``metrics``, and by the primary one."""
        kept = [name for name in self.metrics[1:] if name in metrics]
        return replace(self, metrics=(self.primary, *kept))

    def over(self, queries: Collection[str]) -> ComparisonSet:
        """The same over those of its queries alone that have these ids."""
        places = [place for place, query in enumerate(self.queries) if query.id in queries]
        contenders = (replace(one, setting=over_queries(one.setting, places)) for one in self.contenders)
        return replace(self, contenders=tuple(contenders), queries=tuple(self.queries[place] for place in places))

    def scores(self, metric: str) -> PairedScores:
        """The values of a metric for each contender and each of the queries.

        Of queries that people judged beside a judge, those for which they found nothing relevant are ties, with 0.
        """
        values = np.full((len(self.contenders), len(self.queries)), np.nan)
        for row, contender in enumerate(self.contenders):
            values[row] = contender.setting.per_query.evaluations[metric]  # None becomes NaN
        if self.people is not None:
            is_people = np.array([query.id in self.people for query in self.queries])
            values[:, ~is_people] = np.nan
            values[:, is_people & np.isnan(values).all(axis=0)] = 0.0
        return PairedScores(metric, values)


def contest_of(
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
) -> ComparisonSet:
    """The settings of reports, if they may be compared.

    A reference is a report's folder, its id or ``latest``, one of its settings (``REPORT:SETTING``), or a ``Report``;
    ids are looked for in ``directory``. ``metrics`` None means all that every report has and that count for any query.
    ``primary`` is the metric that decides; None means the first of ``metrics``, else that of the first report.
    ``settings`` are those to compare, ``SETTING`` or ``REPORT:SETTING``, None means all. ``baseline`` is a setting or a
    whole report; one that is not among the references is read as well. Without it the first of several reports is, if
    another has settings of the same names, unless ``all_pairs`` are asked for. With ``common`` only those queries are
    compared that are the same in all reports. One setting alone is refused, unless there ``may_be_one``; so are reports
    without a label that counts, unless they ``may_be_unlabelled``.

    Raises ReportError for reports that cannot be read; ComparisonError where reports differ in labels, queries or the
    meaning of metrics, and where there is nothing to compare; MetricError for a metric that there is not.
    """
    entries, meant = read_entries(references, settings, baseline, Path(directory))
    agreement = _unseen(entries, agreement_of(entries, primary, metrics, common=common))
    contenders = tuple(_contenders(entries, [query.id for query in agreement.queries]))
    if len(contenders) < 2 and not may_be_one:
        (entry,) = entries
        others = [name for name in entry.names if name != contenders[0].name]
        raise ComparisonError(
            f"there is nothing to compare {contenders[0].name!r} with, the only setting of {entry.name} that is "
            f"chosen. {'Name another setting' if others else 'Run a config with several retrievers'}"
            f"{f' ({listed(others)})' if others else ''}, or name another report; `ragtrial list runs` shows them."
        )
    contest = ComparisonSet(contenders, agreement.queries, agreement.metrics)
    if not all_pairs:
        contest = replace(contest, baseline=_baseline_name(contest, entries, meant))
    known = {metric: ~np.isnan(contest.scores(metric).values) for metric in contest.metrics}
    if not may_be_unlabelled and not known[contest.primary].any():
        counted = contenders[0].report.metrics[contest.primary].counted
        advice = (
            "Compare by another metric."
            if any(one.any() for one in known.values())
            else "No other metric has one: label answers, for example with "
            '`ragtrial search CONFIG "a question" --label`, and run again.'
        )
        raise ComparisonError(f"{contest.primary} has no value for any query: it counts {counted}. {advice}")
    kept = [name for name in contest.metrics if metrics is not None or name == contest.primary or known[name].any()]
    warnings = [*_about_reports(entries), *agreement.warnings, *_left_out(contest, known[contest.primary])]
    return replace(contest, metrics=tuple(kept), warnings=(*warnings, *_without_partner(contest)))


def _unseen(entries: Sequence[ComparedReport], agreement: Comparability) -> Comparability:
    """The same without queries by whose scores a search chose settings of one of the reports: they void any test."""
    warnings = list(agreement.warnings)
    queries = agreement.queries
    for entry in entries:
        search = entry.report.search
        if search is not None and search.is_adaptive:
            held_out = set(search.held_out)
            queries = tuple(query for query in queries if query.id in held_out)
            message = (
                f"{entry.name}: compared on the {len(queries):,} queries that the search held out; by the others it "
                "chose these settings, so that no test on them is valid."
            )
            warnings.append(ReportWarning(WarningCode.HELD_OUT, message))
    if not queries:
        raise ComparisonError("no query is left that none of the searches has chosen settings by.")
    return replace(agreement, queries=queries, warnings=tuple(warnings))


def _contenders(entries: Sequence[ComparedReport], queries: Sequence[str]) -> Iterator[ComparedSetting]:
    for entry in entries:
        known = {query.id: place for place, query in enumerate(entry.report.queries)}
        places = [known[query] for query in queries]
        for setting in entry.settings:
            name = f"{entry.name}:{setting.name}" if len(entries) > 1 else setting.name
            yield ComparedSetting(name, entry.report, over_queries(setting, places), entry.name)


def _baseline_name(contest: ComparisonSet, entries: Sequence[ComparedReport], baseline: Baseline | None) -> str | None:
    """The name of a baseline among the contenders, or of the report that is the baseline; None for all pairs."""
    if baseline is None:
        return entries[0].name if len(entries) > 1 and contest.pairs_by_name(entries[0].name) else None
    name = next((entry.name for entry in entries if entry.report is baseline.report), None)
    if baseline.setting is None:
        if name is not None and not contest.pairs_by_name(name):
            raise ComparisonError(
                f"no report has a setting of the same name as one of {name}, which is the baseline. Name one of its "
                f"settings: {listed(one.name for one in contest.contenders if one.report_name == name)}."
            )
        return name
    is_told_apart = name is not None and len(entries) > 1
    return contest.names[contest.place(f"{name}:{baseline.setting}" if is_told_apart else baseline.setting)]


def _about_reports(entries: Sequence[ComparedReport]) -> Iterator[ReportWarning]:
    """What is said of settings that were to be run and are in no comparison, and of files that are gone."""
    for entry in entries:
        for warning in entry.report.warnings:
            if warning.code == WarningCode.FILES_MISSING:
                yield ReportWarning(warning.code, warning.message)
        for failure in entry.report.failures:
            message = f"{entry.name}: {failure.name} failed when it was run, and is not compared."
            yield ReportWarning(WarningCode.SETTING_FAILED, message)


def _left_out(contest: ComparisonSet, known: npt.NDArray[np.bool_]) -> Iterator[ReportWarning]:
    """What is said of queries that count for others and not for a contender; ``known`` is of the primary metric."""
    anywhere = known.any(axis=0)
    for contender, own in zip(contest.contenders, known, strict=True):
        names = [query.id for query, lacks in zip(contest.queries, anywhere & ~own, strict=True) if lacks]
        if names:
            is_skipped = contender.setting.per_query.skipped
            skipped = {query.id for query, so in zip(contest.queries, is_skipped, strict=True) if so}
            why = "could not be answered" if skipped.issuperset(names) else f"without {contest.primary}"
            yield ReportWarning(
                WarningCode.QUERIES_LEFT_OUT,
                f"{contender.name}: queries {why}, left out of every comparison with it: {len(names):,} of "
                f"{int(anywhere.sum()):,} ({listed(map(repr, names), 3)}). They may be the harder ones.",
            )


def _without_partner(contest: ComparisonSet) -> Iterator[ReportWarning]:
    """What is said of settings that no other report has, where reports are compared name by name."""
    base = contest.baseline
    paired = {place for pair in contest.pairs(base) for place in (pair.baseline, pair.setting)}
    alone = [name for place, name in enumerate(contest.names) if place not in paired]
    if alone and base is not None:
        message = f"without a setting of the same name to compare with, {base} being the baseline: {listed(alone)}."
        yield ReportWarning(WarningCode.NO_PARTNER, message)
