"""What came of gates and expected scores, as lines for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from ragtrial.comparison.gates.gate import ExpectedOutcome, Findings, GateOutcome
from ragtrial.errors import counted

_MOST = 5
"""So many settings are named in a line; the files and --json have all."""


def gate_lines(findings: Findings) -> list[str]:
    """A line for each gate and each expected score that is not just so, and one that sums up; none if none was asked.

    A line of a gate that failed tells what was asked and what was found.
    """
    lines = [gate_line(gate) for gate in findings.gates if gate.outcome != "passed" or gate.is_incomplete]
    lines += [expected_line(one) for one in findings.expected if one.outcome != "OK"]
    return lines + ([summary(findings)] if findings.gates or findings.expected else [])


def summary(findings: Findings) -> str:
    """How many gates and expected scores passed, and how many did not."""
    of_gates: list[str] = [gate.outcome for gate in findings.gates]
    of_scores: list[str] = [one.outcome for one in findings.expected]
    text = [_counted(of_gates, "gate"), _counted(of_scores, "expected score")]
    return "; ".join(filter(None, text))


def _counted(outcomes: list[str], noun: str) -> str:
    words = ("passed", "OK", "nearly", "failed", "FAIL", "not checked")
    text = ", ".join(f"{outcomes.count(word):,} {word}" for word in words if word in outcomes)
    return f"{counted(len(outcomes), noun)}: {text}" if outcomes else ""


def gate_line(gate: GateOutcome) -> str:
    """``gate failed: ndcg@10 < 0.70: bm25 0.5779; 3 others passed``."""
    shown = [
        finding for finding in gate.findings if finding.outcome == gate.outcome or finding.outcome == "not checked"
    ]
    text = "; ".join(f"{finding.setting} {finding.found}" for finding in shown[:_MOST])
    if len(shown) > _MOST:
        text += f"; and {len(shown) - _MOST} more"
    passed = sum(finding.outcome == "passed" for finding in gate.findings)
    if passed and gate.outcome != "passed":
        text += f"; {counted(passed, 'other')} passed"
    note = f" ({gate.note})" if gate.note else ""
    return f"gate {gate.outcome}: {gate.gate}: {text or 'there is nothing to check'}{note}"


def expected_line(one: ExpectedOutcome) -> str:
    """``expected FAIL: dense ndcg@10 is 0.6502, expected 0.6631 (0.0129 lower; OK within 0.001, nearly 0.01)``."""
    return f"expected {one.outcome}: {one.setting} {one.metric} {expected_details(one)}"


def expected_details(one: ExpectedOutcome) -> str:
    """What was found, what was expected, and how far apart they are."""
    if one.outcome == "not checked":
        return "not checked: the setting could not be run"
    if one.found is None:
        return f"is over no query, expected {one.expected:.4f}"
    digits = next((n for n in range(4, 16) if one.outcome == "OK" or round(one.found, n) != round(one.expected, n)), 16)
    off, found, expected = (f"{value:.{digits}f}" for value in (abs(one.found - one.expected), one.found, one.expected))
    if one.found == one.expected:
        return f"is {found}, as expected"
    than = "higher" if one.found > one.expected else "lower"
    return f"is {found}, expected {expected} ({off} {than}; OK within {one.tolerance:g}, nearly within {one.nearly:g})"


def finding_lines(gate: GateOutcome) -> list[str]:
    """For every setting what was found."""
    return [f"{finding.setting}: {finding.outcome}: {finding.found}" for finding in gate.findings]


def metric_names(findings: Findings) -> Sequence[str]:
    """The metrics of the comparison, or of the settings where nothing was compared; the primary one first."""
    if findings.comparison is not None:
        names = list(findings.comparison.metrics)
    else:
        names = list(dict.fromkeys(name for setting in findings.settings.values() for name in setting.scores))
    primary = findings.primary_metric
    return [primary, *(name for name in names if name != primary)]
