"""Refusals of single texts: they cost these texts alone, unless the endpoint refuses whatever it is sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from threading import Lock
from typing import TypeVar

from ragtrial.errors import RefusedError

T = TypeVar("T")
R = TypeVar("R")

_MOST_IN_A_ROW = 16


class Refusals:
    """The refusals of one endpoint, counted by several threads.

    ``is_known`` says that the endpoint has answered such requests before.
    """

    def __init__(self, *, is_known: bool = False) -> None:
        self._lock = Lock()
        self._is_known = is_known
        self.first: RefusedError | None = None
        """The first refusal, if there is one."""

        self._in_a_row = 0

    def note_answer(self) -> None:
        with self._lock:
            self._is_known = True
            self._in_a_row = 0

    def note(self, error: RefusedError) -> None:
        """Count a refusal. Raises ``error`` where so many come in a row that no text is at fault."""
        with self._lock:
            self.first = self.first or error
            self._in_a_row += 1
            if self._in_a_row >= _MOST_IN_A_ROW:
                raise error

    def check(self) -> None:
        """Raise the first refusal if nothing else was ever answered."""
        if self.first is not None and not self._is_known:
            raise self.first

    def by_halves(self, items: Sequence[T], ask: Callable[[Sequence[T]], R]) -> Iterator[tuple[Sequence[T], R | None]]:
        """``items`` in parts, each with what ``ask`` gives for it; None for an item that is refused by itself.

        The last half is asked first. Raises RefusedError where everything is refused.
        """
        try:
            answer = ask(items)
        except RefusedError as error:
            if len(items) == 1:
                self.note(error)
                yield items, None
                return
        else:
            self.note_answer()
            yield items, answer
            return
        middle = len(items) // 2
        for half in (items[middle:], items[:middle]):
            yield from self.by_halves(half, ask)
