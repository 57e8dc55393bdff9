"""ragtrial search"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import click

from ragtrial import config as configs
from ragtrial import experiment as experiments
from ragtrial.cli.options import CONFIG_NAME, OVERRIDES, WHO, argument, config_file, declare, option
from ragtrial.cli.terminal import Answer, Line, Stopped, Terminal, write
from ragtrial.dataset import locating
from ragtrial.errors import InputError, counted
from ragtrial.labelling import edits, label_files
from ragtrial.records import FoundText
from ragtrial.views import texts

_KEYS = '0-9 grade (3 answers fully, 1 helps, 0 is wrong) · space skip · " passage · u undo · q done · ctrl-c drop all'


@declare("search")
def command(
    terminal: Terminal,
    *,
    words: tuple[str, ...] = argument("[CONFIG] TEXT", required=True),
    overrides: tuple[str, ...] = OVERRIDES,
    setting: str | None = option("Only this setting (default: every one).", "NAME"),
    top: int = option("Show, and grade, so many hits.", "N", default=10, at_least=1),
    label: bool = option("Grade the hits by key, and add the query to the labels.", flags="--label --add-to-labels"),
    grades: tuple[str, ...] = option("Grade a hit by its number or document.", "HIT=GRADE", flags="--grade"),
    quotes: tuple[str, ...] = option("The passage of a graded hit that answers.", "HIT=TEXT", flags="--quote"),
    name: str | None = option("The new query's id (default: made of its words).", "ID", flags="--id"),
    tags: tuple[str, ...] = option("A tag of the new query.", "NAME", flags="--tag"),
    who: str | None = WHO,
) -> Answer:
    """Show what settings return for TEXT, and grade it.

    All settings of CONFIG make one list, best ranks first. --label and --grade add graded answers to the labels;
    --grade takes the numbers of this list, or documents.
    """
    config, text = _config_and_text(words)
    if label and not grades and (terminal.as_json or not sys.stdin.isatty()):
        raise click.UsageError("there is no terminal to ask for grades in; give them: --grade HIT=GRADE.")
    if not label and not grades and (quotes or name or tags or who):
        raise click.UsageError("--quote, --id, --tag and --who need --label or --grade.")
    experiment = configs.load_config(config, overrides)
    grade_marks = edits.parse_marks(grades, "--grade", int, last=True)
    quote_marks = edits.parse_marks(quotes, "--quote", str)
    sheet = edits.AnswerSheet(experiment, text, terminal.progress()) if label or grades else None
    found = experiments.search_settings(experiment, text, setting, progress=terminal.progress())
    items = edits.pooled(found, sheet.form if sheet else edits.labels_form(experiment), top)
    items = sheet.graded(items) if sheet else items
    content: dict[str, Any] = {"hits": [{**vars(item.hit), "found_by": dict(item.found_by)} for item in items]}
    if sheet is None:
        by_setting = [{"setting": key, "hits": [vars(hit) for hit in hits[:top]]} for key, hits in found.items()]
        return Answer({**content, "settings": by_setting}, [texts.items_text(items, list(found), terminal.width)])
    hits = [item.hit for item in items]
    graded, passages = edits.by_number(items, grade_marks), edits.by_number(items, quote_marks)
    if hits and not graded:
        sheet.refuse(name, tags)
        try:
            graded, passages = ask_grades(terminal, hits, sheet.form)
        except (KeyboardInterrupt, click.Abort) as error:
            if isinstance(error.__cause__, EOFError):
                raise
            raise Stopped("stopped: nothing was written, and no grade of this search is kept.") from None
    changes = sheet.changes(hits, graded, passages, name=name, tags=tags)
    query, done = label_files.query_of(changes[0]), sheet.write(changes, who or label_files.current_user())
    content["labels"] = {
        "file": str(sheet.store.text.file),
        "query": query,
        "is_new": sheet.query is None,
        "queries": sheet.queries,
        "changes": [{"action": edit.action, "before": edit.before, "after": edit.after} for edit in done],
    }
    rows = [replace(hit, grade=graded[hit.rank], score=None) for hit in hits if hit.rank in graded]
    what = "query" if sheet.query else "new query"
    judgments = counted(sum(edit.action != "query" for edit in done), "judgment")
    total = "" if sheet.queries is None else f"; it has {counted(sheet.queries, 'query', 'queries')}"
    written = Line(f"{sheet.store.text.file}: {what} {query!r}, {judgments} written{total}")
    return Answer(content, [*(texts.hit_text(hit, terminal.width) for hit in rows), "", written])


def _config_and_text(words: Sequence[str]) -> tuple[str, str]:
    if len(words) > 2:
        raise click.UsageError(f"there are {len(words)} arguments; put the text into quotation marks.")
    if len(words) == 1 and words[0].endswith((".yaml", ".yml")):
        raise click.UsageError("Missing argument 'TEXT': the question to search for.", click.get_current_context())
    config = config_file(None, None, words[0] if len(words) == 2 else CONFIG_NAME)
    if not words[-1].strip():
        raise InputError("the text to search for is empty.")
    return config, words[-1]


def ask_grades(
    terminal: Terminal, hits: Sequence[FoundText], form: label_files.Form
) -> tuple[dict[int, int], dict[int, str]]:
    """The grades and passages that a person gives to ``hits``, by their numbers; skipped hits have none.

    ``form`` is the form of the labels.
    """
    grades: dict[int, int] = {}
    quotes: dict[int, str] = {}
    number = 0
    terminal.say(_KEYS)
    while number < len(hits):
        hit = hits[number]
        terminal.say(f"\n{texts.answer_text(hit, terminal.width)}")
        try:
            key = _key(f"{number + 1} of {len(hits)}, {len(grades)} graded: ")
        except EOFError:  # ctrl-d
            break
        if key == "q":
            break
        if key.isdecimal() and key.isascii() and form != "document" and not (hit.text or "").strip():
            write(edits.NO_TEXT, sys.stderr)
        elif key in " \r\n" or (key.isdecimal() and key.isascii()):
            grades |= {hit.rank: int(key)} if key.strip() else {}
            number += 1
        elif key in ("u", "\x7f", "\x08"):
            number = max(0, number - 1)
            for marks in (grades, quotes):
                marks.pop(hits[number].rank, None)
        elif key == '"':
            quotes |= _passage(hit)
        else:
            terminal.say(_KEYS)
    return grades, {rank: passage for rank, passage in quotes.items() if rank in grades}


def _passage(hit: FoundText) -> dict[int, str]:
    passage = click.prompt("passage, verbatim", default="", show_default=False, err=True)
    if passage and not locating.is_in(passage, hit.text or ""):
        write("that is not in the text of this hit", sys.stderr)
        return {}
    return {hit.rank: passage} if passage else {}


def _key(prompt: str) -> str:
    click.echo(prompt, nl=False, err=True)
    key = click.getchar()
    click.echo(repr(key)[1:-1] if key.isprintable() else "", err=True)
    return key
