"""A comparison as columns of a table, for CSV."""

from __future__ import annotations

from ragtrial.comparison.comparison_parts import Comparison, ComparisonPart


def csv_columns(comparison: Comparison | None) -> dict[str, list[object]]:
    """One row for each comparison, with all of its fields; ``ci`` is two columns. None where there is no value. Without
    a comparison there are no rows.
    """
    columns: dict[str, list[object]] = {}
    parts = comparison.comparisons if comparison else []
    for field in ComparisonPart.model_fields:
        values = [getattr(part, field) for part in parts]
        if field == "ci":
            columns["ci_low"] = [None if ci is None else ci[0] for ci in values]
            columns["ci_high"] = [None if ci is None else ci[1] for ci in values]
        else:
            columns[field] = values
    return columns
