"""Rows in Python and in JSONL: tuples, named tuples and objects with one (query, document, number) each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ragtrial.runs.faults import Faults, shown
from ragtrial.runs.formats.gathering import coded, ids_of, packed, qrels_of, run_of
from ragtrial.runs.formats.named_forms import Columns, Kind, Role, roles_of
from ragtrial.runs.formats.numerals import grades_of, scores_of
from ragtrial.runs.qrels import Qrels, Run
from ragtrial.runs.streams import Source, text_of

_TUPLES: dict[Kind, tuple[Role, ...]] = {"run": ("query", "document", "score"), "qrels": ("query", "document", "grade")}
_NUMBERS: tuple[Role, ...] = ("grade", "score", "rank")


class Picked(NamedTuple):
    """The columns that matter, row by row; ``role`` is what the numbers are."""

    queries: list[object]
    documents: list[object]
    numbers: list[object]
    role: Role


def qrels_of_rows(rows: Iterable[object], columns: Columns | None, faults: Faults) -> Qrels:
    """Qrels of tuples or objects. Raises the error of ``faults`` with everything that is wrong."""
    picked = _picked(list(rows), "qrels", columns, faults)
    queries, documents = ids_of(picked.queries, "query", faults), ids_of(picked.documents, "document", faults)
    can_compare = not faults.count
    grades = grades_of(picked.numbers, faults)
    if not can_compare:
        faults.raise_any()
    return qrels_of(coded(queries), coded(documents), grades, faults)


def run_of_tuples(name: str, rows: Iterable[object], columns: Columns | None, faults: Faults) -> Run:
    """A run of tuples or objects. Raises the error of ``faults`` with everything that is wrong."""
    picked = _picked(list(rows), "run", columns, faults)
    values = scores_of(picked.numbers, picked.role, faults)
    queries, documents = ids_of(picked.queries, "query", faults), ids_of(picked.documents, "document", faults)
    faults.raise_any()
    run = run_of(name, coded(queries), packed(documents, faults), values, faults)
    return replace(run, by_rank=picked.role == "rank")


def json_lines(source: Source, faults: Faults) -> list[dict[str, object]]:
    """The objects of a JSONL file; ``faults`` learns their lines. Raises its error for lines that are none."""
    rows: list[dict[str, object]] = []
    lines: list[int] = []
    decoder = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant)
    for number, line in enumerate(text_of(source, faults.error).split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = decoder.decode(line)
        except json.JSONDecodeError as failure:
            faults.add(f"is not JSON: {failure.msg}.", number, failure.colno)
        except _TwiceError as failure:
            faults.add(f"key {failure.args[0]!r} stands twice in one object.", number)
        except _ConstantError as failure:
            faults.add(f"is not JSON: {failure.args[0]} is not JSON.", number)
        except ValueError:  # the standard library's word on numbers of thousands of digits
            faults.add("has a number too long to be read.", number)
        except RecursionError:
            faults.add("is nested too deeply to be a row.", number)
        else:
            if isinstance(row, dict):
                rows.append(row)
                lines.append(number)
            else:
                faults.add("must be a JSON object, in {}.", number)
    faults.lines = lines
    faults.raise_any()
    return rows


class _TwiceError(ValueError):
    """A key that one object has twice."""


class _ConstantError(ValueError):
    """NaN or an infinity, which JSON does not have."""


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        raise _TwiceError(next(name for name in names if names.count(name) > 1))
    return made


def _constant(name: str) -> object:
    raise _ConstantError(name)


def _picked(rows: Sequence[object], kind: Kind, columns: Columns | None, faults: Faults) -> Picked:
    if not rows:
        raise faults.fail("has no rows.")
    first = rows[0]
    if isinstance(first, Mapping):
        return _of_objects(rows, list(map(str, first)), kind, columns, faults)
    if not isinstance(first, Sequence) or isinstance(first, str | bytes):
        raise faults.fail(f"has rows such as {shown(first)}; a row is a tuple or a mapping of column names to values.")
    fields = getattr(first, "_fields", None)
    if fields is None and columns:
        raise faults.fail(f"has plain tuples, which have no column names: give each as ({', '.join(_TUPLES[kind])}).")
    if fields is None:
        return _of_tuples(rows, list(_TUPLES[kind]), {role: role for role in _TUPLES[kind]}, faults)
    return _of_tuples(rows, list(fields), roles_of(fields, kind, columns, faults), faults)


def _of_tuples(rows: Sequence[object], fields: Sequence[str], chosen: Mapping[Role, str], faults: Faults) -> Picked:
    for row, values in enumerate(rows):
        if not isinstance(values, Sequence) or isinstance(values, str | bytes) or len(values) != len(fields):
            faults.add_row(row, f"must be a tuple of {len(fields)}: ({', '.join(fields)}); found {shown(values)}.")
    faults.raise_any()
    role = _role(chosen)
    places = [fields.index(chosen[one]) for one in ("query", "document", role)]
    queries, documents, numbers = ([row[place] for row in rows] for place in places)  # type: ignore[index]
    return Picked(queries, documents, numbers, role)


def _of_objects(
    rows: Sequence[object], found: list[str], kind: Kind, columns: Columns | None, faults: Faults
) -> Picked:
    chosen = roles_of(found, kind, columns, faults)
    role = _role(chosen)
    wanted = [chosen[one] for one in ("query", "document", role)]
    whole = set(wanted)
    for row, values in enumerate(rows):
        if isinstance(values, dict) and whole <= values.keys():
            continue
        absent = [name for name in wanted if not isinstance(values, Mapping) or name not in values]
        if absent:
            faults.add_row(row, f"has no {', '.join(map(repr, absent))}; the first row has. Found {shown(values)}.")
    faults.raise_any()
    queries, documents, numbers = ([row[name] for row in rows] for name in wanted)  # type: ignore[index]
    return Picked(queries, documents, numbers, role)


def _role(roles: Iterable[Role]) -> Role:
    """What the numbers are: of a run, scores rather than ranks."""
    there = set(roles)
    return next(role for role in _NUMBERS if role in there)
