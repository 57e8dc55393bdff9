"""The text of a web page, by libxml2's parser, which is linear in the page's length and the same on every Python."""

from __future__ import annotations

import re

_UNSEEN = {"script", "style", "template", "noscript", "svg"}
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_BLOCKS = _HEADINGS.keys() | {
    *("address", "article", "aside", "blockquote", "br", "caption", "dd", "details", "div", "dl", "dt", "fieldset"),
    *("figcaption", "figure", "footer", "legend", "option", "summary"),
    *("form", "header", "hr", "li", "main", "nav", "ol", "p", "pre", "section", "table", "td", "th", "tr", "ul"),
}
_WITHOUT_END = {"br", "hr"}

MOST_NESTED = 2_000
"""Elements inside one another; browsers stop at 512. The parser looks through all that are open for each end tag."""

_AT_ONCE = 2**15
"""Characters that the parser is given at once."""


class NestedError(ValueError):
    """A page has more elements inside one another than are read."""


class _PageText:
    """What a parser tells of a page: its visible text, block by block."""

    def __init__(self) -> None:
        self.title: list[str] = []
        self.text: list[str] = []
        self._unseen = 0
        self._in_title = False
        self._open = 0

    def start(self, tag: str, attributes: object) -> None:
        self._open += 1
        if self._open > MOST_NESTED:
            raise NestedError(f"has more than {MOST_NESTED:,} elements inside one another. Split it, or leave it out.")
        if tag == "title" and not self._unseen:  # a drawing has a title, too
            self._in_title = True
        elif tag in _UNSEEN:
            self._unseen += 1
        elif tag in _BLOCKS:
            self.text.append("\n" * (2 if tag in _HEADINGS or tag == "p" else 1))
            if tag in _HEADINGS:
                self.text.append("#" * _HEADINGS[tag] + " ")

    def end(self, tag: str) -> None:
        self._open -= 1
        if tag == "title":
            self._in_title = False
        elif tag in _UNSEEN:
            self._unseen = max(0, self._unseen - 1)
        elif tag in _BLOCKS - _WITHOUT_END:
            self.text.append("\n" * (2 if tag in _HEADINGS or tag == "p" else 1))

    def data(self, data: str) -> None:
        if self._in_title:
            self.title.append(data)
        elif not self._unseen:
            self.text.append(re.sub(r"\s+", " ", data))

    def close(self) -> tuple[str, str]:
        """The title and the text."""
        lines = [re.sub(r" {2,}", " ", line).strip() for line in "".join(self.text).split("\n")]
        text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
        return " ".join("".join(self.title).split()), text


def page_text(html: str) -> tuple[str, str]:
    """The title and the visible text of a page; headings become Markdown headings, blocks become lines.

    Raises NestedError.
    """
    from lxml.etree import HTMLParser

    page = _PageText()
    parser = HTMLParser(target=page, huge_tree=True)
    for start in range(0, max(1, len(html)), _AT_ONCE):  # an error ends a piece, and not before
        parser.feed(html[start : start + _AT_ONCE])
    parser.close()
    return page.close()
