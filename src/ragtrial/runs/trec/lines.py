"""The lines of runs in plain Python: columns, numbers, and what is wrong with them, in words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ragtrial.dataset.faults import Faults, shown
from ragtrial.runs.compiled.block_scans import Form, LineError, LineFault, Rules

BOM = b"\xef\xbb\xbf"

_SCORE = re.compile(rb"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf(?:inity)?)", re.IGNORECASE)
_NAN = re.compile(rb"[+-]?nan(?:\(.*\))?", re.IGNORECASE | re.DOTALL)
_WHOLE = re.compile(rb"[+-]?[0-9]+(?:_[0-9]+)*")
_POSITIVE = re.compile(rb"[0-9]+")
_INT64 = 2**63

_COLUMNS = {
    "trec": "a TREC run has 6 (more with trec_compat): query, Q0, document, rank, score, tag",
    "msmarco": "an MS MARCO run has 3: query, document, rank",
}
_RANKS = {
    "trec": "a whole number; the fourth column of a TREC run is the rank",
    "msmarco": "a whole number from 1 on; the third column of an MS MARCO run is the rank",
}
_MESSAGES = {
    LineError.COLUMNS: "has {other:,} columns; {columns}, with white space between.",
    LineError.RANK: "the rank {found} must be {rank}.",
    LineError.SCORE: "the score {found} must be a decimal number, inf or -inf.",
    LineError.NAN: "the score {found} is not a number, so it has no place in an order; give every hit a score.",
    LineError.DUPLICATE: "retrieves document {found} for query {query}, as line {earlier} does; a query may retrieve a "
    "document once (duplicates 'first' drops the later ones).",
    LineError.RANK_TAKEN: "rank {found} of query {query} is taken by line {earlier}; give each document its own.",
}


class Row(NamedTuple):
    """One row of a run. Without scores ``score`` is 0; ``rank`` is None where it is no number or there is none."""

    document: bytes
    line: int
    score: float
    rank: float | None


def lines_of(lines: Iterable[bytes]) -> Iterator[tuple[int, list[bytes]]]:
    """The number, from 0, and the fields of each line that is neither blank nor a comment.

    Fields end at white space: space, tab, CR, VT, FF.
    """
    for number, line in enumerate(lines):
        fields = (line.removeprefix(BOM) if number == 0 else line).split()
        if fields and fields[0][:1] != b"#":
            yield number, fields


def row_of(line: int, fields: list[bytes], rules: Rules) -> Row | LineFault:
    """The row that a line of a run holds, or what is wrong with it."""
    if rules.form == "msmarco":
        if len(fields) != 3:
            return LineFault(line, LineError.COLUMNS, len(fields))
        place = int(fields[2]) if _POSITIVE.fullmatch(fields[2]) and len(fields[2]) < 1000 else 0
        return Row(fields[1], line, 0.0, place) if 0 < place < _INT64 else LineFault(line, LineError.RANK, 0, fields[2])
    if len(fields) < 6 or (len(fields) > 6 and not rules.lenient):
        return LineFault(line, LineError.COLUMNS, len(fields))
    rank = whole_number(fields[3])
    if rank is None and (rules.order == "rank" or not rules.lenient):
        return LineFault(line, LineError.RANK, 0, fields[3])
    if not _SCORE.fullmatch(fields[4]):
        return LineFault(line, LineError.NAN if _NAN.fullmatch(fields[4]) else LineError.SCORE, 0, fields[4])
    return Row(fields[2], line, float(fields[4]), rank)


def whole_number(field: bytes) -> int | None:
    """The number, held within 64 bits (at the nearest that fits); None if it is none. ``1_000`` is one."""
    if not _WHOLE.fullmatch(field):
        return None
    digits = field.lstrip(b"+-").replace(b"_", b"").lstrip(b"0")
    size = int(digits or b"0") if len(digits) < 20 else _INT64
    return max(-size, 1 - _INT64) if field[:1] == b"-" else min(size, _INT64 - 1)


def add_line_faults(faults: Faults, found: Iterable[LineFault], count: int, form: Form) -> None:
    """Adds what is wrong with lines of a run; ``count`` says how many there are, listed or not."""
    listed = sorted(found)
    for fault in listed:
        message = _MESSAGES[fault.error].format(
            found=shown(fault.found),
            query=shown(fault.query),
            other=fault.other,
            earlier=fault.other + 1,
            columns=_COLUMNS[form],
            rank=_RANKS[form],
        )
        faults.add(message, fault.line + 1)
    faults.count += count - len(listed)
