"""Who does the work on blocks: the compiled code, or plain Python where that is not installed."""

from __future__ import annotations

from typing import Protocol
from weakref import WeakKeyDictionary

from ragtrial.compiled.found import Bytes, Found, LineFault, Reading
from ragtrial.judgments import Qrels
from ragtrial.matching.plain import (
    PlainJudged,
    PlainScanner,
    plain_cut,
    plain_gather,
    plain_groups,
    plain_qrels,
    plain_stretches,
)
from ragtrial.matching.scattered import Kernel

_plain: WeakKeyDictionary[Qrels, PlainJudged] = WeakKeyDictionary()


class Engine(Kernel, Protocol):
    """All steps on blocks of one run file. ``scan`` may be called by several threads at once."""

    def cut(self, buffer: Bytes, begin: int, end: int) -> int: ...
    def scan(self, buffer: Bytes, begin: int, end: int) -> Found: ...


class PlainEngine:
    """The steps in plain Python."""

    cut = staticmethod(plain_cut)
    stretches = staticmethod(plain_stretches)
    gather = staticmethod(plain_gather)
    groups = staticmethod(plain_groups)

    def __init__(self, qrels: Qrels, reading: Reading) -> None:
        self.scan = PlainScanner(plain_judged(qrels), reading).scan


def plain_judged(qrels: Qrels) -> PlainJudged:
    """The qrels as dictionaries, made once."""
    if qrels not in _plain:
        _plain[qrels] = PlainJudged(qrels)
    return _plain[qrels]


def engine_for(qrels: Qrels, reading: Reading) -> Engine:
    return PlainEngine(qrels, reading)


def parsed_qrels(buffer: Bytes, begin: int, end: int) -> tuple[Qrels, list[LineFault]]:
    """The qrels in a buffer, and what is wrong with them."""
    return plain_qrels(buffer, begin, end)
