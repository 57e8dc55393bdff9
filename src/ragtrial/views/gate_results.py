"""What came of gates and expected scores, as lines for the terminal."""

from __future__ import annotations

from ragtrial.comparison.gates.gate import ExpectedOutcome, Findings, GateOutcome
from ragtrial.errors import counted


def gate_lines(findings: Findings) -> list[str]:
    """A line for each gate and each expected score that is not just so, and one that sums up; none if none was asked.

    A line of a gate that failed tells what was asked and what was found.
    """
    lines = [gate_line(gate) for gate in findings.gates if gate.outcome != "passed" or gate.is_incomplete]
    lines += [f"expected {one.outcome}: {expected_line(one)}" for one in findings.expected if one.outcome != "OK"]
    return lines + ([summary(findings)] if findings.gates or findings.expected else [])


def summary(findings: Findings) -> str:
    """How many gates and expected scores passed, and how many did not."""
    words = ("passed", "OK", "nearly", "failed", "FAIL", "undecided", "not checked")
    texts = []
    for noun, outcomes in (("gate", findings.gates), ("expected score", findings.expected)):
        found = [str(one.outcome) for one in outcomes]
        counts = ", ".join(f"{found.count(word):,} {word}" for word in words if word in found)
        texts += [f"{counted(len(found), noun)}: {counts}"] if found else []
    return "; ".join(texts)


def gate_line(gate: GateOutcome) -> str:
    """``gate failed: ndcg@10 < 0.70: bm25 0.5779; 3 others passed``."""
    return f"gate {gate.outcome}: {gate.gate}: {gate_details(gate)}"


def gate_details(gate: GateOutcome) -> str:
    """What was found for the settings that decided, and how many others passed."""
    shown = [one for one in gate.findings if one.outcome in (gate.outcome, "not checked")]
    texts = [f"{finding.setting} {finding.found}" for finding in shown]
    passed = sum(finding.outcome == "passed" for finding in gate.findings)
    texts += [f"{counted(passed, 'other')} passed"] if passed and gate.outcome != "passed" else []
    note = f" ({gate.note})" if gate.note else ""
    return f"{'; '.join(texts) or 'there is nothing to check'}{note}"


def expected_line(one: ExpectedOutcome) -> str:
    """``dense ndcg@10 is 0.6502, expected 0.6631 (0.0129 lower; OK within 0.001, nearly within 0.01)``."""
    name = f"{one.setting} {one.metric}"
    if one.outcome == "not checked":
        return f"{name}: the setting could not be run"
    if one.found is None:
        return f"{name} is over no query, expected {one.expected:.4f}"
    off = f"{abs(one.found - one.expected):.2g} {'higher' if one.found > one.expected else 'lower'}"
    within = f"OK within {one.tolerance:g}, nearly within {one.nearly:g}"
    return f"{name} is {one.found:.4f}, expected {one.expected:.4f} ({off}; {within})"


def finding_lines(gate: GateOutcome) -> list[str]:
    """For every setting what was found."""
    return [f"{finding.setting}: {finding.outcome}: {finding.found}" for finding in gate.findings]
