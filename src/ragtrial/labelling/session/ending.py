"""The end of a session: its results, the agreement with earlier labels, and the next command."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from ragtrial.comparison.statistics.estimates import confusion, weighted_kappa
from ragtrial.errors import counted
from ragtrial.labelling.session.session import Session
from ragtrial.options import from_here

FEWEST = 10
"""The fewest pairs with a kappa."""


@dataclass(frozen=True, slots=True)
class RaterAgreement:
    """The number ``n`` of items that both have graded, and how many of them got the same grade (``alike``).

    ``kappa`` is Cohen's, in [-1, 1], 0 for agreement by chance; with more than two grades, disagreements are weighted
    by the square of their distance (``is_weighted``). None for fewer than ``FEWEST`` pairs, and if one of the two gave
    all items the same grade.
    Source: Cohen 1960, Educational and Psychological Measurement 20; Cohen 1968, Psychological Bulletin 70.
    """

    n: int
    alike: int
    kappa: float | None
    is_weighted: bool


def agreement(pairs: Sequence[tuple[int, int]]) -> RaterAgreement:
    """The agreement of the two grades of each item."""
    n, alike = len(pairs), sum(first == second for first, second in pairs)
    grades = sorted({grade for pair in pairs for grade in pair})
    kappa = weighted_kappa(confusion(pairs, grades), grades) if n >= FEWEST else None
    return RaterAgreement(n, alike, None if kappa is None else kappa.value, is_weighted=len(grades) > 2)


def agreement_of(session: Session) -> RaterAgreement:
    """The agreement of the answers with the labels, over the items that these judged before."""
    return agreement([
        (answer.grade, answer.earlier) for item, answer in sorted(session.answers.given.items())
        if answer.grade is not None and answer.earlier is not None and item not in session.answers.written
    ])  # fmt: skip


def review_counts(session: Session) -> dict[str, int]:
    """The numbers of drafts that were ``kept``, ``changed`` and kept, ``dropped``, and kept ``unseen``."""
    given = session.answers.given.values()
    kept = [answer for answer in given if answer.grade]
    changed = sum((answer.question, answer.quote) != (None, None) for answer in kept)
    unseen = sum(not answer.reviewed for answer in kept)
    return {"kept": len(kept), "changed": changed, "dropped": len(given) - len(kept), "unseen": unseen}


def ending_lines(session: Session) -> list[str]:
    """The answers, the changed file, the agreement with earlier labels, and the next command."""
    answers, file, written = session.answers, from_here(session.file), session.answers.written
    given, left = len(answers.given), answers.total - len(answers.given) - len(answers.skipped)
    if session.worklist.is_drafted:
        counts = review_counts(session)
        changed = f", {counts['changed']:,} of them changed" if counts["changed"] else ""
        unseen = f", {counts['unseen']:,} without review" if counts["unseen"] else ""
        done = f"{given - counts['unseen']:,} of {answers.total:,} reviewed"
        change = f"{counted(counts['kept'], 'question')} added{changed}{unseen}; {counts['dropped']:,} dropped"
    else:
        done, change = f"{given:,} of {answers.total:,} graded", f"{counted(len(written), 'judgment')} written"
    out = f", {len(answers.skipped):,} left out" if answers.skipped else ""
    lines = [f"{done}{out}" + (f", {left:,} to go: the same command goes on" if left else ""), f"{file}: {change}"]
    lines += overtaken_lines(len(session.overtaken))
    alike = agreement_of(session)
    if alike.n:
        name = "weighted kappa" if alike.is_weighted else "kappa"
        kappa = "" if alike.kappa is None else f", {name} {alike.kappa:.2f}"
        same = "that are judged already got the same grade as before"
        lines.append(f"agreement: {alike.alike} of {alike.n} {same}{kappa}")
    if written:
        lines.append(f"next: {next_command(session)}")
    return lines


def overtaken_lines(count: int) -> list[str]:
    """The line about ``count`` answers that came after a judgment by another person; empty for 0."""
    verb = "was" if count == 1 else "were"
    return [f"{count:,} {verb} judged by somebody else meanwhile; theirs stays"] if count else []


def next_command(session: Session) -> str:
    """The command that scores the stored rankings by the new labels, or runs the new questions."""
    if session.worklist.is_drafted:
        return f"ragtrial run {shlex.quote(from_here(session.config_file))}" if session.config_file else "ragtrial run"
    labels = session.config_file if session.worklist.kind == "overlay" and session.config_file else session.file
    report = "latest" if session.worklist.report is None else from_here(session.worklist.report)
    config = ""
    if session.config_file not in (None, labels):
        config = f" --config {shlex.quote(from_here(session.config_file))}"
    return f"ragtrial rescore {shlex.quote(report)} --labels {shlex.quote(from_here(labels))}{config}"
