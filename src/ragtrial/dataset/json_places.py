"""The line and column of every value of a JSON text, for messages."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable
from contextlib import suppress
from json.decoder import JSONDecoder
from numbers import Integral, Real

from ragtrial.errors import Fault, InputError

Place = tuple[int, int]
_DECODER = JSONDecoder(strict=True)
_CONSTANTS = ("NaN", "Infinity", "-Infinity")
_SPACE = re.compile(r"[ \t\n\r]*")


def json_value(text: str, file: str, error: type[InputError], what: str) -> object:
    """The value of a JSON text. Raises ``error`` for invalid JSON, and for a key that is twice in one object.

    ``file`` and ``what`` (such as ``labels``) are for the messages.
    """
    try:
        with suppress(_OddError):
            return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_once)
        json.loads(text)  # other faults come first
    except json.JSONDecodeError as failure:
        raise error(Fault(file, failure.lineno, failure.colno, _why_not_json(text, failure))) from None
    except (ValueError, RecursionError):  # numbers of thousands of digits, thousands of brackets
        message = f"has a number too long, or is nested too deeply, to be {what}."
        raise error(Fault(file, message=message)) from None
    values = _Places(text)
    odd = [(start, f"duplicate key {key!r} in one object.") for key, start in values.repeated]
    if values.first_constant >= 0:
        name = next(name for name in _CONSTANTS if text.startswith(name, values.first_constant))
        odd = [(values.first_constant, f"is not JSON: {name} is not JSON.")]
    raise error(*(Fault(file, *values.line_column(start), message) for start, message in odd))


def _why_not_json(text: str, failure: json.JSONDecodeError) -> str:
    """The cause, with advice for frequent mistakes."""
    if not text.strip():
        return "is empty."
    before, rest = text[: failure.pos].rstrip(), text[failure.pos :].lstrip()
    if rest.startswith(("//", "/*", "#")):
        return "is not JSON: JSON has no comments; remove this one."
    if before.endswith(",") and rest[:1] in ("]", "}"):
        return f"is not JSON: there is a comma before {rest[0]!r}; remove it."
    return f"is not JSON: {failure.msg}."


class _OddError(ValueError):
    """A key that one object has twice, or a number such as NaN, which JSON does not have."""


def _refuse_constant(name: str) -> None:
    raise _OddError(name)


def _once(items: list[tuple[str, object]]) -> dict[str, object]:
    row = dict(items)
    if len(row) < len(items):
        keys = [key for key, _ in items]
        raise _OddError(next(key for place, key in enumerate(keys) if key in keys[:place]))
    return row


_ROWS = JSONDecoder(object_pairs_hook=_once)


def json_row(line: str) -> tuple[dict[str, object], str, int]:
    """The object in a line of JSON; or an empty object, the fault of the line, and the column if known."""
    try:
        row = _ROWS.decode(line)
    except _OddError as error:
        return {}, f"duplicate key {str(error)!r} in one object.", 0
    except json.JSONDecodeError as error:
        return {}, f"is not JSON: {error.msg}.", error.colno
    except (ValueError, RecursionError):  # numbers of thousands of digits, thousands of brackets
        return {}, "has a number too long, or is nested too deeply, to be read.", 0
    return (row, "", 0) if isinstance(row, dict) else ({}, "must be a JSON object, in {}.", 0)


def id_of(value: object) -> str | None:
    """The id that a value spells: a string as it is, a whole number in digits (7.0, too); None if it spells none."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool):
        return None
    if isinstance(value, Integral):
        return str(int(value))
    return str(int(float(value))) if isinstance(value, Real) and float(value).is_integer() else None


def fault_in(text: str, file: str) -> Callable[[tuple[str | int, ...], str], Fault]:
    """Makes faults of the JSON in ``text``: from a path, or the next around it that is there, and a message."""
    known: dict[tuple[str | int, ...], Place] = {}

    def fault_at(where: tuple[str | int, ...], message: str) -> Fault:
        if not known:
            known.update(places(text))
        while where not in known:
            where = where[:-1]
        return Fault(file, *known[where], message)

    return fault_at


def places(text: str) -> dict[tuple[str | int, ...], Place]:
    """Line and column, from 1, of every value of a valid JSON text, by its path of keys and positions."""
    values = _Places(text)
    return {path: values.line_column(start) for path, start in values.starts.items()}


class _Places:
    """Every value of a valid JSON text where it is, in one walk."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts: dict[tuple[str | int, ...], int] = {}
        self.repeated: list[tuple[str, int]] = []
        self.first_constant = -1
        self._line_starts = [0, *(line_end.end() for line_end in re.finditer("\n", text))]
        self._value(self._skip(0), ())

    def line_column(self, offset: int) -> Place:
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def _skip(self, offset: int) -> int:
        match = _SPACE.match(self.text, offset)
        return match.end() if match else offset

    def _value(self, start: int, path: tuple[str | int, ...]) -> int:
        """Note the value at ``start`` and all values inside it; the offset behind it."""
        self.starts[path] = start
        opening = self.text[start]
        if opening not in "[{":
            if self.first_constant < 0 and self.text.startswith(_CONSTANTS, start):
                self.first_constant = start
            return _DECODER.raw_decode(self.text, start)[1]
        offset = self._skip(start + 1)
        keys: set[str | int] = set()
        while self.text[offset] not in "]}":
            member, key = offset, len(keys)
            if opening == "{":
                key, offset = _DECODER.raw_decode(self.text, offset)
                if key in keys:
                    self.repeated.append((str(key), member))
                offset = self._skip(self._skip(offset) + 1)
            keys.add(key)
            offset = self._skip(self._value(offset, (*path, key)))
            if self.text[offset] == ",":
                offset = self._skip(offset + 1)
        return offset + 1
