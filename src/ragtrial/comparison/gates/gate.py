"""Gates and expected scores: conditions on a run or a comparison, and what came of them."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ragtrial.comparison.comparison_parts import Comparison, ComparisonPart
from ragtrial.comparison.number_text import percent
from ragtrial.report.schema import COSTS, FailurePart, Part, SettingPart

TOLERANCE = 0.001
NEARLY = 0.01
"""Where a file of expected scores says nothing else: what counts as equal, and what only nearly does."""

Relation = Literal["<", "<=", ">", ">=", "worse than", "not within"]
Outcome = Literal["passed", "failed", "undecided", "not checked"]
Agreement = Literal["OK", "nearly", "FAIL", "not checked"]

_BOUNDS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_DECIMALS = 12
"""Means that differ in later decimals alone are equal: their last bits are those of rounding."""


@dataclass(frozen=True)
class Gate:
    """What must not be. ``quantity`` is a metric or one of COSTS; without a ``setting`` it is about every one.

    ``limit`` is what a mean or a cost is compared with; of ``not within`` how much worse than the baseline is allowed.
    """

    text: str
    setting: str | None
    quantity: str
    relation: Relation
    limit: float = 0.0

    @property
    def is_on_baseline(self) -> bool:
        return self.relation not in _BOUNDS

    def about(self, names: Collection[str]) -> list[str]:
        """Those of ``names`` that it is about."""
        return [name for name in names if self.setting in (None, name)]


@dataclass(frozen=True)
class ExpectedScore:
    """The value that a setting should have: within ``tolerance`` it has, within ``nearly`` it nearly has."""

    setting: str
    metric: str
    value: float
    tolerance: float = TOLERANCE
    nearly: float = NEARLY


class Finding(Part):
    """What was found for a gate and a setting."""

    setting: str
    outcome: Outcome
    found: str
    """In words, with the numbers."""


class GateOutcome(Part):
    """A gate and what came of it."""

    gate: str
    """As it was asked for."""

    outcome: Outcome
    """Failed if it is for any setting, or else undecided if it is for any; not checked if it could be checked for
    none."""

    findings: list[Finding]
    note: str = ""
    """What should be known of how it was tested, or nothing."""

    @property
    def is_incomplete(self) -> bool:
        """Whether it could not be checked for some setting."""
        return self.outcome == "not checked" or any(finding.outcome == "not checked" for finding in self.findings)


class ExpectedOutcome(Part):
    """An expected score, and what was found."""

    setting: str
    metric: str
    expected: float
    tolerance: float
    nearly: float
    found: float | None
    """Null where no query counts, which fails, and for a setting that could not be run, which is not checked."""

    outcome: Agreement


@dataclass(frozen=True, eq=False)
class GateEvidence:
    """What gates are judged by: settings by name, and for each metric that a gate compares the comparison.

    ``failed`` are settings that could not be run, ``baseline`` is what the comparisons are with, ``primary`` the metric
    that decides where nobody says otherwise.
    """

    settings: Mapping[str, SettingPart]
    primary: str = ""
    failed: Collection[str] = ()
    baseline: str | None = None
    comparisons: Mapping[str, Comparison] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Findings:
    """Gates and expected scores with what came of them, beside what they were judged by.

    ``subject`` is what was run or compared; ``settings`` are those that were scored, best first, ``failures`` those
    that could not be run.
    """

    subject: str
    primary_metric: str
    settings: Mapping[str, SettingPart]
    comparison: Comparison | None = None
    gates: tuple[GateOutcome, ...] = ()
    expected: tuple[ExpectedOutcome, ...] = ()
    failures: tuple[FailurePart, ...] = ()

    @property
    def has_failed(self) -> bool:
        """Whether anything that was asked for is not shown to hold."""
        wrong = any(one.outcome == "FAIL" for one in self.expected)
        return wrong or any(gate.outcome in ("failed", "undecided") for gate in self.gates)

    @property
    def is_incomplete(self) -> bool:
        """Whether a setting could not be run, or something could not be checked."""
        unchecked = any(one.outcome == "not checked" for one in self.expected)
        return bool(self.failures) or unchecked or any(gate.is_incomplete for gate in self.gates)

    @property
    def exit_code(self) -> int:
        """1 where anything failed or is undecided; else 4 where a setting could not be run; else 0."""
        return 1 if self.has_failed else 4 if self.is_incomplete else 0


def compared_metrics(gates: Sequence[Gate]) -> list[str]:
    """The metrics for which a comparison with the baseline is needed, each once."""
    return list(dict.fromkeys(gate.quantity for gate in gates if gate.is_on_baseline))


def judge_gates(gates: Sequence[Gate], evidence: GateEvidence) -> list[GateOutcome]:
    """What came of every gate, in their order. What was not measured, or counts for no query, is undecided."""
    outcomes = []
    for gate in gates:
        findings = list(_findings(gate, evidence))
        found = {finding.outcome for finding in findings}
        order: tuple[Outcome, ...] = ("failed", "undecided", "passed", "not checked")
        outcome = next((outcome for outcome in order if outcome in found), "not checked")
        apart = gate.is_on_baseline and gate.quantity != evidence.primary
        note = f"{gate.quantity} is not the primary metric: compared by itself" if apart else ""
        outcomes.append(GateOutcome(gate=gate.text, outcome=outcome, findings=findings, note=note))
    return outcomes


def _findings(gate: Gate, evidence: GateEvidence) -> Iterator[Finding]:
    baseline = evidence.baseline if gate.is_on_baseline else None
    comparison = evidence.comparisons.get(gate.quantity)
    if not gate.is_on_baseline:
        for name in gate.about(evidence.settings):
            yield _bound_finding(gate, name, evidence.settings[name])
    elif comparison:
        for part in comparison.comparisons:
            if part.metric == gate.quantity and gate.about([part.setting]):
                yield _baseline_finding(gate, part, comparison.procedure.confidence, comparison.procedure.margin)
    else:
        why = f"has nothing to be compared with: {baseline} could not be run"
        for name in gate.about(evidence.settings):
            yield Finding(setting=name, outcome="not checked", found=why)
    for name in gate.about(evidence.failed):
        if name != baseline:
            yield Finding(setting=name, outcome="not checked", found="could not be run")


def _bound_finding(gate: Gate, name: str, setting: SettingPart) -> Finding:
    if gate.quantity in COSTS:
        value, unknown = setting.cost(gate.quantity), "was not measured"
    else:
        value, unknown = setting.scores[gate.quantity].mean, "no query counts"
    if value is None:
        return Finding(setting=name, outcome="undecided", found=unknown)
    fails = _BOUNDS[gate.relation](_side(value, gate.limit), 0)
    return Finding(setting=name, outcome="failed" if fails else "passed", found=_beside(value, gate.limit, ""))


def _baseline_finding(gate: Gate, part: ComparisonPart, confidence: float, margin: float) -> Finding:
    """By the verdict, and by how far the interval goes; ``part`` is by the primary metric of its comparison."""
    if part.difference is None:
        return Finding(setting=part.setting, outcome="undecided", found="no question counts for both")
    differing = part.wins + part.losses
    if not differing:
        return Finding(setting=part.setting, outcome="passed", found=f"identical to {part.baseline}")
    outcome, why = _loss(gate, part, margin)
    found = f"{_beside(part.difference, 0.0)} against {part.baseline}"
    if part.ci is not None:
        limit = gate.limit if part.better == "lower" else -gate.limit
        low, high = (_beside(end, limit if _side(end, 0.0) == _side(limit, 0.0) else 0.0) for end in part.ci)
        found += f", {percent(confidence)} interval {low} to {high}"
    if part.verdict == "too few differences":
        found += f", {differing:,} of {part.n:,} questions differ"
    return Finding(setting=part.setting, outcome=outcome, found=f"{found}: {why}")


def _loss(gate: Gate, part: ComparisonPart, margin: float) -> tuple[Outcome, str]:
    """What comes of a gate on a setting that differs from the baseline, and why in words.

    ``worse than`` fails if it is shown to be worse, and is undecided if too few questions differ and the mean loss is
    above the margin. ``not within`` fails if a loss above its limit is shown, and is undecided if one is not excluded.
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


