"""Rows of (query, document, number) of every form, read, checked, and put together as qrels and runs."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from itertools import chain, count, pairwise
from numbers import Integral, Real
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ragtrial.dataset import qrels_text
from ragtrial.dataset.faults import Faults, shown
from ragtrial.dataset.json_places import fault_in, id_of, json_row, json_value
from ragtrial.dataset.qrels_text import Columns, Kind, Role, graded_rows, roles_of, whole_number
from ragtrial.errors import Fault, counted
from ragtrial.rankings import Counts, starts_of
from ragtrial.records import MOST_GRADE
from ragtrial.runs.lines import lines_of
from ragtrial.runs.qrels import Judgments, PackedIds, Qrels, Run
from ragtrial.runs.streams import Source, content_of, open_source, stem_of, text_of

_TUPLES: dict[Kind, tuple[Role, ...]] = {"run": ("query", "document", "score"), "qrels": ("query", "document", "grade")}


class Rows(NamedTuple):
    """Rows in any order, column by column as Python's values, None for null.

    ``role`` is the role of ``numbers``; these are None if the order of the rows is the ranking. ``asked`` has queries
    that come before those of the rows, and may have no rows.
    """

    queries: Sequence[object]
    documents: Sequence[object]
    numbers: Sequence[object] | None
    role: Role
    asked: Sequence[str] = ()


def read_rows(source: object, form: str | None, kind: Kind, columns: Columns | None, faults: Faults) -> Rows:
    """The rows of a file in ``form``, or of a Python object: a mapping, a table, a list.

    Raises the error of ``faults`` if they cannot be read.
    """
    if isinstance(source, str | Path):
        return _file_rows(source, form, kind, columns, faults)
    if hasattr(source, "__arrow_c_stream__") and (hasattr(source, "columns") or hasattr(source, "column_names")):
        return _table_rows(source, kind, columns, faults)
    if isinstance(source, Mapping):
        return _mapping_rows(source, kind, lambda _, message: Fault(faults.file, message=message), faults)
    if isinstance(source, Iterable) and not isinstance(source, bytes):
        return _listed_rows(list(source), kind, columns, faults)
    raise faults.fail("cannot be read; give a path, a mapping, a DataFrame, an Arrow table or a list of rows.")


def _file_rows(source: Source, form: str | None, kind: Kind, columns: Columns | None, faults: Faults) -> Rows:
    if form == "parquet":
        return _parquet_rows(source, kind, columns, faults)
    if form == "trec":
        return _trec_rows(source, faults)
    text = text_of(source, faults.error)
    if form == "csv":
        return _header_rows(text, kind, columns, faults)
    if form == "json":
        value = json_value(text, faults.file, faults.error, "qrels or a run")
        return _mapping_rows(value, kind, fault_in(text, faults.file), faults)
    if form == "jsonl":
        return _listed_rows(json_lines(text, faults), kind, columns, faults)
    return _beir_rows(text, columns, faults)


def json_lines(text: str, faults: Faults) -> list[dict[str, object]]:
    """The objects of a JSONL text; ``faults`` learns their lines. Raises its error for lines that are none."""
    rows: list[dict[str, object]] = []
    lines: list[int] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        row, message, column = json_row(line)
        if message:
            faults.add(message, number, column)
        rows.append(row)
        lines.append(number)
    faults.fault_of = lambda row, message: Fault(faults.file, lines[row], 0, message)
    faults.raise_any()
    return rows


def _mapping_rows(value: object, kind: Kind, fault_at: Callable[[tuple[Any, ...], str], Fault], faults: Faults) -> Rows:
    """Rows of ``{query: {document: number}}``, or ``{query: [document, ...]}``, best first."""
    role: Role = "grade" if kind == "qrels" else "score"
    if not isinstance(value, Mapping):
        raise faults.fail(f"must be an object in objects, {{query: {{document: {role}}}}}; found {shown(value)}.")
    if not value:
        raise faults.fail("has no queries.")
    has_numbers = any(isinstance(row, Mapping) for row in value.values())
    shape, what = (Mapping, "an object") if has_numbers else ((list, tuple), "a list")
    given: dict[str, Any] = {}
    for key, row in value.items():
        query = id_of(key)
        if query is None or query in given or not isinstance(row, shape):
            wanted = f"must be an id, come once, and have documents as {what}; found {shown(row)}."
            fault = fault_at((key,), f"query {key!r} {wanted}")
            faults.add(fault.message, fault.line, fault.column)
        else:
            given[query] = row
    queries = [query for query, row in given.items() for _ in row]
    documents = list(chain.from_iterable(given.values()))

    def fault_of(row: int, message: str) -> Fault:
        query, document = queries[row], documents[row]
        path = (query, document if has_numbers else row - queries.index(query))
        return fault_at(path, f"query {query!r}, document {shown(document)}: {message}")

    faults.fault_of = fault_of
    numbers = [number for row in given.values() for number in row.values()] if has_numbers else None
    return Rows(queries, documents, numbers, role, list(given))


def _listed_rows(rows: Sequence[Any], kind: Kind, columns: Columns | None, faults: Faults) -> Rows:
    """Rows that are objects, tuples or named tuples, all of them like the first."""
    if not rows:
        raise faults.fail("has no rows.")
    is_object = isinstance(rows[0], Mapping)
    names = list(map(str, rows[0])) if is_object else list(getattr(rows[0], "_fields", _TUPLES[kind]))
    chosen = roles_of(names, kind, columns, faults)
    keys = list(chosen.values()) if is_object else [names.index(name) for name in chosen.values()]
    wanted, like = set(keys), (f"keys {', '.join(chosen.values())}" if is_object else f"values ({', '.join(names)})")
    for number, row in enumerate(rows):
        if is_object:
            fits = isinstance(row, Mapping) and wanted <= row.keys()
        else:
            fits = isinstance(row, tuple | list) and len(row) == len(names)
        if not fits:
            faults.add_row(number, f"must have the {like}; found {shown(row)}.")
    faults.raise_any()
    queries, documents, numbers = ([row[key] for row in rows] for key in keys[:3])
    return Rows(queries, documents, numbers, list(chosen)[2])


def _table_rows(table: Any, kind: Kind, columns: Columns | None, faults: Faults) -> Rows:
    """Rows of a table of pandas, polars, Arrow, or any other that speaks Arrow's interface."""
    table, names = _named_columns(table)
    chosen = roles_of(names, kind, columns, faults)
    queries, documents, numbers = (_values(table, names, name) for name in list(chosen.values())[:3])
    if not queries:
        raise faults.fail("has no rows.")
    return Rows(queries, documents, numbers, list(chosen)[2])


