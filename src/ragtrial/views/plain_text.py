"""Text as it is shown: on how many lines, and how long something took."""

from __future__ import annotations

import re
import textwrap

_LABEL = re.compile(r"(?:  )?[^ ]+(?: [^ ]+)* {2,}")


def wrapped(text: str, width: int) -> str:
    """A line of prose on as many lines as it needs; behind a label and two spaces these are set in.

    One that is set in itself, such as a row of a table, stays as it is, unless it is set in by two spaces and has a
    label, as the verdicts of a conclusion are.
    """
    label = _LABEL.match(text)
    if len(text) <= width or (text.startswith(" ") and label is None):
        return text
    margin = " " * len(label[0]) if label else ""
    head, rest = (label[0], text[len(label[0]) :]) if label else ("", text)
    return head + textwrap.fill(rest, width, initial_indent=margin, subsequent_indent=margin, break_long_words=False,
                                break_on_hyphens=False).removeprefix(margin)  # fmt: skip


def duration(seconds: float) -> str:
    """``40 s``, ``12 min``, ``2.5 h``"""
    if seconds < 1:
        return "<1 s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{seconds / 3600:.1f} h"
