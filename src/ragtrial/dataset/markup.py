"""The text of a web page, by libxml2's parser, which is linear in the page's length and the same on every Python."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ragtrial.dataset.texts import without_unseen

_UNSEEN = {
    *("script", "style", "template", "noscript", "noframes", "noembed", "iframe", "svg", "canvas", "audio", "video"),
    *("datalist", "annotation", "annotation-xml"),
}
_HIDING = re.compile(r"(?i)\bdisplay\s*:\s*none\b|\bvisibility\s*:\s*(?:hidden|collapse)\b")
_KEEPING = re.compile(r"(?i)\bwhite-space\s*:\s*(?:pre|break-spaces)\b")
_PREFORMATTED = {"pre", "textarea", "listing", "xmp", "plaintext"}
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_APART = _HEADINGS.keys() | {
    *("article", "aside", "blockquote", "dl", "figure", "footer", "header", "hr", "listing", "main", "nav", "ol", "p"),
    *("plaintext", "pre", "section", "table", "ul", "xmp"),
}
"""Elements with a blank line before and after them: browsers give them a margin, or they are sections."""
_LINES = {
    *("address", "body", "caption", "center", "dd", "details", "dialog", "dir", "div", "dt", "fieldset", "figcaption"),
    *("form", "hgroup", "legend", "li", "menu", "optgroup", "option", "search", "summary", "tbody", "tfoot", "thead"),
    "tr",
}
_ITEMS = {"li", "dt", "dd"}
_LAYOUT = _HEADINGS.keys() | {"table", "section", "article", "main", "nav", "header", "footer", "aside"}
"""Elements that a data cell does not contain: a cell with one of them is for layout."""

_CHARSET = re.compile(
    rb"""<\?xml[^>]*?\bencoding\s*=\s*["']([-\w.:]+)|<meta\b[^>]*?\bcharset\s*=\s*["']?\s*([-\w.:]+)""", re.IGNORECASE
)
_CHARSET_WITHIN = 1024

MOST_NESTED = 2_000
"""Elements inside one another; browsers stop at 512. The parser looks through all that are open for each end tag."""

_AT_ONCE = 2**15
"""Characters that the parser is given at once."""


class NestedError(ValueError):
    """A page has more elements inside one another than are read."""


@dataclass
class _Cell:
    """An open cell of a table: the piece with which its text begins, None before it has any."""

    first: int | None = None
    is_layout: bool = False


