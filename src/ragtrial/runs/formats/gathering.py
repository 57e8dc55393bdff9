"""Rows of (query, document, number) become qrels and runs: checked, and those of one query side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from itertools import chain, pairwise
from numbers import Integral, Real

import numpy as np
import numpy.typing as npt

from ragtrial.dataset.faults import Faults, shown
from ragtrial.dataset.json_places import id_of
from ragtrial.dataset.qrels_text import Role
from ragtrial.rankings import Counts
from ragtrial.records import MOST_GRADE
from ragtrial.runs.formats.rows import Rows
from ragtrial.runs.qrels import Judgments, PackedIds, Qrels, Run

Ranked = Mapping[str, Sequence[tuple[str, float | None]]]
"""The documents of each query, best first, with their scores where they are known."""


def qrels_of(rows: Rows, faults: Faults) -> Qrels:
    """Qrels of rows, equal ones once. Raises the error of ``faults`` with all that is wrong, such as two grades."""
    known = faults.count
    queries, documents = _ids(rows.queries, "query", faults), _ids(rows.documents, "document", faults)
    can_compare = faults.count == known
    grades = np.ones(len(queries)) if rows.numbers is None else _numbers(rows.numbers, "grade", faults)
    pairs = np.fromiter(map(hash, zip(queries, documents, strict=True)), dtype=np.int64, count=len(queries))
    repeated: list[int] = []
    if can_compare and len(np.unique(pairs)) < len(pairs):
        repeated = _repeated(queries, documents, grades.tolist(), faults)
    names, starts, order = _grouped(queries, rows, faults)
    if repeated:
        kept = np.delete(np.arange(len(queries)), repeated)
        rows = rows._replace(queries=[queries[row] for row in kept], asked=names)
        documents, grades = [documents[row] for row in kept], grades[kept]
        names, starts, order = _grouped(rows.queries, rows, faults)  # type: ignore[arg-type]
    judgments = Judgments(starts, grades[order].astype(np.int32), np.zeros(len(names), dtype=np.bool_))
    ids = _packed([documents[row] for row in order.tolist()], "document", faults)
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
            place = f"line {line}" if line else f"row {earlier}"
            message = f"judges document {pair[1]!r} for query {pair[0]!r}, as {place} does; give each pair one grade."
            faults.add_row(row, message)
    return repeated


def run_of(name: str, rows: Rows, faults: Faults) -> Run:
    """A run of rows, which stay in their order within each query. Raises the error of ``faults`` as ``qrels_of``."""
    values = None if rows.numbers is None else _numbers(rows.numbers, rows.role, faults)
    queries, documents = _ids(rows.queries, "query", faults), _ids(rows.documents, "document", faults)
    names, starts, order = _grouped(queries, rows, faults)
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
    """The names, those that stood before with a number behind them that makes them others."""
    made: list[str] = []
    for name in names:
        number, candidate = 2, name
        while candidate in made:
            candidate, number = f"{name}-{number}", number + 1
        made.append(candidate)
    return made


def _grouped(queries: Sequence[str], rows: Rows, faults: Faults) -> tuple[tuple[str, ...], Counts, Counts]:
    """The distinct queries as they first come, where the rows of each begin, and the order that puts them so.

    Raises the faults, these and earlier ones.
    """
    faults.raise_any()
    codes = {name: code for code, name in enumerate(rows.asked)}
    column = np.fromiter((codes.setdefault(name, len(codes)) for name in queries), np.int64, len(queries))
    _packed(list(codes), "query", faults)
    starts = np.concatenate(([0], np.cumsum(np.bincount(column, minlength=len(codes))))).astype(np.int64)
    return tuple(codes), starts, np.argsort(column, kind="stable")


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
            faults.add_row(
                row, f"the {role} is {'empty' if name == '' else shown(value)}; an id is a string or a whole number."
            )
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
    """What is wrong with a score, a rank or a grade; None if nothing is."""
    is_number = isinstance(value, Real | Decimal) and not isinstance(value, bool | np.bool_)
    with suppress(OverflowError, ValueError):  # too large, or a NaN that signals
        if is_number and role != "grade" and not math.isnan(float(value)):  # type: ignore[arg-type]
            return None
    if role != "grade" or not is_number:
        return f"the {role} {shown(value)} is no number, or none of 64 bits."
    if not (isinstance(value, Integral) or float(value).is_integer()):  # type: ignore[arg-type]
        return f"the grade {shown(value)} must be a whole number, such as 1."
    return f"the grade {shown(value)} is beyond {MOST_GRADE:,}; is it one?" if abs(int(value)) > MOST_GRADE else None  # type: ignore[call-overload]
