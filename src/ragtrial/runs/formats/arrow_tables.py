"""Arrow tables, which Parquet files become, as columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ragtrial.rankings import Counts
from ragtrial.runs.formats.tables import Numbers
from ragtrial.runs.qrels import Names


class ArrowTable:
    """A pyarrow Table or RecordBatch."""

    def __init__(self, table: Any) -> None:
        import pyarrow as pa

        self._pa = pa
        self._table = pa.Table.from_batches([table]) if isinstance(table, pa.RecordBatch) else table

    @property
    def names(self) -> Sequence[str]:
        return list(self._table.column_names)

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def odd(self, name: str) -> str:
        return odd_type(self._table.column(name).type)

    def coded(self, name: str) -> tuple[Counts, Sequence[object]] | None:
        try:
            encoded = self._plain(name).dictionary_encode().unify_dictionaries().combine_chunks()
        except self._pa.ArrowNotImplementedError:
            return None
        return encoded.indices.cast(self._pa.int64()).fill_null(-1).to_numpy(), encoded.dictionary.to_pylist()

    def text(self, name: str) -> Names | None:
        return arrow_names(self._plain(name))

    def numbers(self, name: str) -> Numbers | None:
        column = self._plain(name)
        if self._pa.types.is_integer(column.type) and column.type != self._pa.uint64():
            wide = self._pa.int64()
        elif self._pa.types.is_floating(column.type) or self._pa.types.is_decimal(column.type):
            wide = self._pa.float64()
        else:
            return None
        null = column.is_null().to_numpy()
        zero = self._pa.scalar(0, type=column.type) if not self._pa.types.is_decimal(column.type) else None
        filled = column.fill_null(zero) if zero is not None and null.any() else column
        return Numbers(filled.cast(wide, safe=False).to_numpy(), null)

    def values(self, name: str) -> list[object]:
        return list(self._table.column(name).to_pylist())

    def _plain(self, name: str) -> Any:
        """A column without the dictionary it may be encoded with, which may hold values of no row, or the run ends."""
        column = self._table.column(name)
        if self._pa.types.is_run_end_encoded(column.type):
            import pyarrow.compute as pc

            column = pc.run_end_decode(column)
        encoded = self._pa.types.is_dictionary(column.type) and not odd_type(column.type)
        return column.cast(column.type.value_type) if encoded else column


def odd_type(kind: Any) -> str:
    """The name of an Arrow type that has parts, such as a list; else empty."""
    import pyarrow as pa

    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    return str(kind) if pa.types.is_nested(inner) and not pa.types.is_run_end_encoded(inner) else ""


def arrow_names(column: Any) -> Names | None:
    """The strings of an Arrow column, packed; None if there is a null, or something else."""
    import pyarrow as pa

    is_view = pa.types.is_string_view(column.type)
    if not (is_view or pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return None
    if column.null_count:
        return None
    texts, ends, offset = [np.empty(0, dtype=np.uint8)], [np.empty(0, dtype=np.int64)], 0
    for chunk in column.cast(pa.large_string()).chunks:
        _, bounds, content = chunk.buffers()
        if not len(chunk):
            continue
        own = np.frombuffer(bounds, dtype=np.int64)[chunk.offset : chunk.offset + len(chunk) + 1]
        if content is not None:
            texts.append(np.frombuffer(content, dtype=np.uint8)[own[0] : own[-1]])
        ends.append(own[1:] - own[0] + offset)
        offset = int(ends[-1][-1])
    return Names(np.concatenate(texts), np.concatenate(ends))
