"""Gates and a comparison as lines, Markdown, JUnit XML and CSV."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from ragtrial.cache.untrusted import for_markdown, for_xml
from ragtrial.comparison.comparing import close_comparisons
from ragtrial.comparison.comparison_parts import Comparison, ComparisonPart
from ragtrial.comparison.gates import Findings, GateOutcome
from ragtrial.comparison.number_text import signed, signed_interval
from ragtrial.errors import counted
from ragtrial.report.schema import MeanPart
from ragtrial.runs.formats.writing import write_table
from ragtrial.runs.streams import written
from ragtrial.views import comparison_tables as tables
from ragtrial.views.comparison_tables import looked_into_lines
from ragtrial.views.table import Table, mean_row, mean_table


def summary(findings: Findings) -> str:
    """How many gates passed, and how many did not; empty without any."""
    outcomes = [str(gate.outcome) for gate in findings.gates]
    words = ("passed", "failed", "undecided", "not checked")
    counts = ", ".join(f"{outcomes.count(word):,} {word}" for word in words if word in outcomes)
    return f"{counted(len(outcomes), 'gate')}: {counts}" if outcomes else ""


def gate_line(gate: GateOutcome) -> str:
    """``gate failed: ndcg@10 < 0.70: bm25 0.5779; 3 others passed``."""
    return f"gate {gate.outcome}: {gate.gate}: {gate_details(gate)}"


def gate_details(gate: GateOutcome) -> str:
    """The results of the settings that decided, and how many others passed."""
    shown = [finding for finding in gate.findings if finding.outcome in (gate.outcome, "not checked")]
    texts = [f"{finding.setting} {finding.found}" for finding in shown]
    passed = sum(finding.outcome == "passed" for finding in gate.findings)
    texts += [f"{counted(passed, 'other')} passed"] if passed and gate.outcome != "passed" else []
    note = f" ({gate.note})" if gate.note else ""
    return f"{'; '.join(texts) or 'there is nothing to check'}{note}"


def markdown_text(findings: Findings) -> str:
    """A heading with the outcome, a table of settings or comparisons, failures, and details to open.

    If there are very many comparisons, only comparisons with the best setting are shown; the CSV has all.
    """
    return "\n\n".join(_sections(findings)) + "\n"


def _sections(findings: Findings) -> Iterator[str]:
    yield f"### {for_markdown(findings.subject)}: {_outcome(findings)}"
    comparison = findings.comparison
    if comparison is not None:
        yield "<br>\n".join(map(for_markdown, tables.flat_sentences(comparison.conclusion)))
    if comparison is None:
        yield _table(_score_table(findings, [findings.primary_metric]))
    else:
        parts = close_comparisons(comparison)
        if parts:
            yield _table(tables.verdict_table(comparison, parts).fitted(0, "--csv has all", most=3))
        line = tables.left_out_line(comparison, parts, tables.ALL_PAIRS) if parts else "There is nothing to compare."
        yield from map(for_markdown, filter(None, [line, *tables.looked_into_lines(comparison)]))
    if items := [f"- {item}" for item in _items(findings)]:
        yield "\n".join(items)
    metrics = list(comparison.metrics if comparison else next(iter(findings.settings.values())).scores)
    others = [name for name in metrics if name != findings.primary_metric]
    if comparison is None:
        yield from _folded("All metrics", _table(_score_table(findings, [findings.primary_metric, *others])))
    else:
        yield from _folded("Other metrics, for which nothing is claimed",
                           _table(tables.descriptive_table(comparison, others, parts)))  # fmt: skip
        yield from _folded("How it was tested", for_markdown(comparison.procedure.sentence))


def _outcome(findings: Findings) -> str:
    total = summary(findings)
    if findings.has_failed:
        return f"{'failed' if ' failed' in total else 'undecided'} ({total})"
    if findings.is_incomplete:
        return f"incomplete ({total or 'some settings could not be run'})"
    return f"passed ({total})" if total else "compared" if findings.comparison else "scored"


def _items(findings: Findings) -> Iterator[str]:
    """A line for each gate, each setting that failed, and each warning."""
    for gate in findings.gates:
        yield f"**{gate.outcome}**: {code(gate.gate)}: {for_markdown(gate_details(gate))}"
    for failure in findings.failures:
        yield f"**could not be run**: {code(failure.name)}: {for_markdown(failure.error)}"
    for warning in findings.comparison.warnings if findings.comparison else ():
        yield f"warning: {for_markdown(warning.message)}"


def _score_table(findings: Findings, metrics: Sequence[str]) -> Table:
    """The means of all settings, best first; a mean over another number of queries than the first shows its n."""
    unknown = MeanPart(mean=None, n=0)
    settings = findings.settings.items()
    rows = [mean_row(name, [setting.scores.get(metric, unknown) for metric in metrics]) for name, setting in settings]
    return mean_table("setting", metrics, rows)


def _folded(title: str, content: str) -> Iterator[str]:
    if content:
        yield f"<details><summary>{title}</summary>\n\n{content}\n\n</details>"


def _table(table: Table) -> str:
    lines = [f"| {' | '.join(map(for_markdown, row))} |" for row in table.cells]
    return "\n".join([lines[0], "|" + "---|" * len(table.columns), *lines[1:]]) if lines else ""


def code(text: str) -> str:
    """``text`` as code: it is shown literally."""
    return f"<code>{for_markdown(text)}</code>"


_ENDINGS = {"failed": "failure", "undecided": "failure", "not checked": "skipped", "error": "error"}
_COUNTS = {"failures": "failure", "errors": "error", "skipped": "skipped"}


@dataclass(frozen=True)
class _Case:
    """A test: its name, its outcome, and its results, the first line by itself."""

    name: str
    outcome: str
    found: Sequence[str]


def junit_text(findings: Findings) -> str:
    """An XML document with up to three suites: gates, comparisons, and settings that failed.

    Each gate is a test. All comparisons are one test, which passes, because no outcome was
    asked for. The output of a test has its results. A setting that could not be run is an error.
    """
    root = Element("testsuites")
    suites = {
        "gates": [
            _Case(gate.gate, gate.outcome, [gate_line(gate), *(
                f"{finding.setting}: {finding.outcome}: {finding.found}" for finding in gate.findings
            )])
            for gate in findings.gates
        ],
        "comparison": list(_compared(findings)),
        "settings": [_Case(part.name, "error", [part.error, part.details or ""]) for part in findings.failures],
    }  # fmt: skip
    for name, cases in suites.items():
        if cases:
            suite = _add(root, findings.subject, name, cases)
            if name == "comparison" and findings.comparison:
                lines = [*looked_into_lines(findings.comparison), findings.comparison.procedure.sentence]
                lines += [f"warning: {warning.message}" for warning in findings.comparison.warnings]
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
            said = f"{signed(part.difference, part.n)}{interval}: {part.sentence}"
            lines.append(f"{part.setting} against {part.baseline}: {said}")
    yield _Case(f"comparison by {findings.primary_metric}", "passed", lines)


def _add(root: Element, subject: str, name: str, cases: Sequence[_Case]) -> Element:
    endings = [_ENDINGS.get(case.outcome, "") for case in cases]
    counts = {count: str(endings.count(ending)) for count, ending in _COUNTS.items()}
    suite = SubElement(root, "testsuite", {"name": name, "tests": str(len(cases)), **counts})
    for case, ending in zip(cases, endings, strict=True):
        test = SubElement(suite, "testcase", {"name": case.name, "classname": f"ragtrial.{subject}.{name}"})
        if ending:
            SubElement(test, ending, {"message": case.found[0]}).text = "\n".join(case.found[1:])
        SubElement(test, "system-out").text = "\n".join(case.found)
    return suite


def csv_columns(comparison: Comparison | None) -> dict[str, list[object]]:
    """One row for each comparison, with all of its fields; ``ci`` is two columns. None where there is no value. Without
    a comparison there are no rows.
    """
    parts = comparison.comparisons if comparison else []
    columns: dict[str, list[object]] = {}
    for field in ComparisonPart.model_fields:
        if field == "ci":
            columns["ci_low"] = [part.ci and part.ci[0] for part in parts]
            columns["ci_high"] = [part.ci and part.ci[1] for part in parts]
        else:
            columns[field] = [getattr(part, field) for part in parts]
    return columns


def _writer(text: Callable[[Findings], str]) -> Callable[[str, Findings], object]:
    def write(target: str, findings: Findings) -> None:
        with written(target) as file:
            file.write(text(findings).encode("utf-8", "backslashreplace"))

    return write


WRITERS: dict[str, Callable[[str, Findings], object]] = {
    "junit": _writer(junit_text),
    "markdown": _writer(markdown_text),
    "csv": lambda target, findings: write_table(target, csv_columns(findings.comparison), form="csv"),
}
"""By the name of its option, what writes findings to a path or to ``-``."""
