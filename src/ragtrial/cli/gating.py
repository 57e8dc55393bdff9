"""Gates, expected scores and files for continuous integration, as `run` and `compare` have them."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TextIO, TypeVar

import click

from ragtrial.cli.terminal import Terminal, write
from ragtrial.comparison.comparing import ComparisonOptions, compare_settings
from ragtrial.comparison.comparison_input import ComparisonInput, input_of
from ragtrial.comparison.comparison_parts import Comparison
from ragtrial.comparison.gates import (
    ExpectedScore,
    Findings,
    Gate,
    GateEvidence,
    Subject,
    compared_metrics,
    judge_expected,
    judge_gates,
    parse_gates,
    read_expected,
)
from ragtrial.config import ExperimentConfig
from ragtrial.errors import Fault, GateError, InputError, ReportError, RunError, did_you_mean, listed
from ragtrial.pipeline.run import Run, RunOptions
from ragtrial.report.model import Report, load_report
from ragtrial.report.schema import FailurePart, SettingPart
from ragtrial.runs.formats.output import check_folder, opened
from ragtrial.runs.formats.score_tables import write_table
from ragtrial.views.analysis import analyse
from ragtrial.views.findings_files import csv_columns, gate_lines, junit_text, markdown_text
from ragtrial.views.report_tables import usual_metrics
from ragtrial.views.table import wrapped

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


@dataclass(frozen=True)
class GateOptions:
    """What was asked for, as it was written. ``-`` is standard output."""

    fail_if: tuple[str, ...] = ()
    expected: str | None = None
    junit: str | None = None
    markdown: str | None = None
    csv: str | None = None

    @property
    def targets(self) -> Mapping[str, str]:
        """The files to write, by the option that names each."""
        named = {"--junit": self.junit, "--markdown": self.markdown, "--csv": self.csv}
        return {option: target for option, target in named.items() if target}


def gate_options(function: F) -> F:
    """The options; the command is given what was asked for as ``asked``. Stands above ``common_options``.
    Where a file is to go to standard output, everything that the terminal says goes to standard error.
    """

    @click.option("--fail-if", multiple=True, metavar="GATE",
                  help="Exit with status 1 if the condition holds: \"ndcg@10 < 0.70\", \"hybrid: ndcg@10 worse "
                  "than baseline\", \"ndcg@10 not within 0.02 of baseline\". May be repeated.")  # fmt: skip
    @click.option("--expected", metavar="FILE", help="Exit with status 1 if scores differ from this YAML file.")
    @click.option("--junit", metavar="FILE", help="Write the results as JUnit XML; - is standard output.")
    @click.option("--markdown", metavar="FILE", help="Write the results as Markdown, for a pull request.")
    @click.option("--csv", metavar="FILE", help="Write a row for each comparison, with all fields.")
    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        names = ("fail_if", "expected", "junit", "markdown", "csv")
        return function(*args, asked=GateOptions(**{name: kwargs.pop(name) for name in names}), **kwargs)

    return wrapped  # type: ignore[return-value]  # click has replaced the signature


@dataclass(frozen=True, eq=False)
class Checks:
    """Gates and expected scores that are right, for what is about to be run or compared."""

    asked: GateOptions
    subject: Subject
    stdout: TextIO
    """What ``-`` means: the answer's stream, before anything was put in its place."""
    gates: tuple[Gate, ...] = ()
    expected: tuple[ExpectedScore, ...] = ()


def check(asked: GateOptions, subject: Subject, terminal: Terminal) -> Checks:
    """Before anything is run: understand gates, read expected scores, look where files are to go.
    Where a file goes to standard output, what the terminal says goes to standard error from now on. Raises InputError
    with all that is wrong, click.UsageError where two answers would go to standard output.
    """
    to_stdout = [option for option, target in asked.targets.items() if target == "-"]
    to_stdout += ["--json"] if terminal.as_json else []
    if len(to_stdout) > 1:
        raise click.UsageError(f"{' and '.join(to_stdout)} would both go to standard output; give all but one a file.")
    faults: list[Fault] = []
    gates = attempt(faults, lambda: parse_gates(asked.fail_if, subject))
    path = asked.expected
    expected = attempt(faults, lambda: read_expected(path, subject.settings, subject.metrics) if path else [])
    for target in asked.targets.values():
        attempt(faults, functools.partial(check_folder, target))
    if faults:
        raise InputError(*faults)
    stdout = terminal.out
    if "-" in asked.targets.values():
        terminal.out = sys.stderr
    return Checks(asked, subject, stdout, tuple(gates or ()), tuple(expected or ()))


