"""Text as it is shown: on how many lines, and how long something took."""

from __future__ import annotations

import re
import textwrap

_LABEL = re.compile(r"\S+ {2,}")


def wrapped(text: str, width: int) -> str:
    """A line of prose on as many lines as it needs; behind a label and two spaces these are set in.

    One that is set in itself, such as a row of a table, stays as it is.
    """
    if len(text) <= width or text.startswith(" "):
        return text
    label = _LABEL.match(text)
    return textwrap.fill(text, width, subsequent_indent=" " * len(label[0]) if label else "", break_long_words=False,
                         break_on_hyphens=False)  # fmt: skip


def duration(seconds: float) -> str:
    """``40 s``, ``12 min``, ``2.5 h``"""
    if seconds < 1:
        return "<1 s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{seconds / 3600:.1f} h"