def _named_columns(table: Any) -> tuple[Any, list[str]]:
    """A table whose columns can be read, and their names."""
    if not (hasattr(table, "iloc") or hasattr(table, "get_column") or hasattr(table, "column_names")):
        import pyarrow as pa

        table = pa.table(table)
    return table, list(map(str, table.column_names if hasattr(table, "column_names") else table.columns))


def table_columns(table: Any) -> dict[str, list[object]]:
    """All columns of a table of pandas, polars, Arrow, or any other that speaks Arrow's interface."""
    table, names = _named_columns(table)
    return {name: _values(table, names, name) for name in names}


def _values(table: Any, names: list[str], name: str) -> list[object]:
    if hasattr(table, "iloc"):
        series = table.iloc[:, names.index(name)]
        return list(series.astype(object).where(series.notna(), None))
    series = table[name]
    return list(series.to_list() if hasattr(series, "to_list") else series.to_pylist())


def _parquet_rows(source: Source, kind: Kind, columns: Columns | None, faults: Faults) -> Rows:
    from ragtrial.dataset.foreign_files import parquet_table  # it needs pydantic, which other forms do without

    content, choose = content_of(source, faults.error), lambda names: roles_of(names, kind, columns, faults)
    return _table_rows(parquet_table(content, faults.file, faults.error, choose), kind, columns, faults)


