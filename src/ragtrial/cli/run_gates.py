"""What `run` does with gates: the baseline, what is refused before the run, and the comparison after it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ragtrial.cli.gating import Checks, Compared, GateOptions, attempt, check, judged
from ragtrial.errors import Fault, GateError, InputError, ReportError, RunError, did_you_mean, listed

if TYPE_CHECKING:
    from ragtrial.cli.terminal import Terminal
    from ragtrial.comparison.contest import ComparisonSet
    from ragtrial.comparison.gates.gate import Findings
    from ragtrial.config import ExperimentConfig
    from ragtrial.evaluator import RetrievalEvaluator
    from ragtrial.report.model import Report

_MOST_QUERIES = 3


@dataclass(frozen=True, eq=False)
class RunBaseline:
    """What the settings of a run are compared with: one of them, or a setting of an earlier ``report``.

    ``name`` is what it is called in this run, ``setting`` what it is called where it is.
    """

    name: str
    setting: str
    report: Report | None = None


@dataclass(frozen=True, eq=False)
class RunChecks:
    """What is to be checked of a run, and the baseline, if there is one."""

    checks: Checks
    baseline: RunBaseline | None

    def before(self, evaluator: RetrievalEvaluator) -> None:
        """Raises GateError if the labels of the run are not those of an earlier report that is the baseline."""
        if self.baseline is not None and self.baseline.report is not None:
            told = _label_differences(evaluator, self.baseline.report)
            if told:
                raise GateError(Fault("--baseline", message=told))

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
                contest, aim = _contest(report, baseline), ComparisonOptions(baseline.name if baseline else None)
                compared = Compared(contest, aim, analyse(contest, aim))
        except InputError as error:
            told = (f"{fault.message} The report is written: {report.folder / 'report.json'}" for fault in error.faults)
            raise RunError(*told) from error
        return judged(self.checks, settings, report, compared, report.failures)


def prepared(
    config: ExperimentConfig, asked: GateOptions, baseline: str | None, limit: int | None, terminal: Terminal
) -> RunChecks | None:
    """What is to be checked; None if nothing was asked for. Raises InputError with all that is wrong."""
    if baseline is None and not asked.is_gated and not asked.targets:
        return None
    from ragtrial.comparison.gates.gate import COSTS, compared_metrics
    from ragtrial.comparison.gates.gate_texts import Subject
    from ragtrial.evaluator import RetrievalEvaluator

    evaluator = RetrievalEvaluator(config, limit=limit)
    names = tuple(setting.name for setting in evaluator.settings)
    metrics = tuple(map(str, evaluator.metrics.metrics))
    faults: list[Fault] = []
    found = None
    if baseline is not None:
        found = attempt(faults, lambda: _found(baseline, names, config))
        faults += _baseline_faults(found, names, evaluator) if found else []
    unmeasured = frozenset() if config.latency else frozenset(name for name in COSTS if name.startswith("latency."))
    # A baseline that is wrong is told once, not again for every gate that needs it.
    name = found.name if found else baseline
    if asked.csv and len(names) == 1 and baseline is None:
        message = "has a row for each comparison, and there is one setting and no --baseline to compare it with."
        faults.append(Fault("--csv", message=message))
    subject = Subject(names, metrics, name, unmeasured)
    checks = attempt(faults, lambda: check(asked, subject, terminal))
    if checks and found and (earlier := found.report):
        faults += [
            Fault("--baseline", message=f"run {earlier.run_id} has no {metric}, which a gate compares.")
            for metric in compared_metrics(checks.gates)
            if metric not in earlier.metrics
        ]
    if faults or checks is None:
        raise InputError(*faults)
    return RunChecks(checks, found)


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


def _baseline_faults(baseline: RunBaseline, names: tuple[str, ...], evaluator: RetrievalEvaluator) -> Iterator[Fault]:
    """What is wrong with a baseline that is there: nothing to compare with it, or it was scored otherwise."""
    report, unit, metrics = baseline.report, evaluator.config.evaluators.unit, evaluator.metrics
    if report is None:
        if len(names) == 1:
            message = f"{baseline.name!r} is the only setting; there is nothing to compare with it."
            yield Fault("--baseline", message=message)
        return
    told = _rule_difference(evaluator, report)
    if report.unit != unit:
        told = f"was scored by unit: {report.unit}, this one is by {unit}"
    if told:
        yield Fault("--baseline", message=f"run {report.run_id} {told}.")
    if str(metrics.primary) not in report.metrics:
        message = f"run {report.run_id} has no {metrics.primary}; it has: {listed(report.metrics)}."
        yield Fault("--baseline", message=message)


def _rule_difference(evaluator: RetrievalEvaluator, report: Report) -> str:
    """Other rules for which queries count, what is relevant, or when a passage is found; nothing where none is."""
    from ragtrial.comparison.comparability import coverage_of
    from ragtrial.pipeline.metric_descriptions import metric_parts

    options = evaluator.config.evaluators
    then, now = coverage_of(report), options.span_coverage
    if report.unit == "span" and then != now:
        return f"found passages by span_coverage: {then}, this one does by {now}"
    for name, part in metric_parts(evaluator.metrics, options).items():
        if name in report.metrics and report.metrics[name].counted != part.counted:
            return f"counts {report.metrics[name].counted} for {name}, this one {part.counted}"
    return ""


def _label_differences(evaluator: RetrievalEvaluator, report: Report) -> str:
    """In words; nothing where every query and every judgment is the same."""
    from ragtrial.comparison.queries.label_differences import Sides, label_difference
    from ragtrial.pipeline.reporting import query_parts

    now = {query.id: query for query in query_parts(evaluator.resolved.labels)}
    then = {query.id: query for query in report.queries}
    places = report.dataset.documents_fingerprint == evaluator.corpus.fingerprint
    sides = Sides("this one", "that one", report.unit, places=places, orders=False)
    only = [f"{len(one.keys() - other.keys()):,} queries only {where}" for one, other, where in (
        (now, then, "in this one"), (then, now, "in that one")) if one.keys() - other.keys()]  # fmt: skip
    judged_otherwise = [name for name in now if name in then and label_difference(sides, now[name], then[name])]
    if judged_otherwise:
        shown = listed(map(repr, judged_otherwise), _MOST_QUERIES)
        only.append(f"{len(judged_otherwise):,} judged otherwise ({shown})")
    if not only:
        return ""
    return (
        f"run {report.run_id} has other labels: {', '.join(only)}. Run the baseline again with the labels as they are, "
        "or run without --baseline and let `ragtrial compare` say what can be compared."
    )


def _contest(report: Report, baseline: RunBaseline | None) -> ComparisonSet:
    """The settings of the run under their own names, and the earlier one, if that is the baseline."""
    from ragtrial.comparison.contest import contest_of
    from ragtrial.views.report_tables import usual_metrics

    metrics = usual_metrics(report)
    if baseline is None or baseline.report is None:
        return contest_of([report], metrics)
    earlier = baseline.report
    metrics = [name for name in metrics if name in earlier.metrics]
    there = f"{earlier.run_id}:{baseline.setting}"
    own = [f"{report.run_id}:{setting.name}" for setting in report.settings]
    contest = contest_of([earlier, report], metrics, settings=[there, *own], baseline=there)
    one, *others = contest.contenders
    renamed = (replace(one, name=baseline.name), *(replace(other, name=other.setting.name) for other in others))
    return replace(contest, contenders=renamed)
