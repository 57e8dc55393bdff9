"""Tables of pandas, polars and Arrow, and Parquet files: their columns become qrels and runs by their own fast means.

None of these packages is imported here unless the table at hand is one of theirs, or the file is Parquet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from ragtrial.rankings import Counts
from ragtrial.records import MOST_GRADE
from ragtrial.runs.formats.faults import Faults
from ragtrial.runs.formats.gathering import Coded, coded, id_of, ids_of, no_id, packed, qrels_of, recoded, run_of
from ragtrial.runs.formats.named_forms import Columns, roles_of
from ragtrial.runs.formats.numerals import grades_of, no_grade, scores_of
from ragtrial.runs.formats.sources import Source, content_of
from ragtrial.runs.qrels import Names, Qrels, Run

_PACKAGES = ("pandas", "polars", "pyarrow")


class Numbers(NamedTuple):
    """A column of numbers: int64 or float64, and which of them are null (any number stands there)."""

    values: npt.NDArray[Any]
    null: npt.NDArray[np.bool_]


class Table(Protocol):
    """What is asked of a table, whoever made it. Columns are named by strings."""

    @property
    def names(self) -> Sequence[str]:
        """The names of the columns."""

    def __len__(self) -> int: ...

    def odd(self, name: str) -> str:
        """The type of a column whose values are neither strings nor numbers, such as lists; else, or unknown, empty."""

    def coded(self, name: str) -> tuple[Counts, Sequence[object]] | None:
        """The code of each row, -1 for null, and the distinct values in the order in which they first came; None if
        the values cannot be told apart by the means of the table.
        """

    def text(self, name: str) -> Names | None:
        """The strings of a column without nulls, packed; None if it holds something else, or there is no fast way."""

    def numbers(self, name: str) -> Numbers | None:
        """The numbers of a column; None if it may hold something else."""

    def values(self, name: str) -> list[object]:
        """The values of a column as Python has them."""


def table_of(source: object, faults: Faults) -> Table | None:
    """``source`` as a table; None if it is none. Raises the error of ``faults`` for one that is not computed yet."""
    packages = {base.__module__.partition(".")[0] for base in type(source).__mro__}
    package = next((name for name in _PACKAGES if name in packages), "")
    if package == "pandas" and hasattr(source, "columns"):
        from ragtrial.runs.formats.pandas_tables import PandasTable

        return PandasTable(source)
    if package == "polars" and hasattr(source, "collect"):
        raise faults.fail("is a polars LazyFrame; give what its collect() returns.")
    if package == "polars" and hasattr(source, "columns"):
        from ragtrial.runs.formats.polars_tables import PolarsTable

        return PolarsTable(source)
    if package == "pyarrow" and hasattr(source, "column_names"):
        from ragtrial.runs.formats.arrow_tables import ArrowTable

        return ArrowTable(source)
    return None


def parquet_table(source: Source, columns: Columns | None, kind: str, faults: Faults) -> Table:
    """The columns of a Parquet file that matter. Raises the error of ``faults`` if it is none."""
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        message = "needs a package that is not installed to be read as Parquet: pip install 'ragtrial[parquet]'."
        raise faults.fail(message) from None
    from ragtrial.runs.formats.arrow_tables import ArrowTable

    content = content_of(source, faults.error)
    try:
        file = parquet.ParquetFile(pa.BufferReader(content))
        found = list(file.schema_arrow.names)
        chosen = roles_of(found, "qrels" if kind == "qrels" else "run", columns, faults)
        return ArrowTable(file.read(columns=list(chosen.values())))
    except (pa.ArrowException, OSError) as failure:
        reason = str(failure).partition("\n")[0].rstrip(".")
        raise faults.fail(f"is no Parquet file, or a damaged one: {reason}.") from None


def qrels_of_table(table: Table, columns: Columns | None, faults: Faults) -> Qrels:
    """The qrels of a table. Raises the error of ``faults`` with everything that is wrong, by row."""
    chosen = roles_of(table.names, "qrels", columns, faults)
    _not_empty(table, faults)
    queries, documents = (_coded(table, chosen[role], role, faults) for role in ("query", "document"))
    can_compare = not faults.count
    grades = _grades(table, chosen["grade"], faults)
    if not can_compare:
        faults.raise_any()
    return qrels_of(queries, documents, grades, faults)


def run_of_table(name: str, table: Table, columns: Columns | None, faults: Faults) -> Run:
    """The run of a table. Raises the error of ``faults`` with everything that is wrong, by row."""
    chosen = roles_of(table.names, "run", columns, faults)
    _not_empty(table, faults)
    role = "score" if "score" in chosen else "rank"
    values = _scores(table, chosen["score" if role == "score" else "rank"], role, faults)
    queries = _coded(table, chosen["query"], "query", faults)
    documents = table.text(chosen["document"])
    if documents is None:
        ids = _ids(table, chosen["document"], "document", faults)
        faults.raise_any()
        documents = packed(ids, faults)
    return replace(run_of(name, queries, documents, values, faults), by_rank=role == "rank")


def _not_empty(table: Table, faults: Faults) -> None:
    if not len(table):
        raise faults.fail("has no rows.")


def _coded(table: Table, column: str, role: str, faults: Faults) -> Coded:
    if _is_odd(table, column, f"ids (here the {role}) are strings or whole numbers", faults):
        return coded([])
    found = table.coded(column)
    if found is None:
        return coded(ids_of(table.values(column), role, faults))
    codes, values = found
    ids = [id_of(value) for value in values]
    spelled = np.array([name is not None for name in ids] + [False], dtype=np.bool_)  # the last is that of code -1

    def message(row: int) -> str:
        return no_id(role, values[codes[row]] if codes[row] >= 0 else None)

    wrong = ~spelled[codes]
    if wrong.any():
        faults.add_rows(wrong, message)
        return coded([])
    return recoded(codes, [name or "" for name in ids])


def _is_odd(table: Table, column: str, wanted: str, faults: Faults) -> bool:
    """Whether no value of a column can be what is wanted; that is a fault."""
    odd = table.odd(column)
    if odd:
        faults.add(f"the column {column!r} is of type {odd}; {wanted}: convert it, or name another column.")
    return bool(odd)


def _ids(table: Table, column: str, role: str, faults: Faults) -> list[str]:
    if _is_odd(table, column, f"ids (here the {role}) are strings or whole numbers", faults):
        return []
    numbers = table.numbers(column)
    if numbers is not None and numbers.values.dtype.kind == "i" and not numbers.null.any():
        return list(map(str, numbers.values.tolist()))
    return ids_of(table.values(column), role, faults)


def _scores(table: Table, column: str, role: str, faults: Faults) -> npt.NDArray[np.float64]:
    if _is_odd(table, column, f"a {role} is a real number", faults):
        return np.zeros(len(table))
    numbers = table.numbers(column)
    if numbers is None:
        return scores_of(table.values(column), role, faults)
    values = numbers.values.astype(np.float64)
    wrong = np.isnan(values) | numbers.null
    if wrong.any():
        faults.add_rows(wrong, lambda _: f"the {role} is null or NaN, so it has no place in an order.")
    return values


def _grades(table: Table, column: str, faults: Faults) -> npt.NDArray[np.int64]:
    if _is_odd(table, column, "grades are whole numbers", faults):
        return np.zeros(len(table), dtype=np.int64)
    numbers = table.numbers(column)
    if numbers is None:
        return grades_of(table.values(column), faults)
    if numbers.values.dtype.kind == "f":
        faults.add(
            f"the column {column!r} holds decimals; grades are whole numbers: convert it to an integer type "
            "(a null among integers makes decimals of them)."
        )
        return np.zeros(len(table), dtype=np.int64)
    values = numbers.values.astype(np.int64)
    faults.add_rows(numbers.null, lambda _: no_grade(None) or "")
    beyond = ((values > MOST_GRADE) | (values < -MOST_GRADE)) & ~numbers.null
    faults.add_rows(beyond, lambda row: no_grade(int(values[row])) or "")
    return values
