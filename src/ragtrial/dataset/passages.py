"""Finding a quoted passage in the documents: exactly, else with other white space; else what comes nearest."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from difflib import SequenceMatcher

from ragtrial.dataset.library import Library
from ragtrial.dataset.texts import normalised
from ragtrial.records import Span

_WORD = re.compile(r"\w+")
_SHOWN = 160


def occurrences(passage: str, text: str) -> tuple[Span, ...]:
    """Every place of ``passage`` in ``text``, ascending, overlapping ones too; if there is none, with any white space.

    Both must be normalised. White space at the ends of the passage is left out of the search and of the spans.
    """
    passage = passage.strip()
    if not passage:
        return ()
    spans = []
    start = text.find(passage)
    while start >= 0:
        spans.append(Span(start, start + len(passage)))
        start = text.find(passage, start + 1)
    if spans:
        return tuple(spans)
    words = passage.split()
    if len(words) < 2 or not all(word in text for word in words):
        return ()
    pattern = re.compile(r"\s+".join(map(re.escape, words)))
    return tuple(Span(*found.span()) for found in pattern.finditer(text))


def locate(passages: Iterable[str], library: Library) -> Mapping[str, dict[int, tuple[Span, ...]]]:
    """For each passage the documents (by position) that hold it, and where; empty for one that is nowhere."""
    wanted = {passage: normalised(passage) for passage in passages}
    # A passage without its longest word in the document need not be looked for at length.
    longest = {passage: max(text.split(), key=len, default="") for passage, text in wanted.items()}
    found: dict[str, dict[int, tuple[Span, ...]]] = {passage: {} for passage in wanted}
    for position, document in enumerate(library):
        for passage, text in wanted.items():
            spans = occurrences(text, document.text) if longest[passage] in document.text else ()
            if spans:
                found[passage][position] = spans
    return found


Locate = Callable[[Iterable[str], Library], Mapping[str, dict[int, tuple[Span, ...]]]]
"""What finds passages: ``locate``, or a memory of what it found."""


def nearest(passage: str, library: Library, among: Iterable[int] | None = None) -> str:
    """A sentence with the document and the piece of text that are most like ``passage``; empty when nothing is."""
    passage = normalised(passage)
    words = set(_WORD.findall(passage.lower()))
    best, best_share = -1, 0.0
    for position in range(len(library)) if among is None else among:
        there = set(_WORD.findall(library.text(position).lower()))
        share = len(words & there) / max(len(words), 1)
        if share > best_share:
            best, best_share = position, share
    if best < 0 or best_share < 0.3:
        return ""
    text = library.text(best)
    match = SequenceMatcher(None, passage, text, autojunk=False).find_longest_match()
    start = max(0, match.b - match.a)
    piece = " ".join(text[start : start + max(len(passage), 40)].split())
    return f" The nearest is in {library.ids[best]!r}: {short(piece)!r}."


def short(text: str, most: int = _SHOWN) -> str:
    """``text`` on one line, cut after ``most`` characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 3] + "..."