class _PageText:
    """The visible text of a page, laid out as ``innerText`` is (HTML Standard, section 3.2.7), event by event."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._title: list[str] = []
        self._top_heading: list[str] = []
        self._in_top_heading = False
        self._open: list[str] = []
        self._hidden_at = 0  # the number of open elements when a hidden element began
        self._kept_at: list[int] = []  # the same for each element with significant white space
        self._items = 0
        self._cells: list[_Cell] = []
        self._lines = self._breaks = self._tabs = 0  # due before the next text: line ends, `br`s, tabs
        self._signs = ""  # of a heading that has no text yet
        self._space = False
        self._begins_kept = self._skips_line_end = False

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        self._open.append(tag)
        if len(self._open) > MOST_NESTED:
            raise NestedError(f"has more than {MOST_NESTED:,} elements inside one another. Split it, or leave it out.")
        if self._hidden_at or tag in _UNSEEN or _is_hidden(tag, attributes):
            self._hidden_at = self._hidden_at or len(self._open)
        elif tag == "br":
            self._break()
        elif tag in ("td", "th"):
            self._tabs += not (self._lines or self._breaks)
            self._cells.append(_Cell())
        else:
            self._begin_block(tag, attributes)

    def _begin_block(self, tag: str, attributes: Mapping[str, str]) -> None:
        self._due(tag)
        if tag in _LAYOUT:
            self._lay_out()
        self._items += tag in _ITEMS
        if tag in _PREFORMATTED or _KEEPING.search(attributes.get("style", "")):
            self._kept_at.append(len(self._open))
            self._skips_line_end = tag in _PREFORMATTED
        if tag in _HEADINGS:
            self._signs = "#" * _HEADINGS[tag] + " "
            self._in_top_heading = tag == "h1" and not "".join(self._top_heading).strip()

    def _lay_out(self) -> None:
        """Note that the open cells have what no row of data has."""
        for cell in self._cells:
            cell.is_layout = True

    def end(self, tag: str) -> None:
        while tag in self._open:
            self._close(self._open[-1])
            if self._open.pop() == tag:
                return

    def _close(self, tag: str) -> None:
        depth = len(self._open)
        if self._hidden_at:
            self._hidden_at = 0 if self._hidden_at == depth else self._hidden_at
            return
        if self._kept_at and self._kept_at[-1] == depth:
            self._kept_at.pop()
        if tag in ("td", "th") and self._cells:
            self._end_cell(self._cells.pop())
        elif tag != "br":
            self._items -= tag in _ITEMS
            self._due(tag)
            if tag in _HEADINGS:
                self._signs, self._in_top_heading = "", False

    def _end_cell(self, cell: _Cell) -> None:
        """End a data cell, which is part of the line of its row, or a layout cell, which has its own lines."""
        if cell.is_layout:
            self._lines = max(self._lines, 1)
        elif cell.first is not None:
            text = "".join(self._pieces[cell.first :])
            self._pieces[cell.first :] = [" ".join(text.split())]
            self._lines = self._breaks = 0

    def data(self, data: str) -> None:
        if self._hidden_at:
            return
        if self._open[-1:] == ["title"]:
            self._title.append(data)
            return
        if self._in_top_heading:
            self._top_heading.append(data)
        if self._kept_at:
            kept = data.replace("\r\n", "\n")
            kept = kept.removeprefix("\n") if self._skips_line_end else kept
            self._skips_line_end = False
            if "\n" in kept:
                self._lay_out()
            if kept:
                self._begins_kept = self._begins_kept or not self._pieces
                self._put(kept)
        else:
            words = " ".join(data.split())
            self._space = self._space or data[:1].isspace()
            if words:
                self._put(words)
                self._space = data[-1].isspace()

    def _due(self, tag: str) -> None:
        """Note the line ends between the text before or in an element and the next text."""
        if self._cells and self._cells[-1].first is None and tag not in _LAYOUT:
            return  # the text of a cell begins on the line of its row
        if tag in _APART:
            self._lines = max(self._lines, 1 if self._items and tag not in _HEADINGS else 2)
        elif tag in _LINES:
            self._lines = max(self._lines, 1)

    def _break(self) -> None:
        if self._kept_at:
            self._put("\n")
        elif not self._cells or self._cells[-1].first is not None:
            self._breaks += 1

    def _put(self, text: str) -> None:
        lines = min(2, max(self._lines, self._breaks))
        before = self._pieces[-1] if self._pieces else "\n\n"
        if lines:
            self._pieces.append("\n" * (lines - min(lines, len(before) - len(before.rstrip("\n")))))
        elif self._pieces:
            self._pieces.append("\t" * self._tabs or " " * self._space)
        self._lines = self._breaks = self._tabs = 0
        self._space = False
        for cell in reversed(self._cells):
            if cell.first is not None:
                break
            cell.first = len(self._pieces)
        self._pieces.append(self._signs + text)
        self._signs = ""

    def close(self) -> tuple[str, str]:
        """The title and the text."""
        text = without_unseen("".join(self._pieces))
        text = text.strip("\n").rstrip() if self._begins_kept else text.strip()
        titles = (" ".join(without_unseen("".join(words)).split()) for words in (self._title, self._top_heading))
        return next(filter(None, titles), ""), text


def _is_hidden(tag: str, attributes: Mapping[str, str]) -> bool:
    """True if an element is not shown, as Mozilla's Readability decides (isProbablyVisible).

    The content of a folded section (``hidden="until-found"``) is shown.
    """
    if not attributes:
        return tag == "dialog"  # it is closed
    return (
        (tag == "dialog" and "open" not in attributes)
        or attributes.get("hidden", "until-found").lower() != "until-found"
        or attributes.get("aria-hidden", "").lower() == "true"
        or _HIDING.search(attributes.get("style", "")) is not None
    )


def declared_charset(content: bytes) -> str:
    """The encoding that a page names: in its XML declaration or a ``meta`` element; empty if it names none."""
    match = _CHARSET.search(content[:_CHARSET_WITHIN])
    return (match[1] or match[2]).decode() if match else ""


def page_text(html: str) -> tuple[str, str]:
    """The title and the visible text of a page; headings become Markdown headings, blocks become lines.

    White space inside ``pre`` is kept. A row of a table is one line, with tabs between its cells. The title comes from
    the page, else from its first heading of the top level. Raises NestedError.
    """
    from lxml.etree import HTMLParser

    page = _PageText()
    parser = HTMLParser(target=page, huge_tree=True)
    for start in range(0, max(1, len(html)), _AT_ONCE):  # an error ends a piece, and not before
        parser.feed(html[start : start + _AT_ONCE])
    parser.close()
    return page.close()
