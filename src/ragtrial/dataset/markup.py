"""The text of a web page, by the standard library's parser."""

from __future__ import annotations

import re
from html.parser import HTMLParser

_UNSEEN = {"script", "style", "template", "noscript", "svg"}
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_BLOCKS = _HEADINGS.keys() | {
    *("address", "article", "aside", "blockquote", "br", "caption", "dd", "details", "div", "dl", "dt", "fieldset"),
    *("figcaption", "figure", "footer", "legend", "option", "summary"),
    *("form", "header", "hr", "li", "main", "nav", "ol", "p", "pre", "section", "table", "td", "th", "tr", "ul"),
}


class _PageParser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.title: list[str] = []
        self.text: list[str] = []
        self._unseen = 0
        self._in_title = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "title" and not self._unseen:  # a drawing has a title, too
            self._in_title = True
        elif tag in _UNSEEN:
            self._unseen += 1
        elif tag in _BLOCKS:
            self.text.append("\n" * (2 if tag in _HEADINGS or tag == "p" else 1))
            if tag in _HEADINGS:
                self.text.append("#" * _HEADINGS[tag] + " ")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _BLOCKS:  # `<br/>` is one line end, as `<br>` is
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self._in_title = False
        elif tag in _UNSEEN:
            self._unseen = max(0, self._unseen - 1)
        elif tag in _BLOCKS:
            self.text.append("\n" * (2 if tag in _HEADINGS or tag == "p" else 1))

    def parse_marked_section(self, i: int, report: bool = True) -> int:  # noqa: FBT001, FBT002 - the parser's signature
        # The parser raises AssertionError on `<![word[`; browsers take it for a comment.
        return self.parse_bogus_comment(i)

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title.append(data)
        elif not self._unseen:
            self.text.append(re.sub(r"\s+", " ", data))


def page_text(html: str) -> tuple[str, str]:
    """The title and the visible text of a page; headings become Markdown headings, blocks become lines."""
    page = _PageParser()
    page.feed(html)
    page.close()
    lines = [re.sub(r" {2,}", " ", line).strip() for line in "".join(page.text).split("\n")]
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
    return " ".join("".join(page.title).split()), text