def judge_expected(
    expected: Sequence[ExpectedScore], settings: Mapping[str, SettingPart], failed: Collection[str] = ()
) -> list[ExpectedOutcome]:
    """What came of every expected score, in their order; a score too high is as unexpected as one too low.

    ``failed`` are settings that could not be run.
    """
    outcomes = []
    for one in expected:
        outcome: Agreement = "not checked" if one.setting in failed else "FAIL"
        found = None if one.setting in failed else settings[one.setting].scores[one.metric].mean
        if found is not None:
            off = round(abs(found - one.value), _DECIMALS)
            outcome = "OK" if off <= one.tolerance else "nearly" if off <= one.nearly else "FAIL"
        given = {"setting": one.setting, "metric": one.metric, "tolerance": one.tolerance, "nearly": one.nearly}
        outcomes.append(ExpectedOutcome(**given, expected=one.value, found=found, outcome=outcome))
    return outcomes


def _side(value: float, limit: float) -> int:
    """1 above the limit, -1 below it, 0 where only rounding keeps the two apart."""
    difference = round(value - limit, _DECIMALS)
    return (difference > 0) - (difference < 0)


def _beside(value: float, limit: float, sign: str = "+") -> str:
    """``value`` in as few digits, from four on, as show on which side of ``limit`` it is."""
    shown = (f"{value + 0.0:{sign}.{digits}f}" for digits in range(4, 16))
    return next((text for text in shown if _side(float(text), limit) == _side(value, limit)), f"{value:{sign}}")