def _beir_rows(text: str, columns: Columns | None, faults: Faults) -> Rows:
    """Rows of three columns, query, document and grade, or of the columns that a header names."""
    found: list[Fault] = []
    rows = list(graded_rows(text, faults.file, found, columns))
    for fault in found:
        faults.add(fault.message, fault.line, fault.column)
    if not rows and not found:
        raise faults.fail("has no judgments.")
    faults.fault_of = lambda row, message: Fault(faults.file, rows[row].line, 0, message)
    return Rows([row.query for row in rows], [row.document for row in rows], [row.grade for row in rows], "grade")


def _header_rows(text: str, kind: Kind, columns: Columns | None, faults: Faults) -> Rows:
    """Rows below a header, whose fields are between tabs, commas, semicolons or white space, as in the header."""
    lines = qrels_text.numbered_lines(text)
    signs = (sign for sign in "\t,;" if sign in lines[0][1])
    sign = qrels_text.header_sign(lines[0][1], columns, kind) or next(signs, " ")
    rows = [(number, record) for number, record in _records(lines, sign) if any(record)]
    names = rows.pop(0)[1]
    chosen = roles_of(names, kind, columns, faults)
    for number, record in rows:
        if len(record) != len(names):
            faults.add(f"must be {counted(len(names), 'field')}, as the header has; found {len(record)}.", number)
    if not rows:
        raise faults.fail("has a header and no rows.")
    faults.raise_any()
    faults.fault_of = lambda row, message: Fault(faults.file, rows[row][0], 0, message)
    queries, documents, numbers = ([record[names.index(name)] for _, record in rows] for name in chosen.values())
    return Rows(queries, documents, [_number_in(field, sign) for field in numbers], list(chosen)[2])


def _records(lines: Sequence[tuple[int, str]], sign: str) -> Iterator[tuple[int, list[str]]]:
    """The fields of each row, with the number of its first line; quoted fields may have several lines."""
    texts = [line for _, line in lines]
    reader = csv.reader(texts, delimiter=sign)
    at = 0
    for record in map(str.split, texts) if sign == " " else reader:
        yield lines[at][0], [field.strip() for field in record]
        at = at + 1 if sign == " " else reader.line_num


def _number_in(field: str, sign: str) -> object:
    """The number that a field spells, between semicolons with a decimal comma; the field if it spells none."""
    try:
        return float(field.replace(",", ".") if sign == ";" else field)
    except ValueError:
        return field


def _trec_rows(source: Source, faults: Faults) -> Rows:
    """Rows of four columns: query, iteration, document, grade. Bytes that are no UTF-8 survive as surrogates."""
    rows: list[tuple[int, str, str, int]] = []
    with open_source(source, faults.error) as stream:
        for line, fields in lines_of(stream):
            if len(fields) != 4:
                wanted = "qrels have 4: query, iteration, document, grade, with white space between"
                faults.add(f"has {counted(len(fields), 'column')}; {wanted}.", line + 1)
                continue
            query, _, document, written = (field.decode("utf-8", "surrogateescape") for field in fields)
            grade = whole_number(written)
            if grade is None or len(written) > 18:
                faults.add(f"the grade {shown(fields[3])} must be a whole number, such as 1.", line + 1)
            else:
                rows.append((line + 1, query, document, grade))
    if not rows and not faults.count:
        raise faults.fail("has no judgments; qrels have at least one.")
    faults.fault_of = lambda row, message: Fault(faults.file, rows[row][0], 0, message)
    return Rows([row[1] for row in rows], [row[2] for row in rows], [row[3] for row in rows], "grade")


