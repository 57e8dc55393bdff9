"""Gates and expected scores: conditions on a run or a comparison, and what came of them."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from ragtrial.comparison.comparison_parts import Comparison, ComparisonPart
from ragtrial.comparison.statistics.procedures import PROCEDURES
from ragtrial.comparison.verdicts import percent
from ragtrial.report.schema import FailurePart, Part, SettingPart

FAILED = 1
INCOMPLETE = 4

COSTS = ("latency.p50", "latency.p95", "latency.p99", "embedding_seconds", "indexing_seconds", "index_bytes")
"""What a setting takes, by the name that it has in the report."""

TOLERANCE = 0.001
NEARLY = 0.01
"""Where a file of expected scores says nothing else: what counts as equal, and what only nearly does."""

Relation = Literal["<", "<=", ">", ">="]
Outcome = Literal["passed", "failed", "not checked"]
Agreement = Literal["OK", "nearly", "FAIL", "not checked"]

_ROUNDING = 1e-12
_RUN_ID = re.compile(r"(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z")


@dataclass(frozen=True)
class Bound:
    """Fails where a value stands in this relation to ``limit``."""

    relation: Relation
    limit: float

    def catches(self, value: float) -> bool:
        """Whether it fails. A mean that misses the limit by the rounding of its last bits alone equals it."""
        side = _side(value, self.limit)
        return "=" in self.relation if side == 0 else (side < 0) == self.relation.startswith("<")


@dataclass(frozen=True)
class AgainstBaseline:
    """Without a ``margin`` it fails where a setting is shown to be worse; with one, where it may be worse by more."""

    margin: float | None = None


@dataclass(frozen=True)
class Gate:
    """What must not be. ``quantity`` is a metric or one of COSTS; without a ``setting`` it is about every one."""

    text: str
    setting: str | None
    quantity: str
    condition: Bound | AgainstBaseline

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
    """Failed if it is for any setting; not checked if it could be checked for none."""

    findings: list[Finding]
    note: str = ""
    """What should be known of how it was tested, or nothing."""

    @property
    def is_incomplete(self) -> bool:
        """Whether it could not be checked for some setting."""
        return any(finding.outcome == "not checked" for finding in self.findings)


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

    ``subject`` is what was run or compared, ``run_id`` that of the newest report; ``settings`` are those that were
    scored, best first, ``failures`` those that could not be run.
    """

    subject: str
    run_id: str
    primary_metric: str
    settings: Mapping[str, SettingPart]
    comparison: Comparison | None = None
    gates: tuple[GateOutcome, ...] = ()
    expected: tuple[ExpectedOutcome, ...] = ()
    failures: tuple[FailurePart, ...] = ()

    @property
    def time(self) -> str:
        """When the newest report was made, UTC, as ISO 8601 without a zone; the epoch where its id does not say."""
        match = _RUN_ID.match(self.run_id)
        return "{}-{}-{}T{}:{}:{}".format(*match.groups()) if match else "1970-01-01T00:00:00"

    @cached_property
    def failed(self) -> int:
        """How many gates and expected scores failed."""
        of_gates = sum(gate.outcome == "failed" for gate in self.gates)
        return of_gates + sum(one.outcome == "FAIL" for one in self.expected)

    @cached_property
    def unchecked(self) -> int:
        """How many gates and expected scores could not be checked, or not for all settings, and did not fail."""
        of_gates = sum(
            gate.outcome == "not checked" or (gate.outcome == "passed" and gate.is_incomplete) for gate in self.gates
        )
        return of_gates + sum(one.outcome == "not checked" for one in self.expected)

    @property
    def exit_code(self) -> int:
        """1 where anything failed, which no second try will mend; else 4 where a setting could not be run; else 0."""
        return FAILED if self.failed else INCOMPLETE if self.failures or self.unchecked else 0


def compared_metrics(gates: Sequence[Gate]) -> list[str]:
    """The metrics for which a comparison with the baseline is needed, each once."""
    return list(dict.fromkeys(gate.quantity for gate in gates if isinstance(gate.condition, AgainstBaseline)))


def judge_gates(gates: Sequence[Gate], evidence: GateEvidence) -> list[GateOutcome]:
    """What came of every gate, in their order. What cannot be told, for want of queries or of a measurement, fails."""
    return [_judged(gate, gate.condition, evidence) for gate in gates]


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
            off = abs(found - one.value) - _ROUNDING * max(1.0, abs(one.value))
            outcome = "OK" if off <= one.tolerance else "nearly" if off <= one.nearly else "FAIL"
        outcomes.append(
            ExpectedOutcome(
                setting=one.setting,
                metric=one.metric,
                expected=one.value,
                tolerance=one.tolerance,
                nearly=one.nearly,
                found=found,
                outcome=outcome,
            )
        )
    return outcomes


