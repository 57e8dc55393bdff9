"""Where sentences begin and end, by rules: no model, no language to name, time linear in the text's length."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from ragtrial.records import Span

_CLOSING = "\"'”’»›)\\]}」』）】》〉〕］｝*_`"
_OPENING = "\"'“‘„‚«‹(\\[{「『（【《〈〔［｛*_`¿¡#"
SPACED = "!.?…․‼‽⁇⁈⁉⸮⸼⹓⹔\u2e60\u2e61"
"""Marks that end a sentence only before white space: marks of scripts with spaces between words, and ellipses."""
WIDE = (
    "\u0589\u061d-\u061f\u06d4\u0700-\u0702\u07f9\u0837\u0839\u083d\u083e\u0964\u0965\u104a\u104b\u1362\u1367\u1368\u166e"
    "\u1735\u1736\u17d4\u17d5\u1803\u1809\u1944\u1945\u1aa8-\u1aab\u1b4e\u1b4f\u1b5a\u1b5b\u1b5e\u1b5f\u1b7d-\u1b7f\u1c3b"
    "\u1c3c\u1c7e\u1c7f\u2cf9-\u2cfb\u3002\ua4ff\ua60e\ua60f\ua6f3\ua6f7\ua876\ua877\ua8ce\ua8cf\ua92f\ua9c8\ua9c9"
    "\uaa5d-\uaa5f\uaaf0\uaaf1\uabeb\ufe12\ufe15\ufe16\ufe52\ufe56\ufe57\uff01\uff0e\uff1f\uff61"
)
"""The other marks with Unicode's property Sentence_Terminal, below U+10000: of scripts that put no space after a
sentence, or whose marks have no other use."""
WIDE_BEYOND = (
    "\U00010a56\U00010a57\U00010f55-\U00010f59\U00010f86-\U00010f89\U00011047\U00011048\U000110be-\U000110c1"
    "\U00011141-\U00011143\U000111c5\U000111c6\U000111cd\U000111de\U000111df\U00011238\U00011239\U0001123b\U0001123c"
    "\U000112a9\U000113d4\U000113d5\U0001144b\U0001144c\U000115c2\U000115c3\U000115c9-\U000115d7\U00011641\U00011642"
    "\U0001173c-\U0001173e\U00011944\U00011946\U00011a42\U00011a43\U00011a9b\U00011a9c\U00011c41\U00011c42\U00011ef7"
    "\U00011ef8\U00011f43\U00011f44\U00016a6e\U00016a6f\U00016af5\U00016b37\U00016b38\U00016b44\U00016d6e\U00016d6f"
    "\U00016e98\U0001bc9f\U0001da88"
)
"""The other marks, in a separate set, since searching them is many times slower."""
_BEYOND_16_BITS = re.compile("[\U00010000-\U0010ffff]")
_WIDE_MARK = re.compile(f"[{WIDE}{WIDE_BEYOND}]")
_AHEAD = re.compile(rf"[\s{_OPENING}]*(\w{{0,12}})")
_ITEM = re.compile(r"\s*(?:[-*+•‣◦▪]|\(?\d{1,3}[.)]|\(?[a-z]\))\s")
_ALONE = re.compile(r" {0,3}#{1,6}\s|\s*(?:\||```|~~~)")
"""A line that is no part of a longer sentence: a heading, a row of a table, the fence of a piece of code."""
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
    to it) before white space and anything but a small letter, and at the marks of CJK, Indic, Arabic and all other
    scripts (Unicode's Sentence_Terminal), with or without white space. It does not end after an abbreviation (Dr.,
    vs., e.g., No. 5), an initial or an acronym (J. Smith, U.S. Army; but "in the U.S. The"), or the number of a list
    item. Blank lines, list items, headings, table rows, code fences and rules (---) always end one; other line ends do
    not.
    """
    spans: list[Span] = []
    pattern = _pattern(SPACED + WIDE, text, 0, len(text))
    for start, end in _blocks(text):
        first = start
        for cut in (*_ends(text, start, end, pattern), end):
            piece = text[first:cut]
            visible = piece.strip()
            if visible:
                begin = first + len(piece) - len(piece.lstrip())
                spans.append(Span(begin, begin + len(visible)))
            first = cut
    return spans


def wide_ends(text: str, start: int, end: int) -> Iterator[int]:
    """Where sentences of ``text[start:end]`` end that a mark ends with or without white space, this included."""
    for found in _pattern(WIDE, text, start, end).finditer(text, start, end):
        cut = found.end()
        while cut < end and text[cut] in " \t":
            cut += 1
        if cut < end and _is_wide_end(text, found, text[found.end()]):
            yield cut


def _pattern(marks: str, text: str, start: int, end: int) -> re.Pattern[str]:
    return _ends_with(marks + WIDE_BEYOND if _BEYOND_16_BITS.search(text, start, end) else marks)


@cache
def _ends_with(marks: str) -> re.Pattern[str]:
    """A row of marks, with the closing quotes and brackets that follow."""
    return re.compile(rf"[{marks}]+[{_CLOSING}]*(?:\[\d{{1,4}}\])*")


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    """The stretches of lines that no sentence crosses, end to end."""
    start, line_start, open_block = 0, 0, False
    while line_start < len(text):
        found = text.find("\n", line_start)
        line_end = len(text) if found < 0 else found + 1
        line = text[line_start:line_end]
        visible = line.strip()
        alone = not visible or bool(_ALONE.match(line))
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


def _is_rule(visible: str) -> bool:
    """True if a line is drawn, not written: ---, ***, ===. It ends the block above it."""
    return len(visible) > 2 and visible[0] in _RULE_MARKS and not visible.replace(" ", "").strip(visible[0])


def _ends(text: str, start: int, end: int, pattern: re.Pattern[str]) -> Iterator[int]:
    first = start
    for found in pattern.finditer(text, start, end):
        if found.end() < end and _is_end(text, first, found, end):
            yield found.end()
            first = found.end()


def _is_end(text: str, first: int, found: re.Match[str], end: int) -> bool:
    """True if a sentence that began at ``first`` ends with the marks ``found``, which do not end the block."""
    marks = found.group()
    following = text[found.end()]
    if _WIDE_MARK.search(marks):
        return _is_wide_end(text, found, following)
    if not following.isspace():
        return False
    ahead = _AHEAD.match(text, found.end(), end)
    word = ahead.group(1) if ahead else ""
    is_small = word[:1].islower() and not "\u10d0" <= word[:1] <= "\u10ff"  # Georgian begins no sentence with a capital
    if is_small and not (ahead and "`" in ahead.group()):  # a name of code may begin a sentence
        return False
    return not marks.startswith(".") or marks.startswith("..") or _ends_after_word(text, first, found.start(), word)


def _is_wide_end(text: str, found: re.Match[str], following: str) -> bool:
    before = text[found.start() - 1 : found.start()]
    if found.group() == "．" and before.isdigit() and following.isdigit():
        return False  # a decimal point
    is_quoted = not _WIDE_MARK.match(found.group()[-1])
    # 「はい。」と言った: a particle or a comma directly after a quotation continues the sentence.
    return not (following in "、，,」』）" or (is_quoted and "\u3041" <= following <= "\u309f"))


def _ends_after_word(text: str, first: int, dot: int, following: str) -> bool:
    """True if the full stop at ``dot`` ends a sentence, according to the words before and after it."""
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
    return not (len(word) == 1 and word.islower() and len(following) == 1) or following in _BEGINNERS  # z. B.
