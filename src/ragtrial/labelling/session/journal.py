"""What happened while somebody labelled, one JSON line after another, kept at once: so that nothing is asked twice."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from ragtrial.cache.presence import hold_alone
from ragtrial.cache.untrusted import load_json
from ragtrial.dataset.texts import decoded, read_bytes
from ragtrial.errors import Fault, InputError, RunError

_VERSION = 1

Event = Mapping[str, Any]


def journal_file(worklist: Path) -> Path:
    """Where the answers to a worklist are kept: ``worklist.answers.jsonl`` beside ``worklist.json``."""
    return worklist.with_name(f"{worklist.name.removesuffix('.json')}.answers.jsonl")


class SessionJournal:
    """The events of a worklist. Nobody else can open them meanwhile.

    ``worklist`` is a hash of the worklist that they belong to. A last line that was cut off, by a power cut say, is
    dropped: it was not answered. Raises InputError for events of another worklist, for what is no journal, and where
    somebody else has it open; RunError if it cannot be written.
    """

    def __init__(self, file: Path, worklist: str) -> None:
        self.file = file
        self._worklist = worklist
        try:
            self._stream = file.open("ab", buffering=0)
        except OSError as error:
            raise RunError(Fault(str(file), message=f"cannot be written: {error.strerror or error}.")) from error
        self._is_held = False
        try:
            self._is_held = hold_alone(self._stream.fileno())
            if not self._is_held:
                message = "is being written: somebody labels this worklist at the moment. End that first."
                raise InputError(Fault(str(file), message=message))
            self.events = self._read()
        except BaseException:
            self.close()
            raise

    def add(self, **event: Any) -> Event:
        """Keep an event: it is on the disk when this returns. Raises RunError if it cannot be written."""
        if not os.fstat(self._stream.fileno()).st_size:
            self._write({"ragtrial_answers": _VERSION, "worklist": self._worklist})
        event = {"when": datetime.now(UTC).isoformat(timespec="seconds"), **event}
        self._write(event)
        self.events.append(event)
        return event

    def close(self) -> None:
        """Let go of it; a journal in which nothing stands leaves no file."""
        if not self._stream.closed and self._is_held and not os.fstat(self._stream.fileno()).st_size:
            with suppress(OSError):
                self.file.unlink()
        self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, row: Event) -> None:
        end = os.fstat(self._stream.fileno()).st_size
        line = json.dumps(row, ensure_ascii=False).encode("utf-8") + b"\n"
        try:
            if self._stream.write(line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._stream.fileno())
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._stream.fileno(), end)
            raise RunError(Fault(str(self.file), message=f"cannot be written: {error.strerror or error}.")) from error

    def _read(self) -> list[Event]:
        content = read_bytes(self.file, InputError)
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):
            os.ftruncate(self._stream.fileno(), len(whole))
        rows: list[Event] = []
        for number, line in enumerate(decoded(whole, self.file, InputError).split("\n")[:-1], 1):
            try:
                row = load_json(line)
            except ValueError:
                row = None
            if not isinstance(row, dict):
                message = "is not a JSON object, as each line of answers is. Remove the line."
                raise InputError(Fault(str(self.file), number, message=message))
            rows.append(row)
        if not rows:
            return []
        if rows[0].get("ragtrial_answers") != _VERSION or rows[0].get("worklist") != self._worklist:
            message = (
                "has no answers to this worklist, but to another one of its name; what of them was saved is in the "
                "labels. Move the file away to begin with this worklist."
            )
            raise InputError(Fault(str(self.file), message=message))
        return rows[1:]
