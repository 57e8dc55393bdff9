"""Tables of pandas, polars, Arrow and others that speak its interface, and Parquet files, as columns of runs and qrels.

Where pyarrow is installed a column goes through it, without a Python object per value; else, and where Arrow cannot
hold it (ids that are numbers and strings, integers beyond 64 bits), it is a list of Python's values. No package is
imported here unless there is a table.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ragtrial.records import MOST_GRADE
from ragtrial.runs.faults import Faults
from ragtrial.runs.formats.column_roles import Columns, Kind, Role, roles_of
from ragtrial.runs.formats.gathering import (
    CodedIds,
    coded,
    id_of,
    id_problem,
    ids_of,
    packed,
    qrels_of,
    recoded,
    run_of,
)
from ragtrial.runs.formats.numerals import grade_problem, grades_of, scores_of
from ragtrial.runs.qrels import PackedIds, Qrels, Run
from ragtrial.runs.streams import Source, content_of

Column = Any
"""A list of Python's values, None for null, or a ChunkedArray of pyarrow without dictionary or run ends."""


class Picked(NamedTuple):
    """The columns that matter; ``role`` is what the numbers are, ``names`` has the name of each role's column."""

    queries: Column
    documents: Column
    numbers: Column
    role: Role
    names: Mapping[Role, str]


def number_role(roles: Iterable[Role]) -> Role:
    """What the numbers are: of a run, scores rather than ranks."""
    there = set(roles)
    numbers: tuple[Role, ...] = ("grade", "score", "rank")
    return next(role for role in numbers if role in there)


class ArrowTable:
    """A table: its ``names`` of columns, and each column by name."""

    def __init__(self, frame: Any) -> None:
        names = frame.column_names if hasattr(frame, "column_names") else frame.columns
        self.names: Sequence[str] = list(map(str, names))
        self._frame = frame

    def column(self, name: str) -> Column:
        place = self.names.index(name)
        series = self._frame.iloc[:, place] if hasattr(self._frame, "iloc") else self._frame[self.names[place]]
        return _arrow(series) if _has_arrow() else _values(series)


def table_of(source: object, faults: Faults) -> ArrowTable | None:
    """``source`` as a table; None if it is none. Raises the error of ``faults`` for one that is not computed yet."""
    if type(source).__name__ == "LazyFrame" and hasattr(source, "collect"):
        raise faults.fail("is a polars LazyFrame; give what its collect() returns.")
    has_names = hasattr(source, "columns") or hasattr(source, "column_names")
    if not (has_names and hasattr(source, "__arrow_c_stream__")):
        return None
    if hasattr(source, "iloc") or hasattr(source, "get_column") or hasattr(source, "column_names"):
        return ArrowTable(source)
    if not _has_arrow():
        raise faults.fail("needs a package that is not installed to be read: pip install 'ragtrial[parquet]'.")
    import pyarrow as pa

    return ArrowTable(pa.table(source))


def parquet_table(source: Source, columns: Columns | None, kind: Kind, faults: Faults) -> ArrowTable:
    """The columns of a Parquet file that matter. Raises the error of ``faults`` if it is none."""
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        message = "needs a package that is not installed to be read as Parquet: pip install 'ragtrial[parquet]'."
        raise faults.fail(message) from None
    content = content_of(source, faults.error)
    try:
        file = parquet.ParquetFile(pa.BufferReader(content))
        found = list(file.schema_arrow.names)
        chosen = roles_of(found, kind, columns, faults)
        return ArrowTable(file.read(columns=list(chosen.values())))
    except (pa.ArrowException, OSError) as failure:
        reason = str(failure).partition("\n")[0].rstrip(".")
        raise faults.fail(f"is no Parquet file, or a damaged one: {reason}.") from None


def picked_from(table: ArrowTable, kind: Kind, columns: Columns | None, faults: Faults) -> Picked:
    """The columns of a table that matter. Raises the error of ``faults`` if there is none, or no row."""
    chosen = roles_of(table.names, kind, columns, faults)
    role = number_role(chosen)
    queries = table.column(chosen["query"])
    if not len(queries):
        raise faults.fail("has no rows.")
    return Picked(queries, table.column(chosen["document"]), table.column(chosen[role]), role, chosen)


def qrels_of_columns(picked: Picked, faults: Faults) -> Qrels:
    """The qrels of columns. Raises the error of ``faults`` with everything that is wrong, by row."""
    queries = _coded(picked.queries, picked.names["query"], "query", faults)
    documents = _coded(picked.documents, picked.names["document"], "document", faults)
    can_compare = not faults.count
    grades = _grades(picked.numbers, picked.names["grade"], faults)
    if not can_compare:
        faults.raise_any()
    return qrels_of(queries, documents, grades, faults)


def run_of_columns(name: str, picked: Picked, faults: Faults) -> Run:
    """The run of columns. Raises the error of ``faults`` with everything that is wrong, by row."""
    values = _scores(picked.numbers, picked.names[picked.role], picked.role, faults)
    queries = _coded(picked.queries, picked.names["query"], "query", faults)
    documents = _ids(picked.documents, picked.names["document"], faults)
    return replace(run_of(name, queries, documents, values, faults), by_rank=picked.role == "rank")


def _has_arrow() -> bool:
    try:
        importlib.import_module("pyarrow")
    except ImportError:
        return False
    return True