def prediction_runs(source: Source, name: str | None, faults: Faults) -> list[Run]:
    """The runs in a file of MTEB's predictions, ``{subset: {split: {query: {document: score}}}}``, in their order.

    A single run is called ``name``, by default as the model; several are called ``name:subset/split``.
    """
    text = text_of(source, faults.error)
    value, fault_at = json_value(text, faults.file, faults.error, "predictions"), fault_in(text, faults.file)
    subsets = dict(value) if isinstance(value, dict) else {}
    meta = subsets.pop("mteb_model_meta", None)
    model = meta.get("model_name") if isinstance(meta, dict) else None
    own = name or (model if isinstance(model, str) and model else stem_of(source))
    places = [(subset, split) for subset, splits in subsets.items() if isinstance(splits, dict) for split in splits]
    if not places:
        raise faults.fail("has no predictions; MTEB writes them as {subset: {split: {query: {document: score}}}}.")

    def run_at(place: tuple[str, str]) -> Run:
        ranked, where, part = subsets[place[0]][place[1]], "/".join(place), Faults(faults.file, faults.error)
        rows = _mapping_rows(ranked, "run", lambda path, message: fault_at((*place, *path), message), part)
        return run_of(f"{own}:{where}" if len(places) > 1 else own, rows, part)

    return list(map(run_at, places))


Ranked = Mapping[str, Sequence[tuple[str, float | None]]]
"""The documents of each query, best first, with their scores where they are known."""


def qrels_of(rows: Rows, faults: Faults) -> Qrels:
    """Qrels of rows, equal rows once. Raises the error of ``faults`` with all faults."""
    known = faults.count
    queries, documents = _ids(rows.queries, "query", faults), _ids(rows.documents, "document", faults)
    can_compare = faults.count == known
    grades = np.ones(len(queries)) if rows.numbers is None else _numbers(rows.numbers, "grade", faults)
    repeated = _repeated(queries, documents, grades.tolist(), faults) if can_compare else []
    kept = np.delete(np.arange(len(queries)), repeated)
    names, starts, order = _grouped([queries[row] for row in kept], rows.asked, faults)
    judgments = Judgments(starts, grades[kept][order].astype(np.int32), np.zeros(len(names), dtype=np.bool_))
    ids = _packed([documents[row] for row in kept[order].tolist()], "document", faults)
    return Qrels(names, ids, judgments, repeated=len(repeated))


def _repeated(queries: Sequence[str], documents: Sequence[str], grades: Sequence[float], faults: Faults) -> list[int]:
    """The rows that repeat an earlier one; a fault for each that gives its pair another grade."""
    first: dict[tuple[str, str], int] = {}
    repeated: list[int] = []
    for row, pair in enumerate(zip(queries, documents, strict=True)):
        earlier = first.setdefault(pair, row)
        if earlier != row and grades[earlier] == grades[row]:
            repeated.append(row)
        elif earlier != row:
            line = faults.fault_of(earlier, "").line
            where = f"line {line}" if line else f"row {earlier}"
            message = f"judges document {pair[1]!r} for query {pair[0]!r}, as {where} does; give each pair one grade."
            faults.add_row(row, message)
    return repeated


def run_of(name: str, rows: Rows, faults: Faults) -> Run:
    """A run of rows, which stay in their order within each query. Raises the error of ``faults`` as ``qrels_of``."""
    values = None if rows.numbers is None else _numbers(rows.numbers, rows.role, faults)
    queries, documents = _ids(rows.queries, "query", faults), _ids(rows.documents, "document", faults)
    names, starts, order = _grouped(queries, rows.asked, faults)
    ids = _packed([documents[row] for row in order.tolist()], "document", faults)
    return Run(name, names, starts, ids, None if values is None else values[order], by_rank=rows.role == "rank")


