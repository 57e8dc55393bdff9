"""Rows on their way to a server or back: in batches, several at once, and never more than that in memory."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

from ragtrial.components.batching import as_they_come


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