def _judged(gate: Gate, condition: Bound | AgainstBaseline, evidence: GateEvidence) -> GateOutcome:
    note = ""
    missing = list(evidence.failed)
    if isinstance(condition, Bound):
        settings = gate.about(evidence.settings)
        findings = [_bound_finding(evidence.settings[name], name, gate.quantity, condition) for name in settings]
    else:
        comparison = evidence.comparisons.get(gate.quantity)
        if comparison is None:
            findings, missing = [], [*evidence.settings, *missing]
        else:
            rows = [part for part in comparison.comparisons if part.metric == gate.quantity]
            confidence = comparison.procedure.confidence
            findings = [_baseline_finding(part, condition.margin, confidence) for part in rows
                        if gate.setting in (None, part.setting)]  # fmt: skip
            if len(rows) > 1 and PROCEDURES[comparison.procedure.name].is_simultaneous:
                note = f"simultaneous for {len(rows):,} settings"
        missing = [name for name in missing if name != evidence.baseline]
        if gate.quantity != evidence.primary:
            own = f"{gate.quantity} is not the primary metric: compared by itself"
            note = ", ".join(filter(None, [own, note]))
    for name in gate.about(missing):
        why = f"has nothing to be compared with: {evidence.baseline} could not be run"
        found = "could not be run" if name in evidence.failed else why
        findings.append(Finding(setting=name, outcome="not checked", found=found))
    found_outcomes = {finding.outcome for finding in findings}
    outcome: Outcome = (
        "failed" if "failed" in found_outcomes else "passed" if "passed" in found_outcomes else "not checked"
    )
    return GateOutcome(gate=gate.text, outcome=outcome, findings=findings, note=note)


def _bound_finding(setting: SettingPart, name: str, quantity: str, bound: Bound) -> Finding:
    if quantity in COSTS:
        measured = setting.latency if quantity.startswith("latency.") else setting.costs
        value, unknown = getattr(measured, quantity.removeprefix("latency."), None), "was not measured"
    else:
        value, unknown = setting.scores[quantity].mean, "no query counts"
    if value is None:
        return Finding(setting=name, outcome="failed", found=unknown)
    outcome: Outcome = "failed" if bound.catches(value) else "passed"
    return Finding(setting=name, outcome=outcome, found=_beside(value, bound.limit, ""))


def _baseline_finding(part: ComparisonPart, margin: float | None, confidence: float) -> Finding:
    """By the verdict, and by how far the interval goes; ``part`` is by the primary metric of its comparison."""
    outcome: Outcome = "passed"
    if part.n == 0 or part.difference is None:
        return Finding(setting=part.setting, outcome="failed", found="no query counts for both")
    if not part.wins and not part.losses:
        return Finding(setting=part.setting, outcome=outcome, found=f"identical to {part.baseline}")
    found = f"{_beside(part.difference, 0.0)} against {part.baseline}"
    if part.verdict == "too few differences":
        differ = f"{part.wins + part.losses} of {part.n:,} queries differ"
        outcome = "passed" if margin is None else "failed"
        return Finding(setting=part.setting, outcome=outcome, found=f"{found}; {differ}, too few for an interval")
    if part.ci is not None:
        limit = 0.0 if margin is None else -margin
        low, high = _beside(part.ci[0], limit), _beside(part.ci[1], 0.0)
        found += f", {percent(confidence)} interval {low} to {high}"
    if margin is None:
        is_worse = part.verdict in ("worse", "worse within the margin")
        outcome, said = ("failed", "worse") if is_worse else ("passed", "not shown to be worse")
    else:
        is_within = part.verdict == "better" or (part.ci is not None and part.ci[0] > -margin)
        outcome = "passed" if is_within else "failed"
        said = f"no worse than {margin:g}" if is_within else f"not shown to be within {margin:g}"
    return Finding(setting=part.setting, outcome=outcome, found=f"{found}: {said}")


def _side(value: float, limit: float) -> int:
    """1 above the limit, -1 below it, 0 where only rounding keeps the two apart."""
    near = _ROUNDING * max(1.0, abs(limit))
    return 0 if math.isclose(value, limit, rel_tol=0, abs_tol=near) else 1 if value > limit else -1


def _beside(value: float, limit: float, sign: str = "+") -> str:
    """``value`` in as few digits, from four on, as show on which side of ``limit`` it is."""
    for digits in range(4, 16):
        text = f"{value + 0.0:{sign}.{digits}f}"
        if _side(float(text), limit) == _side(value, limit):
            return text
    return f"{value:{sign}}"
