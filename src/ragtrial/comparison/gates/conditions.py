"""Gates: conditions on scores under which a run or a comparison counts as failed, and what came of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ragtrial.comparison.comparison_parts import Comparison, ComparisonPart
from ragtrial.comparison.statistics.procedures import PROCEDURES
from ragtrial.comparison.verdicts import percent
from ragtrial.report.schema import Part, SettingPart

Relation = Literal["<", "<=", ">", ">="]
Outcome = Literal["passed", "failed", "not checked"]

COSTS: Mapping[str, Callable[[SettingPart], float | None]] = {
    "latency.p50": lambda setting: setting.latency.p50 if setting.latency else None,
    "latency.p95": lambda setting: setting.latency.p95 if setting.latency else None,
    "latency.p99": lambda setting: setting.latency.p99 if setting.latency else None,
    "embedding_seconds": lambda setting: setting.costs.embedding_seconds if setting.costs else None,
    "indexing_seconds": lambda setting: setting.costs.indexing_seconds if setting.costs else None,
    "index_bytes": lambda setting: setting.costs.index_bytes if setting.costs else None,
}
"""What a setting takes, by the name that it has in the report; None where it was not measured."""

_ROUNDING = 1e-12
_HOLDS: Mapping[Relation, Callable[[float, float, float], bool]] = {
    "<": lambda value, limit, near: value < limit - near,
    "<=": lambda value, limit, near: value <= limit + near,
    ">": lambda value, limit, near: value > limit + near,
    ">=": lambda value, limit, near: value >= limit - near,
}


@dataclass(frozen=True)
class Bound:
    """Fails where a value stands in this relation to ``limit``."""

    relation: Relation
    limit: float

    def catches(self, value: float) -> bool:
        """Whether it fails. A mean that misses the limit by the rounding of its last bits alone equals it."""
        return _HOLDS[self.relation](value, self.limit, _ROUNDING * max(1.0, abs(self.limit)))


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


@dataclass(frozen=True, eq=False)
class Evidence:
    """What gates are judged by: settings by name, and for each metric that a gate compares the comparison.

    ``failed`` are settings that could not be run, ``baseline`` is what the comparisons are with, ``primary`` the metric
    that decides where nobody says otherwise.
    """

    settings: Mapping[str, SettingPart]
    primary: str = ""
    failed: Collection[str] = ()
    baseline: str | None = None
    comparisons: Mapping[str, Comparison] = field(default_factory=dict)


def judge_gates(gates: Sequence[Gate], evidence: Evidence) -> list[GateOutcome]:
    """What came of every gate, in their order. What cannot be told, for want of queries or of a measurement, fails."""
    return [_judged(gate, evidence) for gate in gates]


def compared_metrics(gates: Sequence[Gate]) -> list[str]:
    """The metrics for which a comparison with the baseline is needed, each once."""
    return list(dict.fromkeys(gate.quantity for gate in gates if isinstance(gate.condition, AgainstBaseline)))


def _judged(gate: Gate, evidence: Evidence) -> GateOutcome:
    note = ""
    if isinstance(gate.condition, Bound):
        chosen = _chosen(gate, evidence.settings)
        findings = [_bound_finding(name, evidence.settings[name], gate.quantity, gate.condition) for name in chosen]
        missing = _chosen(gate, evidence.failed)
    else:
        comparison = evidence.comparisons.get(gate.quantity)
        rows = {} if comparison is None else _rows(comparison, gate.quantity)
        confidence = 0.0 if comparison is None else comparison.procedure.confidence
        findings = [_baseline_finding(rows[name], gate.condition.margin, confidence) for name in _chosen(gate, rows)]
        absent = evidence.failed if comparison is not None else [*evidence.settings, *evidence.failed]
        missing = [name for name in _chosen(gate, absent) if name != evidence.baseline]
        is_simultaneous = comparison is not None and PROCEDURES[comparison.procedure.name].is_simultaneous
        note = _note(gate.quantity, evidence.primary, len(rows) if is_simultaneous else 0)
    findings += [Finding(setting=name, outcome="not checked", found=_unknown(name, evidence)) for name in missing]
    return GateOutcome(gate=gate.text, outcome=_outcome(findings), findings=findings, note=note)


def _chosen(gate: Gate, names: Collection[str]) -> list[str]:
    return [name for name in names if gate.setting in (None, name)]


def _rows(comparison: Comparison, metric: str) -> dict[str, ComparisonPart]:
    """By setting: each is compared with one baseline."""
    return {part.setting: part for part in comparison.comparisons if part.metric == metric}


def _note(metric: str, primary: str, settings: int) -> str:
    """``settings``: over how many claims hold together."""
    own = [] if metric == primary else [f"{metric} is not the primary metric: compared by itself"]
    return ", ".join([*own, *([f"simultaneous for {settings:,} settings"] if settings > 1 else [])])


def _unknown(name: str, evidence: Evidence) -> str:
    if name in evidence.failed:
        return "could not be run"
    return f"has nothing to be compared with: {evidence.baseline} could not be run"


def _outcome(findings: Sequence[Finding]) -> Outcome:
    found = {finding.outcome for finding in findings}
    return "failed" if "failed" in found else "passed" if "passed" in found else "not checked"


def _bound_finding(name: str, setting: SettingPart, quantity: str, bound: Bound) -> Finding:
    if quantity in COSTS:
        value, unknown = COSTS[quantity](setting), "was not measured"
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


def _beside(value: float, limit: float, sign: str = "+") -> str:
    """``value`` in as few digits, from four on, as show on which side of ``limit`` it is."""

    def side(one: float) -> int:
        near = _ROUNDING * max(1.0, abs(limit))
        return 0 if math.isclose(one, limit, rel_tol=0, abs_tol=near) else 1 if one > limit else -1

    for digits in range(4, 16):
        text = f"{value + 0.0:{sign}.{digits}f}"
        if side(float(text)) == side(value):
            return text
    return f"{value:{sign}}"
