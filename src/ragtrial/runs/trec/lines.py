"""The lines of runs and qrels in plain Python: columns, numbers, and what is wrong with them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ragtrial.runs.compiled.found import LineFault, Reading, Wrong
from ragtrial.runs.trec.query_rows import Row

_SCORE = re.compile(rb"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf(?:inity)?)", re.IGNORECASE)
_NAN = re.compile(rb"[+-]?nan(?:\(.*\))?", re.IGNORECASE | re.DOTALL)
_WHOLE = re.compile(rb"[+-]?[0-9]+(?:_[0-9]+)*")
_POSITIVE = re.compile(rb"[0-9]+")
_INT32, _INT64 = 2**31, 2**63

LineOf = Callable[[int, list[bytes]], Row | LineFault]


class Line(NamedTuple):
    """A line that is neither blank nor a comment; ``number`` counts from 0 over all lines."""

    number: int
    fields: list[bytes]


def lines_of(text: bytes) -> Iterator[Line]:
    """The lines with content, split at white space (space, tab, CR, VT, FF)."""
    for number, line in enumerate(text.split(b"\n")):
        fields = line.split()
        if fields and fields[0][:1] != b"#":
            yield Line(number, fields)


def reader_of(reading: Reading) -> LineOf:
    """What makes a row, or a fault, of the number and the fields of a line."""
    if reading.form == "msmarco":
        return _msmarco_row
    needs_rank = reading.order == "rank" or not reading.lenient

    def row(number: int, fields: list[bytes]) -> Row | LineFault:
        if len(fields) < 6 or (len(fields) > 6 and not reading.lenient):
            return LineFault(number, Wrong.COLUMNS, len(fields))
        rank = whole_number(fields[3])
        if rank is None and needs_rank:
            return LineFault(number, Wrong.RANK, 0, fields[3])
        if not _SCORE.fullmatch(fields[4]):
            wrong = Wrong.NAN if _NAN.fullmatch(fields[4]) else Wrong.SCORE
            return LineFault(number, wrong, 0, fields[4])
        return Row(fields[2], number, float(fields[4]), rank)

    return row


def _msmarco_row(number: int, fields: list[bytes]) -> Row | LineFault:
    if len(fields) != 3:
        return LineFault(number, Wrong.COLUMNS, len(fields))
    rank = int(fields[2]) if _POSITIVE.fullmatch(fields[2]) and len(fields[2]) < 1000 else 0
    if not 0 < rank < _INT64:
        return LineFault(number, Wrong.RANK, 0, fields[2])
    return Row(fields[1], number, 0.0, rank)


def whole_number(field: bytes) -> int | None:
    """The number, held within 64 bits (at the nearest that fits); None if it is none. ``1_000`` is one."""
    if not _WHOLE.fullmatch(field):
        return None
    digits = field.lstrip(b"+-").replace(b"_", b"").lstrip(b"0")
    size = int(digits or b"0") if len(digits) < 20 else _INT64
    return max(-size, 1 - _INT64) if field[:1] == b"-" else min(size, _INT64 - 1)


def grade_of(field: bytes) -> int | None:
    """A whole number of 32 bits; None if it is none."""
    grade = whole_number(field)
    return grade if grade is not None and b"_" not in field and -_INT32 <= grade < _INT32 else None
