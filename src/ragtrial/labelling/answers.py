"""The answers to a worklist, given or skipped, each kept in a file of JSON lines the moment it is given."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from ragtrial.cache.bookkeeping import hold_alone
from ragtrial.cache.untrusted import load_json
from ragtrial.dataset.texts import decoded, read_bytes
from ragtrial.errors import Fault, InputError, RunError
from ragtrial.options import Options, validate

_VERSION = 1
Index = Annotated[int, Field(ge=0)]


class ItemAnswer(Options):
    """A line of the file: the answer to an item, or the items that a save has ``written`` into the labels.

    An answer has a ``grade`` or is ``skipped``; neither while only a passage, group or question was named. ``quote`` is
    the part of the item's text that answers, ``at`` its first character in that text if it is known. ``group`` is the
    group of labels that the text belongs to, as another place of the same answer. ``question`` replaces the question of
    a draft. ``earlier`` is the grade in the labels when the answer was given. ``reviewed`` is False for a draft that
    was kept unseen.
    """

    when: str = ""
    who: str = ""
    item: Index | None = None
    grade: Index | None = None
    skipped: bool = False
    quote: str | None = None
    at: Index | None = None
    group: str | None = None
    question: str | None = None
    earlier: Index | None = None
    reviewed: bool = True
    written: list[Index] | None = None

    @property
    def is_done(self) -> bool:
        return self.grade is not None or self.skipped


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
    def given(self) -> dict[int, ItemAnswer]:
        """The answers with a grade, by item."""
        return {item: answer for item, answer in self._answers.items() if answer.grade is not None}

    @property
    def skipped(self) -> set[int]:
        return {item for item, answer in self._answers.items() if answer.skipped}

    @property
    def unsaved(self) -> list[int]:
        """The given items that wait for a save, in the order of the worklist."""
        return sorted(self.given.keys() - self.saved)

    @property
    def current(self) -> int | None:
        """The item that is asked; None if all are answered or skipped."""
        done = {item for item, answer in self._answers.items() if answer.is_done}
        return next((item for item in range(self.total) if item not in done), None)

    @property
    def is_finished(self) -> bool:
        """True if all items are answered or skipped, and saved."""
        return self.current is None and not self.unsaved

    @property
    def pending(self) -> ItemAnswer:
        """The passage, the group and the question that were named for the current item."""
        current = self.current
        return self._answers.get(-1 if current is None else current, ItemAnswer(item=current))

    @property
    def can_undo(self) -> bool:
        pending = self.pending
        return (pending.quote, pending.group, pending.question) != (None, None, None) or bool(self._undoable)

    def undo(self) -> None:
        """Take back the named group, passage, or question, or else the last unsaved answer."""
        pending = self.pending
        if pending.group is not None:
            self.keep(pending.model_copy(update={"group": None}))
        elif pending.quote is not None:
            self.keep(pending.model_copy(update={"quote": None, "at": None}))
        elif pending.question is not None:
            self.keep(ItemAnswer(item=pending.item))
        elif self._undoable:
            self.keep(ItemAnswer(item=self._undoable[-1]))

    def ask_again(self) -> None:
        """Ask for skipped items again."""
        for item in sorted(self.skipped):
            self.keep(ItemAnswer(item=item))

    def close(self) -> None:
        """Release the file; without answers it is removed."""
        if not self._stream.closed and self._is_held and not os.fstat(self._stream.fileno()).st_size:
            with suppress(OSError):
                self.file.unlink()
        self._stream.close()

    def _apply(self, row: ItemAnswer) -> None:
        self.revision += 1
        if row.written is not None:
            self.saved |= self.given.keys()
            self.written.update(row.written)
            self._undoable.clear()
        if row.item is not None:
            self._answers[row.item] = row
            self._undoable = [item for item in self._undoable if item != row.item] + [row.item] * row.is_done

    def keep(self, row: ItemAnswer) -> None:
        """Keep an answer: it is on the disk when this returns. Raises RunError if it cannot be written."""
        if not os.fstat(self._stream.fileno()).st_size:
            self._write({"ragtrial_answers": _VERSION, "worklist": self._worklist})
        row = row.model_copy(update={"when": datetime.now(UTC).isoformat(timespec="seconds")})
        self._write(row.model_dump(exclude_defaults=True))
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
                value = load_json(line)
            except ValueError:
                value = None
            if not isinstance(value, dict):
                message = "is not a JSON object, as each line of answers is. Remove the line."
                raise InputError(Fault(str(self.file), number, message=message))
            self._check_first(value) if number == 1 else self._apply(self._valid(value, number))

    def _check_first(self, value: Mapping[str, Any]) -> None:
        if value.get("ragtrial_answers") != _VERSION or value.get("worklist") != self._worklist:
            message = (
                "has no answers to this worklist, but to another one of its name; what of them was saved is in the "
                "labels. Move the file away to begin with this worklist."
            )
            raise InputError(Fault(str(self.file), message=message))

    def _valid(self, value: Mapping[str, Any], line: int) -> ItemAnswer:
        row = validate(ItemAnswer, value, InputError, lambda _, message: Fault(str(self.file), line, 0, message))
        if any(item >= self.total for item in (row.item or 0, *(row.written or ()))):
            raise InputError(Fault(str(self.file), line, 0, f"has an item that is not among the {self.total:,}."))
        return row
