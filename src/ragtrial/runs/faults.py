"""What is wrong with a file, a table or a run: collected over all of it, then reported at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from ragtrial.errors import Fault, InputError

MOST_FAULTS = 20
"""So many faults are shown; the others are counted."""


class Faults:
    """The faults of one source: the first 20 by line are shown, all are counted.

    ``file`` is how messages call the source, empty for what is in memory. Rows are shown by their number from 0, or by
    their line where ``lines`` has one for each row.
    """

    def __init__(self, file: str, error: type[InputError]) -> None:
        self.file, self.error = file, error
        self.lines: Sequence[int] | None = None
        self.count = 0
        self._kept: list[tuple[int, Fault]] = []

    def add(self, message: str, line: int = 0, column: int = 0) -> None:
        """A fault of the whole source, or at a line of it."""
        self._add(line, Fault(self.file, line, column, message))

    def add_row(self, row: int, message: str) -> None:
        """A fault of one row."""
        if self.lines is None:
            self._add(row, Fault(self.file, message=f"row {row} (from 0): {message}"))
        else:
            self.add(message, self.lines[row])

    def add_rows(self, wrong: npt.NDArray[np.bool_], message: Callable[[int], str]) -> None:
        """A fault for each row that is marked; ``message`` is called for those that are shown."""
        rows = np.flatnonzero(wrong)
        shown_rows = rows[:MOST_FAULTS].tolist()
        self.count += len(rows) - len(shown_rows)
        for row in shown_rows:
            self.add_row(row, message(row))

    def raise_any(self) -> None:
        """Raises the error with all that was found, if anything was."""
        if not self.count:
            return
        kept = [fault for _, fault in self._first()]
        rest = self.count - len(kept)
        if rest:
            kept.append(Fault(self.file, message=f"and {rest:,} more like these."))
        raise self.error(*kept)

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
    if isinstance(value, bytes):
        text = value.decode("utf-8", "replace")
        return repr(text if len(text) <= 100 else text[:100] + "...")
    text = repr(value)
    return text if len(text) <= 100 else text[:100] + "..."
