"""Results in a notebook: a small HTML table, and rows as a DataFrame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from ragtrial.errors import ReportError

if TYPE_CHECKING:
    from pandas import DataFrame

Row = Mapping[str, Any]
"""The values of a row by column; all rows of a table have the same columns."""

_MOST_ROWS = 20


def html_table(caption: str, rows: Sequence[Row]) -> str:
    """The first 20 rows as HTML, numbers with four decimals; every value is shown as text."""
    rest = f" The first {_MOST_ROWS} of {len(rows):,} rows." if len(rows) > _MOST_ROWS else ""
    lines = [_line("th", list(rows[0]))] if rows else []
    lines += [_line("td", list(row.values())) for row in rows[:_MOST_ROWS]]
    return f"<table><caption>{escape(caption + rest)}</caption>{''.join(lines)}</table>"


def data_frame(rows: Sequence[Row]) -> DataFrame:
    """One row each. Raises ReportError where pandas is not installed."""
    try:
        from pandas import DataFrame
    except ImportError:
        message = "a DataFrame needs pandas, which is not installed: pip install 'ragtrial[pandas]'."
        raise ReportError(message) from None
    return DataFrame(list(rows))


def _line(cell: str, values: Sequence[object]) -> str:
    texts = ["" if one is None else f"{one:.4f}" if isinstance(one, float) else str(one) for one in values]
    return f"<tr>{''.join(f'<{cell}>{escape(text)}</{cell}>' for text in texts)}</tr>"
