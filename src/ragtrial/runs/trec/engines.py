"""Who does the work on blocks: the compiled code, or plain Python where that is not installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol
from weakref import WeakKeyDictionary

from ragtrial.runs.compiled import available
from ragtrial.runs.compiled.found import Bytes, Found, LineFault, Reading
from ragtrial.runs.qrels import Qrels
from ragtrial.runs.trec.plain_qrels import plain_qrels
from ragtrial.runs.trec.plain_runs import (
    PlainJudged,
    PlainScanner,
    plain_cut,
    plain_gather,
    plain_groups,
    plain_stretches,
)
from ragtrial.runs.trec.scattered import Kernel

if TYPE_CHECKING:
    from ragtrial.runs.compiled.calls import CompiledJudged

_plain: WeakKeyDictionary[Qrels, PlainJudged] = WeakKeyDictionary()
_compiled: WeakKeyDictionary[Qrels, CompiledJudged] = WeakKeyDictionary()


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


class CompiledEngine:
    """The steps by the compiled library."""

    def __init__(self, qrels: Qrels, reading: Reading) -> None:
        from ragtrial.runs.compiled import calls

        self.cut = calls.compiled_cut
        self.stretches = calls.compiled_stretches
        self.gather = calls.compiled_gather
        self.groups = calls.compiled_groups
        self.scan = calls.CompiledScanner.of(compiled_judged(qrels), reading).scan


def plain_judged(qrels: Qrels) -> PlainJudged:
    """The qrels as dictionaries, made once."""
    if qrels not in _plain:
        _plain[qrels] = PlainJudged(qrels)
    return _plain[qrels]


def compiled_judged(qrels: Qrels) -> CompiledJudged:
    """The qrels as the compiled library's hash tables, made once."""
    from ragtrial.runs.compiled.calls import CompiledJudged

    if qrels not in _compiled:
        _compiled[qrels] = CompiledJudged(qrels)
    return _compiled[qrels]


def engine_for(qrels: Qrels, reading: Reading) -> Engine:
    """The fastest engine that there is. All give the same."""
    return CompiledEngine(qrels, reading) if available() else PlainEngine(qrels, reading)


def parsed_qrels(buffer: Bytes, begin: int, end: int) -> tuple[Qrels, list[LineFault], int]:
    """The qrels in a buffer, the first of what is wrong with them, and how much that is."""
    if not available():
        return plain_qrels(buffer, begin, end)
    from ragtrial.runs.compiled.calls import compiled_qrels

    return compiled_qrels(buffer, begin, end)
