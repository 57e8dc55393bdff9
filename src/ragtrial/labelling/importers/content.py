"""The file that another tool wrote, as values with places: JSON, JSON lines or CSV; and the models to read them."""

from __future__ import annotations

import ast
import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from ragtrial.dataset.documents import json_rows
from ragtrial.dataset.json_places import Place, id_of, json_value, places
from ragtrial.dataset.qrels_text import whole_number
from ragtrial.dataset.texts import decoded, is_western, marked_encoding, read_bytes
from ragtrial.errors import Fault, LabelsError, listed
from ragtrial.options import FieldPath, dotted, shown, validate
from ragtrial.records import MOST_GRADE

M = TypeVar("M", bound=BaseModel)

MOST_FAULTS = 20
_LOOKED_AT = 20  # rows
_DELIMITERS = ",;\t"
_SPREADSHEETS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods", ".numbers")
_SEPARATOR_LINE = re.compile(r"sep=(.)\r?\n", re.IGNORECASE)
_NO_DELIMITER = "\x1f"
_LONGEST_CELL = 2**31 - 1


def cell_value(cell: object) -> object:
    """The list or object that a cell of CSV contains, as JSON or as Python prints it; else the cell itself."""
    if isinstance(cell, str) and cell[:1] in ("[", "{"):
        for read in (json.loads, ast.literal_eval):
            with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
                return read(cell)
    return cell


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("it is empty.")
    return text


def _name(value: object) -> object:
    """An id, which may be a number."""
    return value if (name := id_of(value)) is None else name


def _whole(value: object) -> object:
    """A whole number, written as 1.0 or as the digits of a cell, as an integer."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    number = whole_number(value) if isinstance(value, str) else None
    return value if number is None else number


Text = Annotated[str, AfterValidator(_not_blank)]
Name = Annotated[str, BeforeValidator(_name)]
Number = Annotated[int, BeforeValidator(_whole)]
Grade = Annotated[Number, Field(ge=-MOST_GRADE, le=MOST_GRADE)]
InCell = BeforeValidator(cell_value)


class Foreign(BaseModel):
    """An object in the file of another tool: unknown keys are ignored, and null counts as a missing key."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, value: Any) -> Any:
        return {key: item for key, item in value.items() if item is not None} if isinstance(value, Mapping) else value


@dataclass
class Content:
    """The content of a file: one JSON value, or rows with the ``lines`` on which they begin.

    Faults are collected with their places, and raised together by ``check``.
    """

    file: str
    value: object
    text: str = ""
    lines: Sequence[int] = ()
    is_csv: bool = False
    _faults: list[Fault] = field(default_factory=list)
    _places: dict[FieldPath, Place] = field(default_factory=dict)

    @property
    def rows(self) -> list[object]:
        """The value, if it is a list; else nothing."""
        return self.value if isinstance(self.value, list) else []

    @property
    def keys(self) -> set[str]:
        """The keys of the first rows, by which rows are recognised."""
        return {str(key) for row in self.rows[:_LOOKED_AT] if isinstance(row, Mapping) for key in row}

    @property
    def is_valid(self) -> bool:
        """True if no fault was noted."""
        return not self._faults

    def read(self, model: type[M], value: object, where: FieldPath = ()) -> M | None:
        """The value as a ``model``; None, and all its faults noted, if it is not one."""
        try:
            return validate(model, value, LabelsError, lambda path, message: self.fault_at((*where, *path), message))
        except LabelsError as error:
            self._faults += error.faults
            return None

    def read_rows(self, model: type[M]) -> Iterator[tuple[FieldPath, M]]:
        """The rows that are valid, each with its place."""
        if not isinstance(self.value, list):
            self.fault((), "must be a list of rows, JSON lines or CSV.")
        for position, value in enumerate(self.rows):
            row = self.read(model, value, (position,))
            if row is not None:
                yield (position,), row

    def fault(self, where: FieldPath, message: str) -> None:
        """Note a fault of the value there. ``message`` follows the name of the value."""
        self._faults.append(self.fault_at(where, f"{self.called(where)} {message}"))

    def called(self, where: FieldPath) -> str:
        """The name of a value, ``queries[3].text``; rows with their own lines are not numbered."""
        if self.lines and where:
            return dotted(where[1:]) or "the row"
        return dotted(where) or "the file"

    def fault_at(self, where: FieldPath, message: str) -> Fault:
        """``message`` with the line and the column of the value."""
        if self.lines:
            position = where[0] if where else 0
            return Fault(self.file, self.lines[position] if isinstance(position, int) else 0, 0, message)
        if not self._places:
            self._places.update(places(self.text))
        while where not in self._places:
            where = where[:-1]
        return Fault(self.file, *self._places[where], message)

    def check(self) -> None:
        """Raise LabelsError with all faults, if there are any."""
        if self._faults:
            raise LabelsError(*first_faults(sorted(self._faults), self.file))

    def seen(self) -> str:
        """The shape of the file, for a message that no format fits."""
        if self.is_csv:
            return f"CSV with the columns {listed(_keys(self.rows))}"
        if self.lines:
            return f"JSON lines with the keys {listed(_keys(self.rows))}"
        if isinstance(self.value, Mapping):
            return f"a JSON object with {_with_keys(self.value)}"
        if self.rows and isinstance(self.rows[0], Mapping):
            return f"a JSON list of objects, the first with {_with_keys(self.rows[0])}"
        if isinstance(self.value, list):
            return f"a JSON list of {'values that are no objects' if self.value else 'nothing'}"
        return f"the JSON value {shown(self.value)}"


