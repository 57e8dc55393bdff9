"""Gates: conditions on a run or a comparison, how they are written, and their results."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from ragtrial.comparison.comparison_parts import Comparison, ComparisonPart
from ragtrial.comparison.evidence import too_wide
from ragtrial.comparison.number_text import percent
from ragtrial.errors import Fault, GateError, MetricError, counted, did_you_mean, listed
from ragtrial.evaluation.metrics import metric_called, parse_metric
from ragtrial.report.schema import COSTS, FailurePart, Part, SettingPart

Relation = Literal["<", "<=", ">", ">=", "worse than", "not within"]
Outcome = Literal["passed", "failed", "undecided", "not checked"]

_BOUNDS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_DECIMALS = 12
"""Means that differ only in later decimals are equal: the last bits are rounding."""


@dataclass(frozen=True)
class Gate:
    """A condition that must not hold. ``quantity`` is a metric or one of COSTS; no ``setting`` means every setting.

    ``limit`` bounds a mean or a cost; for ``not within`` it is the loss against the baseline that is allowed.
    """

    text: str
    setting: str | None
    quantity: str
    relation: Relation
    limit: float = 0.0

    @property
    def is_on_baseline(self) -> bool:
        return self.relation not in _BOUNDS

    def is_about(self, setting: str) -> bool:
        """True if the gate applies to this setting."""
        return self.setting in (None, setting)


class Finding(Part):
    """The result of a gate for a setting."""

    setting: str
    outcome: Outcome
    found: str
    """In words, with the numbers."""


class GateOutcome(Part):
    """A gate and its results."""

    gate: str
    """As it was asked for."""

    outcome: Outcome
    """Failed if it is for any setting, or else undecided if it is for any; not checked if it could be checked for
    none."""

    findings: list[Finding]
    note: str = ""
    """A remark on how it was tested; may be empty."""

    @property
    def is_incomplete(self) -> bool:
        """Could not be checked for some setting."""
        return self.outcome == "not checked" or any(finding.outcome == "not checked" for finding in self.findings)


@dataclass(frozen=True, eq=False)
class GateEvidence:
    """The evidence for gates: settings by name, and the comparison for each metric that a gate compares.

    ``failed`` are settings that could not be run, ``baseline`` is the baseline of the comparisons, ``primary`` the
    usual metric of decisions.
    """

    settings: Mapping[str, SettingPart]
    primary: str = ""
    failed: Collection[str] = ()
    baseline: str | None = None
    comparisons: Mapping[str, Comparison] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Findings:
    """Gates with their results, and the evidence.

    ``subject`` is the experiment; ``settings`` are the scored settings, best first, ``failures`` the settings that
    could not be run.
    """

    subject: str
    primary_metric: str
    settings: Mapping[str, SettingPart]
    comparison: Comparison | None = None
    gates: tuple[GateOutcome, ...] = ()
    failures: tuple[FailurePart, ...] = ()

    @property
    def has_failed(self) -> bool:
        """Some condition is not shown to hold."""
        return any(gate.outcome in ("failed", "undecided") for gate in self.gates)

    @property
    def is_incomplete(self) -> bool:
        """Some setting could not be run, or something could not be checked."""
        return bool(self.failures) or any(gate.is_incomplete for gate in self.gates)

    @property
    def exit_code(self) -> int:
        """1 where anything failed or is undecided; else 4 where a setting could not be run; else 0."""
        return 1 if self.has_failed else 4 if self.is_incomplete else 0

    def as_json(self) -> dict[str, Any]:
        """The fields of gates under ``--json``, and the exit code."""
        return {"exit_code": self.exit_code, "gates": [gate.model_dump(mode="json") for gate in self.gates]}


def compared_metrics(gates: Sequence[Gate]) -> list[str]:
    """The metrics for which a comparison with the baseline is needed, each once."""
    return list(dict.fromkeys(gate.quantity for gate in gates if gate.is_on_baseline))


def judge_gates(gates: Sequence[Gate], evidence: GateEvidence) -> list[GateOutcome]:
    """The outcomes of ``gates``, in their order. A quantity that was not measured, or counts for no query, is
    undecided.
    """
    outcomes = []
    order: tuple[Outcome, ...] = ("failed", "undecided", "passed", "not checked")
    for gate in gates:
        findings = list(_findings(gate, evidence))
        outcome = min((finding.outcome for finding in findings), key=order.index, default="not checked")
        apart = gate.is_on_baseline and gate.quantity != evidence.primary
        note = f"{gate.quantity} is not the primary metric: compared by itself" if apart else ""
        outcomes.append(GateOutcome(gate=gate.text, outcome=outcome, findings=findings, note=note))
    return outcomes


def _findings(gate: Gate, evidence: GateEvidence) -> Iterator[Finding]:
    baseline = evidence.baseline if gate.is_on_baseline else None
    comparison = evidence.comparisons.get(gate.quantity)
    if gate.is_on_baseline and comparison:
        for part in comparison.comparisons:
            if part.metric == gate.quantity and gate.is_about(part.setting):
                yield _baseline_finding(gate, part, comparison.procedure.confidence, comparison.procedure.margin)
    for name, setting in evidence.settings.items():
        if gate.is_about(name) and not gate.is_on_baseline:
            yield _bound_finding(gate, name, setting)
        elif gate.is_about(name) and not comparison:
            why = f"has nothing to be compared with: {baseline} could not be run"
            yield Finding(setting=name, outcome="not checked", found=why)
    for name in evidence.failed:
        if gate.is_about(name) and name != baseline:
            yield Finding(setting=name, outcome="not checked", found="could not be run")


def _bound_finding(gate: Gate, name: str, setting: SettingPart) -> Finding:
    is_cost = gate.quantity in COSTS
    value = setting.cost(gate.quantity) if is_cost else setting.scores[gate.quantity].mean
    if value is None:
        return Finding(setting=name, outcome="undecided", found="was not measured" if is_cost else "no question counts")
    fails = _BOUNDS[gate.relation](_side(value, gate.limit), 0)
    found = _beside(value, gate.limit, "")
    if not is_cost and metric_called(gate.quantity).definition.needs == "forbidden":  # few questions have such labels
        found += f" over {counted(setting.scores[gate.quantity].n, 'question')}"
    return Finding(setting=name, outcome="failed" if fails else "passed", found=found)


def _baseline_finding(gate: Gate, part: ComparisonPart, confidence: float, margin: float) -> Finding:
    """By the verdict, and by how far the interval goes; ``part`` is by the primary metric of its comparison."""
    if part.difference is None:
        return Finding(setting=part.setting, outcome="undecided", found="no question counts for both")
    if not part.wins + part.losses:
        return Finding(setting=part.setting, outcome="passed", found=f"identical to {part.baseline}")
    outcome, why = _loss(gate, part, margin)
    found = f"{_beside(part.difference, 0.0)} against {part.baseline}"
    if part.ci is not None:
        limit = gate.limit if part.better == "lower" else -gate.limit
        low, high = (_beside(end, limit if _side(end, 0.0) == _side(limit, 0.0) else 0.0) for end in part.ci)
        found += f", {percent(confidence)} interval {low} to {high}"
    if part.verdict == "too few differences":
        found += f", {part.differing_text} differ"
    return Finding(setting=part.setting, outcome=outcome, found=f"{found}: {why}")


def _loss(gate: Gate, part: ComparisonPart, margin: float) -> tuple[Outcome, str]:
    """The outcome of a gate on a setting that differs from the baseline, and the reason in words.

    ``worse than`` fails if the setting is shown to be worse, and is undecided if too few questions differ and the mean
    loss is above the margin. ``not within`` fails if a loss above its limit is shown, and is undecided if such a loss
    is not excluded.
    """
    loss, is_thin = -(part.gain or 0.0), part.verdict == "too few differences"
    if gate.relation == "worse than":
        if part.verdict in ("worse", "worse within the margin"):
            return "failed", "worse"
        if is_thin and _side(loss, margin) > 0:
            return "undecided", f"too few differ to test a loss above {margin:g}"
        return "passed", "not shown to be worse"
    within = f"within {gate.limit:g}"
    if part.gain_ci is None:
        is_shown = part.verdict == "better"
        return ("passed", "better") if is_shown else ("undecided", f"not shown to be {within}")
    low, high = part.gain_ci
    if _side(high, -gate.limit) < 0:
        return "failed", f"a loss above {gate.limit:g} is shown"
    if part.verdict == "better" or _side(low, -gate.limit) > 0:
        return "passed", f"no worse than {gate.limit:g}"
    return "undecided", f"not shown to be {within}"


def _side(value: float, limit: float) -> int:
    """1 above the limit, -1 below it, 0 where only rounding keeps the two apart."""
    difference = round(value - limit, _DECIMALS)
    return (difference > 0) - (difference < 0)


def _beside(value: float, limit: float, sign: str = "+") -> str:
    """``value`` in as few digits, from four on, as show on which side of ``limit`` it is."""
    shown = (f"{value + 0.0:{sign},.{digits}f}" for digits in range(4, 16))
    on_its_side = (text for text in shown if _side(float(text.replace(",", "")), limit) == _side(value, limit))
    return next(on_its_side, f"{value:{sign}}")


_GATE = re.compile(
    r"(?:(?P<setting>.*):)?\s*(?P<quantity>[^:<>]+?)\s*"
    r"(?:(?P<bound><=?|>=?)\s*(?P<limit>[^\s<>=]+)|\b(?:worse than|not within (?P<margin>\S+) of) baseline)",
    re.IGNORECASE,
)
_FORMS = '"ndcg@10 < 0.70" (also <=, >, >=), "ndcg@10 worse than baseline" or "ndcg@10 not within 0.02 of baseline"'


@dataclass(frozen=True)
class Subject:
    """The possible subjects of gates: settings and metrics by name, and the baseline of comparisons.

    A gate without a setting is about all ``settings``.
    """

    settings: tuple[str, ...]
    metrics: tuple[str, ...]
    baseline: str | None = None


def parse_gates(texts: Iterable[str], subject: Subject) -> list[Gate]:
    """The gates that ``texts`` mean. Raises GateError with all that is wrong with any of them."""
    gates: list[Gate] = []
    faults: list[Fault] = []
    for number, text in enumerate(texts, 1):
        written, messages = " ".join(text.split()), list[str]()
        try:
            gates.append(_gate(written, subject))
            messages += _faults(gates[-1], subject)
        except GateError as error:
            messages.append(str(error))
        faults += (Fault(f"--fail-if #{number}", message=f"{written!r}: {message}") for message in messages)
    GateError.raise_any(faults)
    return gates


def known_metric(text: str, metrics: Sequence[str]) -> str:
    """The one of ``metrics`` that a spelling means. Raises MetricError with the nearest."""
    name = text if text in metrics else str(parse_metric(text))
    if name not in metrics:
        near = did_you_mean(name, metrics)
        raise MetricError(f"there is no {name!r} among the metrics.{near} There are: {listed(metrics, 40)}.")
    return name


def _gate(text: str, subject: Subject) -> Gate:
    """Raises GateError for an invalid gate, or an unknown metric."""
    match = _GATE.fullmatch(text)
    if match is None:
        raise GateError(f"this is no gate. Write one like {_FORMS}, for one setting with its name and a colon before.")
    number = match["limit"] or match["margin"] or "0"
    try:
        limit = float(number)
    except ValueError:
        limit = math.nan
    if not math.isfinite(limit):
        raise GateError(f"{number!r} is not a number.")
    setting, quantity = match["setting"] and match["setting"].strip(), match["quantity"].lower()
    if quantity not in COSTS:
        try:
            setting, name = _with_module(setting, match["quantity"], subject.metrics)
            quantity = known_metric(name, subject.metrics)
        except MetricError as error:
            near = did_you_mean(quantity, COSTS)
            raise GateError(f"there is no {quantity!r}.{near}" if near else str(error)) from error
    relation = match["bound"] or ("not within" if match["margin"] else "worse than")
    return Gate(text, setting, quantity, cast("Relation", relation), limit)


def _with_module(setting: str | None, quantity: str, metrics: Sequence[str]) -> tuple[str | None, str]:
    """The setting and the metric of a gate; the module of a function is before a colon, too."""
    before, _, module = (setting or "").rpartition(":")
    function = f"{module.strip()}:{quantity}"
    return (before.strip() or None, function) if function in metrics else (setting, quantity)


def _faults(gate: Gate, subject: Subject) -> Iterator[str]:
    """Why a gate could say nothing."""
    if gate.setting is not None and gate.setting not in subject.settings:
        near = did_you_mean(gate.setting, subject.settings)
        yield f"there is no setting {gate.setting!r}.{near} There are: {listed(subject.settings)}."
    if gate.is_on_baseline:
        yield from _baseline_faults(gate, subject)
    elif gate.quantity not in COSTS:
        definition = metric_called(gate.quantity).definition
        lowest, highest = definition.lowest, math.inf if definition.highest is None else definition.highest
        if not lowest <= gate.limit <= highest:
            yield f"{gate.quantity} lies between {lowest:g} and {highest:g}; a limit of {gate.limit:g} says nothing."


def _baseline_faults(gate: Gate, subject: Subject) -> Iterator[str]:
    metric, baseline = gate.quantity, subject.baseline
    if baseline is None:
        yield "there is no baseline; name the setting to compare with: --baseline SETTING or REPORT:SETTING."
    elif gate.setting == baseline or set(subject.settings) <= {baseline}:
        yield f"there is nothing to compare with the baseline {baseline!r}; name another setting."
    if metric in COSTS:
        yield f"{metric} is not compared question by question; give a limit, as in {metric} > 0.2."
    elif gate.limit < 0:
        yield f"the margin is {gate.limit:g}; it must be at least 0."
    elif told := too_wide(gate.limit, metric):
        yield told
