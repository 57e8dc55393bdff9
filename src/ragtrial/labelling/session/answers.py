"""The answers to a worklist, given or skipped, each kept in a file of JSON lines the moment it is given."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from ragtrial.cache.presence import hold_alone
from ragtrial.cache.untrusted import load_json
from ragtrial.dataset.texts import decoded, read_bytes
from ragtrial.errors import Fault, InputError, RunError
from ragtrial.options import Options, validate

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Passage:
    """The part of an item's text that answers, and its first character in that text if it is known."""

    text: str
    at: int | None = None


@dataclass(frozen=True, slots=True)
class ItemAnswer:
    """The answer to an item: a ``grade``, or ``is_skipped``; neither while only a passage or question was named.

    ``question`` replaces the question of a draft. ``earlier`` is the grade in the labels when the answer was given.
    ``is_reviewed`` is False for a draft that was kept unseen.
    """

    grade: int | None = None
    is_skipped: bool = False
    passage: Passage | None = None
    question: str | None = None
    who: str = ""
    earlier: int | None = None
    is_reviewed: bool = True

    @property
    def is_given(self) -> bool:
        return self.grade is not None


Item = Annotated[int, Field(ge=0)]


class _Row(Options):
    """A line of the file: the new answer to an item, or the items that a save has ``written`` into the labels."""

    when: str = ""
    who: str = ""
    item: Item | None = None
    grade: Item | None = None
    skipped: bool = False
    quote: str | None = None
    at: Item | None = None
    question: str | None = None
    earlier: int | None = None
    reviewed: bool = True
    written: list[Item] | None = None

    @classmethod
    def of(cls, item: int, answer: ItemAnswer) -> _Row:
        passage = answer.passage or Passage("")
        return cls(item=item, who=answer.who, grade=answer.grade, skipped=answer.is_skipped,
                   quote=passage.text or None, at=passage.at, question=answer.question, earlier=answer.earlier,
                   reviewed=answer.is_reviewed)  # fmt: skip

    @property
    def answer(self) -> ItemAnswer:
        passage = None if self.quote is None else Passage(self.quote, self.at)
        return ItemAnswer(
            self.grade, self.skipped, passage, self.question, self.who, self.earlier, is_reviewed=self.reviewed
        )


def answers_file(worklist: Path) -> Path:
    """The file of the answers to a worklist: ``worklist.answers.jsonl`` next to ``worklist.json``."""
    return worklist.with_name(f"{worklist.name.removesuffix('.json')}.answers.jsonl")


