"""ragtrial label"""

from __future__ import annotations

import os
import sys
import webbrowser
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from ragtrial.cli.terminal import Stopped, Terminal, common_options
from ragtrial.errors import counted

if TYPE_CHECKING:
    from ragtrial.labelling.session.session import Session


@click.command("label")
@click.argument("worklist", type=click.Path())
@click.option("--labels", type=click.Path(), metavar="FILE", help="The labels, where the worklist names others.")
@click.option("--config", metavar="CONFIG", help="The config with the documents, where the worklist names another.")
@click.option("--who", metavar="NAME", help="Who labels, for the history (default: the user of the machine).")
@click.option("--highest", type=click.IntRange(1, 9), metavar="GRADE", help="The highest grade (default: the labels').")
@click.option("--skipped", is_flag=True, help="Ask again for what was left out.")
@click.option("--unreviewed", is_flag=True, help="Keep the drafts that nobody reviewed, tagged `not-reviewed`.")
@click.option("--port", type=click.IntRange(1, 65535), metavar="N", help="The page's port (default: a free one).")
@click.option("--browser/--no-browser", default=True, help="Open the page in the browser.  [default: yes]")
@common_options
def command(
    terminal: Terminal,
    worklist: str,
    labels: str | None,
    config: str | None,
    who: str | None,
    highest: int | None,
    port: int | None,
    *,
    skipped: bool,
    unreviewed: bool,
    browser: bool,
) -> int:
    """Grade the texts of a WORKLIST of `ragtrial pool`, or review questions of `ragtrial questions`, for your labels.

    The page opens in the browser and is served to this machine alone. Every answer is saved at once, so the same
    command resumes after an interruption. Texts are shown without the settings that found them. Some are already
    judged: they measure how far you agree with the labels.
    """
    from ragtrial.labelling.session.session import Session
    from ragtrial.options import expand_user

    files = {
        name: None if file is None else expand_user(file) for name, file in (("labels", labels), ("config", config))
    }
    with Session(
        expand_user(worklist), labels=files["labels"], config=files["config"], who=who, highest=highest,
        progress=terminal.progress(),
    ) as session:  # fmt: skip
        if skipped:
            session.ask_again()
        if unreviewed:
            count = session.keep_unreviewed()
            terminal.say(f"{counted(count, 'draft')} kept without review; every report will say so")
            session.save()
        elif session.is_finished:
            terminal.say("everything on this worklist is answered and written" + _left_out(session))
        elif session.item is None:
            session.save()
        else:
            _on_page(session, port, browser=browser)
        return _end(terminal, session)


def _on_page(session: Session, port: int | None, *, browser: bool) -> None:
    from ragtrial.labelling.session.serving import LabelPage
    from ragtrial.views.label_page import assets

    page = LabelPage(session, assets(), port)
    click.echo(f"label here: {page.url}\nit ends by its button, or by ctrl-c; every answer is kept", err=True)
    if browser and _has_screen():
        webbrowser.open(page.url)
    try:
        page.serve()
    except KeyboardInterrupt:
        raise _stopped(session) from None


def _has_screen() -> bool:
    """True if a browser opens in a window; a browser in the terminal would be in the way."""
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _stopped(session: Session) -> Stopped:
    answers, unsaved = session.answers, len(session.answers.unsaved)
    kept = f"{unsaved:,} answer{' is' if unsaved == 1 else 's are'} kept in {answers.file}, and not in the labels yet"
    return Stopped(
        f"stopped at {len(answers.given) + len(answers.skipped):,} of {answers.total:,}. "
        f"{kept if unsaved else 'Every answer is saved'}; run the same command again to go on."
    )


def _left_out(session: Session) -> str:
    count = len(session.answers.skipped)
    return f"; {count:,} left out: --skipped asks for them again" if count else ""


def _end(terminal: Terminal, session: Session) -> int:
    from ragtrial.labelling.session.ending import agreement_of, ending_lines, next_command, review_counts

    terminal.say("\n" + "\n".join(ending_lines(session)))
    answers = session.answers
    review = {"review": review_counts(session)} if session.worklist.is_drafted else {}
    terminal.say_json(
        {
            "exit_code": 0,
            "labels": str(session.file),
            "items": answers.total,
            "graded": len(answers.given),
            "left_out": len(answers.skipped),
            "written": len(answers.written),
            **review,
            "judged_meanwhile": len(session.overtaken),
            "agreement": asdict(agreement_of(session)),
            "next": next_command(session),
        }
    )
    return 0
