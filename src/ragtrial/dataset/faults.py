"""The faults of a file, a table or a run, collected and then reported at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ragtrial.errors import Fault, InputError

MOST_FAULTS = 20
"""The most faults that are shown; the others are counted."""


def truncated(faults: Sequence[Fault], file: str, count: int | None = None) -> list[Fault]:
    """The first faults, and how many more there are of ``count`` (default: those given)."""
    rest = (count or len(faults)) - min(len(faults), MOST_FAULTS)
    return [*faults[:MOST_FAULTS], *([Fault(file, message=f"and {rest:,} more like these.")] if rest > 0 else [])]


class Faults:
    """The faults of one source: the first 20 by line are shown, all are counted.

    ``file`` is the name of the source in messages, empty for data in memory. ``fault_of`` makes the fault of a row from
    its number and a message; by default rows are numbered from 0.
    """

    def __init__(self, file: str, error: type[InputError]) -> None:
        self.file, self.error = file, error
        self.fault_of: Callable[[int, str], Fault] = lambda row, message: Fault(
            file, message=f"row {row} (from 0): {message}"
        )
        self.count = 0
        self._kept: list[tuple[int, Fault]] = []

    def add(self, message: str, line: int = 0, column: int = 0) -> None:
        """A fault of the whole source, or at a line of it."""
        self._add(line, Fault(self.file, line, column, message))

    def add_row(self, row: int, message: str) -> None:
        """A fault of one row."""
        fault = self.fault_of(row, message)
        self._add(fault.line or row, fault)

    def raise_any(self) -> None:
        """Raises the error with all that was found, if anything was."""
        if not self.count:
            return
        raise self.error(*truncated([fault for _, fault in self._first()], self.file, self.count))

    def fail(self, message: str, line: int = 0, column: int = 0) -> InputError:
        """The error, to be raised for one fault that leaves nothing else to look at."""
        return self.error(Fault(self.file, line, column, message))

    def _first(self) -> list[tuple[int, Fault]]:
        return sorted(self._kept, key=lambda kept: kept[0])[:MOST_FAULTS]

    def _add(self, place: int, fault: Fault) -> None:
        self.count += 1
        self._kept.append((place, fault))
        if len(self._kept) > 1000:
            self._kept = self._first()


def shown(value: object) -> str:
    """A value as messages show it, cut after 100 characters; bytes are shown as the text that they are."""
    if value is None:
        return "null"
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else repr(value)
    cut = text if len(text) <= 100 else text[:100] + "..."
    return repr(cut) if isinstance(value, bytes) else cut
