"""A comparison as columns of a table, for CSV."""

from __future__ import annotations

from ragtrial.comparison.comparison_parts import Comparison, ComparisonPart

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""How a text begins that spreadsheets take for a formula, and run (OWASP, CSV injection)."""


def csv_columns(comparison: Comparison | None) -> dict[str, list[object]]:
    """One row for each comparison, with all of its fields; ``ci`` is two columns. None where there is no value. Without
    a comparison there are no rows.

    A name that a spreadsheet would run as a formula has an apostrophe before it.
    """
    columns: dict[str, list[object]] = {}
    parts = comparison.comparisons if comparison else []
    for field in ComparisonPart.model_fields:
        values = [getattr(part, field) for part in parts]
        if field == "ci":
            columns["ci_low"] = [None if ci is None else ci[0] for ci in values]
            columns["ci_high"] = [None if ci is None else ci[1] for ci in values]
        else:
            columns[field] = [_harmless(value) if isinstance(value, str) else value for value in values]
    return columns


def _harmless(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA) else text
