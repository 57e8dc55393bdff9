"""ragtrial search"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from ragtrial.cli.terminal import Stopped, Terminal, common_options, override_option
from ragtrial.errors import InputError, counted

if TYPE_CHECKING:
    from ragtrial.labelling.answers import Added, AnswerSheet
    from ragtrial.records import FoundText


@click.command("search", short_help="Show what settings return for TEXT, and grade it.")
@click.argument("config", type=click.Path())
@click.argument("text")
@override_option
@click.option("--setting", metavar="NAME", help="Only this setting (default: every one).")
@click.option("--label", "--add-to-labels", "label", is_flag=True,
              help="Grade the hits by key, and add the query to the labels.")  # fmt: skip
@click.option("--grade", "grades", multiple=True, metavar="HIT=GRADE", help="Grade a hit without being asked: 1=2.")
@click.option("--quote", "quotes", multiple=True, metavar="HIT=TEXT", help="The passage of a graded hit that answers.")
@click.option("--id", "name", metavar="ID", help="The new query's id (default: made of its words).")
@click.option("--tag", "tags", multiple=True, metavar="NAME", help="A tag of the new query.")
@click.option("--who", metavar="NAME", help="Who labels, for the history (default: the user of the machine).")
@common_options
def command(
    terminal: Terminal,
    config: str,
    text: str,
    overrides: tuple[str, ...],
    setting: str | None,
    *,
    label: bool,
    **given: Any,
) -> int:
    """Show what the settings of CONFIG return for TEXT; with --label or --grade, add graded answers to the labels."""
    from ragtrial.config import load_config
    from ragtrial.experiment import search_settings
    from ragtrial.views.query import found_text

    if not text.strip():
        raise InputError("the text to search for is empty.")
    _check(terminal, label=label, **given)
    loaded = load_config(config, overrides)
    sheet = None
    if label or given["grades"]:
        from ragtrial.labelling.answers import AnswerSheet

        sheet = AnswerSheet(loaded, text)
    found = search_settings(loaded, text, setting, progress=terminal.progress())
    if sheet is not None:
        return _label(terminal, sheet, found, **given)
    terminal.say("\n\n".join(found_text(one, hits, terminal.width) for one, hits in found.items()))
    terminal.say_json([{"setting": one, "hits": [vars(hit) for hit in hits]} for one, hits in found.items()])
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
    found: Mapping[str, Sequence[FoundText]],
    *,
    grades: Sequence[str],
    quotes: Sequence[str],
    name: str | None,
    tags: Sequence[str],
    who: str | None,
) -> int:
    from ragtrial.cli.grading_keys import ask_grades
    from ragtrial.labelling.answers import parse_graded, parse_grades
    from ragtrial.labelling.changes import current_user
    from ragtrial.views.query import found_text

    hits = sheet.pooled(found)
    graded, passages = parse_grades(grades), parse_graded(quotes, "--quote")
    if grades or not hits:
        terminal.say(found_text("found", hits, terminal.width))
    else:
        sheet.refuse(name, tags, terminal.progress())
        try:
            graded, passages = ask_grades(terminal, hits, sheet.form)
        except (KeyboardInterrupt, click.Abort) as error:
            if isinstance(error.__cause__, EOFError):
                raise
            raise Stopped("stopped: nothing was written, and no grade of this search is kept.") from None
    changes = sheet.changes(hits, graded, passages, name=name, tags=tags)
    added = sheet.write(changes, who or current_user(), terminal.progress())
    _say(terminal, added)
    terminal.say_json({"exit_code": 0, "hits": [vars(hit) for hit in hits], "labels": _as_json(added)})
    return 0


def _say(terminal: Terminal, added: Added) -> None:

    judgments = [one for one in added.done if one.action != "query"]
    what = "new query" if added.is_new else "query"
    total = "" if added.queries is None else f"; it has {counted(added.queries, 'query', 'queries')}"
    terminal.say(f"\n{added.file}: {what} {added.query!r}, {counted(len(judgments), 'judgment')} written{total}")


def _as_json(added: Added) -> dict[str, Any]:
    return {
        "file": str(added.file),
        "query": added.query,
        "is_new": added.is_new,
        "queries": added.queries,
        "changes": [{"action": one.action, "before": one.before, "after": one.after} for one in added.done],
    }
