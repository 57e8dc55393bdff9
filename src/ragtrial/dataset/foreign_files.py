"""The file of another tool: its one JSON value, or the rows of JSON, JSON lines, CSV or Parquet, with their places."""

from __future__ import annotations

import ast
import csv
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, model_validator

from ragtrial.dataset.documents import json_rows
from ragtrial.dataset.faults import truncated
from ragtrial.dataset.json_places import fault_in, json_value
from ragtrial.dataset.qrels_text import SEPARATOR_LINE
from ragtrial.dataset.texts import decoded, is_spreadsheet, is_western, read_bytes, spreadsheet_fault
from ragtrial.errors import Fault, InputError, listed
from ragtrial.options import FieldPath, dotted, shown, validate
from ragtrial.registry import Registry

M = TypeVar("M", bound=BaseModel)

_LOOKED_AT = 20  # rows
_DELIMITERS = {",": "a comma", ";": "a semicolon", "\t": "a tab"}
_CLEARED = re.compile(r"(?:[ \t,;]*(?:\r\n|\r|\n))*")
"""Rows that were cleared in a spreadsheet, above the header."""
_QUESTION_MARKS = ("?", "\uff1f", "\u061f", "\u037e", "\u055e", "\u1367")
"""The marks that end a question in Latin, Chinese and Japanese, Arabic, Greek, Armenian and Ethiopic."""
_NO_DELIMITER = "\x1f"
_LONGEST_CELL = 2**31 - 1


R = TypeVar("R")


@dataclass(frozen=True)
class FileForm(Generic[R]):
    """The reader of one form of files. ``recognised_by`` describes for messages which files ``can_read`` accepts.

    A form that ``is_general`` is tried after all others, since files of other tools may have its columns.
    """

    name: str
    recognised_by: str
    can_read: Callable[[Content], object]
    read: R
    is_general: bool = False


F = TypeVar("F", bound=FileForm[Any])


def recognised(forms: Registry[F], content: Content) -> F | None:
    """The first of the forms that can read the content; None if there is none."""
    return next((form for form in _by_specificity(forms) if form.can_read(content)), None)


def tried(forms: Registry[F]) -> str:
    """The names and marks of all forms, for a message."""
    return "; ".join(f"{form.name} ({form.recognised_by})" for form in _by_specificity(forms))


def _by_specificity(forms: Registry[F]) -> list[F]:
    return sorted((form for _, form in forms.members()), key=lambda form: form.is_general)


def key_of(name: object) -> str:
    """A name of a key or a column in small letters, with underscores between words."""
    return re.sub(r"[\s-]+", "_", str(name).strip().lower())


def cell_value(cell: object) -> object:
    """The list or object that a cell of CSV contains, as JSON or as Python prints it; else the cell itself."""
    if isinstance(cell, str) and cell[:1] in ("[", "{"):
        for read in (json.loads, ast.literal_eval):
            with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
                return read(cell)
    return cell


