"""The text of a chat model's reply: without its thoughts, whatever form the message has; and marks around a text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

_TEXT_PARTS = ("text", "output_text")

_THOUGHTS = (
    (r"<(?:\w+:)?(?:think(?:ing)?|thoughts?|reason(?:ing)?|reflection|scratchpad)>",
     r"</(?:\w+:)?(?:think(?:ing)?|thoughts?|reason(?:ing)?|reflection|scratchpad)>"),
    (r"\[THINK\]", r"\[/THINK\]"),
    ("\N{WHITE LEFT-POINTING TRIANGLE}think\N{WHITE RIGHT-POINTING TRIANGLE}",
     "\N{WHITE LEFT-POINTING TRIANGLE}/think\N{WHITE RIGHT-POINTING TRIANGLE}"),
    (r"<\|begin_of_thought\|>", r"<\|end_of_thought\|>"),
    (r"(?:<\|start\|>assistant)?<\|channel\|>(?:analysis|commentary)<\|message\|>", r"<\|end\|>"),
)  # fmt: skip
"""The marks around thoughts, of servers that do not take these out of the content of a message."""

_MARKS = re.compile(
    r"(?:<\|start\|>assistant)?<\|channel\|>final<\|message\|>|<\|(?:return|end|im_end|eot_id)\|>"
    r"|<\|(?:begin|end)_of_solution\|>"
)
"""What such servers leave around the answer itself."""

_THOUGHT_MARKS = [re.compile(f"(?P<begin>{begin})|{end}", re.IGNORECASE) for begin, end in _THOUGHTS]

_QUOTES = {"Ps", "Pe", "Pi", "Pf"}
_STRAIGHT = "\"'`\N{FULLWIDTH QUOTATION MARK}\N{FULLWIDTH APOSTROPHE}"
_NO_QUOTES = "()[]{}\N{FULLWIDTH LEFT PARENTHESIS}\N{FULLWIDTH RIGHT PARENTHESIS}"


def message_text(message: Any) -> str | None:
    """The text of a message, without thoughts; empty where the model wrote none, None for what is no message."""
    if not isinstance(message, Mapping):
        return None
    content = message.get("content")
    if content is None:
        return ""
    if isinstance(content, str):
        return spoken(content)
    if not isinstance(content, list) or not all(isinstance(part, str | Mapping) for part in content):
        return None
    return spoken("".join(_parts(content)))


def spoken(text: str) -> str:
    """``text`` without thoughts between marks.

    Where only the end is marked, all before it is thought; all of a text that begins with thoughts without an end.
    """
    for marks in _THOUGHT_MARKS:
        text = _without(marks, text)
    return _MARKS.sub("", text).strip()


def unquoted(text: str) -> str:
    """``text`` without the quotation marks around it, of whatever language."""
    text = text.strip()
    while len(text) > 1 and _is_quote(text[0]) and _is_quote(text[-1]):
        text = text[1:-1].strip()
    return text


def folded(text: str) -> str:
    """``text`` with the usual form of letters, digits and punctuation of any width, character by character."""
    if text.isascii():
        return text
    return "".join(_FOLDED.get(char) or _narrow(char) for char in text)


def _parts(content: list[Any]) -> Iterator[str]:
    for part in content:
        text = part if isinstance(part, str) else part.get("text")
        if isinstance(text, str) and (isinstance(part, str) or part.get("type", "text") in _TEXT_PARTS):
            yield text


def _without(marks: re.Pattern[str], text: str) -> str:
    said: list[str] = []
    after, begin = 0, -1
    for mark in marks.finditer(text):
        if mark["begin"] is not None:
            begin = mark.start() if begin < 0 else begin
            continue
        if begin >= 0:
            said.append(text[after:begin])
        else:
            said.clear()
        after, begin = mark.end(), -1
    if begin >= 0 and not "".join([*said, text[after:begin]]).strip():
        return ""
    return "".join([*said, text[after:]])


def _is_quote(char: str) -> bool:
    return char in _STRAIGHT or (unicodedata.category(char) in _QUOTES and char not in _NO_QUOTES)


_FOLDED = {
    "\N{IDEOGRAPHIC FULL STOP}": ".",
    "\N{IDEOGRAPHIC COMMA}": ",",
    "\N{RATIO}": ":",
    "\N{PRESENTATION FORM FOR VERTICAL COLON}": ":",
    "\N{ARABIC COMMA}": ",",
    "\N{ARABIC QUESTION MARK}": "?",
}


def _narrow(char: str) -> str:
    form = unicodedata.normalize("NFKC", char)
    return form if len(form) == 1 else char
