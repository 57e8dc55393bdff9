"""Hits of a search, graded by key, one after another, in a terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from ragtrial.cli.output import write
from ragtrial.cli.terminal import Terminal
from ragtrial.errors import InputError
from ragtrial.labelling.answers import NO_TEXT, has_passage
from ragtrial.labelling.changes import Form
from ragtrial.records import FoundText
from ragtrial.views.query import answer_text

_KEYS = '0-9 grade (3 answers fully, 1 helps, 0 is wrong) · space skip · " passage · u undo · q done · ctrl-c drop all'


def ask_grades(terminal: Terminal, hits: Sequence[FoundText], form: Form) -> tuple[dict[int, int], dict[int, str]]:
    """The grades and the passages that a person gives to ``hits``, by their numbers; those that are left have none.

    ``form`` is what labels of them name.
    """
    grading = _Hits(hits, form)
    terminal.say(_KEYS)
    while (shown := grading.shown(terminal.width)) is not None:
        terminal.say(f"\n{shown}")
        try:
            key = _key(f"{grading.progress()}: ")
            if key == "q":
                break
            if key.isdecimal() and key.isascii():
                grading.grade(int(key))
            elif key in (" ", "\r", "\n"):
                grading.skip()
            elif key in ("u", "\x7f", "\x08"):
                grading.undo()
            elif key == '"':
                _quote(grading)
            else:
                terminal.say(_KEYS)
        except EOFError:  # ctrl-d
            break
        except InputError as error:
            write(str(error), sys.stderr)
    return grading.grades, {number: passage for number, passage in grading.quotes.items() if number in grading.grades}


def _quote(grading: _Hits) -> None:
    if passage := click.prompt("passage, verbatim", default="", show_default=False, err=True):
        grading.quote(passage)


def _key(prompt: str) -> str:
    click.echo(prompt, nl=False, err=True)
    key = click.getchar()
    click.echo(repr(key)[1:-1] if key.isprintable() else "", err=True)
    return key


class _Hits:
    """Hits of a search, and what they were given."""

    def __init__(self, hits: Sequence[FoundText], form: Form) -> None:
        self._hits, self._form = hits, form
        self._place = 0
        self.grades: dict[int, int] = {}
        self.quotes: dict[int, str] = {}

    def shown(self, width: int) -> str | None:
        return answer_text(self._hits[self._place], width) if self._place < len(self._hits) else None

    def progress(self) -> str:
        return f"{self._place + 1} of {len(self._hits)}, {len(self.grades)} graded"

    def grade(self, grade: int) -> None:
        if self._form != "document" and not (self._hits[self._place].text or "").strip():
            raise InputError(NO_TEXT)
        self.grades[self._hits[self._place].rank] = grade
        self._place += 1

    def skip(self) -> None:
        self._place += 1

    def quote(self, passage: str) -> None:
        if not has_passage(self._hits[self._place], passage):
            raise InputError("that is not in the text of this hit")
        self.quotes[self._hits[self._place].rank] = passage

    def undo(self) -> None:
        self._place = max(0, self._place - 1)
        self.grades.pop(self._hits[self._place].rank, None)
        self.quotes.pop(self._hits[self._place].rank, None)
