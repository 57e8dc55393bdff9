"""Findings as JUnit XML: what continuous integration shows as tests."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from ragtrial.comparison.figures import signed
from ragtrial.comparison.gates.gate import Findings
from ragtrial.views.comparison_tables import looked_into_lines
from ragtrial.views.gate_results import expected_details, finding_lines, gate_line

_NOT_XML = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold, and the carriage return, which readers change."""

_ENDINGS = {"failed": "failure", "FAIL": "failure", "not checked": "skipped"}
_COUNTS = {"failures": "failure", "errors": "error", "skipped": "skipped"}


@dataclass(frozen=True)
class _Case:
    """A test: its name, and, unless it passed, how it ended, in a sentence and in full."""

    name: str
    ending: str = ""
    message: str = ""
    text: str = ""


def junit_text(findings: Findings) -> str:
    """An XML document with up to four suites: gates, expected scores, comparisons, and settings that failed.

    A gate and an expected score are a test each. Every comparison by the primary metric is one that passes: what was
    found is its suite's output, and so is what was found for gates. A setting that could not be run is an error.
    """
    root = Element("testsuites")
    gates = [
        _Case(gate.gate, _ENDINGS.get(gate.outcome, ""), gate_line(gate), "\n".join(finding_lines(gate)))
        for gate in findings.gates
    ]
    lines = [f"{gate.gate}: {line}" for gate in findings.gates for line in finding_lines(gate)]
    _add(root, findings.subject, "gates", gates, lines)
    scores = [(one.outcome, f"{one.setting}: {one.metric}", expected_details(one)) for one in findings.expected]
    expected = [_Case(name, _ENDINGS.get(outcome, ""), f"{name} {what}", what) for outcome, name, what in scores]
    _add(root, findings.subject, "expected", expected, [f"{outcome}: {name} {what}" for outcome, name, what in scores])
    if findings.comparison:
        compared = dict(_compared(findings))
        lines = [f"{pair}: {found}" for pair, found in compared.items()] + looked_into_lines(findings.comparison)
        lines += [f"warning: {one.message}" for one in findings.comparison.warnings]
        lines.append(findings.comparison.procedure.sentence)
        _add(root, findings.subject, "comparison", list(map(_Case, compared)), lines)
    failures = [_Case(one.name, "error", one.error, one.details or one.error) for one in findings.failures]
    _add(root, findings.subject, "settings", failures, [])
    indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def _compared(findings: Findings) -> Iterator[tuple[str, str]]:
    """Each comparison by the primary metric, and what was found."""
    for part in findings.comparison.comparisons if findings.comparison else ():
        if part.metric == findings.primary_metric:
            interval = "" if part.ci is None else f", interval {signed(part.ci[0])} to {signed(part.ci[1])}"
            found = "" if part.difference is None else f"{signed(part.difference)}{interval}: "
            yield f"{part.setting} against {part.baseline}: {part.metric}", f"{found}{part.sentence}"


def _add(root: Element, subject: str, name: str, cases: Sequence[_Case], output: Sequence[str]) -> None:
    """A suite, unless it has no tests."""
    if not cases:
        return
    endings = [case.ending for case in cases]
    counts = {count: str(endings.count(ending)) for count, ending in _COUNTS.items()}
    suite = SubElement(root, "testsuite", {"name": name, "tests": str(len(cases)), **counts})
    for case in cases:
        names = {"name": _visible(case.name), "classname": _visible(f"ragtrial.{subject}.{name}")}
        test = SubElement(suite, "testcase", names)
        if case.ending:
            SubElement(test, case.ending, {"message": _visible(case.message)}).text = _visible(case.text)
    SubElement(suite, "system-out").text = _visible("\n".join(output))


def _visible(text: str) -> str:
    r"""``text`` with what XML cannot hold as Python writes it: ``\x07``."""
    return _NOT_XML.sub(lambda match: match[0].encode("unicode_escape", "surrogatepass").decode("ascii"), text)
