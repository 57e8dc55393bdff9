"""The reports that enter a comparison: read from what a user writes, and called by short names that tell them apart."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
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

    ``spellings`` are all names that mean it.
    """

    report: Report
    chosen: list[str] | None
    name: str = ""
    spellings: list[str] = field(default_factory=list)

    @property
    def settings(self) -> list[SettingPart]:
        return [one for one in self.report.settings if self.chosen is None or one.name in self.chosen]

    @property
    def names(self) -> list[str]:
        """Those of all settings of the report."""
        return [setting.name for setting in self.report.settings]


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
    faults = [Fault(_place(entry.report), message=told) for entry in entries for told in _contradictions(entry.report)]
    if faults:
        raise ComparisonError(*faults)
    _name(entries)
    _choose(entries, settings, meant)
    return entries, meant


def _read_baseline(reading: _Reading, baseline: Reference) -> Baseline:
    """What a baseline means: first a setting, then a report that is compared, then one that is not."""
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
    """What no report may be, whoever made it."""
    known = [query.id for query in report.queries]
    all_names = {"setting": [one.name for one in report.settings], "query": known}
    for what, names in all_names.items():
        if twice := [name for name, count in Counter(names).items() if count > 1]:
            yield f"has two of the {what} {listed(map(repr, twice), 3)}. It was changed by hand; run it again."
    if not report.queries or not report.settings:
        yield f"has no {'settings' if report.queries else 'queries'}; there is nothing to compare."


def _folder(report: Report) -> Path | None:
    """Where a report stands; None where it was never written."""
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
    """Leave the entries those settings that are in ``settings``, and what the baseline needs."""
    wanted = {entry.name: {one.name for one in entry.settings} for entry in entries}
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
