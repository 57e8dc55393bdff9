"""Sections of Markdown: what stands under a heading stays together as far as it fits."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, Literal

from ragtrial.components.chunkers.base import CHUNKERS, LengthFunction, SizedChunker
from ragtrial.components.chunkers.outline import Outline
from ragtrial.components.chunkers.piece_merging import Measure, Stretch, chunks_of
from ragtrial.dataset.markdown import Headings, block_tokens, line_starts
from ragtrial.records import Span

if TYPE_CHECKING:
    from markdown_it.token import Token

_BLOCK = 10  # deeper than any heading


@CHUNKERS.register("markdown")
class MarkdownChunker(SizedChunker):
    """Sections by their headings; one too large is cut at its subsections, then at its blocks.

    Blocks are paragraphs, lists and their items, quotes, code, tables and their rows. Code and a table's row are cut
    only where one alone is too large, and then, as any block, at lines, sentences and words. A heading goes with what
    it heads, unless that fits only without it. What a heading is, ``Headings`` says. Text that is no Markdown is cut
    at its paragraphs.
    """

    packages: ClassVar[Mapping[str, str]] = {"markdown-it-py": ""}
    hashed_packages: ClassVar[tuple[str, ...]] = ("markdown-it-py",)
    revision = 2

    kind: Literal["markdown"] = "markdown"
    """By headings: sections that fit are chunks; larger ones are cut at paragraphs, list items, code and table rows."""

    merge: bool = True
    """Whether neighbouring sections under one heading make one chunk while they fit; false: each is one of its own."""

    def split(self, text: str, ruler: LengthFunction) -> list[Span]:
        tokens = block_tokens(text)
        headings = Headings(text, tokens)
        outline = Outline(text, _depths(text, headings, tokens))
        measure = Measure(ruler, *self.window(ruler))
        parts = [(0, len(text))] if self.merge else _sections(text, headings)
        return chunks_of(text, [stretch for part in parts for stretch in outline.cut(*part, measure)])


def _depths(text: str, headings: Headings, tokens: list[Token]) -> dict[int, int]:
    """Where each section and each block begins, and how deep it is."""
    depths = {heading.start: heading.level for heading in headings.all}
    starts = line_starts(text)
    for token in tokens:
        if token.map and token.nesting >= 0 and token.type != "inline":
            place = starts[token.map[0]]
            depths[place] = min(_BLOCK + token.level, depths.get(place, _BLOCK + token.level))
    return depths


def _sections(text: str, headings: Headings) -> list[Stretch]:
    """What stands under each heading, to the next; a heading with nothing under it but a lower one goes with that."""
    starts = [0]
    for heading, following in pairwise((None, *headings.all)):
        heads = heading and following and heading.level < following.level
        if following and not (heads and heading and not text[heading.end : following.start].strip()):
            starts.append(following.start)
    return list(pairwise([*starts, len(text)]))
