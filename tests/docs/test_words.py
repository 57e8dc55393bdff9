"""Everything that is read is in the field's words: pages, help, messages, the HTML report, docstrings and comments."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest

from command_tree import COMMANDS
from plain_english import sentences, translated
from ragtrial.cli.group import group

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "ragtrial"

WORDS = {
    r"(is|are|was|were|be|been) told": "is reported, shows, says",
    r"(told|tell|tells) apart": "distinguish",
    r"(cannot|not to) be told from": "is not distinguishable from",
    r"(stand|stands|stood) (in|at|beside|behind|below|there|twice)\b": "is in, is at, occurs twice",
    r"in place of": "instead of",
    r"(hang|hangs|hung) on\b": "depends on",
    r"hold together|such that all of them hold": "simultaneous",
    r"may be expected to": "expect about",
    r"(because of )?what was written": "invalid config",
    r"cautions?\b": "warning",
    r"ingredients?\b|run depth of demands": "inputs",
    r"is right[;.]": "is valid",
    r"it must be given": "missing required",
    r"(?<!there )is no (report|metric|config|key|setting|JSON|file|option|form|worklist)\b": "is not a",
    r"4 times of 5": "80% power",
    r"nothing was tested": "too little data to compare",
    r"in each other's way": "push each other down",
    r"into the labels\.": "add to your labels",
    r"what finished stages take up": "show cached results",
    r"that all intervals of": "family-wise confidence level",
    r"of the flips\b": "random seed",
    r"commas between": "comma-separated",
    r"and what follows": "drop it",
    r"leaves out 0": "significant",
    r"tells which finds": "shows which finds",
    r"everything that reaches it": "together with its chunker",
    r"its own n\b": "a different count",
    r"what is wrong is": "all problems are",
    r"appears whole": "atomically",
    r"what all its options allow": "what matches every filter",
    r"what the file is, is": "detected automatically",
    r"of equal ones": "ties go to",
    r"(are|is) best not": "keep annotators blind",
    r"speak against": "compatible with",
    r"of all claims": "none of the verdicts",
    r"who labels only": "labelling only",
    r"reports of before": "older reports",
    r"but for the situations": "with these exceptions",
    r"does nothing of it": "only reads",
    r"kirchhoff'?s": "a format named after a person",
}
"""A pattern that nobody should read, and what to say. They match whole words in any case."""

ANY = re.compile("|".join(rf"\b(?:{pattern})" for pattern in WORDS), re.IGNORECASE)

OPENING = re.compile(r"(?:^|[.!?:] |\| )(?:\*\*)?((?:Of|What) [^.!?|]*[.!|]?)", re.MULTILINE)
"""A sentence that begins with "Of" or "What" and does not ask anything."""


def faults(text: str) -> list[str]:
    plain = " ".join(text.split())
    found = [
        f"{match[0]!r}: {better}"
        for pattern, better in WORDS.items()
        for match in re.finditer(rf"\b(?:{pattern})", plain, re.IGNORECASE)
    ] if ANY.search(plain) else []  # fmt: skip
    return found + [f"{match[1][:40]!r}: begin with the subject" for match in OPENING.finditer(text)
                    if not plain[plain.find(match[1][:20]) :].partition(". ")[0].rstrip().endswith("?")]  # fmt: skip


def prose(page: Path) -> str:
    """A page without its code."""
    return re.sub(r"^```.*?^```$|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_is_in_plain_words(page: Path) -> None:
    assert faults(prose(page)) == []


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_in_plain_words(name: str) -> None:
    command = COMMANDS[name]
    options = [text for one in command.params if isinstance(one, click.Option) and (text := one.help)]
    assert [text for text in options if text.startswith(("Of ", "That ", "What "))] == []
    names = group.context_settings["help_option_names"]  # click keeps the option that the first context has
    context = click.Context(command, info_name=name, max_content_width=10_000, help_option_names=names)
    assert faults(command.get_help(context)) == []


def messages(file: Path) -> Iterator[str]:
    """The texts of a module that are no docstrings: messages, help, tables."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    silent = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    silent |= {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in silent:
            yield node.value


@pytest.mark.parametrize("folder", sorted(path.name for path in SOURCE.iterdir() if path.name != "__pycache__"))
def test_messages_are_in_plain_words(folder: str) -> None:
    place = SOURCE / folder
    files = sorted(place.rglob("*.py")) if place.is_dir() else [place]
    found = {
        f"{file.relative_to(SOURCE)}: {fault}"
        for file in files if file.suffix == ".py"
        for text in messages(file) if " " in text
        for fault in faults(text)
    }  # fmt: skip
    assert sorted(found) == []


@cache
def are_translated(file: Path) -> list[bool]:
    """Whether each docstring and comment of a module reads like a translation."""
    return [bool(translated(text)) for _, text in sentences(file)]


def test_page_and_docstrings_are_in_plain_english() -> None:
    files = [file for ending in ("*.html", "*.js", "*.jinja") for file in (SOURCE / "views").rglob(ending)]
    own = [file for file in files if "vendor" not in file.parts]
    assert own
    assert {file.name: found for file in own if (found := faults(file.read_text(encoding="utf-8")))} == {}
    matches = [one for file in SOURCE.rglob("*.py") for one in are_translated(file)]
    assert sum(matches) < 0.05 * len(matches)


MOST_TRANSLATED = 8
"""Percent of the docstrings and comments of a folder."""

FOLDERS = sorted(path.parent.name for path in SOURCE.glob("*/__init__.py"))


@pytest.mark.parametrize("folder", [".", *FOLDERS])
def test_docstrings_and_comments_are_in_plain_english(folder: str) -> None:
    files = SOURCE.glob("*.py") if folder == "." else (SOURCE / folder).rglob("*.py")
    matches = [one for file in files for one in are_translated(file)]
    assert matches
    assert 100 * sum(matches) <= MOST_TRANSLATED * len(matches)