def _arrow(series: Any) -> Column:
    """A column by Arrow, without the dictionary or the run ends that it may be encoded with; else its values."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        column = series if isinstance(series, pa.ChunkedArray) else pa.chunked_array(_chunks(series))
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        return _values(series)
    if pa.types.is_fixed_size_binary(column.type) and hasattr(series, "to_list"):
        return _values(series)  # Python's objects in polars, as addresses
    if pa.types.is_run_end_encoded(column.type):
        return pc.run_end_decode(column)
    if not pa.types.is_dictionary(column.type) or pa.types.is_nested(column.type.value_type):
        return column
    kind = pa.large_string() if pa.types.is_string_view(column.type.value_type) else column.type.value_type
    chunks = [pc.take(chunk.dictionary.cast(kind), chunk.indices) for chunk in column.chunks]
    return pa.chunked_array(chunks, type=kind)


def _chunks(series: Any) -> Any:
    """What ``pyarrow.chunked_array`` takes: a column with the interface, or a list of one array."""
    import pyarrow as pa

    if hasattr(series, "__arrow_c_stream__"):
        return series
    made = series if isinstance(series, pa.Array) else pa.array(series, from_pandas=True)
    return made if isinstance(made, pa.ChunkedArray) else [made]


def _values(series: Any) -> list[object]:
    """The values of a column of pandas or polars as Python has them; None for what pandas takes for missing."""
    values: list[object] = series.to_list()
    if not hasattr(series, "isna"):
        return values
    return [None if null else value for value, null in zip(values, series.isna().tolist(), strict=True)]


def _is_nested(column: Column, name: str, wanted: str, faults: Faults) -> bool:
    """Whether the type of a column has parts, such as a list: no value of it is what is wanted. That is a fault."""
    if isinstance(column, list):
        return False
    import pyarrow as pa

    inner = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    is_nested = bool(pa.types.is_nested(inner))
    if is_nested:
        faults.add(f"the column {name!r} is of type {column.type}; {wanted}: convert it, or name another column.")
    return is_nested


def _coded(column: Column, name: str, role: str, faults: Faults) -> CodedIds:
    if _is_nested(column, name, f"ids (here the {role}) are strings or whole numbers", faults):
        return coded([])
    if isinstance(column, list):
        return coded(ids_of(column, role, faults))
    import pyarrow as pa

    encoded = column.dictionary_encode().unify_dictionaries().combine_chunks()
    codes = encoded.indices.cast(pa.int64()).fill_null(-1).to_numpy()
    values = encoded.dictionary.to_pylist()
    ids = [id_of(value) for value in values]
    wrong = ~np.array([name is not None for name in ids] + [False], dtype=np.bool_)[codes]  # the last is that of null
    if not wrong.any():
        return recoded(codes, [name or "" for name in ids])
    faults.add_rows(wrong, lambda row: id_problem(role, values[codes[row]] if codes[row] >= 0 else None))
    return coded([])


def _ids(column: Column, name: str, faults: Faults) -> PackedIds:
    """The ids of the documents, a row each. Raises the faults, these and earlier ones."""
    if _is_nested(column, name, "ids (here the document) are strings or whole numbers", faults):
        faults.raise_any()
    if not isinstance(column, list):
        import pyarrow as pa

        kind = column.type
        is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
        if (is_text or pa.types.is_integer(kind)) and not column.null_count:
            return _packed_texts(column.cast(pa.large_string()).chunks)
        column = column.to_pylist()
    ids = ids_of(column, "document", faults)
    faults.raise_any()
    return packed(ids, faults)


def _packed_texts(chunks: Sequence[Any]) -> PackedIds:
    """The strings of Arrow arrays without nulls, with offsets of 64 bits."""
    texts, ends, offset = [np.empty(0, dtype=np.uint8)], [np.empty(0, dtype=np.int64)], 0
    for chunk in filter(len, chunks):
        _, bounds, content = chunk.buffers()
        own = np.frombuffer(bounds, dtype=np.int64)[chunk.offset : chunk.offset + len(chunk) + 1]
        if content is not None:
            texts.append(np.frombuffer(content, dtype=np.uint8)[own[0] : own[-1]])
        ends.append(own[1:] - own[0] + offset)
        offset = int(ends[-1][-1])
    return PackedIds(np.concatenate(texts), np.concatenate(ends))


def _scores(column: Column, name: str, role: str, faults: Faults) -> npt.NDArray[np.float64]:
    if _is_nested(column, name, f"a {role} is a real number", faults):
        return np.zeros(len(column))
    if isinstance(column, list):
        return scores_of(column, role, faults)
    import pyarrow as pa

    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        return scores_of(column.to_pylist(), role, faults)
    values: npt.NDArray[np.float64] = column.cast(pa.float64(), safe=False).to_numpy().astype(np.float64)
    faults.add_rows(np.isnan(values), lambda _: f"the {role} is null or NaN, so it has no place in an order.")
    return values


def _grades(column: Column, name: str, faults: Faults) -> npt.NDArray[np.int64]:
    if _is_nested(column, name, "grades are whole numbers", faults):
        return np.zeros(len(column), dtype=np.int64)
    if isinstance(column, list):
        return grades_of(column, faults)
    import pyarrow as pa

    if pa.types.is_floating(column.type) or pa.types.is_decimal(column.type):
        faults.add(
            f"the column {name!r} holds decimals; grades are whole numbers: convert it to an integer type "
            "(a null among integers makes decimals of them)."
        )
        return np.zeros(len(column), dtype=np.int64)
    is_short = pa.types.is_integer(column.type) and column.type != pa.uint64()
    if not is_short or column.null_count:
        return grades_of(column.to_pylist(), faults)
    values: npt.NDArray[np.int64] = column.cast(pa.int64()).to_numpy()
    beyond = (values > MOST_GRADE) | (values < -MOST_GRADE)
    faults.add_rows(beyond, lambda row: grade_problem(int(values[row])) or "")
    return values
