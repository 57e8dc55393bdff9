"""ragtrial search"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

import click

from ragtrial import config as configs, experiment as experiments
from ragtrial.cli.options import CONFIG_NAME, OVERRIDES, WHO, argument, config_file, declare, option
from ragtrial.cli.terminal import Answer, Line, Stopped, Terminal, write
from ragtrial.config import ExperimentConfig
from ragtrial.config.settings import chosen_settings, settings_of
from ragtrial.dataset import locating
from ragtrial.errors import InputError, RagtrialError, counted, listed
from ragtrial.labelling import edits, label_files
from ragtrial.options import from_here
from ragtrial.progress import Progress, Silent, stage
from ragtrial.records import FoundText
from ragtrial.views import texts

_KEYS = "0-9 grade (3 answers fully, 1 helps, 0 is wrong) · space skip · u undo · q done · ctrl-c drop all"
_GROUP_KEY = " · g same answer as an earlier hit"
_UNDO = "u"
_PASSAGE = f"the passage that answers, verbatim, or its begin ... its end (return: all of this text, {_UNDO}: undo)"
_SAME = "the number of the hit that gives the same answer (return: none)"


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
    groups: tuple[str, ...] = option("The group of a hit graded by --grade.", "HIT=NAME", flags="--group"),
    name: str | None = option("The new query's id (default: made of its words).", "ID", flags="--id"),
    tags: tuple[str, ...] = option("A tag of the new query.", "NAME", flags="--tag"),
    who: str | None = WHO,
) -> Answer:
    """Show what settings return for TEXT, and grade it.

    All settings of CONFIG make one list, best ranks first. --label and --grade add graded answers to the labels;
    --grade takes the numbers of this list, or documents.
    """
    config, text = _config_and_text(words)
    for flag, given in (("--quote", quotes), ("--group", groups)):
        if given and not grades:
            raise click.UsageError(f"{flag} needs --grade for the same hit.")
    if label and not grades and (terminal.as_json or not sys.stdin.isatty()):
        raise click.UsageError("there is no terminal to ask for grades in; give them: --grade HIT=GRADE.")
    if not label and not grades and (name or tags or who):
        raise click.UsageError("--id, --tag and --who need --label or --grade.")
    experiment = configs.load_config(config, overrides)
    grade_marks = edits.parse_marks(grades, "--grade", int, last=True)
    quote_marks, group_marks = edits.parse_marks(quotes, "--quote", str), edits.parse_marks(groups, "--group", str)
    sheet = edits.AnswerSheet(experiment, text, terminal.progress()) if label or grades else None
    if sheet and label and not grades:
        sheet.refuse(name, tags)
        hits = list[FoundText]()
        marks, content = _graded_by_key(terminal, experiment, sheet, setting, top, hits), dict[str, Any]()
    else:
        found = experiments.search_settings(experiment, text, setting and [setting], progress=terminal.progress())
        items = edits.pooled(found, sheet.form if sheet else edits.labels_form(experiment), top)
        items = sheet.graded(items) if sheet else items
        content = {"hits": [{**vars(item.hit), "found_by": dict(item.found_by)} for item in items]}
        if sheet is None:
            by_setting = [{"setting": key, "hits": [vars(hit) for hit in hits[:top]]} for key, hits in found.items()]
            return Answer({**content, "settings": by_setting}, [texts.items_text(items, list(found), terminal.width)])
        hits = [item.hit for item in items]
        graded, passages = edits.by_number(items, grade_marks), edits.by_number(items, quote_marks)
        marks = edits.Marks(graded, passages, edits.by_number(items, group_marks))
    changes = sheet.changes(hits, marks, name=name, tags=tags)
    rows = [replace(hit, grade=marks.grades[hit.rank], score=None) for hit in hits if hit.rank in marks.grades]
    return _saved(terminal, sheet, changes, rows, who or label_files.current_user(), content)


def _saved(
    terminal: Terminal, sheet: edits.AnswerSheet, changes: list[label_files.Change], rows: list[FoundText], who: str,
    content: dict[str, Any],
) -> Answer:  # fmt: skip
    """Write the changes of the graded ``rows``, and add them to ``content``."""
    query, done = changes[0].query, sheet.write(changes, who)
    file, is_new = sheet.store.text.file, sheet.query is None
    edited = [{"action": edit.action, "before": edit.before, "after": edit.after} for edit in done]
    about = {"file": str(file), "query": query, "is_new": is_new, "queries": sheet.queries}
    content["labels"] = {**about, "changes": edited}
    what = "query" if sheet.query else "new query"
    judgments = counted(sum(edit.action != "query" for edit in done), "judgment")
    total = "" if sheet.queries is None else f"; it has {counted(sheet.queries, 'query', 'queries')}"
    written = Line(f"{from_here(file)}: {what} {query!r}, {judgments} written{total}")
    return Answer(content, [*(texts.hit_text(hit, terminal.width) for hit in rows), "", written])


def _config_and_text(words: Sequence[str]) -> tuple[str, str]:
    if len(words) > 2:
        raise click.UsageError(f"there are {len(words)} arguments; put the text into quotation marks.")
    if len(words) == 1 and (words[0].endswith((".yaml", ".yml")) or Path(words[0]).is_file()):
        raise click.UsageError(f"Missing argument 'TEXT': a question after {words[0]}.", click.get_current_context())
    config = config_file(None, None, words[0] if len(words) == 2 else CONFIG_NAME)
    if not words[-1].strip():
        raise InputError("the text to search for is empty.")
    return config, words[-1]


def _graded_by_key(
    terminal: Terminal, experiment: ExperimentConfig, sheet: edits.AnswerSheet, only: str | None, top: int,
    shown: list[FoundText],
) -> edits.Marks:  # fmt: skip
    """The marks of all hits that were shown, which are added to ``shown``.

    Hits by words come first; while they are graded, a thread searches with models. A process that ends does not wait
    for it: its finished stages and batches are kept.
    """
    settings = chosen_settings(settings_of(experiment)[0], only and [only])
    needs_model = attrgetter("needs_model")
    groups = groupby(sorted(settings, key=needs_model), needs_model)
    first, *others = [[setting.name for setting in group] for _, group in groups]

    def search(names: Sequence[str], progress: Progress) -> dict[str, list[FoundText]]:
        return experiments.search_settings(experiment, sheet.text, names, progress=progress)

    def hits() -> Iterator[FoundText]:
        found, pool = search(first, terminal.progress()), ThreadPoolExecutor(1, thread_name_prefix="ragtrial")
        futures = [pool.submit(search, names, Silent()) for names in others]
        yield from new_hits(found)
        for names, future in zip(others, futures, strict=True):
            try:
                with stage(Silent() if future.done() else terminal.progress(), f"hits of {listed(names)}"):
                    found |= future.result()
            except (RagtrialError, ImportError) as error:  # grades of the others are kept
                if not shown:
                    raise
                terminal.note(f"There are no hits of {listed(names)}: {error}")
            yield from new_hits(found)

    def new_hits(found: dict[str, list[FoundText]]) -> Iterator[FoundText]:
        for hit in edits.further(shown, found, sheet.form, top):
            yield sheet.graded([edits.Item(hit)])[0].hit

    try:
        return ask_grades(terminal, shown, hits(), sheet)
    except (KeyboardInterrupt, click.Abort) as error:
        if isinstance(error.__cause__, EOFError):
            raise
        raise Stopped("stopped: nothing was written, and no grade of this search is kept.") from None


def ask_grades(
    terminal: Terminal, shown: list[FoundText], hits: Iterator[FoundText], sheet: edits.AnswerSheet
) -> edits.Marks:
    """The marks that a person gives to ``hits``; skipped hits have none.

    Each of the hits is added to ``shown`` before it is shown.
    """
    marks, form, number = edits.Marks(), sheet.form, 0
    keys = _KEYS + (_GROUP_KEY if sheet.has_groups else "")
    terminal.say(keys)
    while True:
        if number == len(shown):
            if (following := next(hits, None)) is None:
                break
            shown.append(following)
        hit = shown[number]
        terminal.say(f"\n{texts.answer_text(hit, terminal.width)}")
        key = _key(f"hit {number + 1}, {len(marks.grades)} graded: ")
        if key == "q":
            break
        if key.isdecimal() and key.isascii() and form != "document" and not (hit.text or "").strip():
            write(edits.NO_TEXT, sys.stderr)
        elif key in " \r\n" or (key.isdecimal() and key.isascii()):
            passage = _passage(hit, form) if key.strip(" \r\n0") else ""
            if passage != _UNDO:
                marks.grades.update({hit.rank: int(key)} if key.strip() else {})
                marks.quotes.update({hit.rank: passage} if passage else {})
                number += 1
        elif key in (_UNDO, "\x7f", "\x08"):
            marks.drop(hit.rank)
            number = max(0, number - 1)
            marks.drop(shown[number].rank)
        elif key == "g" and sheet.has_groups:
            _join_earlier(hit, shown, marks, sheet)
        else:
            terminal.say(keys)
    return replace(marks, groups={rank: name for rank, name in marks.groups.items() if marks.grades.get(rank)})


def _passage(hit: FoundText, form: label_files.Form) -> str:
    """The passage of ``hit`` that answers, or ``_UNDO``; empty if all of its text does, or documents are labelled."""
    text = hit.text or ""
    while form != "document" and (passage := click.prompt(_PASSAGE, default="", show_default=False, err=True).strip()):
        begin, dots, end = (part.strip() for part in passage.partition("..."))
        start = text.find(begin)
        stop = text.find(end, start + len(begin)) + len(end)
        if dots and begin and end and start >= 0 and stop >= start + len(begin) + len(end):
            return text[start:stop]
        if passage == _UNDO or locating.is_in(passage, text):
            return passage
        write("that is not in the text of this hit", sys.stderr)
    return ""


def _join_earlier(hit: FoundText, shown: Sequence[FoundText], marks: edits.Marks, sheet: edits.AnswerSheet) -> None:
    """Put ``hit`` into the group of the graded hit that a person names, if any."""
    number = click.prompt(_SAME, default="", show_default=False, err=True).strip()
    earlier = next((other for other in shown if str(other.rank) == number and marks.grades.get(other.rank)), None)
    if earlier is not None:
        group = sheet.group_of(earlier, marks.quotes.get(earlier.rank))
        marks.groups[hit.rank] = marks.groups.setdefault(earlier.rank, group)
    elif number:
        write(f"no hit {number} has a grade above 0", sys.stderr)


def _key(prompt: str) -> str:
    click.echo(prompt, nl=False, err=True)
    try:
        key = click.getchar()
    except EOFError:  # ctrl-d
        return "q"
    click.echo(repr(key)[1:-1] if key.isprintable() else "", err=True)
    return key
