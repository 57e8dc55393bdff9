"""Gates and files for continuous integration, as `run` and `compare` have them."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO, TypeVar

from ragtrial import config as configs
from ragtrial.cli.options import option
from ragtrial.cli.terminal import Terminal
from ragtrial.comparison import comparing, comparison_input, gates as all_gates
from ragtrial.comparison.comparing import ComparisonOptions
from ragtrial.comparison.comparison_input import ComparisonInput
from ragtrial.comparison.comparison_parts import Comparison
from ragtrial.comparison.gates import Findings
from ragtrial.errors import Fault, GateError, InputError, ReportError, RunError, did_you_mean, listed
from ragtrial.pipeline import run as runs
from ragtrial.report import model, schema
from ragtrial.runs import streams
from ragtrial.scoring.tables import reading
from ragtrial.views import analysis, findings_files, report_tables

T = TypeVar("T")


@dataclass(frozen=True)
class GateOptions:
    """Options of gates and files as they were written; the file ``-`` is standard output."""

    fail_if: tuple[str, ...] = option(
        'Exit with status 1 if the condition holds: "ndcg@10 < 0.70", "hybrid: ndcg@10 worse than baseline", '
        '"ndcg@10 not within 0.02 of baseline". May be repeated.',
        "GATE",
    )
    junit: str | None = option("Write the results as JUnit XML; - is standard output.", "FILE")
    markdown: str | None = option("Write the results as Markdown, for a pull request.", "FILE")
    csv: str | None = option("Write a row for each comparison, with all fields.", "FILE")

    @property
    def files(self) -> dict[str, str]:
        """The files to write, by form."""
        return {form: target for form in ("junit", "markdown", "csv") if (target := getattr(self, form))}

    @property
    def is_empty(self) -> bool:
        return not (self.fail_if or self.files)


@dataclass(frozen=True, eq=False)
class RunBaseline:
    """The setting that the settings of a run are compared with: one of the run, or one of an earlier ``report``.

    ``name`` is its name in this comparison, ``setting`` its name in its report, and ``source`` the report as commands
    name it: its folder, or a file of scores.
    """

    name: str
    setting: str
    report: model.Report | None = None
    source: str = ""

    @property
    def reference(self) -> str:
        """The baseline as commands name it."""
        return self.setting if self.report is None else f"{self.source}:{self.setting}"


@dataclass(frozen=True, eq=False)
class Checks:
    """Parsed and validated gates.

    ``stdout`` is the stream of the answer. A run has its ``baseline``, if any, and the ``config`` as a command names
    it.
    """

    options: GateOptions
    stdout: TextIO
    gates: tuple[all_gates.Gate, ...] = ()
    baseline: RunBaseline | None = None
    config: str | None = None

    def of_comparison(self, inputs: ComparisonInput, options: ComparisonOptions, comparison: Comparison) -> Findings:
        """The results for a comparison of reports; settings that failed in the runs are ignored."""
        newest = max((setting.report for setting in inputs.settings), key=lambda report: report.run_id)
        parts = {setting.name: setting.part for setting in inputs.settings}
        by_metric = self._by_metric(inputs, options, comparison)
        return self._findings(newest, parts, (), options.baseline, comparison, by_metric)

    def of_run(self, report: model.Report) -> Findings:
        """The results for a run. Raises RunError if the run, which is written, cannot be compared with the baseline."""
        parts, baseline = {setting.name: setting for setting in report.settings}, self.baseline
        if baseline is None:
            is_compared = bool(self.options.files) and len(parts) > 1
        else:
            is_compared = baseline.report is not None or (baseline.setting in parts and len(parts) > 1)
        name = baseline.name if baseline else None
        if not is_compared:
            return self._findings(report, parts, report.failures, name)
        try:
            inputs, options = _inputs(report, baseline), ComparisonOptions(name, config=self.config)
            comparison = analysis.analyse(inputs, options)
            by_metric = self._by_metric(inputs, options, comparison)
        except InputError as error:
            written = f"The report is written: {report.folder / 'report.json'}"
            raise RunError(*(f"{fault.message} {written}" for fault in error.faults)) from error
        return self._findings(report, parts, report.failures, name, comparison, by_metric)

    def _by_metric(
        self, inputs: ComparisonInput, options: ComparisonOptions, comparison: Comparison
    ) -> dict[str, Comparison]:
        """The comparison with the baseline for each metric in a gate: by itself unless it is the primary metric."""
        by_metric = {comparison.primary_metric: comparison}
        for metric in () if options.baseline is None else all_gates.compared_metrics(self.gates):
            if metric not in by_metric:
                by_metric[metric] = comparing.compare_settings(replace(inputs, metrics=(metric,)), options)
        return by_metric

    def _findings(
        self,
        report: model.Report,
        settings: Mapping[str, schema.SettingPart],
        failures: Sequence[schema.FailurePart],
        baseline: str | None,
        comparison: Comparison | None = None,
        by_metric: Mapping[str, Comparison] | None = None,
    ) -> Findings:
        primary = comparison.primary_metric if comparison else report.primary_metric
        means, sign = {name: setting.scores[primary].mean for name, setting in settings.items()}, report.sign(primary)
        ranked = sorted(means, key=lambda name: (means[name] is None, -sign * (means[name] or 0.0), name))
        failed = [failure.name for failure in failures]
        evidence = all_gates.GateEvidence(settings, primary, failed, baseline, by_metric or {})
        best_first = {name: settings[name] for name in ranked}
        gates = tuple(all_gates.judge_gates(self.gates, evidence))
        return Findings(report.experiment, primary, best_first, comparison, gates, tuple(failures))

    def write(self, findings: Findings) -> tuple[list[str], list[str]]:
        """Write each file, whole or not at all; the lines that sum up, and the lines of results that did not pass.

        Raises RunError if a file cannot be written.
        """
        with contextlib.redirect_stdout(self.stdout):
            for form, target in self.options.files.items():
                findings_files.WRITERS[form](target, findings)
        not_passed = [gate for gate in findings.gates if gate.outcome != "passed" or gate.is_incomplete]
        total = findings_files.summary(findings)
        return ["", total] if total else [], [findings_files.gate_line(gate) for gate in not_passed]


def parse_checks(options: GateOptions, subject: all_gates.Subject, terminal: Terminal) -> Checks:
    """Parse gates, and check that files can be written, before anything is run.

    If a file goes to standard output, the terminal prints to standard error from now on. Raises InputError with all
    faults, click.UsageError if two answers would go to standard output.
    """
    terminal.check_stdout({f"--{form}": target for form, target in options.files.items()})
    faults: list[Fault] = []
    gates = attempt(faults, lambda: all_gates.parse_gates(options.fail_if, subject))
    for target in options.files.values():
        attempt(faults, functools.partial(streams.check_folder, target))
    InputError.raise_any(faults)
    stdout = terminal.out
    if "-" in options.files.values():
        terminal.out = sys.stderr
    return Checks(options, stdout, tuple(gates or ()))


def attempt(faults: list[Fault], step: Callable[[], T]) -> T | None:
    """The result of ``step``; None if the input is wrong: its faults are added to ``faults``."""
    try:
        return step()
    except InputError as error:
        faults += error.faults
        return None


def checks_for_comparison(options: GateOptions, inputs: ComparisonInput, terminal: Terminal) -> Checks:
    """The checks of a comparison of reports, over the metrics that all settings have. Raises as ``parse_checks``."""
    parts = [setting.part for setting in inputs.settings]
    metrics = tuple(name for name in parts[0].scores if all(name in part.scores for part in parts))
    if len(inputs.report_names) > 1:  # other metrics may mean something else in each report
        metrics = inputs.metrics
    return parse_checks(options, all_gates.Subject(inputs.names, metrics, inputs.baseline), terminal)


def checks_for_run(
    config: configs.ExperimentConfig,
    options: GateOptions,
    baseline_name: str | None,
    limit: int | None,
    terminal: Terminal,
    file: str,
) -> Checks | None:
    """The checks of a run; None if there are no gates and no baseline. Raises InputError with all faults."""
    if baseline_name is None and options.is_empty:
        return None
    run = runs.Run.of(config, runs.RunOptions(limit=limit))
    names = tuple(setting.name for setting in run.settings)
    faults: list[Fault] = []
    baseline = None if baseline_name is None else attempt(faults, lambda: _baseline(baseline_name, names, config))
    if len(names) == 1 and (baseline.report is None if baseline else "csv" in options.files):
        faults.append(Fault("--baseline", message=f"{names[0]!r} is the only setting; there is nothing to compare."))
    # A wrong baseline is reported once, not again for every gate that needs it.
    against = baseline.name if baseline else baseline_name
    subject = all_gates.Subject(names, tuple(map(str, run.metrics.metrics)), against)
    checks = attempt(faults, lambda: parse_checks(options, subject, terminal))
    if checks and baseline and baseline.report:
        needed = dict.fromkeys([str(run.metrics.primary), *all_gates.compared_metrics(checks.gates)])
        missing = [metric for metric in needed if metric not in baseline.report.metrics]
        source = f"run {baseline.report.run_id}" if baseline.report.has_rankings else baseline.source
        faults += [Fault("--baseline", message=f"{source} has no {metric}.") for metric in missing]
    if faults or checks is None:
        raise InputError(*faults)
    return replace(checks, baseline=baseline, config=file)


def _baseline(text: str, names: Iterable[str], config: configs.ExperimentConfig) -> RunBaseline:
    if text in names:
        return RunBaseline(text, text)
    if (table := reading.table_of(text)) is not None:
        return _baseline_of_table(*table)
    reference, colon, setting = text.rpartition(":")
    if not colon:
        near = did_you_mean(text, names)
        message = (
            f"there is no setting {text!r}.{near} There are: {listed(names)}; one of an earlier report is "
            "REPORT:SETTING, like latest:dense; a file of scores is written by `ragtrial export --baseline`."
        )
        raise GateError(Fault("--baseline", message=message))
    try:
        report = model.load_report(reference, config.output.directory)
        report.setting(setting)
    except ReportError as error:
        raise GateError(*(Fault("--baseline", message=str(fault)) for fault in error.faults)) from error
    return RunBaseline(f"{report.run_id}:{setting}", setting, report, str(report.folder))


def _baseline_of_table(file: str, setting: str | None) -> RunBaseline:
    """A setting of a file of scores, which needs no name if it is the only one. Raises GateError."""
    try:
        ((report, names),) = reading.read_tables([file], {}).values()
    except ReportError as error:
        raise GateError(*error.faults) from error
    chosen = setting or names[0]
    if chosen not in names or (setting is None and len(names) > 1):
        lacking = f" and not {setting!r}" if setting else ""
        message = f"{file} has the settings {listed(names)}{lacking}; name one: {file}:{names[0]}."
        raise GateError(Fault("--baseline", message=message))
    return RunBaseline(f"{Path(file).name}:{chosen}", chosen, report, file)


def _inputs(report: model.Report, baseline: RunBaseline | None) -> ComparisonInput:
    """The settings of the run under their own names, and the baseline of an earlier report, if there is one."""
    metrics = report_tables.usual_metrics(report)
    if baseline is None or baseline.report is None:
        return comparison_input.input_of([report], metrics)
    earlier = baseline.report
    metrics = [name for name in metrics if name in earlier.metrics]
    source = earlier if earlier.has_rankings else baseline.source
    reference = f"{earlier.run_id}:{baseline.setting}" if earlier.has_rankings else baseline.reference
    own = [f"{report.run_id}:{setting.name}" for setting in report.settings]
    inputs = comparison_input.input_of([source, report], metrics, settings=[reference, *own], baseline=reference)
    first, *others = inputs.settings
    renamed = (replace(first, name=baseline.name), *(replace(other, name=other.part.name) for other in others))
    return replace(inputs, settings=renamed)
