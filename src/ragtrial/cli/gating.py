"""The options of gates and of files for continuous integration, and what `run` and `compare` do with them."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click

from ragtrial.errors import Fault, InputError

if TYPE_CHECKING:
    from ragtrial.cli.terminal import Terminal
    from ragtrial.comparison.comparing import Aim
    from ragtrial.comparison.comparison_parts import Comparison
    from ragtrial.comparison.contest import Contest
    from ragtrial.comparison.gates.conditions import Gate
    from ragtrial.comparison.gates.expected import ExpectedScore
    from ragtrial.comparison.gates.findings import Findings
    from ragtrial.comparison.gates.gate_texts import Subject
    from ragtrial.report.model import Report
    from ragtrial.report.schema import FailurePart, SettingPart

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


@dataclass(frozen=True)
class Asked:
    """What was asked for, as it was written. ``-`` is standard output."""

    fail_if: tuple[str, ...] = ()
    expected: str | None = None
    junit: str | None = None
    markdown: str | None = None
    csv: str | None = None

    @property
    def is_gated(self) -> bool:
        return bool(self.fail_if or self.expected)

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
                  help="Exit with 1 if it holds: \"ndcg@10 < 0.70\", \"hybrid: ndcg@10 worse than baseline\", "
                  "\"ndcg@10 not within 0.02 of baseline\". May be repeated.")  # fmt: skip
    @click.option("--expected", metavar="FILE", help="Exit with 1 if scores are not what this YAML file expects.")
    @click.option("--junit", metavar="FILE", help="Write what was found as JUnit XML; - is standard output.")
    @click.option("--markdown", metavar="FILE", help="Write it as Markdown, for a pull request.")
    @click.option("--csv", metavar="FILE", help="Write a row for each comparison, with all fields.")
    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        names = ("fail_if", "expected", "junit", "markdown", "csv")
        return function(*args, asked=Asked(**{name: kwargs.pop(name) for name in names}), **kwargs)

    return wrapped  # type: ignore[return-value]  # click has replaced the signature


@dataclass(frozen=True, eq=False)
class Checks:
    """Gates and expected scores that are right, for what is about to be run or compared."""

    asked: Asked
    subject: Subject
    stdout: TextIO
    """What ``-`` means: the answer's stream, before anything was put in its place."""

    gates: tuple[Gate, ...] = ()
    expected: tuple[ExpectedScore, ...] = ()


def check(asked: Asked, subject: Subject, terminal: Terminal) -> Checks:
    """Before anything is run: understand gates, read expected scores, look where files are to go.

    Where a file goes to standard output, what the terminal says goes to standard error from now on. Raises InputError
    with all that is wrong, click.UsageError where two answers would go to standard output.
    """
    from ragtrial.comparison.gates.expected_file import read_expected
    from ragtrial.comparison.gates.gate_texts import parse_gates
    from ragtrial.runs.formats.output import check_folder

    to_stdout = [
        *(option for option, target in asked.targets.items() if target == "-"),
        *(["--json"] if terminal.as_json else []),
    ]
    if len(to_stdout) > 1:
        raise click.UsageError(f"{' and '.join(to_stdout)} would both go to standard output; give all but one a file.")
    faults: list[Fault] = []
    gates = attempt(faults, lambda: parse_gates(asked.fail_if, subject))
    path = asked.expected
    expected = attempt(faults, lambda: read_expected(path, subject.settings, subject.metrics) if path else [])
    faults += _target_faults(asked)
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


def _target_faults(asked: Asked) -> list[Fault]:
    """Two files of one name, the one of expected scores among them: one would overwrite the other."""
    faults: list[Fault] = []
    first = {Path(asked.expected).resolve(): "--expected"} if asked.expected else {}
    for option, target in asked.targets.items():
        path = Path(target).resolve()
        if target != "-" and path in first:
            faults.append(Fault(target, message=f"is named by {first[path]} and {option}; name two files."))
        first.setdefault(path, option)
    return faults


def subject_of(contest: Contest, baseline: str | None) -> Subject:
    """What gates on a comparison can be about. Of reports those metrics are compared that ``contest`` has."""
    from ragtrial.comparison.gates.gate_texts import Subject

    settings = [contender.setting for contender in contest.contenders]
    metrics = [name for name in settings[0].scores if all(name in one.scores for one in settings)] if settings else []
    pairs = () if baseline is None else contest.pairs(baseline)
    compared = dict.fromkeys(contest.names[pair.setting] for pair in pairs)
    comparable = contest.metrics if len(contest.report_names) > 1 else None
    return Subject(contest.names, tuple(metrics), baseline, compared=tuple(compared), comparable=comparable)


