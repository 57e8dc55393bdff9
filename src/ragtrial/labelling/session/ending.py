"""The end of a session in words: the results, and the next command."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from ragtrial.errors import counted
from ragtrial.labelling.session.session import Session


def ending_lines(session: Session) -> list[str]:
    """The answers, the changed file, the agreement with earlier labels, and the next command."""
    answers = session.answers
    left = answers.total - len(answers.given) - len(answers.skipped)
    done, written = _reviewed(session) if session.worklist.is_drafted else _graded(session)
    out = f", {len(answers.skipped):,} left out" if answers.skipped else ""
    lines = [f"{done}{out}" + (f", {left:,} to go: the same command goes on" if left else ""), written]
    lines += overtaken_lines(len(session.overtaken))
    alike = session.agreement()
    if alike.n:
        lines.append(f"agreement: {alike.sentence}")
    if answers.written:
        lines.append(f"next: {next_command(session)}")
    return lines


def _graded(session: Session) -> tuple[str, str]:
    answers = session.answers
    written = counted(len(answers.written), "judgment")
    return f"{len(answers.given):,} of {answers.total:,} graded", f"{_near(session.file)}: {written} written"


def _reviewed(session: Session) -> tuple[str, str]:
    answers, counts = session.answers, session.reviewed()
    changed = f", {counts.changed:,} of them changed" if counts.changed else ""
    unseen = f", {counts.unseen:,} without review" if counts.unseen else ""
    added = counted(counts.kept, "question")
    return (
        f"{len(answers.given) - counts.unseen:,} of {answers.total:,} reviewed",
        f"{_near(session.file)}: {added} added{changed}{unseen}; {counts.dropped:,} dropped",
    )


def overtaken_lines(count: int) -> list[str]:
    """The line about ``count`` answers that came after a judgment by another person; empty for 0."""
    return (
        [f"{count:,} {'was' if count == 1 else 'were'} judged by somebody else meanwhile; theirs stays"]
        if count
        else []
    )


def next_command(session: Session) -> str:
    """The command that scores the stored rankings by the new labels, or runs the new questions."""
    if session.worklist.is_drafted:
        return f"ragtrial run {shlex.quote(_near(session.config_file))}" if session.config_file else "ragtrial run"
    labels = session.config_file if session.worklist.kind == "overlay" and session.config_file else session.file
    report = "latest" if session.worklist.report is None else _near(Path(session.worklist.report))
    config = f" --config {shlex.quote(_near(session.config_file))}" if session.config_file not in (None, labels) else ""
    return f"ragtrial rescore {shlex.quote(report)} --labels {shlex.quote(_near(labels))}{config}"


def _near(path: Path) -> str:
    """``path`` from the current folder, if that contains it."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative
