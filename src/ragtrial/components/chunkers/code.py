"""Source code: functions, classes and statements stay whole as far as they fit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from ragtrial.cache.fingerprints import Digest, file_digest
from ragtrial.components.chunkers.base import CHUNKERS, LengthFunction, SizedChunker
from ragtrial.components.chunkers.outline import Outline
from ragtrial.components.chunkers.piece_merging import Measure, chunks_of
from ragtrial.errors import ModelNotFoundError
from ragtrial.records import Span

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

Language = Literal[
    "bash", "c", "cpp", "csharp", "go", "java", "javascript", "php", "python", "ruby", "rust", "tsx", "typescript"
]

_GRAMMARS = {  # the package, and what of it gives the grammar, where that is not the language's name and `language`
    "csharp": ("tree-sitter-c-sharp", "language"),
    "php": ("tree-sitter-php", "language_php"),
    "tsx": ("tree-sitter-typescript", "language_tsx"),
    "typescript": ("tree-sitter-typescript", "language_typescript"),
}
_DEEPEST = 60
"""Depths beyond this are one: code nested deeper is generated, and is cut at its lines."""

_READ_BYTES = 65_536
_BYTES_PER_STEP = 10
"""The parser tells of every hundredth step or so; real code has fewer than one for 50 bytes. Where more are needed, the
text is not of the language, and the search for what it might mean takes time that grows with the square of its length.
"""

_LINE_BEGINS = re.compile(rb"^[^\S\n]*(?=\S)", re.MULTILINE)


@CHUNKERS.register("code")
class CodeChunker(SizedChunker):
    """At the lines where definitions and statements begin, the outermost first, as a parser of the language sees them.

    A class too large is cut at its methods, a method at its statements, and a statement at the lines inside it. A
    comment or an attribute goes with what follows it on the next line, and the first line of a definition with its
    body. Code with mistakes is cut where the parser still understands it, and text that is no code as ``recursive``
    cuts. Needs the extra ``code``.
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

    def fingerprint_parts(self, digest: Digest = file_digest) -> dict[str, Any]:
        self.check()
        return super().fingerprint_parts(digest)

    def split(self, text: str, ruler: LengthFunction) -> list[Span]:
        source = text.encode()
        root = self._parsed(source)
        depths = _depths(root, source) if root else {}
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
            return (
                self._parser()
                .parse(
                    lambda start, _: source[start : start + _READ_BYTES],
                    progress_callback=lambda *_: next(steps) > most,
                )
                .root_node
            )
        except ValueError:  # it was stopped
            return None

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


def _depths(root: Node, source: bytes) -> dict[int, int]:
    """The bytes where a part begins a line, and the depth of the outermost part that begins there."""
    begins = {found.end() for found in _LINE_BEGINS.finditer(source)}
    depths: dict[int, int] = {}
    attached: set[int] = set()
    for node, depth, before in _nodes(root):
        place = node.start_byte
        if not node.is_named or place not in begins or place in depths:
            continue
        depths[place] = min(depth, _DEEPEST)
        if before is not None and _belongs_to_next(before) and source.count(b"\n", before.end_byte - 1, place) < 2:
            attached.add(place)
    return {place: depth for place, depth in depths.items() if place not in attached}


def _belongs_to_next(node: Node) -> bool:
    return "comment" in node.type or "attribute" in node.type


def _nodes(root: Node) -> Iterator[tuple[Node, int, Node | None]]:
    """Every node below ``root`` with its depth and the node before it under the same one: outer ones first."""
    waiting = [(root, 0)]
    while waiting:
        node, depth = waiting.pop()
        before = None
        for child in node.children:
            yield child, depth, before
            before = child
        waiting += [(child, depth + 1) for child in reversed(node.children) if child.child_count]
