"""Tables of scores as CSV, JSON, JSONL, Markdown and Parquet: full precision, written as a stream."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import IO, Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from ragtrial.errors import Fault, InputError
from ragtrial.runs.formats.output import Target, opened

Column = Sequence[object] | npt.NDArray[Any]
TableForm = Literal["csv", "json", "jsonl", "md", "parquet"]

_FORMS: tuple[TableForm, ...] = get_args(TableForm)
_BLOCK = 20_000
_ESCAPED = str.maketrans({"|": r"\|", "\\": r"\\", "\n": " ", "\r": " "})
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
_NEEDS_ESCAPE = re.compile(r"[|\\\n\r]")

Block = list[list[object]]
"""Some rows, column by column, as Python's own values; None where there is nothing."""


def write_table(target: Target, columns: Mapping[str, Column], *, form: TableForm | None = None) -> None:
    """Write columns of one length, row by row, in the form that the name of ``target`` ends in (.csv, .json, .jsonl,
    .md, .parquet; all but the last also as .gz), or in ``form``; to ``-``, standard output, as CSV.

    Numbers are written in full. None and NaN are an empty field in CSV (RFC 4180, UTF-8) and Markdown, null elsewhere.
    JSON is a list of objects, one a line. Raises InputError for a name that says no form and for what JSON or Parquet
    cannot hold, ValueError for columns of unequal length, RunError if the file cannot be written.
    """
    chosen = form or table_form(target)
    lengths = {len(column) for column in columns.values()}
    if len(lengths) > 1:
        raise ValueError(f"columns of {sorted(lengths)} rows stand in no table")
    rows = lengths.pop() if lengths else 0
    if chosen == "parquet":
        _write_parquet(target, columns)
        return
    with opened(target) as file:
        _WRITERS[chosen](file, list(columns), _blocks(columns, rows))


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


def _blocks(columns: Mapping[str, Column], rows: int) -> Iterator[Block]:
    for first in range(0, rows, _BLOCK):
        yield [_plain(column[first : first + _BLOCK]) for column in columns.values()]


def _plain(values: Column) -> list[object]:
    listed = values.tolist() if isinstance(values, np.ndarray) else list(values)
    if isinstance(values, np.ndarray) and values.dtype.kind in "iubUTS":
        return listed
    if isinstance(values, np.ndarray) and values.dtype.kind == "f" and not np.isnan(values).any():
        return listed
    made: list[object] = [value.item() if isinstance(value, np.generic) else value for value in listed]
    return [None if isinstance(value, float) and math.isnan(value) else value for value in made]


def _write_csv(file: IO[bytes], names: Sequence[str], blocks: Iterator[Block]) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(names)
    for block in blocks:
        # A row of one empty field would be an empty line; the writer quotes it.
        writer.writerows(zip(*block, strict=True))
        file.write(_encoded(text.getvalue()))
        text.seek(0)
        text.truncate()
    file.write(_encoded(text.getvalue()))


def _write_json(file: IO[bytes], names: Sequence[str], blocks: Iterator[Block]) -> None:
    begin = "["
    for lines in _json_lines(names, blocks):
        file.write((begin + "\n" + ",\n".join(lines)).encode())
        begin = ","
    file.write(b"\n]\n" if begin == "," else b"[]\n")


def _write_jsonl(file: IO[bytes], names: Sequence[str], blocks: Iterator[Block]) -> None:
    for lines in _json_lines(names, blocks):
        file.write(("\n".join(lines) + "\n").encode())


def _json_lines(names: Sequence[str], blocks: Iterator[Block]) -> Iterator[list[str]]:
    """The objects of each block."""
    for block in blocks:
        try:
            yield [_json(dict(zip(names, row, strict=True))) for row in zip(*block, strict=True)]
        except ValueError as error:
            raise InputError("an infinite number cannot be written as JSON; write the table as CSV.") from error


def _json(row: Mapping[str, object]) -> str:
    text = _ENCODER.encode(row)
    try:
        text.encode()
    except UnicodeEncodeError:  # bytes of an id that are no UTF-8 can only be escaped
        return json.dumps(row)
    return text


def _write_markdown(file: IO[bytes], names: Sequence[str], blocks: Iterator[Block]) -> None:
    first: Block = next(blocks, [[] for _ in names])
    rules = ["---:" if any(isinstance(value, int | float) for value in column) else "---" for column in first]
    file.write(_encoded(f"| {' | '.join(name.translate(_ESCAPED) for name in names)} |\n|{'|'.join(rules)}|\n"))
    for block in chain([first], blocks):
        cells = map(_cells, block)
        file.write(_encoded("".join(f"| {' | '.join(row)} |\n" for row in zip(*cells, strict=True))))


def _cells(column: list[object]) -> list[str]:
    texts = ["" if value is None else str(value) for value in column]
    return [text.translate(_ESCAPED) for text in texts] if _NEEDS_ESCAPE.search("".join(texts)) else texts


def _write_parquet(target: Target, columns: Mapping[str, Column]) -> None:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        message = "needs a package that is not installed to be written as Parquet: pip install 'ragtrial[parquet]'."
        raise InputError(Fault(str(target), message=message)) from None
    try:
        arrays = {name: pa.array(_for_arrow(column), from_pandas=True) for name, column in columns.items()}
    except (pa.ArrowException, UnicodeEncodeError) as error:
        raise InputError(Fault(str(target), message=f"cannot be written as Parquet: {error}.")) from error
    with opened(target) as file:
        parquet.write_table(pa.table(arrays), file)


def _for_arrow(column: Column) -> Any:
    return column if isinstance(column, np.ndarray) else list(column)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


_WRITERS: dict[str, Callable[[IO[bytes], Sequence[str], Iterator[Block]], None]] = {
    "csv": _write_csv,
    "json": _write_json,
    "jsonl": _write_jsonl,
    "md": _write_markdown,
}