def attempt(faults: list[Fault], step: Callable[[], T]) -> T | None:
    """What ``step`` gives; None where the input is wrong, which is added to ``faults``."""
    try:
        return step()
    except InputError as error:
        faults += error.faults
        return None


def checks_of_contest(asked: GateOptions, contest: ComparisonInput, terminal: Terminal) -> Checks:
    """Before anything is compared. Of reports those metrics are compared that ``contest`` has. Raises as ``check``."""
    settings = [contender.part for contender in contest.settings]
    metrics = tuple(name for name in settings[0].scores if all(name in one.scores for one in settings))
    if len(contest.report_names) > 1:  # others may mean something else in each
        metrics = contest.metrics
    return check(asked, Subject(contest.names, metrics, contest.baseline), terminal)


@dataclass(frozen=True, eq=False)
class Compared:
    """A comparison, and what it is of."""

    contest: ComparisonInput
    aim: ComparisonOptions
    comparison: Comparison


def judged_contest(checks: Checks, compared: Compared) -> Findings:
    """What came of gates and expected scores in a comparison of reports; what failed in their runs is no part of it."""
    contenders = compared.contest.settings
    newest = max((contender.report for contender in contenders), key=lambda report: report.run_id)
    return judged(checks, {one.name: one.part for one in contenders}, newest, compared)


def judged(
    checks: Checks,
    settings: Mapping[str, SettingPart],
    newest: Report,
    compared: Compared | None,
    failures: Sequence[FailurePart] = (),
) -> Findings:
    """What came of gates and expected scores; ``failures`` are the settings among them that could not be run.
    A metric in a gate with a baseline that is not the primary one is compared by itself, as if it were.
    """
    primary = compared.comparison.primary_metric if compared else newest.primary_metric
    comparisons = {}
    if compared and compared.aim.baseline is not None:
        comparisons = {
            metric: compare_settings(replace(compared.contest, metrics=(metric,)), compared.aim)
            for metric in compared_metrics(checks.gates)
            if metric != primary
        }
        comparisons[primary] = compared.comparison
    means = {name: setting.scores[primary].mean for name, setting in settings.items()}
    sign = newest.sign(primary)
    ranked = sorted(means, key=lambda name: (means[name] is None, -sign * (means[name] or 0.0), name))
    failed = [failure.name for failure in failures]
    evidence = GateEvidence(settings, primary, failed, checks.subject.baseline, comparisons)
    return Findings(
        subject=newest.experiment,
        primary_metric=primary,
        settings={name: settings[name] for name in ranked},
        comparison=compared.comparison if compared else None,
        gates=tuple(judge_gates(checks.gates, evidence)),
        expected=tuple(judge_expected(checks.expected, settings, failed)),
        failures=tuple(failures),
    )


def tell(terminal: Terminal, checks: Checks, findings: Findings) -> None:
    """Write the files that were asked for, each whole or not at all, then say what came of the gates.
    What did not pass is said on stderr, the sum of all on stdout. Raises RunError if a file cannot be written.
    """
    asked = checks.asked
    with contextlib.redirect_stdout(checks.stdout):
        for target, view in ((asked.junit, junit_text), (asked.markdown, markdown_text)):
            if target:
                with opened(target) as file:
                    file.write(view(findings).encode("utf-8", "backslashreplace"))
        if asked.csv:
            write_table(asked.csv, csv_columns(findings.comparison), form="csv")
    *lines, total = gate_lines(findings) or [""]
    for line in lines:
        write(wrapped(line, terminal.prose_width), sys.stderr)
    if total:
        terminal.say(f"\n{total}")


def as_json(findings: Findings) -> dict[str, Any]:
    """What `--json` has of gates and expected scores, and how the command will exit."""
    return {
        "exit_code": findings.exit_code,
        "gates": [gate.model_dump(mode="json") for gate in findings.gates],
        "expected": [one.model_dump(mode="json") for one in findings.expected],
    }


