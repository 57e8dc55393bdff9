"""DataFrames of polars as columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ragtrial.rankings import Counts
from ragtrial.runs.formats.tables import Numbers
from ragtrial.runs.qrels import Names

_BEYOND_INT64 = {"UInt64", "Int128", "UInt128"}


class PolarsTable:
    """A DataFrame."""

    def __init__(self, frame: Any) -> None:
        import polars as pl

        self._pl = pl
        self._frame = frame

    @property
    def names(self) -> Sequence[str]:
        return list(self._frame.columns)

    def __len__(self) -> int:
        return int(self._frame.height)

    def odd(self, name: str) -> str:
        kind = self._column(name).dtype
        return str(kind) if kind.is_nested() else ""

    def coded(self, name: str) -> tuple[Counts, Sequence[object]] | None:
        column = self._column(name)
        if column.dtype == self._pl.Object:
            return None
        distinct = column.drop_nulls().unique(maintain_order=True)
        places = self._pl.int_range(len(distinct), dtype=self._pl.Int64, eager=True)
        codes = column.replace_strict(distinct, places, default=-1, return_dtype=self._pl.Int64)
        return codes.fill_null(-1).to_numpy(), distinct.to_list()

    def text(self, name: str) -> Names | None:
        try:
            import pyarrow as pa
        except ImportError:
            return None
        from ragtrial.runs.formats.arrow_tables import arrow_names

        column = self._column(name)
        return arrow_names(pa.chunked_array([column.to_arrow()])) if column.dtype == self._pl.String else None

    def numbers(self, name: str) -> Numbers | None:
        column = self._column(name)
        if not column.dtype.is_numeric() or str(column.dtype) in _BEYOND_INT64:
            return None
        null = column.is_null().to_numpy()
        wide = column.cast(self._pl.Int64 if column.dtype.is_integer() else self._pl.Float64)
        return Numbers(wide.fill_null(0).to_numpy(), null)

    def values(self, name: str) -> list[object]:
        return list(self._column(name).to_list())

    def _column(self, name: str) -> Any:
        """A column; of categories their strings."""
        column = self._frame.get_column(name)
        return column.cast(self._pl.String) if column.dtype in (self._pl.Categorical, self._pl.Enum) else column
