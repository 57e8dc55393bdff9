"""What `run` does with gates: the baseline, what is refused before the run, and the comparison after it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ragtrial.cli.gating import Checks, Compared, GateOptions, attempt, check, judged
from ragtrial.errors import Fault, GateError, InputError, ReportError, RunError, did_you_mean, listed

if TYPE_CHECKING:
    from ragtrial.cli.terminal import Terminal
    from ragtrial.comparison.comparison_input import ComparisonInput
    from ragtrial.comparison.gates.gate import Findings
    from ragtrial.config import ExperimentConfig
    from ragtrial.report.model import Report


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
        from ragtrial.comparison.comparing import ComparisonOptions
        from ragtrial.views.analysis import analyse

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
    from ragtrial.comparison.gates.gate import compared_metrics
    from ragtrial.comparison.gates.gate_texts import Subject
    from ragtrial.evaluator import RetrievalEvaluator

    evaluator = RetrievalEvaluator(config, limit=limit)
    names = tuple(setting.name for setting in evaluator.settings)
    faults: list[Fault] = []
    found = None if baseline is None else attempt(faults, lambda: _found(baseline, names, config))
    if len(names) == 1 and (found.report is None if found else asked.csv):
        faults.append(Fault("--baseline", message=f"{names[0]!r} is the only setting; there is nothing to compare."))
    # A baseline that is wrong is reported once, not again for every gate that needs it.
    name = found.name if found else baseline
    subject = Subject(names, tuple(map(str, evaluator.metrics.metrics)), name)
    checks = attempt(faults, lambda: check(asked, subject, terminal))
    if checks and found and found.report:
        needed = dict.fromkeys([str(evaluator.metrics.primary), *compared_metrics(checks.gates)])
        missing = [metric for metric in needed if metric not in found.report.metrics]
        faults += [Fault("--baseline", message=f"run {found.report.run_id} has no {metric}.") for metric in missing]
    if faults or checks is None:
        raise InputError(*faults)
    return RunChecks(checks, found, file)


def _found(text: str, names: Iterable[str], config: ExperimentConfig) -> RunBaseline:
    from ragtrial.report.model import load_report

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
    from ragtrial.comparison.comparison_input import input_of
    from ragtrial.views.report_tables import usual_metrics

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