def ranked_run(name: str, ranked: Ranked, faults: Faults) -> Run:
    """A run that is in order. Its scores are the values only if all are known, and none is above the one before."""
    scores = [[score for _, score in hits if score is not None] for hits in ranked.values()]
    known = all(
        len(own) == len(hits) and all(later <= earlier for earlier, later in pairwise(own))
        for own, hits in zip(scores, ranked.values(), strict=True)
    )
    documents = [document for hits in ranked.values() for document, _ in hits]
    starts = np.cumsum([0, *map(len, ranked.values())], dtype=np.int64)
    values = np.array(list(chain.from_iterable(scores)), dtype=np.float64) if known else None
    _packed(list(ranked), "query", faults)
    return Run(name, tuple(ranked), starts, _packed(documents, "document", faults), values)


def distinct(names: Sequence[str]) -> list[str]:
    """The names, with a number added to a name that repeats an earlier one."""
    known: list[str] = []
    for name in names:
        candidates = chain([name], (f"{name}-{number}" for number in count(2)))
        known.append(next(candidate for candidate in candidates if candidate not in known))
    return known


def _grouped(queries: Sequence[str], asked: Sequence[str], faults: Faults) -> tuple[tuple[str, ...], Counts, Counts]:
    """The distinct queries, first those in ``asked``; the first row of each; and the order that groups the rows.

    Raises all faults.
    """
    faults.raise_any()
    codes = {name: code for code, name in enumerate(asked)}
    column = np.fromiter((codes.setdefault(name, len(codes)) for name in queries), np.int64, len(queries))
    _packed(list(codes), "query", faults)
    return tuple(codes), starts_of(column, len(codes)), np.argsort(column, kind="stable")


def _packed(ids: Sequence[str], role: str, faults: Faults) -> PackedIds:
    try:
        return PackedIds.of(ids)
    except UnicodeEncodeError as failure:
        message = f"the {role} {failure.object!r} has half of a surrogate pair; no text can be written with it."
        raise faults.fail(message) from None


def _ids(values: Sequence[object], role: str, faults: Faults) -> list[str]:
    """The id of each row, empty for a value that is none, which is a fault."""
    if set(map(type, values)) <= {str} and all(values):
        return list(values)  # type: ignore[arg-type]
    ids = []
    for row, value in enumerate(values):
        name = id_of(value)
        if not name:
            what = "empty" if name == "" else shown(value)
            faults.add_row(row, f"the {role} is {what}; an id is a string or a whole number.")
        ids.append(name or "")
    return ids


def _numbers(values: Sequence[object], role: Role, faults: Faults) -> npt.NDArray[np.float64]:
    """The number of each row, 0 for a value that is none, which is a fault."""
    if set(map(type, values)) <= ({int} if role == "grade" else {int, float}):
        with suppress(OverflowError):
            numbers = np.array(values, dtype=np.float64)
            if not (np.isnan(numbers).any() or (role == "grade" and np.abs(numbers).max(initial=0) > MOST_GRADE)):
                return numbers
    made = np.zeros(len(values))
    for row, value in enumerate(values):
        wrong = number_problem(value, role)
        if wrong:
            faults.add_row(row, wrong)
        else:
            made[row] = float(value)  # type: ignore[arg-type]
    return made


def number_problem(value: object, role: Role) -> str | None:
    """The fault of a score, a rank or a grade; None if it has none."""
    is_number = isinstance(value, Real | Decimal) and not isinstance(value, bool | np.bool_)
    with suppress(OverflowError, ValueError):  # too large, or a NaN that signals
        if is_number and role != "grade" and not math.isnan(float(value)):  # type: ignore[arg-type]
            return None
    if role != "grade" or not is_number:
        return f"the {role} {shown(value)} is no number, or none of 64 bits."
    if not (isinstance(value, Integral) or float(value).is_integer()):  # type: ignore[arg-type]
        return f"the grade {shown(value)} must be a whole number, such as 1."
    return f"the grade {shown(value)} is beyond {MOST_GRADE:,}; is it one?" if abs(int(value)) > MOST_GRADE else None  # type: ignore[call-overload]
