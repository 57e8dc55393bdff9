"""The reports that enter a comparison: read from what a user writes, and called by short names that tell them apart."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ragtrial.errors import ComparisonError, Fault, ReportError, did_you_mean, listed
from ragtrial.report.find import find_report
from ragtrial.report.model import Report, load_report
from ragtrial.report.schema import SettingPart

Reference = str | Path | Report
"""A report's folder, id, or ``latest``; a setting of one, ``REPORT:SETTING``; or a report."""

_RUN_ID = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{6}")


@dataclass(eq=False)
class ComparedReport:
    """A report that is compared, what it is called, and which of its settings are meant: None means all.

    ``spellings`` are all names that mean it. One that ``is_added`` was not among the reports to compare: it is there
    for the baseline's sake. ``times`` counts how often all of it was named.
    """

    report: Report
    chosen: list[str] | None
    is_added: bool = False
    name: str = ""
    spellings: list[str] = field(default_factory=list)
    times: int = 0

    @property
    def settings(self) -> list[SettingPart]:
        return [one for one in self.report.settings if self.chosen is None or one.name in self.chosen]


@dataclass(frozen=True, eq=False)
class Baseline:
    """A setting of a report, or, where ``setting`` is None, a whole report. Without a ``report`` that of any."""

    setting: str | None
    report: Report | None


