"""Qrels as columns of text: query, document and grade, in this order or as a header names them."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ragtrial.dataset.column_roles import Columns, Kind, Role, roles_of, usual_names
from ragtrial.dataset.documents import truncated
from ragtrial.dataset.faults import Faults
from ragtrial.errors import Fault, LabelsError, counted
from ragtrial.records import MOST_GRADE, ReportWarning, WarningCode

_TREC = (
    "looks like TREC qrels (query, iteration, document, grade). Here there are three columns, tabs between: query-id, "
    "corpus-id, score. Take out the second: awk -v OFS='\\t' '{print $1, $3, $4}'"
)
_COLUMNS, _TREC_COLUMNS = 3, 4
_WHOLE = re.compile(r"[+-]?\d+(?:\.0*)?")
_NUMBER = re.compile(r"[+-]?\d[\d.]*")
_FEWEST_NAMES = 2


class GradedRow(NamedTuple):
    """A line of qrels: its number from 1, and what it says."""

    line: int
    query: str
    document: str
    grade: int


def whole_number(written: str) -> int | None:
    """The number that digits spell, 1.0 as 1; None if they spell none."""
    return int(written.partition(".")[0]) if _WHOLE.fullmatch(written) else None


def fields_of(line: str) -> list[str]:
    """The fields of a line: between tabs, else commas or semicolons where there are any, else white space.

    Those between tabs may be quoted, if all are that are no numbers; of other signs, as CSV has it.
    """
    if "\t" in line:
        fields = [field.strip() for field in line.split("\t")]
        words = [field for field in fields if not _NUMBER.fullmatch(field)]
        quoted = words and all(len(word) > 1 and word[0] == word[-1] == '"' for word in words)
        return next(csv.reader([line], delimiter="\t")) if quoted else fields
    fields, sign = line.split(), max(",;", key=line.count)
    if sign not in line or len(fields) >= _COLUMNS:
        return fields
    return [field.strip() for field in next(csv.reader([line], delimiter=sign))]


def is_header(fields: Sequence[str], columns: Columns | None = None, kind: Kind = "qrels") -> bool:
    """Whether a first line names columns: it has no number, and at least two usual names, or those of ``columns``."""
    names = usual_names(kind) | {"score"}
    known = sum(field.lower() in names for field in fields) >= _FEWEST_NAMES
    given = columns is not None and set(columns.values()) <= set(fields)
    return (known or given) and not any(map(_NUMBER.fullmatch, fields))


def graded_rows(text: str, file: str, faults: list[Fault], columns: Columns | None = None) -> Iterator[GradedRow]:
    """The rows of qrels; bad ones are added to ``faults``.

    Without a header there are three columns: query, document and grade. A header (``query-id corpus-id score``, or as
    other tools write it) may name them in any order, among others; ``columns`` says which is what.
    """
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    places, width = (0, 1, 2), _COLUMNS
    wanted, first = "query, document and grade, tabs between", lines[0][0] if lines else 0
    if lines and is_header(names := fields_of(lines[0][1]), columns):
        try:
            roles = roles_of(names, "qrels", columns, Faults(file, LabelsError))
        except LabelsError as error:
            faults += [Fault(fault.file, first, 0, fault.message) for fault in error.faults]
            return
        places, width, first = _places(names, roles), len(names), 0
        wanted = f"{width} fields, as the header has"
        del lines[0]
    for number, line in lines:
        fields = fields_of(line)
        message = ""
        if len(fields) != width:
            message = f"must be {wanted}; found {len(fields)} fields."
        else:
            query, document, written = (fields[place] for place in places)
            grade = whole_number(written)
            message = _fault(query, document, written, grade)
            if grade is None and number == first and written.isalpha():
                message += " If this line is a header, name its columns query-id, corpus-id and score."
        if message:
            faults.append(Fault(file, number, 0, message))
        elif grade is not None:
            yield GradedRow(number, query, document, grade)


def _places(names: Sequence[str], roles: Mapping[Role, str]) -> tuple[int, int, int]:
    return names.index(roles["query"]), names.index(roles["document"]), names.index(roles["grade"])


def _fault(query: str, document: str, written: str, grade: int | None) -> str:
    """What is wrong with a row, empty if nothing is."""
    if grade is None:
        return f"the grade {written!r} must be a whole number."
    if abs(grade) > MOST_GRADE:
        return f"the grade {written} is beyond {MOST_GRADE:,}; is it one?"
    empty = " and ".join(role for role, name in (("query", query), ("document", document)) if not name)
    return f"the {empty} is empty; an id is a text or a whole number." if empty else ""


def truncate_faults(faults: Sequence[Fault], text: str, file: str) -> list[Fault]:
    """The first of the faults that ``graded_rows`` found in ``text``, how many more there are, and a likely cause."""
    widths = {len(line.split()) for line in text.splitlines() if line.strip()}
    return [*truncated(faults, file), *([Fault(file, message=_TREC)] if widths == {_TREC_COLUMNS} else [])]


def repeated_rows(count: int, where: str) -> ReportWarning:
    """The warning about rows of qrels that repeat earlier ones with the same grade."""
    message = f"{counted(count, 'row')} of the qrels repeated ({where}); each pair of query and document counts once."
    return ReportWarning(WarningCode.SAME_LABEL, message)
