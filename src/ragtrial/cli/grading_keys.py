"""Hits graded by key, one after another, in a terminal."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ragtrial.cli.terminal import Terminal
from ragtrial.drilldown import FoundText
from ragtrial.labelling.answers import has_passage
from ragtrial.views.query import answer_text

KEYS = '0-9 grade (3 answers fully, 1 helps, 0 is wrong) · space leave · " passage · u undo · q done · ctrl-c drop all'


def ask_grades(terminal: Terminal, hits: Sequence[FoundText]) -> tuple[dict[int, int], dict[int, str]]:
    """The grades and the passages that a person gives to ``hits``, by their numbers; those that are left have none."""
    grades: dict[int, int] = {}
    quotes: dict[int, str] = {}
    place = 0
    terminal.say(KEYS)
    while place < len(hits):
        hit = hits[place]
        terminal.say(f"\n{answer_text(hit, terminal.width)}")
        key = _key(f"{place + 1} of {len(hits)}, {len(grades)} graded: ")
        if key.isdecimal() and key.isascii():
            grades[hit.rank] = int(key)
            place += 1
        elif key in (" ", "\r", "\n"):
            place += 1
        elif key == '"':
            quotes = {**quotes, hit.rank: passage} if (passage := _passage(hit)) else quotes
        elif key in ("u", "\x7f", "\x08"):
            place = max(0, place - 1)
            grades.pop(hits[place].rank, None)
            quotes.pop(hits[place].rank, None)
        elif key == "q":
            break
        else:
            terminal.say(KEYS)
    return grades, {number: passage for number, passage in quotes.items() if number in grades}


def _key(prompt: str) -> str:
    click.echo(prompt, nl=False, err=True)
    key = click.getchar()
    click.echo(repr(key)[1:-1] if key.isprintable() else "", err=True)
    return key


def _passage(hit: FoundText) -> str:
    """A passage of the hit that is typed or pasted, empty if there is none."""
    typed: str = click.prompt("passage, verbatim", default="", show_default=False, err=True)
    if typed and not has_passage(hit, typed):
        click.echo("that is not in the text of this hit", err=True)
        return ""
    return typed
