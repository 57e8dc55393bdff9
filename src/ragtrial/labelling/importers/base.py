"""Importers of labels: the file that another tool wrote, the models to read it, and the registry of the formats."""

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
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from ragtrial.dataset.documents import json_rows
from ragtrial.dataset.faults import truncated
from ragtrial.dataset.json_places import fault_in, id_of, json_value
from ragtrial.dataset.labels import Filled
from ragtrial.dataset.qrels_text import whole_number
from ragtrial.dataset.texts import decoded, is_unicode, is_western, read_bytes
from ragtrial.errors import Fault, LabelsError, listed
from ragtrial.options import FieldPath, dotted, shown, validate
from ragtrial.records import MOST_GRADE, UNANSWERABLE
from ragtrial.registry import Registry

M = TypeVar("M", bound=BaseModel)
Empty = Literal["unlabelled", "unanswerable"]

_LOOKED_AT = 20  # rows
_DELIMITERS = {",": "a comma", ";": "a semicolon", "\t": "a tab"}
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


def _name(value: object) -> object:
    """An id, which may be a number; a blank one counts as missing."""
    name = id_of(value)
    return value if name is None else name if name.strip() else ""


def _whole(value: object) -> object:
    """A whole number, written as 1.0 or as the digits of a cell, as an integer."""
    number = whole_number(str(value)) if isinstance(value, str | float) else None
    return value if number is None else number


