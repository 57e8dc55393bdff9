"""Tables of scores as CSV, JSON, JSONL, Markdown and Parquet: full precision, written as a stream."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from ragtrial.cache.untrusted import for_csv, for_markdown
from ragtrial.errors import Fault, InputError
from ragtrial.runs.formats.output import Target, opened

Column = Sequence[object] | npt.NDArray[Any]
Row = Sequence[object]
TableForm = Literal["csv", "json", "jsonl", "md", "parquet"]

_FORMS: tuple[TableForm, ...] = get_args(TableForm)


def write_table(target: Target, columns: Mapping[str, Column], *, form: TableForm | None = None) -> None:
    """Write columns of one length, row by row, in the form that the name of ``target`` ends in (.csv, .json, .jsonl,
    .md, .parquet; all but the last also as .gz), or in ``form``; to ``-``, standard output, as CSV.

    Numbers are written in full. Texts are made harmless in CSV and Markdown (``for_csv``, ``for_markdown``), and are as
    they are elsewhere. None and NaN are an empty field in CSV (RFC 4180, UTF-8) and Markdown, null elsewhere. JSON is
    a list of objects, one a line. Raises InputError for a name that says no form and for what JSON or Parquet cannot
    hold, ValueError for columns of unequal length, RunError if the file cannot be written.
    """
    chosen = form or table_form(target)
    lengths = {len(column) for column in columns.values()}
    if len(lengths) > 1:
        raise ValueError(f"columns of {sorted(lengths)} rows are in no table")
    if chosen == "parquet":
        _write_parquet(target, columns)
        return
    with opened(target) as file:
        lines = _WRITERS[chosen](list(columns), zip(*map(_plain, columns.values()), strict=True))
        file.writelines(line.encode("utf-8", "surrogateescape") for line in lines)


def table_form(target: Target) -> TableForm:
    """The form that a name ends in. Raises InputError if it is none."""
    if str(target) == "-":
        return "csv"
    path = Path(target)
    suffix = (path.with_suffix("") if path.suffix == ".gz" else path).suffix.lower().removeprefix(".")
    for form in _FORMS:
        if suffix == form:
            return form
    endings = ", ".join(f".{form}" for form in _FORMS)
    raise InputError(Fault(str(target), message=f"ends in no form of table; it may end in {endings}."))


def _plain(column: Column) -> Iterator[object]:
    """Python's own values; None for NaN."""
    for value in column:
        plain = value.item() if isinstance(value, np.generic) else value
        yield None if isinstance(plain, float) and math.isnan(plain) else plain


def _csv_lines(names: Sequence[str], rows: Iterable[Row]) -> Iterator[str]:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    for row in chain([names], rows):
        writer.writerow([for_csv(value) if isinstance(value, str) else value for value in row])
        yield text.getvalue()
        text.seek(0)
        text.truncate()


def _json_lines(names: Sequence[str], rows: Iterable[Row]) -> Iterator[str]:
    yield "["
    begin = "\n"
    for line in _jsonl_lines(names, rows):
        yield begin + line.removesuffix("\n")
        begin = ",\n"
    yield "\n]\n" if begin != "\n" else "]\n"


def _jsonl_lines(names: Sequence[str], rows: Iterable[Row]) -> Iterator[str]:
    for row in rows:
        try:
            line = json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False, allow_nan=False)
        except ValueError as error:
            raise InputError("an infinite number cannot be written as JSON; write the table as CSV.") from error
        try:
            line.encode()
        except UnicodeEncodeError:  # bytes of an id that are no UTF-8 can only be escaped
            line = json.dumps(dict(zip(names, row, strict=True)))
        yield line + "\n"


def _markdown_lines(names: Sequence[str], rows: Iterable[Row]) -> Iterator[str]:
    listed = [["" if value is None else value for value in row] for row in rows]
    numeric = [any(isinstance(value, int | float) for value in column) for column in zip(*listed, strict=True)]
    rules = ["---:" if is_numeric else "---" for is_numeric in numeric] or ["---"] * len(names)
    yield f"| {' | '.join(map(for_markdown, names))} |\n|{'|'.join(rules)}|\n"
    for row in listed:
        yield f"| {' | '.join(for_markdown(value) if isinstance(value, str) else str(value) for value in row)} |\n"


def _write_parquet(target: Target, columns: Mapping[str, Column]) -> None:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        message = "needs a package that is not installed to be written as Parquet: pip install 'ragtrial[parquet]'."
        raise InputError(Fault(str(target), message=message)) from None
    try:
        arrays = {name: pa.array(list(_plain(column))) for name, column in columns.items()}
    except (pa.ArrowException, UnicodeEncodeError) as error:
        raise InputError(Fault(str(target), message=f"cannot be written as Parquet: {error}.")) from error
    with opened(target) as file:
        parquet.write_table(pa.table(arrays), file)


_WRITERS: dict[str, Callable[[Sequence[str], Iterable[Row]], Iterator[str]]] = {
    "csv": _csv_lines,
    "json": _json_lines,
    "jsonl": _jsonl_lines,
    "md": _markdown_lines,
}
