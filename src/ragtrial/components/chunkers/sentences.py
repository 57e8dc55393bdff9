"""Where sentences begin and end, by rules: no model, no language to name, time linear in the text's length."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ragtrial.records import Span

_CLOSING = "\"'”’»›)\\]}」』）】》〉〕］｝*_`"
_OPENING = "\"'“‘„‚«‹(\\[{「『（【《〈〔［｛*_`¿¡#"
_WIDE = "。．｡！？।॥۔؟።።։។။"
"""Marks of scripts that put no space after a sentence, or whose marks have no other use."""

_END = re.compile(rf"[.!?…‼⁇⁈⁉{_WIDE}]+[{_CLOSING}]*(?:\[\d{{1,4}}\])*")
_AHEAD = re.compile(rf"[\s{_OPENING}]*(\w{{0,12}})")
_ITEM = re.compile(r"\s*(?:[-*+•‣◦▪]|\(?\d{1,3}[.)]|\(?[a-z]\))\s")
_HEADING = re.compile(r" {0,3}#{1,6}\s")
_ROW = re.compile(r"\s*\|")
_FENCE = re.compile(r"\s*(?:```|~~~)")
_RULE_MARKS = set("-=*_~+")
_LONGEST_WORD = 40


def _words(*lines: str) -> frozenset[str]:
    return frozenset(" ".join(lines).split())


_TITLES = _words("Dr Mr Mrs Ms Mx Prof Rev Hon St Gen Col Capt Lt Sgt Cmdr Gov Sen Rep Pres Messrs Mme Mlle")
_NEVER_LAST = _words("vs cf viz ca approx resp al e.g i.e eg ie incl excl u.a z.b d.h bzw evtl ggf vgl bspw")
_BEFORE_A_NUMBER = _words(
    "no nos nr fig figs eq eqs sec sect art vol ch chap p pp pt para ref refs tab v ver ed",
    "jan feb mar apr jun jul aug sep sept oct nov dec",
)
_BEGINNERS = _words(
    "The A An It Its He She They We You I This That These Those There Here In On At As But And Or So If When While",
    "However For To From With By After Before Since Then Thus Also Although Though Because What Who Why How Where",
    "Is Are Was Were Do Does Did Can Please No Not Our Your His Her Their Der Die Das Ein Eine Es Er Sie Wir",
)
"""Words that begin a sentence far more often than they follow an initial or an acronym within one."""


def sentences(text: str) -> list[Span]:
    """The sentences of ``text``: ascending, disjoint, without white space at their ends; all else is in one of them.

    A sentence ends at ``.``, ``!``, ``?`` or an ellipsis (closing quotes, brackets and note marks such as [3] belong
    to it) before white space and anything but a small letter, and at the full stops of CJK, Indic, Arabic and other
    scripts, with or without white space. It does not end after an abbreviation (Dr., vs., e.g., No. 5), an initial or
    an acronym (J. Smith, U.S. Army; but "in the U.S. The"), or the number of a list item. Blank lines, list items,
    headings, table rows, code fences and rules (---) always end one; other line ends do not.
    """
    spans: list[Span] = []
    for start, end in _blocks(text):
        first = start
        for cut in (*_ends(text, start, end), end):
            piece = text[first:cut]
            visible = piece.strip()
            if visible:
                begin = first + len(piece) - len(piece.lstrip())
                spans.append(Span(begin, begin + len(visible)))
            first = cut
    return spans


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    """The stretches of lines that no sentence crosses, end to end."""
    start, line_start, open_block = 0, 0, False
    while line_start < len(text):
        found = text.find("\n", line_start)
        line_end = len(text) if found < 0 else found + 1
        line = text[line_start:line_end]
        visible = line.strip()
        alone = not visible or _is_alone(line)
        if open_block and (alone or _ITEM.match(line)) and not _is_rule(visible):
            yield start, line_start
            start, open_block = line_start, False
        if visible and (alone or _is_rule(visible)):
            yield start, line_end
            start, open_block = line_end, False
        elif visible:
            open_block = True
        line_start = line_end
    yield start, len(text)


def _is_alone(line: str) -> bool:
    """Whether a line is no part of a longer sentence: a heading, a row of a table, the fence of a piece of code."""
    return bool(_HEADING.match(line) or _ROW.match(line) or _FENCE.match(line))


def _is_rule(visible: str) -> bool:
    """Whether a line is drawn, not written: ---, ***, ===; it ends what stands above it."""
    return len(visible) > 2 and visible[0] in _RULE_MARKS and not visible.replace(" ", "").strip(visible[0])


def _ends(text: str, start: int, end: int) -> Iterator[int]:
    first = start
    for found in _END.finditer(text, start, end):
        if found.end() < end and _is_end(text, first, found, end):
            yield found.end()
            first = found.end()


def _is_end(text: str, first: int, found: re.Match[str], end: int) -> bool:
    """Whether a sentence that began at ``first`` ends with the marks ``found``, which do not end the block."""
    marks = found.group()
    following = text[found.end()]
    if any(mark in _WIDE for mark in marks):
        return _is_wide_end(text, found, following)
    if not following.isspace():
        return False
    ahead = _AHEAD.match(text, found.end(), end)
    word = ahead.group(1) if ahead else ""
    if word[:1].islower() and not (ahead and "`" in ahead.group()):  # a name of code may begin a sentence
        return False
    return not marks.startswith(".") or marks.startswith("..") or _ends_after_word(text, first, found.start(), word)


def _is_wide_end(text: str, found: re.Match[str], following: str) -> bool:
    before = text[found.start() - 1 : found.start()]
    if found.group() == "．" and before.isdigit() and following.isdigit():
        return False  # a decimal point
    is_quoted = found.group()[-1] not in _WIDE
    # 「はい。」と言った: what follows a quotation at once, a particle or a comma, goes on with the sentence.
    return not (following in "、，,」』）" or (is_quoted and "\u3041" <= following <= "\u309f"))


def _ends_after_word(text: str, first: int, dot: int, following: str) -> bool:
    """Whether the full stop at ``dot`` ends a sentence, going by the word before it and the one after."""
    before = text[max(first, dot - _LONGEST_WORD) : dot].split()
    if not before or text[dot - 1].isspace():
        return True
    word = before[-1].lstrip(_OPENING)
    if word.isdigit() and len(word) < 4 and text[first:dot].strip() == before[-1]:
        return False  # the number of a list item
    lower = word.lower()
    if lower in _NEVER_LAST or word in _TITLES:
        return False
    if lower in _BEFORE_A_NUMBER and following[:1].isdigit():
        return False
    letters = word.split(".")
    if all(len(letter) == 1 and letter.isalpha() for letter in letters) and word[0].isupper():
        return following in _BEGINNERS
    return True
