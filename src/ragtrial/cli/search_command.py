"""ragtrial search"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from ragtrial.cli import completion
from ragtrial.cli.terminal import CONFIG_NAME, Stopped, Terminal, common_options, config_file, override_option, write
from ragtrial.dataset.locating import is_in
from ragtrial.errors import InputError, counted
from ragtrial.labelling.label_files import Done, Form, current_user, query_of
from ragtrial.records import FoundText

if TYPE_CHECKING:
    from ragtrial.labelling.edits import AnswerSheet, Item

_KEYS = '0-9 grade (3 answers fully, 1 helps, 0 is wrong) · space skip · " passage · u undo · q done · ctrl-c drop all'


def ask_grades(terminal: Terminal, hits: Sequence[FoundText], form: Form) -> tuple[dict[int, int], dict[int, str]]:
    """The grades and passages that a person gives to ``hits``, by their numbers; skipped hits have none.

    ``form`` is the form of the labels.
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
    """Hits of a search, with their grades and passages."""

    def __init__(self, hits: Sequence[FoundText], form: Form) -> None:
        self._hits, self._form = hits, form
        self._place = 0
        self.grades: dict[int, int] = {}
        self.quotes: dict[int, str] = {}

    def shown(self, width: int) -> str | None:
        from ragtrial.views.texts import answer_text

        return answer_text(self._hits[self._place], width) if self._place < len(self._hits) else None

    def progress(self) -> str:
        return f"{self._place + 1} of {len(self._hits)}, {len(self.grades)} graded"

    def grade(self, grade: int) -> None:
        from ragtrial.labelling.edits import NO_TEXT

        if self._form != "document" and not (self._hits[self._place].text or "").strip():
            raise InputError(NO_TEXT)
        self.grades[self._hits[self._place].rank] = grade
        self._place += 1

    def skip(self) -> None:
        self._place += 1

    def quote(self, passage: str) -> None:
        if not is_in(passage, self._hits[self._place].text or ""):
            raise InputError("that is not in the text of this hit")
        self.quotes[self._hits[self._place].rank] = passage

    def undo(self) -> None:
        self._place = max(0, self._place - 1)
        self.grades.pop(self._hits[self._place].rank, None)
        self.quotes.pop(self._hits[self._place].rank, None)


@click.command("search")
@click.argument("words", nargs=-1, required=True, metavar="[CONFIG] TEXT")
@override_option
@click.option(
    "--setting", shell_complete=completion.settings, metavar="NAME", help="Only this setting (default: every one)."
)
@click.option("--top", type=click.IntRange(min=1), default=10, show_default=True, metavar="N",
              help="Show, and grade, so many hits.")  # fmt: skip
@click.option("--label", "--add-to-labels", "label", is_flag=True,
              help="Grade the hits by key, and add the query to the labels.")  # fmt: skip
