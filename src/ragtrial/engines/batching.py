"""Several calls at once: results in the order in which they arrive, and rows in batches."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from itertools import islice
from queue import Queue
from threading import Event, Thread
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")
_Outcome = tuple[T, list[R], BaseException | None]
"""An item, its one result if there is one, and the error if there was one."""

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
    source, failure, handed_out = iter(items), None, 0
    threads: list[Thread] = []
    tasks: Queue[list[T]] = Queue()
    results: Queue[_Outcome[T, R]] = Queue()
    is_over = Event()
    try:
        while True:
            for item in islice(source, 0 if failure else _READY * workers - handed_out):
                tasks.put([item])
                handed_out += 1
                if len(threads) < workers:
                    threads.append(Thread(target=_work, args=(function, tasks, results, is_over), daemon=True))
                    threads[-1].start()
            if not handed_out:
                break
            item, made, error = results.get()
            handed_out -= 1
            failure = failure or error
            yield from ((item, result) for result in made)
    finally:
        is_over.set()
        for _ in threads:
            tasks.put([])
        for thread in threads if is_awaited else ():
            thread.join()
    if failure is not None:
        raise failure


def _work(function: Callable[[T], R], tasks: Queue[list[T]], results: Queue[_Outcome[T, R]], is_over: Event) -> None:
    """Work on tasks, which are lists of one item, until one is empty.

    The result of an item is a list: of one, or empty after an error, and if it never began.
    """
    while task := tasks.get():
        (item,) = task
        try:
            results.put((item, [] if is_over.is_set() else [function(item)], None))
        except BaseException as error:  # noqa: BLE001 - raised where results are read
            is_over.set()  # before another thread takes the next one
            results.put((item, [], error))


def in_batches(
    send: Callable[[slice], None], count: int, size: int, at_once: int, advance: Callable[[int], None] = lambda _: None
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
