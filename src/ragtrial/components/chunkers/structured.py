"""Chunkers that follow the structure of a text: sections of Markdown, definitions of source code."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from importlib import import_module
from itertools import count, pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from ragtrial.cache.fingerprints import Digest, file_digest
from ragtrial.components.chunkers.base import CHUNKERS, Measure, Ruler, SizedChunker, Stretch, chunks_of, trimmed
from ragtrial.components.chunkers.plain import SEPARATORS, RecursiveCut
from ragtrial.dataset.markdown import Headings, block_tokens, line_starts
from ragtrial.errors import ModelNotFoundError
from ragtrial.records import Span

if TYPE_CHECKING:
    from markdown_it.token import Token
    from tree_sitter import Node, Parser


class Outline:
    """The places where parts of ``text`` begin, each with its depth: 0 for the coarsest parts.

    A part reaches to the next part of the same or a lesser depth; the text before a deeper part is that part's header.
    """

    def __init__(self, text: str, depths: Mapping[int, int]) -> None:
        self.text = text
        self._places = sorted(depths)
        self._depths = [depths[place] for place in self._places]

    def cut(self, start: int, end: int, measure: Measure) -> list[Stretch]:
        """``text[start:end]`` in stretches that fit.

        Neighbouring parts of one depth are joined while they fit; a part that does not fit alone is cut into its own
        parts, one without any as ``recursive`` cuts. A header that would be alone is joined to its part if that must be
        cut anyway or fits with it.
        """
        if self._fits(measure, start, end):
            return [(start, end)]
        return self._cut(start, end, start, measure)

    def _cut(self, start: int, end: int, lead: int, measure: Measure) -> list[Stretch]:
        """The stretches of ``text[start:end]``, which does not fit; headers from ``lead`` on go with the first."""
        parts = self._parts(start, end)
        if len(parts) == 1:
            return self._within(start, end, lead, measure)
        stretches: list[Stretch] = []
        fitting: list[Stretch] = []
        for part_start, part_end in parts:
            if self._fits(measure, part_start, part_end):
                if not fitting and lead < part_start:
                    fitting = [(lead, part_start)]
                fitting.append((part_start, part_end))
                lead = part_end
                continue
            are_headers = fitting and all(self._is_header(*part) for part in fitting)
            if are_headers and self._fits(measure, fitting[0][0], part_start):
                lead = fitting[0][0]
            else:
                stretches += measure.merged(fitting)
            fitting = []
            stretches += self._cut(part_start, part_end, lead, measure)
            lead = part_end
        return stretches + measure.merged(fitting)

    def _fits(self, measure: Measure, start: int, end: int) -> bool:
        """True if a stretch is short enough, without the white space at its ends, which will be trimmed."""
        span = trimmed(self.text, start, end)
        return span is None or measure.ruler.length(span.start, span.end) <= measure.budget

    def _within(self, start: int, end: int, lead: int, measure: Measure) -> list[Stretch]:
        """The stretches of a part without parts; a header goes with the first of them where there is room."""
        cut, first = RecursiveCut(self.text, measure), 0
        if lead < start:  # what parts the header from it is not looked for
            first = cut.coarsest(start, start + len(self.text[start:end].rstrip()), SEPARATORS)
        return cut.in_place(lead, end, SEPARATORS[first:])

    def _parts(self, start: int, end: int) -> list[Stretch]:
        """The coarsest parts of ``text[start:end]``, end to end; the whole where nothing begins inside it."""
        first, last = bisect_right(self._places, start), bisect_left(self._places, end)
        depths = self._depths[first:last]
        coarsest = min(depths, default=0)
        places = [place for place, depth in zip(self._places[first:last], depths, strict=True) if depth == coarsest]
        return list(pairwise([start, *places, end]))

    def _is_header(self, start: int, end: int) -> bool:
        """True if each place of the stretch is followed by a deeper one, and the last is at its end."""
        first, after = bisect_left(self._places, start), bisect_left(self._places, end)
        own = self._depths[first : after + 1]
        begins = first < after < len(self._places) and self._places[first] == start
        return begins and all(one < other for one, other in pairwise(own))


_BLOCK = 10  # deeper than any heading


@CHUNKERS.register("markdown")
class MarkdownChunker(SizedChunker):
    """Sections by their headings; one too large is cut at its subsections, then at its blocks.

    Blocks are paragraphs, lists and their items, quotes, code, tables and their rows. Code and a table's row are cut
    only where one alone is too large, and then, as any block, at lines, sentences and words. A heading stays with its
    section, unless the section fits only without it. ``Headings`` defines headings. Text that is no Markdown is cut at
    its paragraphs.
    """

    packages: ClassVar[Mapping[str, str]] = {"markdown-it-py": ""}
    hashed_packages: ClassVar[tuple[str, ...]] = ("markdown-it-py",)
    revision = 3

    kind: Literal["markdown"] = "markdown"
    """By headings: sections that fit are chunks; larger sections are cut at paragraphs, list items, code and table
    rows."""

    merge: bool = True
    """If true, neighbouring sections under one heading make one chunk while they fit; if false, each section is a
    chunk."""

    def split(self, text: str, ruler: Ruler) -> list[Span]:
        tokens = block_tokens(text)
        headings = Headings(text, tokens)
        outline = Outline(text, _block_depths(text, headings, tokens))
        measure = Measure(ruler, *self.window(ruler))
        parts = [(0, len(text))] if self.merge else _sections(text, headings)
        return chunks_of(text, [stretch for part in parts for stretch in outline.cut(*part, measure)])


def _block_depths(text: str, headings: Headings, tokens: list[Token]) -> dict[int, int]:
    """Where each section and each block begins, and how deep it is."""
    depths = {heading.start: heading.level for heading in headings.all}
    starts = line_starts(text)
    for token in tokens:  # the first row of a table's body heads no other row
        if token.map and token.nesting >= 0 and token.type not in ("inline", "tbody_open"):
            place = starts[token.map[0]]
            depths[place] = min(_BLOCK + token.level, depths.get(place, _BLOCK + token.level))
    return depths


def _sections(text: str, headings: Headings) -> list[Stretch]:
    """The text under each heading, to the next heading; a heading directly followed by a lower heading is part of that
    section.
    """
    starts = [0]
    for heading, following in pairwise((None, *headings.all)):
        heads = heading and following and heading.level < following.level
        if following and not (heads and heading and not text[heading.end : following.start].strip()):
            starts.append(following.start)
    return list(pairwise([*starts, len(text)]))


Language = Literal[
    "bash", "c", "cpp", "csharp", "go", "java", "javascript", "php", "python", "ruby", "rust", "tsx", "typescript"
]

_GRAMMARS = {  # the package and its function, if they are not named after the language and `language`
    "csharp": ("tree-sitter-c-sharp", "language"),
    "php": ("tree-sitter-php", "language_php"),
    "tsx": ("tree-sitter-typescript", "language_tsx"),
    "typescript": ("tree-sitter-typescript", "language_typescript"),
}
_DEEPEST = 60
"""Depths beyond this are one: code nested deeper is generated, and is cut at its lines."""

_READ_BYTES = 65_536
_BYTES_PER_STEP = 10
"""The parser calls back about every hundredth step; real code has fewer than one callback for 50 bytes. A text with
more is not in the language, and parsing it takes time that grows with the square of its length."""

_LINE_BEGINS = re.compile(rb"^[^\S\n]*(?=\S)", re.MULTILINE)


@CHUNKERS.register("code")
class CodeChunker(SizedChunker):
    """At the lines where definitions and statements begin, the outermost first, as a parser of the language sees them.

    A class too large is cut at its methods, a method at its statements, and a statement at the lines inside it. A
    comment or an attribute stays with the next line, and the first line of a definition with its body. Code with
    mistakes is cut where the parser still understands it, and text that is no code as ``recursive`` cuts. Needs the
    extra ``code``.
    """

    revision: ClassVar[int] = 3

    kind: Literal["code"] = "code"
    """Source code at definitions and statements, the outermost first. Needs the extra `code`."""

    language: Language
    """The language of all documents."""

    hashed_packages: ClassVar[tuple[str, ...]] = ("tree-sitter", "tree-sitter-*")

    @property
    def packages(self) -> Mapping[str, str]:  # type: ignore[override]  # which depends on the language
        return {"tree-sitter": "code", _grammar(self.language)[0]: "code"}

    def check(self) -> None:
        self._parser()

    def hashed_parts(self, digest: Digest = file_digest) -> dict[str, Any]:
        self.check()
        return super().hashed_parts(digest)

    def split(self, text: str, ruler: Ruler) -> list[Span]:
        source = text.encode()
        root = self._parsed(source)
        depths = _node_depths(root, source) if root else {}
        if len(source) > len(text):
            begins_character = (np.frombuffer(source, dtype=np.uint8) & 0xC0) != 0x80
            character = np.cumsum(begins_character) - 1
            depths = {int(character[place]): depth for place, depth in depths.items()}
        stretches = Outline(text, depths).cut(0, len(text), Measure(ruler, *self.window(ruler)))
        return chunks_of(text, stretches)

    def _parsed(self, source: bytes) -> Node | None:
        """The root of the syntax tree, or None where the parser would search too long: see ``_BYTES_PER_STEP``."""
        most, steps = 1_000 + len(source) // _BYTES_PER_STEP, count(1)
        try:
            tree = self._parser().parse(
                lambda start, _: source[start : start + _READ_BYTES], progress_callback=lambda *_: next(steps) > most
            )
        except ValueError:  # it was stopped
            return None
        return tree.root_node

    def _parser(self) -> Parser:
        package, function = _grammar(self.language)
        try:
            from tree_sitter import Language, Parser

            grammar = import_module(package.replace("-", "_"))
        except ImportError as error:
            raise ModelNotFoundError(
                f"the chunker `code` for {self.language} needs {error.name}, which is not installed: "
                "pip install 'ragtrial[code]'."
            ) from None
        return Parser(Language(getattr(grammar, function)()))


def _grammar(language: str) -> tuple[str, str]:
    return _GRAMMARS.get(language, (f"tree-sitter-{language}", "language"))


def _node_depths(root: Node, source: bytes) -> dict[int, int]:
    """The bytes where a part begins a line, and the depth of the outermost part that begins there."""
    begins = {found.end() for found in _LINE_BEGINS.finditer(source)}
    depths: dict[int, int] = {}
    attached: set[int] = set()
    for node, depth, before in _nodes(root):
        place = node.start_byte
        if not node.is_named or place not in begins or place in depths:
            continue
        depths[place] = min(depth, _DEEPEST)
        belongs_to_next = before is not None and ("comment" in before.type or "attribute" in before.type)
        if before and belongs_to_next and source.count(b"\n", before.end_byte - 1, place) < 2:
            attached.add(place)
    return {place: depth for place, depth in depths.items() if place not in attached}


def _nodes(root: Node) -> Iterator[tuple[Node, int, Node | None]]:
    """Every node below ``root`` with its depth and the preceding sibling, outer nodes first."""
    waiting = [(root, 0)]
    while waiting:
        node, depth = waiting.pop()
        before = None
        for child in node.children:
            yield child, depth, before
            before = child
        waiting += [(child, depth + 1) for child in reversed(node.children) if child.child_count]
