"""Bodies of answers: limits for their size, and the JSON in them."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ragtrial.cache.untrusted import load_json

_ENVELOPE = 4_000_000
"""Bytes of an answer in addition to the requested content."""

_NUMBER_BYTES = 25
_CHARACTER_BYTES = 12
"""The longest form of a character in JSON: two escapes."""

_ROW_BYTES = 2_000
_MOST_LISTS = 100_000
"""Lists and objects of an answer: each takes up to 30 times the memory of its bytes."""


class BodyError(Exception):
    """A body is no answer; the message begins with a verb. ``is_cut``: another try may bring the whole body."""

    def __init__(self, message: str, *, is_cut: bool = False) -> None:
        super().__init__(message)
        self.is_cut = is_cut


def answer_budget(texts: Sequence[str], numbers: int = 0) -> int:
    """The maximum bytes of an answer with this count of ``numbers``, which may repeat ``texts``, as some servers do.

    The envelope holds more than 100,000 tokens of thoughts in the longest form.
    """
    return _ENVELOPE + numbers * _NUMBER_BYTES + sum(_ROW_BYTES + len(text) * _CHARACTER_BYTES for text in texts)


def collected(parts: Iterable[bytes], encoding: str, most: int, *, is_whole: bool = True) -> bytes:
    """The body that arrives in ``parts``, inflated. Raises BodyError for more than ``most`` bytes.

    If it need not be whole, as for an error, it is cut there.
    """
    if encoding not in ("", "identity", "gzip"):
        raise BodyError(f"answered in the encoding {encoding[:40]!r}, which was not asked for")
    inflater = zlib.decompressobj(31) if encoding == "gzip" else None
    body = bytearray()
    for part in parts:
        try:
            body += part if inflater is None else inflater.decompress(part, most + 1 - len(body))
        except zlib.error as error:
            raise BodyError("answered with a body that is not gzip", is_cut=True) from error
        if len(body) > most:
            if is_whole:
                raise BodyError(f"answered with more than {most / 1e6:,.1f} MB, more than the answer can take")
            return bytes(body[:most])
    if inflater is not None and is_whole and not inflater.eof:
        raise BodyError("answered with a body that is cut", is_cut=True)
    return bytes(body)


def json_value(body: bytes) -> Any:
    """The JSON value of a body, perhaps with halves of surrogate pairs. Raises BodyError."""
    if body.count(b"[") + body.count(b"{") > _MOST_LISTS:
        raise BodyError(f"answered with more than {_MOST_LISTS:,} lists and objects, more than the answer can take")
    try:
        return load_json(body.decode(json.detect_encoding(body), "surrogatepass"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise BodyError("answered with something that is not JSON", is_cut=True) from error
    except ValueError as error:
        raise BodyError(f"answered with JSON that cannot be used: {error}") from error


def mapped(value: Any, change: Callable[[str], str]) -> Any:
    """A JSON value with every string changed, including names."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(name): mapped(member, change) for name, member in value.items()}
    if isinstance(value, list) and not {*map(type, value)} <= {int, float}:  # a vector
        return [mapped(member, change) for member in value]
    return value


def whole_characters(text: str) -> str:
    """``text`` with U+FFFD for each half of a surrogate pair, which can be neither written nor hashed.

    Servers leave such halves that cut a reply within an emoji.
    """
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
