"""The text of others, where it comes in and where it leaves: read within a budget, made harmless for who shows it."""

from __future__ import annotations

import json
import math
import re
import zlib
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import IO, Any

DEEPEST_JSON = 100
"""Brackets within one another: more than any file of ours has, and far fewer than Python's own limit."""

LONGEST_INTEGER = 100
"""Digits of an integer: more than any id that is a number has. One of 310 cannot even become a float."""

LONGEST_LINE = 2**26
"""Bytes: a document of the largest size that is read, with all of it escaped."""

_USUAL_SIZE, _USUAL_RATIO = 2**26, 100
_BLOCK = 2**20
_GZIP = 31
_BETWEEN_BRACKETS = re.compile(r'(?:[^\[\]{}"]++|"[^"\\]*+(?:\\.[^"\\]*+)*+"?)++', re.DOTALL)
"""Text without brackets, including whole strings; an unterminated string extends to the end."""

_STEERING = dict.fromkeys(
    [*range(9), 11, 12, *range(14, 32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A),
     *range(0xD800, 0xE000)], 0xFFFD,
)  # fmt: skip
_ESCAPES = {code: f"\\u{code:04x}" for code in _STEERING}
_LINE_ENDS = re.compile(r"\r\n|\r")
_COMMAND = re.compile(r"(?<=#)#(?=\[|vso\[|teamcity\[)")
"""The part of ``##[group]`` that GitHub, Azure and TeamCity recognise as a command anywhere in a log."""

_COMMAND_LINE = re.compile(r"^(\s*:):", re.MULTILINE)
"""The characters that GitHub recognises as a command at the beginning of a line: ``::error::``."""

_FORMULA = re.compile(r"[=+\-@\t\r\n＝＋－＠]|::")
"""The beginning of a cell that spreadsheets run as a formula (OWASP, CSV injection), or that is a command in a log."""

_NOT_XML = re.compile("[^\t\n\x20-\x7e\xa0-\u2029\u202f-\u2065\u206a-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MARKUP = re.compile(r"[^A-Za-z0-9 .,:;()%+-]")
_REFERENCE = re.compile(r"(?<![A-Za-z0-9_])@|[#!&](?=[0-9])|\bgh(?=-[0-9])|\bwww(?=\.)", re.IGNORECASE)
"""The beginning of a mention, of the number of an issue, a merge request or an epic, and of an address: GitHub and
GitLab link them in text without markup, and note each mention where it leads."""


def load_json(content: bytes | str) -> Any:
    """The value of untrusted JSON: nested at most 100 deep, all numbers finite.

    Raises ValueError, with the reason, for anything else.
    """
    text = content if isinstance(content, str) else content.decode("utf-8")
    if is_deep(text):
        raise ValueError(f"it is nested more than {DEEPEST_JSON} deep")
    return json.loads(text, parse_int=_integer, parse_float=_finite, parse_constant=_finite)


def is_deep(text: str) -> bool:
    """True if a JSON text nests more than ``DEEPEST_JSON`` brackets."""
    if text.count("[") + text.count("{") <= DEEPEST_JSON:
        return False
    brackets = _BETWEEN_BRACKETS.sub("", text)
    return max(accumulate(1 if bracket in "[{" else -1 for bracket in brackets), default=0) > DEEPEST_JSON


def usual_bytes(packed: int) -> int:
    """The most bytes that a file of ``packed`` bytes holds where nothing states how many there are."""
    return _USUAL_SIZE + _USUAL_RATIO * packed


def inflated(file: IO[bytes], most: int) -> Iterator[bytes]:
    """The uncompressed gzip data of ``file``, from its position to its end, in blocks of at most a mebibyte.

    Raises ValueError after more than ``most`` bytes, EOFError if the data is cut, zlib.error if it is damaged.
    """
    unpacker, packed, left, is_within = zlib.decompressobj(_GZIP), b"", most, False
    while True:
        packed = packed or file.read(_BLOCK)
        if not packed and not is_within:
            return
        block = unpacker.decompress(packed, _BLOCK)
        if not packed and not block and not unpacker.eof:
            raise EOFError("it ends in the middle of its gzip data")
        left -= len(block)
        if left < 0:
            raise ValueError(f"it holds more than {most:,} bytes, which is more than is stated or usual")
        if block:
            yield block
        packed, is_within = unpacker.unconsumed_tail, not unpacker.eof
        if unpacker.eof:
            packed, unpacker = unpacker.unused_data, zlib.decompressobj(_GZIP)


def lines_of(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of some blocks, without their ends. Raises ValueError for one of more than ``LONGEST_LINE`` bytes."""
    rest = b""
    for block in blocks:
        *lines, last = block.split(b"\n")
        if lines:
            yield rest + lines[0]
            yield from lines[1:]
            rest = last
        else:
            rest += last
        if len(rest) > LONGEST_LINE:
            raise ValueError(f"it has a line of more than {LONGEST_LINE:,} bytes")
    if rest:
        yield rest


def _integer(digits: str) -> int:
    if len(digits.lstrip("-")) > LONGEST_INTEGER:
        raise ValueError(f"it has an integer of {len(digits.lstrip('-')):,} digits")
    return int(digits)


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"it has the number {number}, which is not finite")
    return value


def plain(text: str) -> str:
    """``text`` on its lines, with U+FFFD for each control character, mark of direction and lone surrogate."""
    return _LINE_ENDS.sub(lambda end: "\n" if end[0] == "\r\n" else "\ufffd", text).translate(_STEERING)


def visible(text: str) -> str:
    """``text`` on one line, with U+FFFD for each unprintable character."""
    return "".join(character if character.isprintable() else "\ufffd" for character in text)


def for_terminal(text: str) -> str:
    """``text`` as it is shown in a terminal and in the log of a job, where no line of it is a command."""
    return _COMMAND_LINE.sub(r"\1 :", _COMMAND.sub(" #", plain(text)))


def for_json(text: str) -> str:
    """A JSON document with JSON escapes for the characters that ``for_terminal`` changes; its value is the same."""
    return _COMMAND.sub(r"\\u0023", text if text.isascii() and "\x7f" not in text else text.translate(_ESCAPES))


def for_csv(text: str) -> str:
    """A text in a cell of CSV: an apostrophe comes before what a spreadsheet would run."""
    return f"'{text}" if _FORMULA.match(text) else text


def from_csv(text: str) -> str:
    """A text that ``for_csv`` wrote, as it was."""
    return text[1:] if text.startswith("'") and _FORMULA.match(text, 1) else text


def for_markdown(text: str) -> str:
    """``text`` on one line; characters of markup become character references, and nothing in it becomes a link.

    A space of no width interrupts mentions and numbers of issues, which GitHub and GitLab look for after they have
    replaced character references.
    """
    broken = _REFERENCE.sub("\\g<0>\u200b", visible(text))
    return _MARKUP.sub(lambda match: f"&#{ord(match[0])};", broken)


def for_xml(text: str) -> str:
    r"""``text`` or a whole document with characters that XML cannot hold, or ``plain`` replaces, as Python escapes:
    ``\x07``.
    """
    return _NOT_XML.sub(lambda match: match[0].encode("unicode_escape", "surrogatepass").decode("ascii"), text)
