"""The structure of a Markdown text: front matter, title, the headings in force at a character, and signs."""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from ragtrial.records import Span

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_LINE_END = re.compile(r"\r\n|\r|\n")
_YAML_FRONT = re.compile(
    r"---[ \t]*\n((?=(?:[ \t]*#.*\n)*[\w\"'-]+[ \t]*:|---)(?:.*\n)*?)(?:---|\.\.\.)[ \t]*(?:\n|\Z)"
)
_TOML_FRONT = re.compile(r"\+\+\+[ \t]*\n((?:.*\n)*?)\+\+\+[ \t]*(?:\n|\Z)")
_MAY_HAVE_HEADINGS = re.compile(r"^ {0,3}(?:#|[=-]+[ \t]*$)", re.MULTILINE)
_MARK = re.compile(r"[\\`*_\[\]<>!&]")
_SIGNS = re.compile(
    r"!?\[(?=[^\[\]\n]*\][\[(])"  # the beginning of a link or a picture
    r"|\](?:\([^()\n]*\)|\[[^\[\]\n]*\])"  # its end, with the target
    r"|[*_`~]"
    r"|^[ \t]*(?:#{1,6}|>|[-+*]|\d{1,9}[.)])[ \t]+"  # of a heading, a quotation, an item of a list
    r"|\\(?=[!-/:-@\[-`{-~])",  # before an escaped sign
    re.MULTILINE,
)
"""The signs that a rendered page does not show, also inside words, such as the underscores of a name."""
_SHOWN_AS = {"softbreak": " ", "hardbreak": " ", "html_inline": ""}


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading: its level (1 to 6), its words without Markdown's marks, and the characters of its lines."""

    level: int
    text: str
    start: int
    end: int


class Headings:
    """The headings of a Markdown text, ATX (``# One``) and setext (underlined), as CommonMark defines them.

    Headings in code, HTML, front matter, quotes and lists do not count. ``all`` is in the order of the text. ``tokens``
    is the result of ``block_tokens``, if it is known.
    """

    def __init__(self, text: str, tokens: list[Token] | None = None) -> None:
        if tokens is None:
            tokens = block_tokens(text) if _MAY_HAVE_HEADINGS.search(text) else []
        self.all: tuple[Heading, ...] = tuple(_headings(tokens, line_starts(text)))
        self._starts = [heading.start for heading in self.all]
        self._in_force: list[tuple[Heading, ...]] = [()]
        for heading in self.all:
            above = tuple(outer for outer in self._in_force[-1] if outer.level < heading.level)
            self._in_force.append((*above, heading))

    def at(self, position: int) -> tuple[Heading, ...]:
        """The headings in force at the character ``position``, outermost first; a heading is in force on itself."""
        return self._in_force[bisect_right(self._starts, position)]

    def path(self, position: int) -> tuple[str, ...]:
        """The words of ``at(position)``, those without any left out."""
        return tuple(heading.text for heading in self.at(position) if heading.text)

    def around(self, span: Span) -> list[tuple[int, str]]:
        """The nearest heading above ``span`` and those inside it: where each begins, and its words."""
        first = max(0, bisect_right(self._starts, span.start) - 1)
        headings = self.all[first : bisect_left(self._starts, span.end)]
        return [(heading.start, heading.text) for heading in headings if heading.text]


def titled(text: str) -> tuple[str, str]:
    """The title of a Markdown text, and the text without its front matter.

    The title comes from the front matter (YAML between ``---``, TOML between ``+++``), else from the first heading of
    the top level; it may be empty. Front matter that is not a mapping stays in the text.
    """
    front, title = _front_matter(text)
    body = text[front:].lstrip("\n") if front else text
    top = (heading.text for heading in Headings(body).all if heading.level == 1)
    return title or next(filter(None, top), ""), body


def _front_matter(text: str) -> tuple[int, str]:
    """The end of the front matter of a text, 0 without one, and the title in it."""
    for pattern, title_of in ((_YAML_FRONT, _yaml_title), (_TOML_FRONT, _toml_title)):
        front = pattern.match(text)
        title = title_of(front[1]) if front else None
        if front and title is not None:
            return front.end(), " ".join(title.split())
    return 0, ""


def _yaml_title(source: str) -> str | None:
    """The title in a mapping of YAML, empty if it has none; None if the YAML is not a mapping."""
    import yaml

    try:
        node = yaml.compose(source, yaml.SafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    if not isinstance(node, yaml.MappingNode):
        return "" if node is None else None
    for key, value in node.value:
        is_title = isinstance(key, yaml.ScalarNode) and key.value.lower() == "title"
        if is_title and isinstance(value, yaml.ScalarNode) and value.tag != "tag:yaml.org,2002:null":
            return str(value.value)
    return ""


def _toml_title(source: str) -> str | None:
    """The title in TOML, empty if it has none; None if the text is not TOML."""
    try:
        title = tomllib.loads(source).get("title")
    except (tomllib.TOMLDecodeError, RecursionError):
        return None
    return title if isinstance(title, str) else ""


def block_tokens(text: str) -> list[Token]:
    """The block structure of ``text`` as markdown-it gives it; ``token.map`` has lines as ``line_starts`` counts."""
    front = _YAML_FRONT.match(text) or _TOML_FRONT.match(text)
    if front:  # Markdown would read a rule and a heading: blanked, its lines still count
        lines = "\n" * front.group().count("\n")
        text = lines + text[front.end() :]
    return _parser().parse(text)


def line_starts(text: str) -> list[int]:
    """The character at which each line starts, and at the end the length of ``text``."""
    return [0, *(found.end() for found in _LINE_END.finditer(text)), len(text)]


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable("table").disable("inline")  # inline content is parsed where needed


@cache
def _inline_parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark")


def _headings(tokens: list[Token], starts: list[int]) -> Iterator[Heading]:
    for opened, inline in pairwise(tokens):
        if opened.type == "heading_open" and opened.level == 0 and opened.map:
            first, after = opened.map
            end = starts[min(after, len(starts) - 1)]
            yield Heading(int(opened.tag[1:]), _words(inline.content), starts[first], end)


def _words(content: str) -> str:
    """The words of a heading as a reader sees them, on one line."""
    if not _MARK.search(content):
        return " ".join(content.split())
    (inline,) = _inline_parser().parseInline(content)
    shown = [_SHOWN_AS.get(child.type, child.content) for child in inline.children or ()]
    return " ".join("".join(shown).split())


def without_signs(text: str) -> str:
    """``text`` without the signs of Markdown that a rendered page does not show: emphasis, code, links, lists."""
    return _SIGNS.sub("", text)


def kept_places(text: str) -> list[int]:
    """The places in ``text`` of the characters of ``without_signs(text)``."""
    places, start = list[int](), 0
    for sign in _SIGNS.finditer(text):
        places.extend(range(start, sign.start()))
        start = sign.end()
    places.extend(range(start, len(text)))
    return places
