"""Several calls at once: results in the order in which they arrive, and rows in batches."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from itertools import islice
from queue import Queue
from threading import Thread
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

_READY = 2
"""Items that are handed out for each worker, so that it finds the next one when it is done."""


def as_they_come(
    function: Callable[[T], R], items: Iterable[T], workers: int, *, is_awaited: bool = False
) -> Generator[tuple[T, R], None, None]:
    """Pairs of an item and the result of ``function``, from ``workers`` threads, in the order of arrival.

    Items are taken as they are needed. A worker takes the next one when ``function`` has returned: results that
    ``function`` itself keeps are kept before the next call, and a killed program loses at most one for each worker.
    After a failure no call begins; those on their way are waited for and yielded, and then the first error is raised.
    If it is closed or interrupted before, calls on their way are waited for if it ``is_awaited``, else left alone.
    """
    source = iter(items)
    failure: BaseException | None = None
    pool = _Pool(function, workers)
    try:
        while True:
            if failure is None:
                pool.hand_out(islice(source, _READY * workers - pool.handed_out))
            if not pool.handed_out:
                break
            item, made, error = pool.result()
            failure = failure or error
            for one in made:
                yield item, one
    finally:
        pool.end()
        if is_awaited:
            pool.join()
    if failure is not None:
        raise failure


class _Pool(Generic[T, R]):
    """Daemon threads. A task is a list of one item; an empty list ends a thread."""

    def __init__(self, function: Callable[[T], R], workers: int) -> None:
        self.handed_out = 0
        self._is_over = False
        self._function = function
        self._workers = workers
        self._threads: list[Thread] = []
        self._tasks: Queue[list[T]] = Queue()
        self._results: Queue[tuple[T, list[R], BaseException | None]] = Queue()

    def hand_out(self, items: Iterable[T]) -> None:
        for item in items:
            self._tasks.put([item])
            self.handed_out += 1
            if len(self._threads) < self._workers:
                self._threads.append(Thread(target=self._work, daemon=True))
                self._threads[-1].start()

    def result(self) -> tuple[T, list[R], BaseException | None]:
        """The next to arrive: an item with its one result, with an error, or with neither if it never began."""
        found = self._results.get()
        self.handed_out -= 1
        return found

    def end(self) -> None:
        self._is_over = True
        for _ in self._threads:
            self._tasks.put([])

    def join(self) -> None:
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while task := self._tasks.get():
            (item,) = task
            if self._is_over:
                self._results.put((item, [], None))
                continue
            try:
                self._results.put((item, [self._function(item)], None))
            except BaseException as error:  # noqa: BLE001 - raised where results are read
                self._is_over = True  # before another thread takes the next one
                self._results.put((item, [], error))


def in_batches(
    send: Callable[[slice], None],
    count: int,
    size: int,
    at_once: int,
    advance: Callable[[int], None] = lambda _: None,
) -> None:
    """Call ``send`` with each batch of ``count`` rows, at most ``size`` and all alike, in at most ``at_once`` threads.

    ``send`` itself reads the rows of its batch, so that no more than ``at_once`` batches are in memory. ``advance`` is
    called here, with the number of rows of each batch that has arrived. A single batch is sent from this thread.
    After the first failure, which is raised, and after an interruption no batch begins; those on their way are waited
    for, and no thread is left.
    """
    parts = -(-count // size)
    batches = [slice(count * part // parts, count * (part + 1) // parts) for part in range(parts)]
    if min(at_once, len(batches)) < 2:
        for rows in batches:
            send(rows)
            advance(rows.stop - rows.start)
        return
    with closing(as_they_come(send, batches, at_once, is_awaited=True)) as arriving:
        for rows, _ in arriving:
            advance(rows.stop - rows.start)