@dataclass(frozen=True, eq=False)
class RunBaseline:
    """What the settings of a run are compared with: one of them, or a setting of an earlier ``report``.
    ``name`` is what it is called in this run, ``setting`` what it is called where it is.
    """

    name: str
    setting: str
    report: Report | None = None

    @property
    def reference(self) -> str:
        """How a comparison is given it."""
        return self.setting if self.report is None else f"{self.report.folder}:{self.setting}"


@dataclass(frozen=True, eq=False)
class RunChecks:
    """What is to be checked of a run, and the baseline, if there is one."""

    checks: Checks
    baseline: RunBaseline | None
    config: str

    def findings(self, report: Report) -> Findings:
        """What came of it. Raises RunError if the run, which is written, cannot be compared with the baseline."""
        settings = {setting.name: setting for setting in report.settings}
        baseline, compared = self.baseline, None
        if baseline is None:
            wanted = bool(self.checks.asked.targets) and len(settings) > 1
        else:
            wanted = baseline.report is not None or (baseline.setting in settings and len(settings) > 1)
        try:
            if wanted:
                contest = _contest(report, baseline)
                aim = ComparisonOptions(baseline.name if baseline else None, config=self.config)
                compared = Compared(contest, aim, analyse(contest, aim))
        except InputError as error:
            told = (f"{fault.message} The report is written: {report.folder / 'report.json'}" for fault in error.faults)
            raise RunError(*told) from error
        return judged(self.checks, settings, report, compared, report.failures)


def prepared(
    config: ExperimentConfig, asked: GateOptions, baseline: str | None, limit: int | None, terminal: Terminal, file: str
) -> RunChecks | None:
    """What is to be checked; None if nothing was asked for. Raises InputError with all that is wrong."""
    if baseline is None and asked == GateOptions():
        return None

    run = Run.of(config, RunOptions(limit=limit))
    names = tuple(setting.name for setting in run.settings)
    faults: list[Fault] = []
    found = None if baseline is None else attempt(faults, lambda: _found(baseline, names, config))
    if len(names) == 1 and (found.report is None if found else asked.csv):
        faults.append(Fault("--baseline", message=f"{names[0]!r} is the only setting; there is nothing to compare."))
    # A baseline that is wrong is reported once, not again for every gate that needs it.
    name = found.name if found else baseline
    subject = Subject(names, tuple(map(str, run.metrics.metrics)), name)
    checks = attempt(faults, lambda: check(asked, subject, terminal))
    if checks and found and found.report:
        needed = dict.fromkeys([str(run.metrics.primary), *compared_metrics(checks.gates)])
        missing = [metric for metric in needed if metric not in found.report.metrics]
        faults += [Fault("--baseline", message=f"run {found.report.run_id} has no {metric}.") for metric in missing]
    if faults or checks is None:
        raise InputError(*faults)
    return RunChecks(checks, found, file)


def _found(text: str, names: Iterable[str], config: ExperimentConfig) -> RunBaseline:
    if text in names:
        return RunBaseline(text, text)
    reference, colon, setting = text.rpartition(":")
    if not colon:
        near = did_you_mean(text, names)
        message = f"there is no setting {text!r}.{near} There are: {listed(names)}; one of an earlier report is " \
                  "REPORT:SETTING, like latest:dense."  # fmt: skip
        raise GateError(Fault("--baseline", message=message))
    try:
        report = load_report(reference, config.output.directory)
        report.setting(setting)
    except ReportError as error:
        raise GateError(*(Fault("--baseline", message=str(fault)) for fault in error.faults)) from error
    return RunBaseline(f"{report.run_id}:{setting}", setting, report)


def _contest(report: Report, baseline: RunBaseline | None) -> ComparisonInput:
    """The settings of the run under their own names, and the earlier one, if that is the baseline."""
    metrics = usual_metrics(report)
    if baseline is None or baseline.report is None:
        return input_of([report], metrics)
    earlier = baseline.report
    metrics = [name for name in metrics if name in earlier.metrics]
    there = f"{earlier.run_id}:{baseline.setting}"
    own = [f"{report.run_id}:{setting.name}" for setting in report.settings]
    contest = input_of([earlier, report], metrics, settings=[there, *own], baseline=there)
    one, *others = contest.settings
    renamed = (replace(one, name=baseline.name), *(replace(other, name=other.part.name) for other in others))
    return replace(contest, settings=renamed)
