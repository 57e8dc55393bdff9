"""Rows in Python and in JSONL: tuples, named tuples and objects with one (query, document, number) each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from ragtrial.runs.faults import Faults, shown
from ragtrial.runs.formats.column_roles import Columns, Kind, Role, roles_of
from ragtrial.runs.formats.frames import Picked, number_role
from ragtrial.runs.streams import Source, text_of

_TUPLES: dict[Kind, tuple[Role, ...]] = {"run": ("query", "document", "score"), "qrels": ("query", "document", "grade")}


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
        except _DuplicateKeyError as failure:
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


class _DuplicateKeyError(ValueError):
    """A key that one object has twice."""


class _ConstantError(ValueError):
    """NaN or an infinity, which JSON does not have."""


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        raise _DuplicateKeyError(next(name for name in names if names.count(name) > 1))
    return made


def _constant(name: str) -> object:
    raise _ConstantError(name)


def picked_rows(given: Iterable[object], kind: Kind, columns: Columns | None, faults: Faults) -> Picked:
    """The columns that matter of tuples or objects. Raises the error of ``faults`` with everything that is wrong."""
    rows = list(given)
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
    role = number_role(chosen)
    places = [fields.index(chosen[one]) for one in ("query", "document", role)]
    queries, documents, numbers = ([row[place] for row in rows] for place in places)  # type: ignore[index]
    return Picked(queries, documents, numbers, role, chosen)


def _of_objects(
    rows: Sequence[object], found: list[str], kind: Kind, columns: Columns | None, faults: Faults
) -> Picked:
    chosen = roles_of(found, kind, columns, faults)
    role = number_role(chosen)
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
    return Picked(queries, documents, numbers, role, chosen)
