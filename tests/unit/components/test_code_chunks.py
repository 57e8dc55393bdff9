"""Source code is cut where definitions and statements begin, the outermost first."""

import ast
import sys
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, strategies as st

from expectations import message_of
from ragtrial.components.chunkers.base import CHUNKERS, Ruler
from ragtrial.components.chunkers.structured import CodeChunker, Language
from ragtrial.errors import ModelNotFoundError

PYTHON = '''\
"""Täsks."""
import os

# How many.
MOST = 3

class Queue:
    """Waits."""

    # Puts one.
    @property
    def put(self):
        if self.full:
            return None
        return self.items

    def get(self):
        return self.items.pop()

def main():
    print("東京", Queue())
'''

C = """\
#include <x.h>

/* Adds. */
int add(int a, int b) {
    if (a > b) {
        return a + b;
    }
    return b;
}

struct point {
    int x;
    int y;
};
"""


def chunks(text: str, language: str, size: int) -> list[str]:
    made = CodeChunker.model_validate({"language": language, "size": size, "overlap": 0, "unit": "characters"})
    return [text[span.start : span.end] for span in made.split(text, Ruler(range(len(text))))]


def test_code_is_cut_at_functions_methods_and_statements_with_their_comments() -> None:
    assert chunks(PYTHON, "python", 140) == [
        PYTHON[: PYTHON.index("\n\nclass")],
        PYTHON[PYTHON.index("class") : PYTHON.index("\n\n    # Puts")],
        PYTHON[PYTHON.index("# Puts") : PYTHON.index("\n\n    def get")],
        PYTHON[PYTHON.index("def get") : PYTHON.index("\n\ndef main")],
        PYTHON[PYTHON.index("def main") :].strip(),
    ]
    text = 'def f():\n    one = "some text"\n    two = "some text"\n    three = "some text"\n'
    assert chunks(text, "python", 40) == ['def f():\n    one = "some text"', 'two = "some text"', 'three = "some text"']
    text = "x = " + "[\n" * 3000 + "1" + "]\n" * 3000
    assert all(len(piece) <= 100 for piece in chunks(text, "python", 100))
    assert chunks(C, "c", 60) == [
        "#include <x.h>",
        "/* Adds. */\nint add(int a, int b) {",
        "if (a > b) {\n        return a + b;\n    }\n    return b;\n}",
        "struct point {\n    int x;\n    int y;\n};",
    ]


def test_lost_parsers_cut_text_and_grammars_are_in_the_fingerprint() -> None:
    """Such text takes the parser time that grows with the square of its length: 32 kB of this, more than a minute."""
    text = "<!-- " * 6_000
    recursive = CHUNKERS["recursive"].model_validate({"unit": "characters", "size": 100, "overlap": 0})
    pieces = [text[span.start : span.end] for span in recursive.split(text, Ruler(range(len(text))))]
    assert chunks(text, "python", 100) == pieces
    versions = CodeChunker(language="tsx").versions()
    assert set(versions) == {"tree-sitter", "tree-sitter-typescript"}


@pytest.mark.parametrize("language", get_args(Language))
@given(text=st.text("{}()[]<>;:,'\"#/* \n\tabé=1$?", max_size=120), size=st.integers(4, 60))
def test_every_language_cuts_anything_without_a_loss(language: str, text: str, size: int) -> None:
    made = chunks(text, language, size)
    assert "".join("".join(made).split()) == "".join(text.split())
    assert all(len(piece) <= size for piece in made)


SOURCES = sorted((Path(__file__).parents[3] / "src" / "ragtrial").rglob("*.py"))


@pytest.mark.parametrize("path", SOURCES[::6], ids=lambda path: path.name)
def test_functions_of_real_code_that_fit_are_never_cut(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    size = 1200
    spans = CodeChunker(language="python", size=size, overlap=0, unit="characters").split(text, Ruler(range(len(text))))
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.end_lineno:
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            start, end = starts[first - 1], starts[node.end_lineno]
            start += len(text[start:end]) - len(text[start:end].lstrip())
            end = start + len(text[start:end].rstrip())
            if end - start <= size - 400:  # a comment before it counts, too
                assert any(span.start <= start and end <= span.end for span in spans), text[start : start + 60]


def test_without_the_extra_it_is_said_which_one_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tree_sitter_rust", None)
    assert message_of(ModelNotFoundError, CodeChunker(language="rust").check) == (
        "the chunker `code` for rust needs tree_sitter_rust, which is not installed: pip install 'ragtrial[code]'."
    )
    monkeypatch.setitem(sys.modules, "tree_sitter", None)
    assert message_of(ModelNotFoundError, CodeChunker(language="python").check) == (
        "the chunker `code` for python needs tree_sitter, which is not installed: pip install 'ragtrial[code]'."
    )