def checks_of_contest(asked: Asked, contest: Contest, baseline: str | None, terminal: Terminal) -> Checks:
    """Before anything is compared. Raises as ``check`` does."""
    return check(asked, subject_of(contest, baseline), terminal)


@dataclass(frozen=True, eq=False)
class Compared:
    """A comparison, and what it is of."""

    contest: Contest
    aim: Aim
    comparison: Comparison


def judged(
    checks: Checks, settings: Mapping[str, SettingPart], newest: Report, compared: Compared | None = None
) -> Findings:
    """What came of gates and expected scores in a run, those that failed in it among them.

    A metric in a gate with a baseline that is not the primary one is compared by itself, as if it were.
    """
    return _judged(checks, settings, newest, compared, tuple(newest.failures))


def judged_contest(checks: Checks, compared: Compared) -> Findings:
    """What came of gates and expected scores in a comparison of reports; what failed in their runs is no part of it."""
    contenders = compared.contest.contenders
    newest = max((contender.report for contender in contenders), key=lambda report: report.run_id)
    return _judged(checks, {one.name: one.setting for one in contenders}, newest, compared, ())


def _judged(
    checks: Checks,
    settings: Mapping[str, SettingPart],
    newest: Report,
    compared: Compared | None,
    failures: tuple[FailurePart, ...],
) -> Findings:
    from ragtrial.comparison.gates.conditions import Evidence, judge_gates
    from ragtrial.comparison.gates.expected import judge_expected
    from ragtrial.comparison.gates.findings import Findings

    primary = compared.comparison.primary_metric if compared else newest.primary_metric
    failed = [failure.name for failure in failures]
    evidence = Evidence(settings, primary, failed, checks.subject.baseline, _comparisons(checks, compared))
    return Findings(
        subject=newest.experiment,
        run_id=newest.run_id,
        primary_metric=primary,
        settings=_best_first(settings, primary),
        comparison=compared.comparison if compared else None,
        gates=tuple(judge_gates(checks.gates, evidence)),
        expected=tuple(judge_expected(checks.expected, settings, failed)),
        failures=failures,
    )


def _comparisons(checks: Checks, compared: Compared | None) -> dict[str, Comparison]:
    from ragtrial.comparison.comparing import compare_settings
    from ragtrial.comparison.gates.conditions import compared_metrics

    if compared is None or compared.aim.baseline is None:
        return {}
    primary, contest = compared.comparison.primary_metric, compared.contest
    return {
        metric: compared.comparison
        if metric == primary
        else compare_settings(replace(contest, metrics=(metric,)), compared.aim)
        for metric in compared_metrics(checks.gates)
    }


def _best_first(settings: Mapping[str, SettingPart], metric: str) -> dict[str, SettingPart]:
    def key(name: str) -> tuple[bool, float, str]:
        mean = settings[name].scores[metric].mean
        return mean is None, -(mean or 0.0), name

    return {name: settings[name] for name in sorted(settings, key=key)}


def tell(terminal: Terminal, checks: Checks, findings: Findings) -> None:
    """Write the files, then say what came of the gates: what did not pass on stderr, the sum of all on stdout."""
    from ragtrial.cli.terminal import write
    from ragtrial.views.gate_results import gate_lines

    write_files(checks, findings)
    *lines, total = gate_lines(findings) or [""]
    for line in lines:
        write(line, sys.stderr)
    if total:
        terminal.say(f"\n{total}")


def write_files(checks: Checks, findings: Findings) -> None:
    """The files that were asked for, each whole or not at all. Raises RunError if one cannot be written."""
    from ragtrial.runs.formats.output import opened
    from ragtrial.runs.formats.score_tables import write_table
    from ragtrial.views.comparison_csv import csv_columns
    from ragtrial.views.comparison_markdown import markdown_text
    from ragtrial.views.junit import junit_text

    asked = checks.asked
    with contextlib.redirect_stdout(checks.stdout):
        for target, view in ((asked.junit, junit_text), (asked.markdown, markdown_text)):
            if target:
                with opened(target) as file:
                    file.write(view(findings).encode("utf-8", "backslashreplace"))
        if asked.csv:
            write_table(asked.csv, csv_columns(findings.comparison), form="csv")


def as_json(findings: Findings) -> dict[str, Any]:
    """What `--json` has of gates and expected scores, and how the command will exit."""
    return {
        "exit_code": findings.exit_code,
        "gates": [gate.model_dump(mode="json") for gate in findings.gates],
        "expected": [one.model_dump(mode="json") for one in findings.expected],
    }
