"""Findings as JUnit XML: what continuous integration shows as tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from ragtrial.cache.untrusted import for_xml
from ragtrial.comparison.gates.gate import Findings
from ragtrial.comparison.number_text import signed, signed_interval
from ragtrial.views.comparison_tables import looked_into_lines
from ragtrial.views.gate_results import expected_line, finding_lines, gate_line

_ENDINGS = {
    "failed": "failure", "FAIL": "failure", "undecided": "failure", "not checked": "skipped", "error": "error",
}  # fmt: skip
_COUNTS = {"failures": "failure", "errors": "error", "skipped": "skipped"}


@dataclass(frozen=True)
class _Case:
    """A test: its name, what came of it, and what was found, the first line by itself."""

    name: str
    outcome: str
    found: Sequence[str]

    @property
    def ending(self) -> str:
        """Nothing where it passed."""
        return _ENDINGS.get(self.outcome, "")


def junit_text(findings: Findings) -> str:
    """An XML document with up to four suites: gates, expected scores, comparisons, and settings that failed.

    A gate and an expected score are a test each; all comparisons are one, which passes, as nobody asked for an outcome.
    What was found is the output of each test. A setting that could not be run is an error.
    """
    root = Element("testsuites")
    suites = {
        "gates": [_Case(gate.gate, gate.outcome, [gate_line(gate), *finding_lines(gate)]) for gate in findings.gates],
        "expected": [
            _Case(f"{one.setting}: {one.metric}", one.outcome, [expected_line(one)]) for one in findings.expected
        ],
        "comparison": list(_compared(findings)),
        "settings": [_Case(one.name, "error", [one.error, one.details or ""]) for one in findings.failures],
    }
    for name, cases in suites.items():
        if cases:
            suite = _add(root, findings.subject, name, cases)
            if name == "comparison" and findings.comparison:
                lines = [*looked_into_lines(findings.comparison), findings.comparison.procedure.sentence]
                lines += [f"warning: {one.message}" for one in findings.comparison.warnings]
                SubElement(suite, "system-out").text = "\n".join(["", *lines])
    indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + for_xml(tostring(root, encoding="unicode")) + "\n"


def _compared(findings: Findings) -> Iterator[_Case]:
    """The conclusion, and each comparison by the primary metric."""
    if findings.comparison is None:
        return
    lines = list(findings.comparison.conclusion.sentences)
    for part in findings.comparison.comparisons:
        if part.metric == findings.primary_metric:
            interval = "" if part.ci is None else f", interval {signed_interval(part.ci, part.n, ' to ')}"
            lines.append(
                f"{part.setting} against {part.baseline}: {signed(part.difference, part.n)}{interval}: {part.sentence}"
            )
    yield _Case(f"comparison by {findings.primary_metric}", "passed", lines)


def _add(root: Element, subject: str, name: str, cases: Sequence[_Case]) -> Element:
    endings = [case.ending for case in cases]
    counts = {count: str(endings.count(ending)) for count, ending in _COUNTS.items()}
    suite = SubElement(root, "testsuite", {"name": name, "tests": str(len(cases)), **counts})
    for case in cases:
        names = {"name": case.name, "classname": f"ragtrial.{subject}.{name}"}
        test = SubElement(suite, "testcase", names)
        if case.ending:
            SubElement(test, case.ending, {"message": case.found[0]}).text = "\n".join(case.found[1:])
        SubElement(test, "system-out").text = "\n".join(case.found)
    return suite
