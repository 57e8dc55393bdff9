"""Rows of qrels in text: the columns, recognised by their usual names, and the grades."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from ragtrial.dataset.faults import Faults, truncated
from ragtrial.errors import Fault, LabelsError, counted, did_you_mean, listed
from ragtrial.records import MOST_GRADE, ReportWarning

Kind = Literal["qrels", "run"]
Role = Literal["query", "document", "score", "rank", "grade"]
Columns = Mapping[str, str]
"""The columns given by the user: role to column name, such as ``{"document": "docno"}``."""

_USUAL: dict[Role, tuple[str, ...]] = {
    "query": ("qid, queryid, topicid, questionid", "topic", "query, question"),
    "document": ("docno", "docid, did, pid, corpusid, passageid, documentid", "doc, document, url"),
    "rank": ("rank",),
    "score": ("score, sim, similarity",),
    "grade": ("label, relevance, rel, grade, rating, judgment, judgement, relevancygrade, relevancegrade", "score"),
}
"""Groups of usual names of each role, as ``_plain`` spells them. A later group counts only without a name of an earlier
group: next to ``qid``, a column ``query`` is the text; next to ``docno``, PyTerrier's ``docid`` is a number of its own.
"""

_ROLES: dict[Kind, tuple[Role, ...]] = {
    "run": ("query", "document", "score", "rank"),
    "qrels": ("query", "document", "grade"),
}
KIND_NAMES: dict[Kind, str] = {"run": "a run", "qrels": "qrels"}


def roles_of(found: Sequence[str], kind: Kind, given: Columns | None, faults: Faults) -> dict[Role, str]:
    """The columns of the query, the document, and the number: given columns, else columns with a usual name.

    The number of a run is its score or else its rank; a given column comes before a guessed one. Raises the error of
    ``faults`` with every role that is missing or ambiguous.
    """
    chosen = _given(found, kind, given or {}, faults)
    has = "it has: " + listed(map(repr, found)) + "."
    for role in _ROLES[kind]:
        if role in chosen or (role == "rank" and "score" in chosen) or (role == "score" and "rank" in chosen):
            continue
        groups = ([name for name in found if _plain(name) in group.split(", ")] for group in _USUAL[role])
        if matching := next(filter(None, groups), []):
            chosen[role] = matching[0]
        elif role != "score":
            wanted = "score or the rank" if role == "rank" else role
            choice = _choice(kind, "score" if role == "rank" else role, "NAME")
            faults.add(f"has no column for the {wanted}; {has} Rename it, or say which it is: {choice}.")
        if len(matching) > 1:
            names = listed(map(repr, matching))
            faults.add(f"the {role} may be any of the columns {names}; say which: {_choice(kind, role, matching[0])}.")
    faults.raise_any()
    return {role: chosen[role] for role in _ROLES[kind] if role in chosen}


def _choice(kind: Kind, role: Role, name: str) -> str:
    """The option of `ragtrial score` and the argument of ``score`` that choose the column ``name``."""
    option, argument = ("--columns", "run_columns") if kind == "run" else ("--qrels-columns", "qrels_columns")
    return f"{option} {role}={name} (in Python {argument}={{{role!r}: {name!r}}})"


def _given(found: Sequence[str], kind: Kind, given: Columns, faults: Faults) -> dict[Role, str]:
    chosen: dict[Role, str] = {}
    roles = {str(role): role for role in _ROLES[kind]}
    for role, name in given.items():
        if role not in roles:
            near = did_you_mean(role, roles)
            faults.add(f"columns has {role!r}; {KIND_NAMES[kind]} may have: {', '.join(roles)}.{near}")
        elif found.count(name) != 1:
            near = did_you_mean(name, found)
            has = f"It has: {listed(map(repr, found))}."
            faults.add(f"needs one column {name!r}, given for the {role}; it has {found.count(name)}.{near} {has}")
        else:
            chosen[roles[role]] = name
    return chosen


def _plain(name: str) -> str:
    """The letters and digits of a name, in lower case: ``Query ID``, ``query-id`` and ``queryId`` are one name."""
    return _BETWEEN_WORDS.sub("", name).lower()


_TREC = (
    "looks like TREC qrels (query, iteration, document, grade). Here there are three columns, tabs between: query-id, "
    "corpus-id, score. Take out the second: awk -v OFS='\\t' '{print $1, $3, $4}'"
)
_COLUMNS, _TREC_COLUMNS = 3, 4
_WHOLE = re.compile(r"[+-]?\d+(?:\.0*)?")
_NUMBER = re.compile(r"[+-]?\d[\d.]*")
_BETWEEN_WORDS = re.compile(r"[\W_]+")
_FEWEST_NAMES = 2
SEPARATOR_LINE = re.compile(r"sep=(.)\r?(?:\n|\Z)", re.IGNORECASE)
"""The first line of some tables for Excel: the sign between their columns."""


class GradedRow(NamedTuple):
    """A line of qrels, with its number from 1."""

    line: int
    query: str
    document: str
    grade: int


def whole_number(written: str) -> int | None:
    """The number that digits spell, 1.0 as 1; None if they spell none."""
    return int(written.partition(".")[0]) if _WHOLE.fullmatch(written) else None


def fields_of(line: str, sign: str = "") -> list[str]:
    """The fields of a line between ``sign`` (a space: white space), or else between tabs, commas or semicolons.

    Fields between tabs may be quoted, if all except numbers are; other fields follow CSV. Without a ``sign``, three
    fields between white space are fields.
    """
    if sign == "\t" or (not sign and "\t" in line):
        fields = [field.strip() for field in line.split("\t")]
        words = [field for field in fields if not _NUMBER.fullmatch(field)]
        quoted = words and all(len(word) > 1 and word[0] == word[-1] == '"' for word in words)
        return next(csv.reader([line], delimiter="\t")) if quoted else fields
    fields, usual = line.split(), max(",;", key=line.count)
    if sign == " " or (not sign and (usual not in line or len(fields) >= _COLUMNS)):
        return fields
    return [field.strip() for field in next(csv.reader([line], delimiter=sign or usual))]


def header_sign(line: str, columns: Columns | None = None, kind: Kind = "qrels") -> str:
    """The sign between the names of columns in a first line, a space for white space; empty if it names none.

    Such a line has no number, and two usual names, or the names in ``columns``.
    """
    usual = {"score", *(name for role in _ROLES[kind] for group in _USUAL[role] for name in group.split(", "))}
    for sign in (*(sign for sign in "\t,;" if sign in line), " "):
        names = fields_of(line, sign)
        is_known = sum(_plain(name) in usual for name in names) >= _FEWEST_NAMES
        is_given = columns is not None and set(columns.values()) <= set(names)
        if (is_known or is_given) and not any(map(_NUMBER.fullmatch, names)):
            return sign
    return ""


def numbered_lines(text: str) -> list[tuple[int, str]]:
    """The lines of a table that have text, with their numbers from 1, from the header or the first row on."""
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    first = next((at for at, (_, line) in enumerate(lines) if line.lstrip()[0] != "#"), len(lines))
    first += first < len(lines) and bool(SEPARATOR_LINE.fullmatch(lines[first][1]))
    return lines[first:]


def graded_rows(text: str, file: str, faults: list[Fault], columns: Columns | None = None) -> Iterator[GradedRow]:
    """The rows of qrels; faults are added to ``faults``.

    Without a header there are three columns: query, document and grade. A header (``query-id corpus-id score``, or the
    header of another tool) may name them in any order, among others; ``columns`` assigns them.
    """
    lines = numbered_lines(text)
    places, width = (0, 1, 2), _COLUMNS
    wanted, first = "query, document and grade, tabs between", lines[0][0] if lines else 0
    sign = header_sign(lines[0][1], columns) if lines else ""
    if sign:
        names = fields_of(lines[0][1], sign)
        try:
            roles = roles_of(names, "qrels", columns, Faults(file, LabelsError))
        except LabelsError as error:
            faults += [Fault(fault.file, first, 0, fault.message) for fault in error.faults]
            return
        places = names.index(roles["query"]), names.index(roles["document"]), names.index(roles["grade"])
        width, first = len(names), 0
        wanted = f"{width} fields, as the header has"
        del lines[0]
    for number, line in lines:
        fields = fields_of(line, sign.strip(" ") if sign in line else "")
        message = ""
        if not any(fields):
            continue  # a row that was cleared in a spreadsheet
        if len(fields) != width:
            message = f"must be {wanted}; found {counted(len(fields), 'field')}."
        else:
            query, document, written = (fields[place] for place in places)
            grade = whole_number(written.replace(",", ".") if sign == ";" else written)
            message = _fault(query, document, written, grade)
            if grade is None and number == first and written.isalpha():
                message += " If this line is a header, name its columns query-id, corpus-id and score."
        if message:
            faults.append(Fault(file, number, 0, message))
        elif grade is not None:
            yield GradedRow(number, query, document, grade)


def _fault(query: str, document: str, written: str, grade: int | None) -> str:
    """The fault of a row, empty if it is valid."""
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
    """The warning about repeated rows of qrels."""
    message = f"{counted(count, 'row')} of the qrels repeated ({where}); each pair of query and document counts once."
    return ReportWarning("same-label", message)