Text = Filled
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

    ``prompt`` is that of the labels, if they have one. ``unused`` are the columns that nothing is read from. Faults are
    collected with their places, and raised together by ``check``.
    """

    file: str
    value: object
    text: str = ""
    lines: Sequence[int] = ()
    form: Literal["JSON", "CSV", "Parquet"] = "JSON"
    prompt: str | None = None
    unused: dict[str, None] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)

    @property
    def is_csv(self) -> bool:
        return self.form == "CSV"

    @property
    def rows(self) -> list[object]:
        """The value, if it is a list; else nothing."""
        return self.value if isinstance(self.value, list) else []

    @property
    def keys(self) -> set[str]:
        """The keys of the first rows, in small letters, by which rows are recognised."""
        return {str(key).strip().lower() for row in self.rows[:_LOOKED_AT] if isinstance(row, Mapping) for key in row}

    def read(self, model: type[M], value: object, where: FieldPath = ()) -> M | None:
        """The value as a ``model``; None, and all its faults noted, if it is not one."""
        try:
            return validate(model, value, LabelsError, lambda path, message: self.fault_at((*where, *path), message))
        except LabelsError as error:
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
        return dotted(where) or "the file"

    @cached_property
    def _in_text(self) -> Callable[[FieldPath, str], Fault]:
        return fault_in(self.text, self.file)

    def fault_at(self, where: FieldPath, message: str) -> Fault:
        """``message`` with the line and the column of the value."""
        if not self.lines:
            return self._in_text(where, message)
        position = where[0] if where else 0
        return Fault(self.file, self.lines[position] if isinstance(position, int) else 0, 0, message)

    def check(self) -> None:
        """Raise LabelsError with all faults, if there are any."""
        if self.faults:
            raise LabelsError(*truncated(sorted(self.faults), self.file))

    def seen(self) -> str:
        """The shape of the file, for a message that no format fits."""
        first = self.rows[0] if self.rows else self.value
        if not isinstance(first, Mapping):
            return f"JSON that holds {shown(self.value)}"
        what = "a JSON list, the first with the keys" if self.rows else "a JSON object with the keys"
        if self.lines:
            what = "JSON lines with the keys" if self.form == "JSON" else f"{self.form} with the columns"
        return f"{what} {listed(map(str, first)) or '(none)'}"


def read_content(path: Path) -> Content:
    """The values of a JSON, JSON lines, CSV or Parquet file; ``.gz`` is unpacked.

    Raises LabelsError for a file that is missing, empty, not UTF-8 or not JSON.
    """
    if path.suffix.lower() in _SPREADSHEETS:
        message = (
            "is a spreadsheet; save it as CSV, with a header such as question,answer: in Excel by File > Save As > "
            "CSV UTF-8, in Google Sheets by File > Download, in LibreOffice by File > Save As > Text CSV."
        )
        raise LabelsError(Fault(str(path), message=message))
    content = read_bytes(path, LabelsError)
    if content.startswith(b"PAR1"):
        return _parquet(path, content)
    try:
        text = decoded(content, path, LabelsError)
    except LabelsError:
        # Excel writes CSV in the encoding of Windows.
        if content.lstrip()[:1] in (b"{", b"[") or b"\0" in content or not is_western(content):
            raise
        text = content.decode("cp1252")
    if not text.strip():
        raise LabelsError(Fault(str(path), message="is empty."))
    if text.lstrip()[0] not in "{[":
        return _csv(path, text)
    if not _is_lines(text):
        return Content(str(path), json_value(text, str(path), LabelsError, "labels"), text)
    faults: list[Fault] = []
    numbered = list(json_rows(path, faults))
    if faults:
        raise LabelsError(*truncated(faults, str(path)))
    return Content(str(path), [row for _, row in numbered], lines=[number for number, _ in numbered])


def _parquet(path: Path, content: bytes) -> Content:
    """The rows of Parquet; their numbers take the place of lines."""
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        message = "needs a package that is not installed to be read as Parquet: pip install 'ragtrial[parquet]'."
        raise LabelsError(Fault(str(path), message=message)) from None
    try:
        rows = parquet.read_table(pa.BufferReader(content)).to_pylist()
    except (pa.ArrowException, OSError) as failure:
        reason = str(failure).partition("\n")[0].rstrip(".")
        raise LabelsError(Fault(str(path), message=f"is a damaged Parquet file: {reason}.")) from None
    return Content(str(path), rows, lines=range(1, len(rows) + 1), form="Parquet")


def _is_lines(text: str) -> bool:
    """True if the first line is a JSON object, and others follow."""
    line, _, rest = text.lstrip().partition("\n")
    with suppress(ValueError, RecursionError):
        return bool(rest.strip()) and isinstance(json.loads(line), dict)
    return False


def _csv(path: Path, text: str) -> Content:
    """The rows of CSV with commas, semicolons or tabs; Excel may name the sign in a first line, ``sep=;``."""
    given = _SEPARATOR_LINE.match(text)
    start = given.end() if given else len(text) - len(text.lstrip())
    header = text[start:].partition("\n")[0]
    usual = max(_DELIMITERS, key=header.count)
    delimiter = given[1] if given else usual if usual in header else _NO_DELIMITER
    limit = csv.field_size_limit(_LONGEST_CELL)
    rows: list[object] = []
    lines: list[int] = []
    faults: list[Fault] = []
    try:
        reader = csv.reader(io.StringIO(text[start:], newline=""), delimiter=delimiter, strict=True)
        names = [name.strip().lower() for name in next(reader)]
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
    if faults:
        raise LabelsError(*truncated(faults, str(path)))
    return Content(str(path), rows, lines=lines, form="CSV")


@dataclass(frozen=True, slots=True)
class ImportedAnswer:
    """One known good answer, not located yet.

    ``passage`` is its text; without it the label is the document ``doc``, or its characters ``start`` to ``end`` if the
    text has the hash ``text_hash``. ``doc`` is the file's name for the document, or empty; without ``doc_is_known`` it
    only helps to choose among places. With ``may_be_passage``, ``doc`` is a name or a passage. With ``in_other_words``,
    a passage that is not found means the document ``doc``. ``start`` is the first character of the passage in the
    document or in ``context``, the paragraph around the passage. Answers to a question with one ``group`` are
    alternatives. ``note`` explains a choice of the importer.
    """

    where: FieldPath
    passage: str = ""
    doc: str = ""
    relevance: int = 1
    start: int | None = None
    end: int | None = None
    text_hash: str = ""
    context: str = ""
    may_be_passage: bool = False
    in_other_words: bool = False
    doc_is_known: bool = True
    group: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class ImportedQuestion:
    """A question and its answers; ``more`` are further keys of prompt_queries.json, such as ``phrasings``."""

    where: FieldPath
    id: str
    text: str
    answers: tuple[ImportedAnswer, ...] = ()
    tags: tuple[str, ...] = ()
    more: Mapping[str, Any] | None = None


Reader = Callable[[Content], list[ImportedQuestion]]


@dataclass(frozen=True)
class Importer:
    """The reader of one format. ``recognised_by`` describes for messages which files ``can_read`` accepts.

    An importer that ``is_general`` is tried after all others, since files of other tools may have its columns.
    """

    name: str
    recognised_by: str
    can_read: Callable[[Content], bool]
    read: Reader
    is_general: bool = False


IMPORTERS: Registry[Importer] = Registry("form of labels", "ragtrial.labelling.importers")
"""The importers by the name of their format, in the modules of this folder."""


def importer(
    name: str, recognised_by: str, can_read: Callable[[Content], bool], *, is_general: bool = False
) -> Callable[[Reader], Reader]:
    """A decorator that registers the reader of a format as an ``Importer``."""

    def add(read: Reader) -> Reader:
        IMPORTERS.register(name)(Importer(name, recognised_by, can_read, read, is_general))
        return read

    return add


@dataclass(frozen=True)
class ReadLabels:
    """The labels of a file, and the format in which they were read."""

    form: str
    content: Content
    questions: list[ImportedQuestion]


def read_labels(path: Path, form: str | None = None, empty: Empty = "unlabelled") -> ReadLabels:
    """The labels of a file in the format ``form``, or in the recognised format; missing ids become q1, q2, ...

    ``empty`` says whether questions without an answer are not labelled yet, or get the tag unanswerable.

    Raises LabelsError with all faults: an unreadable file or unknown format, missing and wrong values, double ids, no
    question at all.
    """
    content = read_content(path)
    importer = IMPORTERS[form] if form is not None else _recognised(content)
    if importer is None and isinstance(content.value, Mapping) and "\n" not in content.text.strip():
        one_row = Content(content.file, [content.value], lines=[1])  # JSON lines, with one line
        importer = _recognised(one_row)
        content = one_row if importer else content
    if importer is None:
        raise LabelsError(_unknown_form(content))
    questions = list(_completed(importer.read(content), empty))
    _check(content, questions)
    return ReadLabels(importer.name, content, questions)


def _recognised(content: Content) -> Importer | None:
    return next((importer for importer in _by_specificity() if importer.can_read(content)), None)


def _by_specificity() -> list[Importer]:
    """The importers in the order in which they are tried."""
    return sorted((importer for _, importer in IMPORTERS.members()), key=lambda importer: importer.is_general)


def _unknown_form(content: Content) -> Fault:
    if content.is_csv:
        needed = "it needs question and answer, or question alone"
        return Fault(content.file, 1, 0, f"is {content.seen()}; {needed}. Rename them in the first line.")
    tried = "; ".join(f"{importer.name} ({importer.recognised_by})" for importer in _by_specificity())
    return Fault(content.file, message=f"has labels of no known form: it is {content.seen()}. Tried: {tried}.")


def _completed(questions: Sequence[ImportedQuestion], empty: Empty) -> Iterator[ImportedQuestion]:
    """The questions with an id, and those without an answer with the tag unanswerable if they are to have it."""
    taken = {question.id for question in questions}
    for number, question in enumerate(questions, 1):
        name = question.id or f"q{number}"
        while not question.id and name in taken:
            name += "-2"
        taken.add(name)
        is_tagged = empty == "unanswerable" and not question.answers and UNANSWERABLE not in question.tags
        yield replace(question, id=name, tags=(*question.tags, UNANSWERABLE) if is_tagged else question.tags)


def _check(content: Content, questions: Sequence[ImportedQuestion]) -> None:
    first: dict[str, ImportedQuestion] = {}
    for question in questions:
        known = first.setdefault(question.id, question)
        if known is not question:
            there = content.fault_at(known.where, "")
            taken = f"line {there.line}" if content.lines else content.called(known.where)
            content.fault(question.where, f"has the id {question.id!r}, which {taken} has already.")
        if not is_unicode(question.id):
            content.fault(question.where, f"has the id {question.id!r}, with half of a surrogate pair.")
    if not questions and not content.faults:
        content.fault((), "has no question.")
    content.check()