class Foreign(BaseModel):
    """An object in the file of another tool: unknown keys are ignored, and null counts as a missing key."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, value: Any) -> Any:
        return {key: item for key, item in value.items() if item is not None} if isinstance(value, Mapping) else value


@dataclass
class Content:
    """The content of a file: one JSON value, or the value ``under`` a key, or rows with ``lines`` on which they begin.

    ``sign`` is between the cells of CSV. ``prompt`` is that of the labels, if they have one. ``unused`` are the columns
    that nothing is read from. Faults are collected with their places, and raised together by ``check`` as an ``error``.
    """

    file: str
    value: object
    error: type[InputError]
    text: str = ""
    lines: Sequence[int] = ()
    under: FieldPath = ()
    form: Literal["JSON", "CSV", "Parquet"] = "JSON"
    sign: str = ""
    prompt: str | None = None
    unused: dict[str, None] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)

    @property
    def rows(self) -> list[object]:
        """The value, if it is a list; else nothing."""
        return self.value if isinstance(self.value, list) else []

    @property
    def keys(self) -> set[str]:
        """The keys of the first rows as ``key_of`` spells them, by which rows are recognised."""
        return {key_of(key) for row in self.rows[:_LOOKED_AT] if isinstance(row, Mapping) for key in row}

    def read(self, model: type[M], value: object, where: FieldPath = ()) -> M | None:
        """The value as a ``model``; None, and all its faults noted, if it is not one."""

        def placed(path: FieldPath, message: str) -> Fault:
            keys = value if isinstance(value, Mapping) and self.form != "CSV" else {}
            if path and keys.get(path[0], "") is None:
                message = message.replace("is missing", "is null", 1)
            return self.fault_at((*where, *path), message)

        try:
            return validate(model, value, self.error, placed)
        except self.error as error:
            self.faults += error.faults
            return None

    def read_rows(self, model: type[M], *under: str) -> Iterator[tuple[FieldPath, M]]:
        """The valid rows of the list in the file, or ``under`` these keys, each with its place."""
        rows = self.value
        for key in under:
            rows = rows.get(key) if isinstance(rows, Mapping) else None
        if not isinstance(rows, list):
            self.fault(under, "must be a list of rows, JSON lines or CSV.")
            return
        for position, value in enumerate(rows):
            row = self.read(model, value, (*under, position))
            if row is not None:
                yield (*under, position), row

    def fault(self, where: FieldPath, message: str) -> None:
        """Note a fault of the value there. ``message`` follows the name of the value."""
        self.faults.append(self.fault_at(where, f"{self.called(where)} {message}"))

    def called(self, where: FieldPath) -> str:
        """The name of a value, ``queries[3].text``; rows with their own lines are not numbered."""
        if self.lines and where:
            return dotted(where[1:]) or "the row"
        return dotted((*self.under, *where)) or "the file"

    @property
    def within(self) -> Content | None:
        """The rows under the only key of an object that has a list of rows."""
        members = self.value.items() if isinstance(self.value, Mapping) else ()
        lists = [(str(key), rows) for key, rows in members if isinstance(rows, list) and rows]
        tables = [(key, rows) for key, rows in lists if all(isinstance(row, Mapping) for row in rows)]
        return replace(self, value=tables[0][1], under=(tables[0][0],), faults=[]) if len(tables) == 1 else None

    @cached_property
    def _in_text(self) -> Callable[[FieldPath, str], Fault]:
        return fault_in(self.text, self.file)

    def fault_at(self, where: FieldPath, message: str) -> Fault:
        """``message`` with the line and the column of the value."""
        if not self.lines:
            return self._in_text((*self.under, *where), message)
        position = where[0] if where else 0
        return Fault(self.file, self.lines[position] if isinstance(position, int) else 0, 0, message)

    def check(self) -> None:
        """Raise ``error`` with all faults, if there are any."""
        if self.faults:
            raise self.error(*truncated(sorted(self.faults), self.file))

    def seen(self) -> str:
        """The shape of the file, for a message that no format fits."""
        first = self.rows[0] if self.rows else self.value
        if not isinstance(first, Mapping):
            return f"JSON that holds {shown(self.value)}"
        what = "a JSON list, the first with the keys" if self.rows else "a JSON object with the keys"
        if self.lines:
            what = "JSON lines with the keys" if self.form == "JSON" else f"{self.form} with the columns"
        return f"{what} {listed(map(str, first)) or '(none)'}"


def read_content(
    path: Path, error: type[InputError], header: str = "question,answer", *, keeps_case: bool = False
) -> Content:
    """The values of a JSON, JSON lines, CSV or Parquet file; ``.gz`` is unpacked.

    ``header`` is an example for the message about a spreadsheet. Names of columns of CSV become small letters, unless
    ``keeps_case``. Raises ``error`` for a file that is missing, empty, not UTF-8 or not JSON.
    """
    content = b"" if is_spreadsheet(path.name) else read_bytes(path, error)
    if is_spreadsheet(path.name, content):
        raise error(spreadsheet_fault(str(path), header))
    if content.startswith(b"PAR1"):
        rows = parquet_table(content, str(path), error).to_pylist()  # whose numbers take the place of lines
        return Content(str(path), rows, error, lines=range(1, len(rows) + 1), form="Parquet")
    try:
        text = decoded(content, path, error)
    except error:
        # Excel writes CSV in the encoding of Windows.
        if content.lstrip()[:1] in (b"{", b"[") or b"\0" in content or not is_western(content):
            raise
        text = content.decode("cp1252")
    if not text.strip():
        raise error(Fault(str(path), message="is empty."))
    if text.lstrip()[0] not in "{[":
        return _csv(path, text, error, keeps_case=keeps_case)
    if not _is_lines(text):
        return Content(str(path), json_value(text, str(path), error, "such a file"), error, text)
    faults: list[Fault] = []
    numbered = list(json_rows(path, faults))
    error.raise_any(truncated(faults, str(path)))
    return Content(str(path), [row for _, row in numbered], error, lines=[number for number, _ in numbered])


def parquet_table(
    content: bytes, file: str, error: type[InputError], choose: Callable[[list[str]], Mapping[Any, str]] | None = None
) -> Any:
    """The Arrow table in a Parquet file: the columns that ``choose`` gives of their names, or all.

    Raises ``error``, also if pyarrow is not installed.
    """
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        message = "needs a package that is not installed to be read as Parquet: pip install 'ragtrial[parquet]'."
        raise error(Fault(file, message=message)) from None
    try:
        table = parquet.ParquetFile(pa.BufferReader(content))
        return table.read(columns=list(choose(table.schema_arrow.names).values()) if choose else None)
    except (pa.ArrowException, OSError) as failure:
        reason = str(failure).partition("\n")[0].rstrip(".")
        raise error(Fault(file, message=f"is no Parquet file, or a damaged one: {reason}.")) from None


def _is_lines(text: str) -> bool:
    """True if the first line is a JSON object, and others follow."""
    line, _, rest = text.lstrip().partition("\n")
    with suppress(ValueError, RecursionError):
        return bool(rest.strip()) and isinstance(json.loads(line), dict)
    return False


def _are_questions(first: str, others: Sequence[str]) -> bool:
    """True if the first line is a question instead of a header, as most of the others are: then each line is one."""
    lines = [line.rstrip().endswith(_QUESTION_MARKS) for line in (first, *others) if line.strip()]
    return 2 * sum(lines) > len(lines) and lines[0]


def _csv(path: Path, text: str, error: type[InputError], *, keeps_case: bool) -> Content:
    """The rows of CSV with commas, semicolons or tabs; Excel may name the sign in a first line, ``sep=;``."""
    given = SEPARATOR_LINE.match(text)
    start = _CLEARED.match(text, given.end() if given else 0).end()  # type: ignore[union-attr]
    header, *below = text[start:].splitlines() or [""]
    usual = max(_DELIMITERS, key=header.count)
    has_header = not _are_questions(header, below)
    delimiter = given[1] if given else usual if usual in header and has_header else _NO_DELIMITER
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if has_header else csv.QUOTE_NONE
    limit = csv.field_size_limit(_LONGEST_CELL)
    rows: list[object] = []
    lines: list[int] = []
    faults: list[Fault] = []
    try:
        reader = csv.reader(io.StringIO(text[start:], newline=""), delimiter=delimiter, quoting=quoting, strict=True)
        header_cells = next(reader) if has_header else ["question"]
        names = [name.strip() if keeps_case else key_of(name) for name in header_cells]
        first_line = text.count("\n", 0, start) + 1
        if twice := listed(f"{name!r}" for name, count in Counter(filter(None, names)).items() if count > 1):
            message = f"has more than one column {twice}; which one counts is not known."
            faults.append(Fault(str(path), first_line, 0, message))
        line = reader.line_num
        for cells in reader:
            at, line = line + first_line, reader.line_num
            if not any(map(str.strip, cells)):
                continue  # a row that was cleared in a spreadsheet
            if any(map(str.strip, cells[len(names) :])):
                sign = _DELIMITERS.get(delimiter, repr(delimiter))
                beyond = f"has more cells than the header has columns ({len(names)})"
                message = f'{beyond}. Quote texts that contain {sign}: "...".'
                faults.append(Fault(str(path), at, 0, message))
            row = zip_longest(names, cells[: len(names)])
            rows.append({name: cell or None for name, cell in row if name})
            lines.append(at)
    except csv.Error as failure:
        faults.append(Fault(str(path), message=f"is neither JSON nor CSV: {failure}."))
    finally:
        csv.field_size_limit(limit)
    if not rows and not faults:
        begins = shown(text[start:].partition("\n")[0][:60])
        message = f"is not JSON, and as CSV has no row below its first line; it begins {begins}."
        faults.append(Fault(str(path), message=message))
    error.raise_any(truncated(faults, str(path)))
    return Content(str(path), rows, error, lines=lines, form="CSV", sign=delimiter)