class SessionAnswers:
    """The answers to ``total`` items, which are asked in their order. The file is locked meanwhile.

    ``worklist`` is a hash of the worklist. ``saved`` items were merged into the labels, and ``written`` changed them.
    ``revision`` counts the changes. An incomplete last line is dropped. Raises InputError for a file of another
    worklist, an invalid file, and a file that is open elsewhere; RunError if it cannot be written.
    """

    def __init__(self, file: Path, worklist: str, total: int) -> None:
        self.file, self.total, self.revision = file, total, 0
        self.saved, self.written = set[int](), set[int]()
        self._answers: dict[int, ItemAnswer] = {}
        self._undoable: list[int] = []
        self._worklist = worklist
        try:
            self._stream = file.open("ab", buffering=0)
        except OSError as error:
            raise self._unwritable(error) from error
        self._is_held = False
        try:
            self._is_held = hold_alone(self._stream.fileno())
            if not self._is_held:
                message = "is being written: somebody labels this worklist at the moment. End that first."
                raise InputError(Fault(str(file), message=message))
            self._read()
        except BaseException:
            self.close()
            raise

    @property
    def given(self) -> Mapping[int, ItemAnswer]:
        """The answers with a grade, by item."""
        return {item: answer for item, answer in self._answers.items() if answer.is_given}

    @property
    def skipped(self) -> set[int]:
        return {item for item, answer in self._answers.items() if answer.is_skipped}

    @property
    def unsaved(self) -> list[int]:
        """The given items that wait for a save, in the order of the worklist."""
        return sorted(self.given.keys() - self.saved)

    @property
    def current(self) -> int | None:
        """The item that is asked; None if all are answered or skipped."""
        done = {item for item, answer in self._answers.items() if answer.is_given or answer.is_skipped}
        return next((item for item in range(self.total) if item not in done), None)

    @property
    def pending(self) -> ItemAnswer:
        """The passage and the question that were named for the current item."""
        current = self.current
        return ItemAnswer() if current is None else self._answers.get(current, ItemAnswer())

    @property
    def can_undo(self) -> bool:
        return self.pending != ItemAnswer() or bool(self._undoable)

    def keep(self, item: int, answer: ItemAnswer) -> None:
        """Keep the answer to an item: it is on the disk when this returns. Raises RunError if it cannot be written."""
        self._add(_Row.of(item, answer))

    def undo(self) -> None:
        """Take back the named passage, or question, or else the last unsaved answer."""
        pending, current = self.pending, self.current
        if current is not None and pending.passage is not None:
            self.keep(current, replace(pending, passage=None))
        elif current is not None and pending.question is not None:
            self.keep(current, ItemAnswer())
        elif self._undoable:
            self.keep(self._undoable[-1], ItemAnswer())

    def ask_again(self) -> None:
        """Ask for skipped items again."""
        for item in sorted(self.skipped):
            self.keep(item, ItemAnswer())

    def mark_saved(self, written: Sequence[int]) -> None:
        """Note that all given answers are merged into the labels, which ``written`` items have changed."""
        self._add(_Row(written=list(written)))

    def close(self) -> None:
        """Release the file; without answers it is removed."""
        if not self._stream.closed and self._is_held and not os.fstat(self._stream.fileno()).st_size:
            with suppress(OSError):
                self.file.unlink()
        self._stream.close()

    def _apply(self, row: _Row) -> None:
        self.revision += 1
        if row.written is not None:
            self.saved |= self.given.keys()
            self.written.update(row.written)
            self._undoable.clear()
        if row.item is None:
            return
        answer = row.answer
        self._answers[row.item] = answer
        if row.item in self._undoable:
            self._undoable.remove(row.item)
        if answer.is_given or answer.is_skipped:
            self._undoable.append(row.item)

    def _add(self, row: _Row) -> None:
        if not os.fstat(self._stream.fileno()).st_size:
            self._write({"ragtrial_answers": _VERSION, "worklist": self._worklist})
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self._write({"when": now, **row.model_dump(exclude_defaults=True)})
        self._apply(row)

    def _write(self, row: Mapping[str, Any]) -> None:
        end = os.fstat(self._stream.fileno()).st_size
        line = json.dumps(row, ensure_ascii=False).encode("utf-8") + b"\n"
        try:
            if self._stream.write(line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._stream.fileno())
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._stream.fileno(), end)
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> RunError:
        return RunError(Fault(str(self.file), message=f"cannot be written: {error.strerror or error}."))

    def _read(self) -> None:
        content = read_bytes(self.file, InputError)
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):
            os.ftruncate(self._stream.fileno(), len(whole))
        for number, line in enumerate(decoded(whole, self.file, InputError).split("\n")[:-1], 1):
            try:
                row = load_json(line)
            except ValueError:
                row = None
            if not isinstance(row, dict):
                message = "is not a JSON object, as each line of answers is. Remove the line."
                raise InputError(Fault(str(self.file), number, message=message))
            self._check_first(row) if number == 1 else self._apply(self._valid(row, number))

    def _check_first(self, row: Mapping[str, Any]) -> None:
        if row.get("ragtrial_answers") != _VERSION or row.get("worklist") != self._worklist:
            message = (
                "has no answers to this worklist, but to another one of its name; what of them was saved is in the "
                "labels. Move the file away to begin with this worklist."
            )
            raise InputError(Fault(str(self.file), message=message))

    def _valid(self, value: Mapping[str, Any], line: int) -> _Row:
        row = validate(_Row, value, InputError, lambda _, message: Fault(str(self.file), line, 0, message))
        if any(item >= self.total for item in (row.item or 0, *(row.written or ()))):
            raise InputError(Fault(str(self.file), line, 0, f"has an item that is not among the {self.total:,}."))
        return row
