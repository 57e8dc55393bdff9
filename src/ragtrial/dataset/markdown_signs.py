"""Text without the signs of Markdown that a rendered page does not show: emphasis, code, links, headings, lists."""

from __future__ import annotations

import re

_SIGNS = re.compile(
    r"!?\[(?=[^\[\]\n]*\][\[(])"  # the beginning of a link or a picture
    r"|\](?:\([^()\n]*\)|\[[^\[\]\n]*\])"  # its end, with the target
    r"|[*_`~]"
    r"|^[ \t]*(?:#{1,6}|>|[-+*]|\d{1,9}[.)])[ \t]+"  # of a heading, a quotation, an item of a list
    r"|\\(?=[!-/:-@\[-`{-~])",  # before a sign that is meant as it is
    re.MULTILINE,
)
"""Also in words, such as the underscores of a name: both sides of a comparison lose them."""


def without_signs(text: str) -> str:
    """``text`` without Markdown's signs."""
    return _SIGNS.sub("", text)


def kept_places(text: str) -> list[int]:
    """Where in ``text`` the characters of ``without_signs(text)`` are."""
    places, start = list[int](), 0
    for sign in _SIGNS.finditer(text):
        places.extend(range(start, sign.start()))
        start = sign.end()
    places.extend(range(start, len(text)))
    return places
