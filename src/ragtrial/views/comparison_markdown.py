"""Findings as Markdown: short enough for a pull request or the summary of a job."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ragtrial.comparison.comparing import close_comparisons
from ragtrial.comparison.comparison_parts import Comparison, ComparisonPart
from ragtrial.comparison.figures import signed
from ragtrial.comparison.gates.gate import Findings
from ragtrial.comparison.verdicts import percent
from ragtrial.report.schema import MeanPart
from ragtrial.views.comparison_tables import best_line, left_out_line, looked_into_lines
from ragtrial.views.gate_results import expected_details, gate_line, metric_names, summary
from ragtrial.views.plain_text import visible

_HARMLESS = re.compile(r"[^`|\\\s](?:[^`|\\]*[^`|\\\s])?")
_MARKUP = re.compile(r"[^A-Za-z0-9 .,:;()%+-]")
_MOST_EXPECTED = 20


def markdown_text(findings: Findings) -> str:
    """A heading with the outcome, a table of the settings or of the comparisons, what failed, and details to open.

    Of very many comparisons those with the best setting are shown; the CSV has all.
    """
    return "\n\n".join(_sections(findings)) + "\n"


def _sections(findings: Findings) -> Iterator[str]:
    yield f"### {_escaped(findings.subject)}: {_outcome(findings)}"
    if findings.comparison is None:
        yield _score_table(findings, [findings.primary_metric])
    else:
        parts = close_comparisons(findings.comparison)
        yield _table(list(_comparison_rows(findings, findings.comparison, parts)))
        said = [left_out_line(findings.comparison, parts), best_line(findings.comparison)] if parts else []
        yield _escaped(" ".join(line for line in said if line)) if said else "There is nothing to compare."
        yield from map(_escaped, looked_into_lines(findings.comparison))
    lists = [_gate_items(findings), _expected_items(findings), _failures(findings), _warnings(findings)]
    yield from filter(None, map(_list, lists))
    yield from _details(findings)


def _outcome(findings: Findings) -> str:
    asked = len(findings.gates) + len(findings.expected)
    if findings.failed:
        return f"failed ({summary(findings)})"
    if findings.failures or findings.unchecked:
        return f"incomplete ({summary(findings) or 'some settings could not be run'})"
    return f"passed ({summary(findings)})" if asked else "compared" if findings.comparison else "scored"


def _comparison_rows(
    findings: Findings, comparison: Comparison, parts: Sequence[ComparisonPart]
) -> Iterator[list[str]]:
    """A header and a row for each comparison; a baseline that all share is a row of its own."""
    shared = len({part.baseline for part in parts}) == 1
    gates = bool(findings.gates)
    interval = f"{percent(comparison.procedure.confidence)} interval"
    head = [
        "setting",
        *([] if shared else ["against"]),
        code(comparison.primary_metric),
        "difference",
        interval,
        "verdict",
    ]
    yield [*head, *(["gates"] if gates else [])]
    if shared:
        baseline, means = parts[0].baseline, {part.mean_baseline for part in parts}
        cells = [code(baseline), _score(parts[0].mean_baseline) if len(means) == 1 else "", "", "", "(baseline)"]
        yield [*cells, *([_gates_of(findings, baseline)] if gates else [])]
    for part in parts:
        names = [code(part.setting), *([] if shared else [code(part.baseline)])]
        numbers = [_score(part.mean), signed(part.difference, ""), _interval(part)]
        yield [*names, *numbers, _escaped(part.sentence), *([_gates_of(findings, part.setting)] if gates else [])]


def _gates_of(findings: Findings, setting: str) -> str:
    """How many of the gates about a setting failed."""
    about = [one.outcome for gate in findings.gates for one in gate.findings if one.setting == setting]
    failed, unchecked = about.count("failed"), about.count("not checked")
    if failed or unchecked:
        return ", ".join(
            [*([f"**{failed} failed**"] if failed else []), *([f"{unchecked} not checked"] if unchecked else [])]
        )
    return "passed" if about else ""


def _score_table(findings: Findings, metrics: Sequence[str]) -> str:
    """The means of all settings, best first; behind a mean over other queries than the first stands how many."""
    with_gates = bool(findings.gates) and len(metrics) == 1
    rows = [["setting", *map(code, metrics), "n", *(["gates"] if with_gates else [])]]
    for name, setting in findings.settings.items():
        means = [setting.scores.get(metric, MeanPart(mean=None, n=0)) for metric in metrics]
        cells = [_score(mean.mean) + (f" ({mean.n:,})" if mean.n != means[0].n else "") for mean in means]
        rows.append([code(name), *cells, f"{means[0].n:,}", *([_gates_of(findings, name)] if with_gates else [])])
    return _table(rows)


def _gate_items(findings: Findings) -> Iterator[str]:
    for gate in findings.gates:
        if gate.outcome == "passed":
            yield f"passed: {code(gate.gate)}"
        else:
            details = gate_line(gate).partition(f": {gate.gate}: ")[2]
            yield f"**{gate.outcome}**: {code(gate.gate)}: {_escaped(details)}"


def _expected_items(findings: Findings) -> Iterator[str]:
    off = [one for one in findings.expected if one.outcome != "OK"]
    for one in off[:_MOST_EXPECTED]:
        word = f"**{one.outcome}**" if one.outcome == "FAIL" else one.outcome
        yield f"{word}: {code(one.setting)} {code(one.metric)} {_escaped(expected_details(one))}"
    if len(off) > _MOST_EXPECTED:
        yield f"and {len(off) - _MOST_EXPECTED:,} more expected scores that are not OK"


def _failures(findings: Findings) -> Iterator[str]:
    for one in findings.failures:
        yield f"**could not be run**: {code(one.name)}: {_escaped(one.error)}"


def _warnings(findings: Findings) -> Iterator[str]:
    for one in findings.comparison.warnings if findings.comparison else ():
        yield f"warning: {_escaped(one.message)}"


def _details(findings: Findings) -> Iterator[str]:
    metrics = metric_names(findings)
    comparison = findings.comparison
    if len(metrics) > 1:
        what = "Other metrics, for which nothing is claimed" if comparison else "All metrics"
        yield f"<details><summary>{what}</summary>"
        if comparison is None:
            yield _score_table(findings, metrics)
        else:
            parts = close_comparisons(comparison)
            yield _table(list(_other_rows(comparison, parts, metrics[1:])))
        yield "</details>"
    if comparison is not None:
        yield f"<details><summary>How it was tested</summary>\n\n{_escaped(comparison.procedure.sentence)}"
        yield "</details>"


def _other_rows(comparison: Comparison, parts: Sequence[ComparisonPart], metrics: Sequence[str]) -> Iterator[list[str]]:
    """A header and, for each metric and each comparison shown, the difference with its interval."""
    pairs = [(part.setting, part.baseline) for part in parts]
    known = {(part.metric, part.setting, part.baseline): part for part in comparison.comparisons}
    yield ["metric", "setting", "against", "mean", "difference", "interval"]
    for metric in metrics:
        for setting, baseline in pairs:
            part = known.get((metric, setting, baseline))
            if part is not None:
                numbers = [_score(part.mean), signed(part.difference, ""), _interval(part)]
                yield [code(metric), code(setting), code(baseline), *numbers]


def _table(rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def _list(items: Iterator[str]) -> str:
    return "\n".join(f"- {item}" for item in items)


def code(text: str) -> str:
    """``text`` as code, in a table or outside: whatever it holds, it is shown and does nothing."""
    if _HARMLESS.fullmatch(text) and text.isprintable():
        return f"`{text}`"
    return f"<code>{_escaped(text, re.compile('[^A-Za-z0-9]'))}</code>"


def _escaped(text: str, markup: re.Pattern[str] = _MARKUP) -> str:
    """``text`` with every character that could be markup, break a line or call somebody as a character reference."""
    return markup.sub(lambda match: f"&#{ord(match[0])};", visible(text))


def _score(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def _interval(part: ComparisonPart) -> str:
    return "" if part.ci is None else f"{signed(part.ci[0])} to {signed(part.ci[1])}"
