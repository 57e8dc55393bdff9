"""The file that another tool wrote, as values with places: JSON, JSON lines or CSV."""

from __future__ import annotations

import ast
import csv
import io
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ragtrial.dataset.documents import json_rows
from ragtrial.dataset.json_places import Place, json_value, places
from ragtrial.dataset.qrels_text import whole_number
from ragtrial.dataset.texts import decoded, is_western, marked_encoding, read_bytes
from ragtrial.errors import Fault, LabelsError, listed
from ragtrial.labelling.importers import foreign
from ragtrial.options import dotted, shown
from ragtrial.records import MOST_GRADE

MOST_FAULTS = 20
_LOOKED_AT = 20  # rows
_DELIMITERS = ",;\t"
_SPREADSHEETS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods", ".numbers")
_SEPARATOR_LINE = re.compile(r"sep=(.)\r?\n", re.IGNORECASE)
_NO_DELIMITER = "\x1f"
_LONGEST_CELL = 2**31 - 1


@dataclass
class Content:
    """What a file holds: one JSON value, or rows with the ``lines`` on which they begin.

    What readers find wrong is noted with its place, and raised at once by ``check``.
    """

    file: str
    value: object
    text: str = ""
    lines: Sequence[int] = ()
    is_csv: bool = False
    _faults: list[tuple[foreign.Path, str]] = field(default_factory=list)
    _places: dict[foreign.Path, Place] = field(default_factory=dict)

    @property
    def rows(self) -> list[object]:
        """The value, if it is a list; else nothing."""
        return self.value if isinstance(self.value, list) else []

    @property
    def keys(self) -> set[str]:
        """The keys of the first rows, by which rows are recognised."""
        return {str(key) for row in self.rows[:_LOOKED_AT] if isinstance(row, Mapping) for key in row}

    def fault(self, where: foreign.Path, message: str) -> None:
        """Note that something is wrong there. ``message`` goes on from the name of the value."""
        self._faults.append((where, f"{self.called(where)} {message}"))

    def called(self, where: foreign.Path) -> str:
        """``queries[3].text``; in rows that stand on lines of their own what the row calls it."""
        if self.lines and where:
            return dotted(where[1:]) or "the row"
        return dotted(where) or "the file"

    def fault_at(self, where: foreign.Path, message: str) -> Fault:
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
        """Raise LabelsError with everything that was noted, if anything was."""
        if self._faults:
            rest = len(self._faults) - MOST_FAULTS
            more = [Fault(self.file, message=f"and {rest:,} more faults like these.")] if rest > 0 else []
            found = sorted(self.fault_at(*fault) for fault in self._faults)
            raise LabelsError(*found[:MOST_FAULTS], *more)

    def seen(self) -> str:
        """What the file is, for a message that nothing fits it."""
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


def _keys(rows: Sequence[object]) -> list[str]:
    first = rows[0] if rows else {}
    return [str(key) for key in first] if isinstance(first, Mapping) else []


def _with_keys(value: Mapping[str, object]) -> str:
    return f"the keys {listed(value)}" if value else "no keys"


