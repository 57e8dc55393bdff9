"""Findings as Markdown: short enough for a pull request or the summary of a job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragtrial.cache.untrusted import for_markdown
from ragtrial.comparison.comparing import close_comparisons
from ragtrial.comparison.gates.gate import Findings
from ragtrial.report.schema import MeanPart
from ragtrial.views import comparison_tables as tables
from ragtrial.views.gate_results import expected_line, gate_details, summary
from ragtrial.views.table import Table, mean_row, mean_table


def markdown_text(findings: Findings) -> str:
    """A heading with the outcome, a table of the settings or of the comparisons, what failed, and details to open.

    Of very many comparisons those with the best setting are shown; the CSV has all.
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
        lines = [tables.left_out_line(comparison, parts)] if parts else ["There is nothing to compare."]
        yield for_markdown(" ".join(filter(None, lines)))
        yield from map(for_markdown, tables.looked_into_lines(comparison))
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
    said = summary(findings)
    if findings.has_failed:
        return f"{'failed' if ' failed' in said or 'FAIL' in said else 'undecided'} ({said})"
    if findings.is_incomplete:
        return f"incomplete ({said or 'some settings could not be run'})"
    return f"passed ({said})" if said else "compared" if findings.comparison else "scored"


def _items(findings: Findings) -> Iterator[str]:
    """A line for each gate, each expected score that is not just so, each setting that failed, and each warning."""
    for gate in findings.gates:
        yield f"**{gate.outcome}**: {code(gate.gate)}: {for_markdown(gate_details(gate))}"
    for one in findings.expected:
        if one.outcome != "OK":
            yield f"**{one.outcome}**: {for_markdown(expected_line(one))}"
    for failure in findings.failures:
        yield f"**could not be run**: {code(failure.name)}: {for_markdown(failure.error)}"
    for warning in findings.comparison.warnings if findings.comparison else ():
        yield f"warning: {for_markdown(warning.message)}"


def _score_table(findings: Findings, metrics: Sequence[str]) -> Table:
    """The means of all settings, best first; behind a mean over other queries than the first stands how many."""
    unknown = MeanPart(mean=None, n=0)
    rows = [
        mean_row(name, [setting.scores.get(metric, unknown) for metric in metrics])
        for name, setting in findings.settings.items()
    ]
    return mean_table("setting", metrics, rows)


def _folded(title: str, content: str) -> Iterator[str]:
    if content:
        yield f"<details><summary>{title}</summary>\n\n{content}\n\n</details>"


def _table(table: Table) -> str:
    lines = [f"| {' | '.join(map(for_markdown, row))} |" for row in table.cells]
    return "\n".join([lines[0], "|" + "---|" * len(table.columns), *lines[1:]]) if lines else ""


def code(text: str) -> str:
    """``text`` as code: whatever it holds, it is shown and does nothing."""
    return f"<code>{for_markdown(text)}</code>"
