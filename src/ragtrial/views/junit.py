"""Findings as JUnit XML: what continuous integration shows as tests.

Only what the schema of Ant's JUnit task and that of Jenkins both allow is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from ragtrial.comparison.figures import signed
from ragtrial.comparison.gates.gate import Findings
from ragtrial.views.comparison_tables import looked_into_lines
from ragtrial.views.gate_results import expected_details, finding_lines, gate_line

_NOT_XML = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold, and the carriage return, which readers change."""


@dataclass(frozen=True)
class _Case:
    """A test: its name, and, unless it passed, how it ended, in a sentence and in full."""

    name: str
    ending: str = ""
    message: str = ""
    text: str = ""


@dataclass(frozen=True)
class _Suite:
    name: str
    cases: Sequence[_Case]
    output: Sequence[str] = field(default=())


def junit_text(findings: Findings) -> str:
    """An XML document with up to four suites: gates, expected scores, comparisons, and settings that failed.

    A gate and an expected score are a test each. Every comparison by the primary metric is one that passes: what was
    found is its suite's output, and so is what was found for gates. A setting that could not be run is an error.
    """
    root = Element("testsuites")
    for number, suite in enumerate(one for one in _suites(findings) if one.cases):
        _add(root, number, suite, findings)
    indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def _suites(findings: Findings) -> Iterable[_Suite]:
    gates = [
        _Case(gate.gate, _ENDINGS[gate.outcome], gate_line(gate), "\n".join(finding_lines(gate)))
        for gate in findings.gates
    ]
    yield _Suite("gates", gates, [f"{gate.gate}: {line}" for gate in findings.gates for line in finding_lines(gate)])
    expected = [(one, f"{one.setting}: {one.metric}", expected_details(one)) for one in findings.expected]
    yield _Suite(
        "expected",
        [_Case(name, _ENDINGS[one.outcome], f"{name} {what}", what) for one, name, what in expected],
        [f"{one.outcome}: {name} {what}" for one, name, what in expected],
    )
    parts = findings.comparison.comparisons if findings.comparison else []
    primary = [part for part in parts if part.metric == findings.primary_metric]
    pairs = [f"{part.setting} against {part.baseline}: {part.metric}" for part in primary]
    outcomes = [f"{_difference(part.difference, part.ci)}: {part.sentence}" for part in primary]
    warnings = findings.comparison.warnings if findings.comparison else []
    lines = [f"{pair}{found}" for pair, found in zip(pairs, outcomes, strict=True)]
    lines += looked_into_lines(findings.comparison) if findings.comparison else []
    yield _Suite("comparison", list(map(_Case, pairs)), [*lines, *(f"warning: {one.message}" for one in warnings)])
    yield _Suite(
        "settings", [_Case(one.name, "error", one.error, one.details or one.error) for one in findings.failures]
    )


_ENDINGS = {"passed": "", "OK": "", "nearly": "", "failed": "failure", "FAIL": "failure", "not checked": "skipped"}


def _difference(difference: float | None, ci: tuple[float, float] | None) -> str:
    if difference is None:
        return ""
    interval = "" if ci is None else f", interval {signed(ci[0])} to {signed(ci[1])}"
    return f": {signed(difference)}{interval}"


def _add(root: Element, number: int, suite: _Suite, findings: Findings) -> None:
    package = f"ragtrial.{findings.subject}"
    endings = [case.ending for case in suite.cases]
    counts = {
        name: str(endings.count(ending))
        for name, ending in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped"))
    }
    element = SubElement(
        root,
        "testsuite",
        _allowed({"name": suite.name, "package": package, "id": str(number), "timestamp": findings.time,
                  "hostname": "localhost", "tests": str(len(suite.cases)), **counts, "time": "0"}),
    )  # fmt: skip
    properties = SubElement(element, "properties")
    for name, value in _properties(findings):
        SubElement(properties, "property", _allowed({"name": name, "value": value}))
    for case in suite.cases:
        test = SubElement(
            element, "testcase", _allowed({"name": case.name, "classname": f"{package}.{suite.name}", "time": "0"})
        )
        if case.ending:
            kind = {} if case.ending == "skipped" else {"type": suite.name}
            SubElement(test, case.ending, _allowed({"message": case.message, **kind})).text = _visible(case.text)
    SubElement(element, "system-out").text = _visible("\n".join(suite.output))
    SubElement(element, "system-err")


def _properties(findings: Findings) -> Iterable[tuple[str, str]]:
    """The run, how it was tested, and the score of every setting."""
    yield "run_id", findings.run_id
    if findings.comparison is not None:
        yield "procedure", findings.comparison.procedure.sentence
    for name, setting in findings.settings.items():
        mean = setting.scores.get(findings.primary_metric)
        if mean is not None and mean.mean is not None:
            yield f"{name} {findings.primary_metric}", f"{mean.mean:.6f}"


def _allowed(attributes: dict[str, str]) -> dict[str, str]:
    return {name: _visible(value) for name, value in attributes.items()}


def _visible(text: str) -> str:
    r"""``text`` with what XML cannot hold as Python writes it: ``\x07``."""
    return _NOT_XML.sub(lambda match: match[0].encode("unicode_escape", "surrogatepass").decode("ascii"), text)