class ContentRow:
    """An object of a file, read value by value; what is wrong is noted in the file's ``Content``."""

    def __init__(self, content: Content, where: foreign.Path, value: object, what: str) -> None:
        self.content = content
        self.where = where
        self.is_object = isinstance(value, Mapping)
        self.values: Mapping[str, object] = value if isinstance(value, Mapping) else {}
        if not self.is_object:
            content.fault(where, f"is {shown(value)}; it must be {what}.")

    def first(self, names: Sequence[str]) -> str | None:
        """Which of ``names`` has a value here."""
        return next((name for name in names if self.values.get(name) is not None), None)

    def is_blank(self, names: Sequence[str]) -> bool:
        """Whether one of ``names`` is here, and none of them holds more than white space."""
        found = [self.values[name] for name in names if name in self.values]
        return bool(found) and all(value is None or (isinstance(value, str) and not value.strip()) for value in found)

    def text(self, *names: str, needed: bool = True) -> str:
        """The text under the first of ``names`` that is there; empty, and a fault if it is needed, without any."""
        name = self.first(names)
        if name is None:
            if needed and self.is_object:
                self._missing(names)
            return ""
        value = self.values[name]
        if not isinstance(value, str):
            self.content.fault((*self.where, name), f"is {shown(value)}; it must be a text.")
            return ""
        if needed and not value.strip():
            self.content.fault((*self.where, name), "is empty.")
        return value

    def name(self, *names: str, needed: bool = False) -> str:
        """An id, which may be a number; empty without one."""
        name = self.first(names)
        if name is None:
            if needed and self.is_object:
                self._missing(names)
            return ""
        value = self.values[name]
        if isinstance(value, bool) or not isinstance(value, str | int):
            self.content.fault((*self.where, name), f"is {shown(value)}; it must be a text or a whole number.")
            return ""
        return str(value)

    def whole(self, name: str) -> int | None:
        """A whole number, or None where there is none; in CSV its digits."""
        value = self.values.get(name)
        number = whole_number(value) if isinstance(value, str) and self.content.is_csv else value
        if isinstance(number, float) and number.is_integer():
            number = int(number)
        if value is not None and (isinstance(number, bool) or not isinstance(number, int)):
            self.content.fault((*self.where, name), f"is {shown(value)}; it must be a whole number.")
            return None
        return number if isinstance(number, int) else None

    def items(self, *names: str, needed: bool = True) -> list[tuple[foreign.Path, object]]:
        """The values of a list, each with its place; in CSV the list is written as JSON."""
        name = self.first(names)
        if name is None:
            if needed and self.is_object:
                self._missing(names)
            return []
        value = self.values[name]
        if self.content.is_csv and isinstance(value, str):
            written, value = value, cell_value(value)
            if value is None:
                self.content.fault((*self.where, name), f"is {shown(written)}; it must be a list in JSON.")
                return []
        if not isinstance(value, list):
            self.content.fault((*self.where, name), f"is {shown(value)}; it must be a list.")
            return []
        return [((*self.where, name, position), one) for position, one in enumerate(value)]

    def rows(self, *names: str, what: str = "an object", needed: bool = True) -> list[ContentRow]:
        """The objects of a list."""
        return [ContentRow(self.content, where, one, what) for where, one in self.items(*names, needed=needed)]

    def texts(self, name: str) -> tuple[str, ...]:
        """The texts of a list that need not be there."""
        found = []
        for where, one in self.items(name, needed=False):
            if isinstance(one, str):
                found.append(one)
            else:
                self.content.fault(where, f"is {shown(one)}; it must be a text.")
        return tuple(found)

    def grade(self) -> int:
        """The relevance that is given, else 1."""
        grade = self.whole("relevance")
        if grade is not None and abs(grade) > MOST_GRADE:
            self.content.fault((*self.where, "relevance"), f"is {grade}; it must be at most {MOST_GRADE:,}.")
        return 1 if grade is None else grade

    def _missing(self, names: Sequence[str]) -> None:
        wanted = names[0] if len(names) == 1 else f"one of {', '.join(names)}"
        self.content.fault(self.where, f"must have {wanted}; it has {listed(self.values) or 'nothing'}.")


def cell_value(cell: str) -> object:
    """The value that a cell of CSV spells, as JSON or as Python prints it; None if it spells none."""
    for read in (json.loads, ast.literal_eval):
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            return read(cell)
    return None


def read_content(path: Path) -> Content:
    """The values of a JSON, JSON lines or CSV file, by its content; ``.gz`` is unpacked.

    Raises LabelsError if there is no such file, if it is empty or not UTF-8, and with the place of what is not JSON.
    """
    if path.suffix.lower() in _SPREADSHEETS:
        message = (
            "is a spreadsheet; save it as CSV, with a header such as question,answer: in Excel by File > Save As > "
            "CSV UTF-8, in Google Sheets by File > Download, in LibreOffice by File > Save As > Text CSV."
        )
        raise LabelsError(Fault(str(path), message=message))
    content = read_bytes(path, LabelsError)
    is_json = content.lstrip()[:1] in (b"{", b"[")
    # Excel writes CSV in the encoding of Windows; what is not that is an error, as in any file.
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
    """Whether the first line that is not empty is a whole JSON object and not the last line."""
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
        rest = len(faults) - MOST_FAULTS
        more = [Fault(str(path), message=f"and {rest:,} more faults like these.")] if rest > 0 else []
        raise LabelsError(*faults[:MOST_FAULTS], *more)
    return Content(str(path), [row for _, row in numbered], lines=[number for number, _ in numbered])


def _opening(text: str) -> tuple[int, str]:
    """Where the header of CSV begins, and the sign between its columns; no sign that texts have if there is one alone.

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
                continue  # what spreadsheets leave of a row that was cleared
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
