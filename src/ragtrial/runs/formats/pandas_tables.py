"""DataFrames of pandas as columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ragtrial.rankings import Counts
from ragtrial.runs.formats.tables import Numbers
from ragtrial.runs.qrels import Names


class PandasTable:
    """A DataFrame; its index is no column."""

    def __init__(self, frame: Any) -> None:
        import pandas as pd

        self._pd = pd
        self._frame = frame

    @property
    def names(self) -> Sequence[str]:
        return list(map(str, self._frame.columns))

    def __len__(self) -> int:
        return len(self._frame)

    def odd(self, name: str) -> str:
        kind = self._column(name).dtype
        if isinstance(kind, self._pd.ArrowDtype):
            from ragtrial.runs.formats.arrow_tables import odd_type

            return odd_type(kind.pyarrow_dtype)
        return str(kind) if self._pd.api.types.is_complex_dtype(kind) else ""

    def coded(self, name: str) -> tuple[Counts, Sequence[object]] | None:
        try:
            codes, distinct = self._pd.factorize(self._column(name))
        except TypeError:  # lists and dicts among objects
            return None
        return codes.astype(np.int64), distinct.tolist()

    def text(self, name: str) -> Names | None:
        if not isinstance(self._column(name).dtype, self._pd.StringDtype):
            return None
        try:
            import pyarrow as pa
        except ImportError:
            return None
        from ragtrial.runs.formats.arrow_tables import arrow_names

        made = pa.array(self._column(name), from_pandas=True)
        return arrow_names(made if isinstance(made, pa.ChunkedArray) else pa.chunked_array([made]))

    def numbers(self, name: str) -> Numbers | None:
        column = self._column(name)
        types = self._pd.api.types
        if types.is_bool_dtype(column.dtype) or not types.is_numeric_dtype(column.dtype):
            return None
        null = column.isna().to_numpy()
        if not types.is_integer_dtype(column.dtype):
            return Numbers(column.to_numpy(dtype=np.float64, na_value=np.nan), null)
        if "uint64" in str(column.dtype).lower():  # UInt64 and uint64[pyarrow], too: int64 would wrap them
            return None
        return Numbers((column.fillna(0) if null.any() else column).to_numpy(dtype=np.int64), null)

    def values(self, name: str) -> list[object]:
        column = self._column(name)
        return [None if null else value for value, null in zip(column.tolist(), column.isna().tolist(), strict=True)]

    def _column(self, name: str) -> Any:
        return self._frame.iloc[:, self.names.index(name)]