@dataclass(eq=False)
class _Reading:
    """Reads each report once, however often it is named."""

    directory: Path
    entries: dict[object, ComparedReport] = field(default_factory=dict)

    def add(self, reference: Reference, *, is_added: bool = False) -> ComparedReport:
        """Raises ReportError if there is no such report, or no such setting of it."""
        if isinstance(reference, Report):
            given = self.entries.setdefault(id(reference), ComparedReport(reference, None, is_added))
            given.times += not is_added
            return given
        written = str(reference)
        folder, name, setting = self.found(written)
        key = folder.resolve()
        if key not in self.entries:
            report = load_report(folder, hits=False)
            self.entries[key] = ComparedReport(report, None if setting is None else [], is_added)
        entry = self.entries[key]
        entry.spellings += [name] if name not in entry.spellings else []
        if setting is None:
            entry.chosen = None
            entry.times += 1
        elif entry.chosen is not None:
            entry.chosen.append(entry.report.setting(setting).name)
        return entry

    def found(self, written: str) -> tuple[Path, str, str | None]:
        """The folder of a report, how it is called, and the setting that is meant, if one is."""
        try:
            return find_report(written, self.directory), written, None
        except ReportError as error:
            report, colon, setting = written.rpartition(":")
            if not colon or not report or not setting or "/" in setting or "\\" in setting:
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
    """The reports of ``references`` with those of their settings that are meant, and the baseline.

    ``settings`` are ``SETTING`` or ``REPORT:SETTING``; None means all. A baseline in a report that is not among the
    references is read as well, and a baseline that is not among ``settings`` is compared all the same. Raises
    ReportError for reports and settings that are not there, ComparisonError for a report that contradicts itself; all
    of them at once.
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
    faults = [fault for entry in entries for fault in _contradictions(entry.report)]
    if faults:
        raise ComparisonError(*faults)
    _name(entries)
    _choose(entries, settings, meant)
    return entries, meant


def _read_baseline(reading: _Reading, baseline: Reference) -> Baseline:
    """What a baseline means: first a setting, then a report that is compared, then one that is not."""
    if isinstance(baseline, Report):
        return Baseline(None, reading.add(baseline, is_added=True).report)
    written = str(baseline)
    entries = list(reading.entries.values())
    if any(written in _names_of(entry.report) for entry in entries):
        return Baseline(written, entries[0].report if len(entries) == 1 else None)
    first, _, last = written.rpartition(":")
    for report, setting in ((written, ""), (first, last)):
        known = [entry for entry in entries if report in _spellings(entry)]
        if len(known) > 1:
            ids = listed(entry.report.run_id for entry in known)
            raise ComparisonError(f"the baseline's report {report!r} may be any of: {ids}. Write its id.")
        if known:
            return Baseline(known[0].report.setting(setting).name if setting else None, known[0].report)
    try:
        reading.found(written)
    except ReportError as error:
        names = dict.fromkeys(name for entry in entries for name in _names_of(entry.report))
        near = did_you_mean(last, names)
        raise ComparisonError(
            f"the baseline {written!r} is neither a setting that is compared nor a report.{near} "
            f"The settings are: {listed(names)}."
        ) from error
    added = reading.add(written, is_added=True)
    return Baseline(added.chosen[-1] if added.chosen else None, added.report)


def _names_of(report: Report) -> list[str]:
    return [setting.name for setting in report.settings]


def _contradictions(report: Report) -> Iterator[Fault]:
    """What no report may be, whoever made it."""
    folder = folder_of(report)
    place = f"report {report.run_id}" if folder is None else str(folder / "report.json")
    for name in _twice(setting.name for setting in report.settings):
        yield Fault(place, message=f"has two settings of the name {name!r}; rename one, and run it again.")
    known = {query.id for query in report.queries}
    for name in _twice(query.id for query in report.queries):
        yield Fault(place, message=f"has two queries of the id {name!r}; give one another id, and run it again.")
    for setting in report.settings:
        for name in _twice(query.id for query in setting.queries):
            yield Fault(place, message=f"has two results of {setting.name!r} for query {name!r}; run it again.")
        strange = [query.id for query in setting.queries if query.id not in known]
        if strange:
            message = f"has results of {setting.name!r} for queries that it does not list: {listed(strange, 3)}."
            yield Fault(place, message=f"{message} It was changed by hand; run it again.")
    if not report.queries:
        yield Fault(place, message="has no queries; there is nothing to compare.")
    if not report.settings:
        failed = [failure.name for failure in report.failures]
        why = f": these failed: {listed(failed)}" if failed else ""
        yield Fault(place, message=f"has no settings{why}; there is nothing to compare.")


def _twice(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


def folder_of(report: Report) -> Path | None:
    """Where a report stands; None where it was never written."""
    try:
        return report.folder
    except ReportError:
        return None


def _spellings(entry: ComparedReport) -> list[str]:
    """Names for a report: the best first, and each later one tells it from more of the others."""
    report, folder = entry.report, folder_of(entry.report)
    names = []
    for written in entry.spellings:
        plain = written.rstrip("/\\").removesuffix("report.json").rstrip("/\\")
        if re.fullmatch(r"[^/\\:]+", plain) and plain.strip(".") and not _RUN_ID.fullmatch(plain):
            names.append(plain)
    if folder is not None and folder.name and not _RUN_ID.fullmatch(folder.name):
        names += [folder.name, f"{folder.parent.name}/{folder.name}"]
    names += [report.experiment, report.run_id.partition("-")[0], report.run_id]
    names += [] if folder is None else [str(folder)]
    return list(dict.fromkeys(name for name in (*names, *entry.spellings) if name))


def _name(entries: Sequence[ComparedReport]) -> None:
    """Give each entry the first of its names that no other has, a number where it has none, and all its spellings."""
    places = [0] * len(entries)
    for number, entry in enumerate(entries, 1):
        entry.spellings = [*_spellings(entry), f"report-{number}"]
    while clashing := _clashes([entry.spellings[at] for entry, at in zip(entries, places, strict=True)]):
        for place in clashing:
            places[place] = min(places[place] + 1, len(entries[place].spellings) - 1)
    for entry, at in zip(entries, places, strict=True):
        entry.name = entry.spellings[at]


def _clashes(names: Sequence[str]) -> list[int]:
    counts = Counter(names)
    return [place for place, name in enumerate(names) if counts[name] > 1]


def _choose(entries: Sequence[ComparedReport], settings: Sequence[str] | None, baseline: Baseline | None) -> None:
    """Leave the entries those settings that are in ``settings``, and what the baseline needs."""
    wanted = {entry.name: {one.name for one in entry.settings} for entry in entries}
    if settings is not None:
        wanted = _wanted(entries, settings)
    for entry in entries:
        if baseline is not None and baseline.setting is not None and baseline.report in (None, entry.report):
            wanted[entry.name] |= {baseline.setting} & set(_names_of(entry.report))
    for entry in entries:
        names = wanted[entry.name]
        if entry.is_added and baseline is not None and baseline.setting is None:
            names &= set().union(*(wanted[other.name] for other in entries if other is not entry))
        entry.chosen = [name for name in _names_of(entry.report) if name in names]
        if not entry.chosen:
            raise ComparisonError(_none_of(entry, settings))


def _none_of(entry: ComparedReport, settings: Sequence[str] | None) -> str:
    there = f"it has: {listed(_names_of(entry.report))}."
    if entry.is_added:
        return f"the baseline {entry.name} has no setting of the same name as any that is compared; {there}"
    return f"{entry.name} has none of the settings {listed(settings or ())}; {there}"


def _wanted(entries: Sequence[ComparedReport], settings: Sequence[str]) -> dict[str, set[str]]:
    """For each entry the settings that were asked for; of an entry that was added for the baseline, its own."""
    wanted = {entry.name: {one.name for one in entry.settings} if entry.is_added else set() for entry in entries}
    faults = []
    for written in settings:
        report, _, setting = written.rpartition(":")
        asked = [entry for entry in entries if not report or report in entry.spellings]
        found = [entry for entry in asked if setting in _names_of(entry.report) and not entry.is_added]
        for entry in found:
            wanted[entry.name].add(setting)
        if not found:
            names = dict.fromkeys(name for entry in asked or entries for name in _names_of(entry.report))
            faults.append(f"no setting {written!r}.{did_you_mean(setting, names)} There are: {listed(names)}.")
    if faults:
        raise ComparisonError(*faults)
    return wanted
