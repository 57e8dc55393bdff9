"""The structure of a Markdown text: its front matter, its title, and which headings are in force at a character."""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_LINE_END = re.compile(r"\r\n|\r|\n")
_YAML_FRONT = re.compile(
    r"---[ \t]*\n((?=(?:[ \t]*#.*\n)*[\w\"'-]+[ \t]*:|---)(?:.*\n)*?)(?:---|\.\.\.)[ \t]*(?:\n|\Z)"
)
_TOML_FRONT = re.compile(r"\+\+\+[ \t]*\n((?:.*\n)*?)\+\+\+[ \t]*(?:\n|\Z)")
_MARK = re.compile(r"[\\`*_\[\]<>!&]")
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

    Code, HTML and front matter have none; nor has what is inside a quote or a list, whose headings structure
    that alone. ``all`` is in the order of the text. A text that is no Markdown mostly has none. ``tokens`` are those
    of ``block_tokens``, where they are there already.
    """

    def __init__(self, text: str, tokens: list[Token] | None = None) -> None:
        found = block_tokens(text) if tokens is None else tokens
        self.all: tuple[Heading, ...] = tuple(_headings(found, line_starts(text)))
        self._starts = [heading.start for heading in self.all]
        self._in_force: list[tuple[Heading, ...]] = [()]
        for heading in self.all:
            above = tuple(one for one in self._in_force[-1] if one.level < heading.level)
            self._in_force.append((*above, heading))

    def at(self, position: int) -> tuple[Heading, ...]:
        """The headings in force at the character ``position``, outermost first; a heading is in force on itself."""
        return self._in_force[bisect_right(self._starts, position)]

    def path(self, position: int) -> tuple[str, ...]:
        """The words of ``at(position)``, those without any left out."""
        return tuple(heading.text for heading in self.at(position) if heading.text)


def titled(text: str) -> tuple[str, str]:
    """The title of a Markdown text, and the text without its front matter, which is not shown.

    The title is that of the front matter (YAML between ``---``, TOML between ``+++``), else the first heading of the
    top level; empty without one. What looks like front matter and is no mapping stays in the text.
    """
    front, title = _front_matter(text)
    body = text[front:].lstrip("\n") if front else text
    return title or next((one.text for one in Headings(body).all if one.level == 1 and one.text), ""), body


def _front_matter(text: str) -> tuple[int, str]:
    """Where the front matter of a text ends, 0 without one, and the title in it."""
    for pattern, title_of in ((_YAML_FRONT, _yaml_title), (_TOML_FRONT, _toml_title)):
        front = pattern.match(text)
        title = title_of(front[1]) if front else None
        if front and title is not None:
            return front.end(), " ".join(title.split())
    return 0, ""


def _yaml_title(source: str) -> str | None:
    """The title in a mapping of YAML, empty if it has none; None for what is no mapping."""
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
    """The title in TOML, empty if it has none; None for what is no TOML."""
    try:
        title = tomllib.loads(source).get("title")
    except (tomllib.TOMLDecodeError, RecursionError):
        return None
    return title if isinstance(title, str) else ""


def block_tokens(text: str) -> list[Token]:
    """The block structure of ``text`` as markdown-it gives it; ``token.map`` has lines as ``line_starts`` counts."""
    front = _YAML_FRONT.match(text) or _TOML_FRONT.match(text)
    if front:  # which Markdown would read as a rule and a heading: blanked, its lines still count
        lines = "\n" * front.group().count("\n")
        text = lines + text[front.end() :]
    return _parser().parse(text)


def line_starts(text: str) -> list[int]:
    """The character at which each line starts, and at the end the length of ``text``."""
    return [0, *(found.end() for found in _LINE_END.finditer(text)), len(text)]


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable("table").disable("inline")  # what is inside blocks is read where needed


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