@click.option(
    "--grade",
    "grades",
    multiple=True,
    metavar="HIT=GRADE",
    help="Grade a hit by its number or document: 1=2, returns.md=3.",
)
@click.option("--quote", "quotes", multiple=True, metavar="HIT=TEXT", help="The passage of a graded hit that answers.")
@click.option("--id", "name", metavar="ID", help="The new query's id (default: made of its words).")
@click.option("--tag", "tags", multiple=True, metavar="NAME", help="A tag of the new query.")
@click.option("--who", metavar="NAME", help="Who labels, for the history (default: the user of the machine).")
@common_options
def command(
    terminal: Terminal,
    words: tuple[str, ...],
    overrides: tuple[str, ...],
    setting: str | None,
    top: int,
    *,
    label: bool,
    **given: Any,
) -> int:
    """Show the hits of the settings of CONFIG for TEXT; with --label or --grade, add graded answers to the labels.

    All settings make one list, best ranks first. --grade takes the numbers of this list, or documents.
    """
    from ragtrial.config import load_config
    from ragtrial.experiment import search_settings
    from ragtrial.labelling.edits import AnswerSheet, by_number, labels_form, parse_grades, parse_marks, pooled
    from ragtrial.views.texts import items_text

    if len(words) > 2:
        raise click.UsageError(f"there are {len(words)} arguments; put the text into quotation marks.")
    if len(words) == 1 and words[0].endswith((".yaml", ".yml")):
        raise click.UsageError("Missing argument 'TEXT': the question to search for.", click.get_current_context())
    context, text = click.get_current_context(), words[-1]
    config = config_file(context, context.command.params[0], words[0] if len(words) == 2 else CONFIG_NAME)
    if not text.strip():
        raise InputError("the text to search for is empty.")
    _check(terminal, label=label, **given)
    loaded = load_config(config, overrides)
    grades, quotes = parse_grades(given["grades"]), parse_marks(given["quotes"], "--quote")
    sheet = AnswerSheet(loaded, text, terminal.progress()) if label or grades else None
    found = search_settings(loaded, text, setting, progress=terminal.progress())
    items = pooled(found, sheet.form if sheet else labels_form(loaded), top)
    if sheet is not None:
        marks = by_number(items, grades), by_number(items, quotes)
        return _label(terminal, sheet, sheet.graded(items), marks, given["name"], given["tags"], given["who"])
    terminal.say(items_text(items, list(found), terminal.width))
    by_setting = [{"setting": one, "hits": [vars(hit) for hit in hits[:top]]} for one, hits in found.items()]
    terminal.say_json({"exit_code": 0, "hits": _items_json(items), "settings": by_setting})
    return 0


def _check(terminal: Terminal, *, label: bool, grades: Sequence[str], quotes: Sequence[str], name: str | None,
           tags: Sequence[str], who: str | None) -> None:  # fmt: skip
    if label and not grades and (terminal.as_json or not sys.stdin.isatty()):
        raise click.UsageError("there is no terminal to ask for grades in; give them: --grade HIT=GRADE.")
    if not label and not grades and (quotes or name or tags or who):
        raise click.UsageError("--quote, --id, --tag and --who need --label or --grade.")


def _label(
    terminal: Terminal,
    sheet: AnswerSheet,
    items: Sequence[Item],
    marks: tuple[Mapping[int, int], Mapping[int, str]],
    name: str | None,
    tags: Sequence[str],
    who: str | None,
) -> int:
    hits, (graded, passages) = [item.hit for item in items], marks
    if hits and not graded:
        sheet.refuse(name, tags)
        try:
            graded, passages = ask_grades(terminal, hits, sheet.form)
        except (KeyboardInterrupt, click.Abort) as error:
            if isinstance(error.__cause__, EOFError):
                raise
            raise Stopped("stopped: nothing was written, and no grade of this search is kept.") from None
    changes = sheet.changes(hits, graded, passages, name=name, tags=tags)
    done = sheet.write(changes, who or current_user())
    _say(terminal, sheet, query_of(changes[0]), done, [(hit, graded[hit.rank]) for hit in hits if hit.rank in graded])
    labels = {
        "file": str(sheet.store.text.file),
        "query": query_of(changes[0]),
        "is_new": sheet.query is None,
        "queries": sheet.queries,
        "changes": [{"action": one.action, "before": one.before, "after": one.after} for one in done],
    }
    terminal.say_json({"exit_code": 0, "hits": _items_json(items), "labels": labels})
    return 0


def _items_json(items: Sequence[Item]) -> list[dict[str, Any]]:
    return [{**vars(item.hit), "found_by": dict(item.found_by)} for item in items]


def _say(
    terminal: Terminal, sheet: AnswerSheet, query: str, done: Sequence[Done], graded: Sequence[tuple[FoundText, int]]
) -> None:
    from ragtrial.views.texts import hit_text

    for hit, grade in graded:
        terminal.say(hit_text(replace(hit, grade=grade, score=None), terminal.width))
    judgments = [one for one in done if one.action != "query"]
    what = "query" if sheet.query else "new query"
    total = "" if sheet.queries is None else f"; it has {counted(sheet.queries, 'query', 'queries')}"
    terminal.say(f"\n{sheet.store.text.file}: {what} {query!r}, {counted(len(judgments), 'judgment')} written{total}")
