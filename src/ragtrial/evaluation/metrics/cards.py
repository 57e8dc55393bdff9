"""The card of a metric: its formula, its range, and the names of the same number in other tools."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from ragtrial.evaluation.metrics.base import DEFINED_FOR, Metric, shown

_LABELS = {
    "formula": "formula", "over_passages": "unit: span", "gain": "gain", "denominator": "denominator",
    "range": "range", "relevant": "relevant", "defined_for": "defined for", "over_queries": "over queries",
    "parameters": "parameter", "edge_cases": "note", "same_as": "same as", "unlike": "unlike",
    "aliases": "also written", "source": "source",
}  # fmt: skip
"""The fields of a card, in the order in which they are shown."""


def card(metric: Metric) -> dict[str, Any]:
    """A metric in words, with its cutoff and its parameters filled in: the name, the family, and ``_LABELS``."""
    definition, given = metric.definition, dict(metric.parameters)
    threshold = f"grade {given['rel']}" if "rel" in given else "the relevance threshold (grade 1 unless another is set)"
    edges = [_cut(metric, edge) for edge in definition.edges]
    if metric.k is None and definition.cut == "optional":
        edges.append("without a cutoff all hits count and no ideal is cut: read k as infinite")
    if not definition.documents:
        edges.append("defined under unit: span, for rankings of chunks")
    if given.get("judged_only"):
        edges.append("hits that nobody judged are taken out first, and those below move up")
    return {
        "metric": str(metric),
        "family": definition.family,
        "formula": _cut(metric, definition.formula),
        "over_passages": _cut(metric, definition.spans) if definition.spans and definition.documents else None,
        "gain": _gain(metric),
        "denominator": _cut(metric, definition.denominator),
        "range": ("0 or more" if definition.highest is None else f"{definition.lowest:g} to {definition.highest:g}")
        + ("; lower is better" if definition.better == "lower" else ""),
        "relevant": f"from {threshold} on" if "rel" in definition.parameters else None,
        "defined_for": DEFINED_FOR[definition.needs],
        "over_queries": "the mean",
        "parameters": {
            key: shown(value) for key in definition.parameters if (value := metric.value_of(key)) is not None
        },
        "edge_cases": edges,
        "same_as": dict(_same_as(metric)),
        "unlike": [_cut(metric, text) for text in definition.unlike],
        "aliases": [alias.name for alias in definition.aliases if alias.name != definition.name and not alias.sets],
        "source": definition.source,
    }


def card_text(card: Mapping[str, Any], width: int = 100) -> str:
    """A card as lines of at most ``width`` characters."""
    lines = [f"{card['metric']} ({card['family']})"]
    for name, label in _LABELS.items():
        value = card[name]
        if isinstance(value, Mapping):
            value = [f"{key}{'=' if name == 'parameters' else ': '}{text}" for key, text in value.items()]
        elif name == "aliases":
            value = [", ".join(value)] if value else []
        for text in value if isinstance(value, list) else [value] if value else []:
            head, label = f"  {label:<12}  ", ""  # the label is shown once
            lines += textwrap.wrap(text, width, initial_indent=head, subsequent_indent=" " * len(head))
    return "\n".join(lines)


def _cut(metric: Metric, text: str) -> str:
    """``text`` with the cutoff for k, where there is one."""
    return text if metric.k is None else re.sub(r"\bk\b", str(metric.k), text)


def _gain(metric: Metric) -> str:
    if not metric.definition.gains:
        return metric.definition.gain
    usual = "2^grade - 1" if dict(metric.parameters).get("gain") == "exp" else "the grade"
    given = "".join(f"{gain:g} for grade {grade}, " for grade, gain in metric.gains)
    return f"{given}{'else ' if given else ''}{usual}; 0 for grades below 0 and what nobody judged"


def _same_as(metric: Metric) -> Iterator[tuple[str, str]]:
    """Other tools with their names of this number; none if no tool has it."""
    definition, given = metric.definition, dict(metric.parameters)
    if metric.gains or given.get("judged_only"):
        return
    uncut = metric.k is None and definition.cut == "optional"
    spellings = definition.uncut if uncut else definition.elsewhere
    if given.get("gain") == "exp":
        spellings = {} if uncut else definition.exponential
    values = {key: str(value) for key, value in given.items()}
    for tool, spelling in spellings.items():
        filled = spelling.format(k=metric.k or "k", **values)
        if "rel" not in given:
            yield tool, filled
        elif tool == "trec_eval":
            yield tool, f"-l {given['rel']}, {filled}"
