"""The answers to a worklist as values: what each thing that a person does makes of those before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ragtrial.errors import InputError


@dataclass(frozen=True, slots=True)
class Passage:
    """What of an item's text answers, and at which character of the text that is; None where that is not known."""

    text: str
    at: int | None = None


@dataclass(frozen=True, slots=True)
class SessionAnswer:
    """The grade of an item, the passage that answers if one was named, and who gave it.

    ``question`` is what a drafted question was changed to, None where it stays as it is. ``is_reviewed`` is False for a
    draft that was kept unseen.
    """

    grade: int
    passage: Passage | None = None
    who: str = ""
    question: str | None = None
    is_reviewed: bool = True


@dataclass(frozen=True)
class Answers:
    """What is answered of ``total`` items, which are asked in their order, those left out not again.

    ``passage`` and ``question`` are of the current item, which has no grade yet. ``trail`` are the items that can be
    taken back, the last one first to go: none that was saved. ``sent`` were given to the labels, ``written`` are in
    them for certain; ``saved`` are these and those that a save left to what was judged already. ``overtaken`` were
    judged by somebody else between the answer and its save. ``revision`` counts what was done.
    """

    total: int
    given: Mapping[int, SessionAnswer]
    skipped: frozenset[int] = frozenset()
    passage: Passage | None = None
    question: str | None = None
    trail: tuple[int, ...] = ()
    sent: frozenset[int] = frozenset()
    written: frozenset[int] = frozenset()
    saved: frozenset[int] = frozenset()
    overtaken: frozenset[int] = frozenset()
    revision: int = 0

    @property
    def current(self) -> int | None:
        """The item that is asked, None when all are answered or left out."""
        return next((item for item in range(self.total) if item not in self.given and item not in self.skipped), None)

    @property
    def can_undo(self) -> bool:
        """Whether there is anything to take back."""
        return self.passage is not None or self.question is not None or bool(self.trail)

    def after(self, event: Mapping[str, Any]) -> Answers:
        """What they are after an event as the journal has it. Raises InputError for one that cannot have happened."""
        did = _DONE.get(event.get("did", ""))
        if did is None:
            raise InputError(f"{event.get('did')!r} is nothing that is done to a worklist.")
        try:
            return replace(did(self, event), revision=self.revision + 1)
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{event.get('did')!r} cannot have happened here.") from error


def _graded(answers: Answers, event: Mapping[str, Any]) -> Answers:
    item = _current(answers, event)
    answer = SessionAnswer(
        int(event["grade"]), answers.passage, str(event.get("who", "")), answers.question, bool(event.get("seen", True))
    )
    given = {**answers.given, item: answer}
    return replace(answers, given=given, passage=None, question=None, trail=(*answers.trail, item))


def _skipped(answers: Answers, event: Mapping[str, Any]) -> Answers:
    item = _current(answers, event)
    return replace(answers, skipped=answers.skipped | {item}, passage=None, question=None, trail=(*answers.trail, item))


def _quoted(answers: Answers, event: Mapping[str, Any]) -> Answers:
    _current(answers, event)
    at = event.get("at")
    return replace(answers, passage=Passage(str(event["passage"]), None if at is None else int(at)))


def _rephrased(answers: Answers, event: Mapping[str, Any]) -> Answers:
    _current(answers, event)
    return replace(answers, question=str(event["question"]))


def _undone(answers: Answers, _event: Mapping[str, Any]) -> Answers:
    if answers.passage is not None:
        return replace(answers, passage=None)
    if answers.question is not None:
        return replace(answers, question=None)
    *trail, last = answers.trail
    given = {item: answer for item, answer in answers.given.items() if item != last}
    return replace(answers, given=given, skipped=answers.skipped - {last}, trail=tuple(trail))


def _asked_again(answers: Answers, _event: Mapping[str, Any]) -> Answers:
    return replace(answers, skipped=frozenset(), passage=None, question=None, trail=())


def _sent(answers: Answers, event: Mapping[str, Any]) -> Answers:
    return replace(answers, sent=answers.sent | _items(answers, event))


def _written(answers: Answers, event: Mapping[str, Any]) -> Answers:
    return replace(_saved(answers, event), written=answers.written | _items(answers, event))


def _saved(answers: Answers, event: Mapping[str, Any]) -> Answers:
    return replace(answers, saved=answers.saved | _items(answers, event), trail=())


def _refused(answers: Answers, event: Mapping[str, Any]) -> Answers:
    return replace(answers, sent=answers.sent - _items(answers, event))


def _overtaken(answers: Answers, event: Mapping[str, Any]) -> Answers:
    return replace(answers, overtaken=answers.overtaken | _items(answers, event))


_DONE = {
    "grade": _graded, "skip": _skipped, "quote": _quoted, "rephrase": _rephrased, "undo": _undone,
    "ask-again": _asked_again, "send": _sent, "write": _written, "save": _saved, "refuse": _refused,
    "overtake": _overtaken,
}  # fmt: skip


def _current(answers: Answers, event: Mapping[str, Any]) -> int:
    if event["item"] != answers.current or answers.current is None:
        raise ValueError(event["item"])
    return answers.current


def _items(answers: Answers, event: Mapping[str, Any]) -> frozenset[int]:
    items = frozenset(event["items"])
    if not items <= answers.given.keys():
        raise ValueError(items)
    return items
