"""Rows go in batches, several at once: each row once, never more in memory, and no thread is left."""

import threading
from collections.abc import Callable
from threading import Barrier, Lock

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ragtrial.components.batching import TextList, shards
from ragtrial.engines.batching import in_batches


class Watched:
    """Sends batches to nowhere, and counts those that are on their way at once."""

    def __init__(self, send: Callable[[slice], object] = lambda _: None) -> None:
        self.begun: list[slice] = []
        self.most = 0
        self._send = send
        self._on_their_way = 0
        self._lock = Lock()

    def send(self, rows: slice) -> None:
        with self._lock:
            self.begun.append(rows)
            self._on_their_way += 1
            self.most = max(self.most, self._on_their_way)
        try:
            self._send(rows)
        finally:
            with self._lock:
                self._on_their_way -= 1


@given(st.integers(0, 200), st.integers(1, 30), st.integers(1, 5))
def test_every_row_is_sent_once_in_equal_batches_and_few_at_once(count: int, size: int, at_once: int) -> None:
    watched, arrived = Watched(), list[int]()
    in_batches(watched.send, count, size, at_once, arrived.append)
    sizes = [rows.stop - rows.start for rows in watched.begun]
    assert sorted(row for rows in watched.begun for row in range(rows.start, rows.stop)) == list(range(count))
    assert sorted(arrived) == sorted(sizes)
    assert max(sizes, default=0) <= size
    assert max(sizes, default=0) - min(sizes, default=0) <= 1
    assert watched.most <= at_once


def test_as_many_batches_as_allowed_go_at_once_and_a_lone_one_needs_no_thread() -> None:
    together = Barrier(3)  # broken if fewer than three are
    watched = Watched(lambda _: together.wait(30))
    in_batches(watched.send, 12, 1, 3)
    assert watched.most == 3
    threads = set[threading.Thread]()
    in_batches(lambda _: threads.add(threading.current_thread()), 10, 10, 4)
    in_batches(lambda _: threads.add(threading.current_thread()), 10, 2, 1)
    assert threads == {threading.current_thread()}


@pytest.mark.parametrize(("length", "counts"), [(62_500, [32, 8]), (125_000, [16, 16, 8]), (3_000_000, [2] * 20)])
def test_as_many_texts_are_read_at_once_as_fit(length: int, counts: list[int]) -> None:
    """At most 16 batches, and two million tokens unless a batch has more."""
    shards_of = shards(TextList(["text"] * 40), np.arange(40), np.full(40, length), 2, None, 16)
    assert [sum(len(texts) for _, texts in shard) for shard in shards_of] == counts


class Panic(BaseException):
    """As compiled clients raise them."""


@pytest.mark.parametrize(
    "failure", [ValueError("the disk is full"), Panic("aborted"), KeyboardInterrupt("by a person")]
)
def test_the_first_failure_is_raised_when_no_batch_is_on_its_way_and_no_other_begins(failure: BaseException) -> None:
    both, ended, before = Barrier(2), list[int](), threading.active_count()
    by_a_person = isinstance(failure, KeyboardInterrupt)

    def send(rows: slice) -> None:
        if rows.start < 2:
            both.wait(30)
        if rows.start == 0 and not by_a_person:
            raise failure
        ended.append(rows.start)

    def arrived(_: int) -> None:
        if by_a_person:
            raise failure

    watched = Watched(send)
    with pytest.raises(type(failure), match=str(failure)):
        in_batches(watched.send, 10_000, 1, 2, arrived)
    assert sorted(ended if by_a_person else [0, *ended]) == sorted(rows.start for rows in watched.begun)
    assert len(ended) < 9_999
    assert threading.active_count() == before