def first_faults(faults: Sequence[Fault], file: str) -> list[Fault]:
    """The first faults, and the count of the others."""
    rest = len(faults) - MOST_FAULTS
    more = [Fault(file, message=f"and {rest:,} more faults like these.")] if rest > 0 else []
    return [*faults[:MOST_FAULTS], *more]


def _keys(rows: Sequence[object]) -> list[str]:
    first = rows[0] if rows else {}
    return [str(key) for key in first] if isinstance(first, Mapping) else []


def _with_keys(value: Mapping[str, object]) -> str:
    return f"the keys {listed(value)}" if value else "no keys"


def read_content(path: Path) -> Content:
    """The values of a JSON, JSON lines or CSV file; ``.gz`` is unpacked.

    Raises LabelsError for a file that is missing, empty, not UTF-8 or not JSON.
    """
    if path.suffix.lower() in _SPREADSHEETS:
        message = (
            "is a spreadsheet; save it as CSV, with a header such as question,answer: in Excel by File > Save As > "
            "CSV UTF-8, in Google Sheets by File > Download, in LibreOffice by File > Save As > Text CSV."
        )
        raise LabelsError(Fault(str(path), message=message))
    content = read_bytes(path, LabelsError)
    is_json = content.lstrip()[:1] in (b"{", b"[")
    # Excel writes CSV in the encoding of Windows.
    read_as = "cp1252" if not is_json and not _is_utf8(content) and is_western(content) else ""
    text = content.decode(read_as) if read_as else decoded(content, path, LabelsError)
    if not text.strip():
        raise LabelsError(Fault(str(path), message="is empty."))
    if text.lstrip()[0] not in "{[":
        return _csv(path, text)
    if _is_lines(text):
        return _json_lines(path)
    return Content(str(path), json_value(text, str(path), LabelsError, "labels"), text)


def _is_utf8(content: bytes) -> bool:
    with suppress(UnicodeDecodeError):
        content.decode("utf-8")
        return True
    return marked_encoding(content) != "utf-8"


def _is_lines(text: str) -> bool:
    """True if the first line is a JSON object, and others follow."""
    line, _, rest = text.lstrip().partition("\n")
    if not line.startswith("{") or not rest.strip():
        return False
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _json_lines(path: Path) -> Content:
    faults: list[Fault] = []
    numbered = list(json_rows(path, faults))
    if faults:
        raise LabelsError(*first_faults(faults, str(path)))
    return Content(str(path), [row for _, row in numbered], lines=[number for number, _ in numbered])


def _opening(text: str) -> tuple[int, str]:
    """The beginning of the header of CSV, and the sign between its columns; for one column a sign that no text has.

    Excel may write ``sep=;`` in a line before it.
    """
    given = _SEPARATOR_LINE.match(text)
    if given:
        return given.end(), given[1]
    start = len(text) - len(text.lstrip())
    header = text[start:].partition("\n")[0]
    sign = max(_DELIMITERS, key=header.count)
    return start, sign if sign in header else _NO_DELIMITER


def _csv(path: Path, text: str) -> Content:
    start, delimiter = _opening(text)
    text, first_line = text[start:], text.count("\n", 0, start)
    sign = {",": "a comma", ";": "a semicolon", "\t": "a tab"}.get(delimiter, repr(delimiter))
    limit = csv.field_size_limit(_LONGEST_CELL)
    rows: list[object] = []
    lines: list[int] = []
    faults: list[Fault] = []
    try:
        reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
        names = [name.strip().lower() for name in reader.fieldnames or ()]
        twice = listed(f"{name!r}" for name, count in Counter(filter(None, names)).items() if count > 1)
        if twice:
            message = f"has more than one column {twice}; which one counts is not known."
            faults.append(Fault(str(path), first_line + 1, 0, message))
        reader.fieldnames = names
        line = reader.line_num + first_line
        for row in reader:
            at, line = line + 1, reader.line_num + first_line
            beyond = "".join(row.pop(None, ())).strip()  # cells without a column
            if not beyond and not any(cell and cell.strip() for cell in row.values()):
                continue  # a row that was cleared in a spreadsheet
            if beyond:
                columns = f"the header has columns ({len(names)})"
                message = f'has more cells than {columns}. Quote texts that contain {sign}: "...".'
                faults.append(Fault(str(path), at, 0, message))
            rows.append({name: cell or None for name, cell in row.items() if name})
            lines.append(at)
    except csv.Error as failure:
        faults.append(Fault(str(path), message=f"is neither JSON nor CSV: {failure}."))
    finally:
        csv.field_size_limit(limit)
    if faults:
        raise LabelsError(*faults[:MOST_FAULTS])
    if not rows:
        begins = shown(text.partition("\n")[0][:60])
        message = f"is not JSON, and as CSV has no row below its first line; it begins {begins}."
        raise LabelsError(Fault(str(path), message=message))
    return Content(str(path), rows, lines=lines, is_csv=True)
