"""ragtrial label"""

from __future__ import annotations

import os
import sys
import webbrowser
from dataclasses import asdict
from pathlib import Path

import click

from ragtrial.cli.options import WHO, argument, declare, option
from ragtrial.cli.terminal import Answer, Stopped, Terminal
from ragtrial.errors import counted
from ragtrial.labelling.session import serving, session as sessions
from ragtrial.views import label_page


@declare("label")
def command(
    terminal: Terminal,
    *,
    worklist: Path = argument("WORKLIST"),
    labels: Path | None = option("The labels, where the worklist names others.", "FILE"),
    config: Path | None = option("The config with the documents, where the worklist names another.", "CONFIG"),
    who: str | None = WHO,
    highest: int | None = option("The highest grade (default: the labels').", "GRADE", at_least=1, at_most=9),
    skipped: bool = option("Ask again for what was left out."),
    unreviewed: bool = option("Keep the drafts that nobody reviewed, tagged `not-reviewed`."),
    port: int | None = option("The page's port (default: a free one).", "N", at_least=1, at_most=65535),
    browser: bool = option("Open the page (default).", flags="--browser/--no-browser", default=True),
) -> Answer:
    """Grade the texts of a worklist and add them to your labels.

    A WORKLIST is written by `ragtrial pool`, or by `ragtrial questions`, whose drafts are reviewed. The page opens in
    the browser and is served to this machine alone. Every answer is saved at once, so the same command resumes after an
    interruption. Texts are shown without the settings that found them. Some are already judged: they measure how far
    you agree with the labels.
    """
    files = {"labels": labels, "config": config}
    with sessions.Session(worklist, **files, who=who, highest=highest, progress=terminal.progress()) as session:
        if skipped:
            session.answers.ask_again()
        if unreviewed:
            count = session.keep_unreviewed()
            terminal.say(f"{counted(count, 'draft')} kept without review; every report will say so")
            session.save()
        elif session.answers.is_finished:
            count = len(session.answers.skipped)
            left_out = f"; {count:,} left out: --skipped asks for them again" if count else ""
            terminal.say(f"everything on this worklist is answered and written{left_out}")
        elif session.item is None:
            session.save()
        else:
            _on_page(session, port, browser=browser)
        return _answer(session)


def _on_page(session: sessions.Session, port: int | None, *, browser: bool) -> None:
    page = serving.LabelPage(session, label_page.assets(), port)
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


def _stopped(session: sessions.Session) -> Stopped:
    answers, unsaved = session.answers, len(session.answers.unsaved)
    kept = f"{unsaved:,} answer{' is' if unsaved == 1 else 's are'} kept in {answers.file}, and not in the labels yet"
    return Stopped(
        f"stopped at {len(answers.given) + len(answers.skipped):,} of {answers.total:,}. "
        f"{kept if unsaved else 'Every answer is saved'}; run the same command again to go on."
    )


def _answer(session: sessions.Session) -> Answer:
    answers = session.answers
    content = {
        "labels": str(session.file),
        "items": answers.total,
        "graded": len(answers.given),
        "left_out": len(answers.skipped),
        "written": len(answers.written),
        **({"review": sessions.review_counts(session)} if session.worklist.is_drafted else {}),
        "judged_meanwhile": len(session.overtaken),
        "agreement": asdict(sessions.agreement_of(session)),
        "next": sessions.next_command(session),
    }
    return Answer(content, ["", *sessions.ending_lines(session)])
