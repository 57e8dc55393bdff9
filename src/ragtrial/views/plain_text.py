"""Text as it may be shown anywhere: nothing in it changes how the text around it reads."""

from __future__ import annotations

import re
import textwrap

_CONTROL = dict.fromkeys(
    [*range(9), 11, 12, *range(14, 32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A),
     *range(0xD800, 0xE000)], 0xFFFD,
)  # fmt: skip


_LABEL = re.compile(r"\S+ {2,}")


def plain(text: str) -> str:
    """``text`` with a replacement character for each control character, mark of direction and lone surrogate."""
    return text.translate(_CONTROL)


def wrapped(text: str, width: int) -> str:
    """A line of prose on as many lines as it needs; behind a label and two spaces these are set in.

    One that is set in itself, such as a row of a table, stays as it is.
    """
    if len(text) <= width or text.startswith(" "):
        return text
    label = _LABEL.match(text)
    return textwrap.fill(text, width, subsequent_indent=" " * len(label[0]) if label else "", break_long_words=False,
                         break_on_hyphens=False)  # fmt: skip


def visible(text: str) -> str:
    """``text`` on one line, without characters that would steer the terminal."""
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text)


def duration(seconds: float) -> str:
    """``40 s``, ``12 min``, ``2.5 h``"""
    if seconds < 1:
        return "<1 s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{seconds / 3600:.1f} h"
