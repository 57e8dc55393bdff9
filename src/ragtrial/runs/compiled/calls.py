"""Calls of the compiled library: arrays in, arrays out. They release the interpreter's lock while they run."""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ragtrial.runs.compiled.binding import CFault, CNames, CQrels, CRules, library
from ragtrial.runs.compiled.block_scans import (
    HIT_COLUMNS,
    SEGMENT_COLUMNS,
    BlockScan,
    Bytes,
    Columns,
    LineError,
    LineFault,
    Rules,
    Seconds,
)
from ragtrial.runs.qrels import Judgments, PackedIds, Qrels, Run

_FORMS = {"trec": 0, "msmarco": 1}
_ORDERS = {"score": 0, "trec": 1, "rank": 2, "file": 3}


def _library() -> ctypes.CDLL:
    loaded = library()
    if loaded is None:
        raise RuntimeError("the compiled library is not there; ask ragtrial.runs.compiled.available() first")
    return loaded


def _address(array: npt.NDArray[Any], offset: int = 0) -> int:
    return int(array.ctypes.data) + offset


def _made(address: Any) -> Any:
    if not address:
        raise MemoryError
    return address


def _check(failed: int) -> None:
    if failed:
        raise MemoryError


def _copied(address: int | None, count: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    size = count * np.dtype(dtype).itemsize
    return np.frombuffer(ctypes.string_at(address, size) if size and address else b"", dtype=dtype)


class _Names:
    """Ids as the library takes them, with the arrays that must live as long."""

    def __init__(self, ids: PackedIds) -> None:
        self._held = np.ascontiguousarray(ids.text), np.ascontiguousarray(ids.ends, dtype=np.int64)
        self.struct = CNames(*(_address(array) for array in self._held), len(ids))


class _CompiledQrels:
    """Qrels as hash tables."""

    def __init__(self, qrels: Qrels) -> None:
        self._held = _Names(PackedIds.of(qrels.queries)), _Names(qrels.documents)
        self._starts = np.ascontiguousarray(qrels.judgments.starts, dtype=np.int64)
        queries, documents = (ctypes.byref(names.struct) for names in self._held)
        self.address = _made(_library().rt_judged_new(queries, documents, _address(self._starts)))
        weakref.finalize(self, _library().rt_judged_free, self.address)


_compiled: weakref.WeakKeyDictionary[Qrels, _CompiledQrels] = weakref.WeakKeyDictionary()


class CompiledScanner:
    """Reads blocks of a run file, or rows in memory, against qrels. Several threads may call it at once."""

    def __init__(self, qrels: Qrels, rules: Rules) -> None:
        if qrels not in _compiled:
            _compiled[qrels] = _CompiledQrels(qrels)
        self._qrels = _compiled[qrels]
        self._rules = CRules(
            _FORMS[rules.form],
            _ORDERS[rules.order],
            rules.duplicates == "first",
            rules.lenient,
            rules.has_scores,
            rules.unique_ranks,
        )
        self._of_thread = threading.local()

    def scan(self, buffer: Bytes, size: int) -> BlockScan:
        """What is in the first ``size`` bytes of a buffer; the byte behind may be overwritten."""
        address = self._scanner()
        _check(_library().rt_scan(address, _address(buffer), size))
        return _scan_at(address, buffer)

    def match(self, run: Run, queries: PackedIds, first: int, last: int) -> BlockScan:
        """What the rows of queries ``first`` to ``last`` of a run are; ids of queries in it mean nothing."""
        names, documents = _Names(queries), _Names(run.documents)
        starts = np.ascontiguousarray(run.starts, dtype=np.int64)
        values = np.ascontiguousarray([] if run.values is None else run.values, dtype=np.float64)
        address, (own, theirs) = self._scanner(), map(ctypes.byref, (names.struct, documents.struct))
        _check(_library().rt_match(address, own, theirs, _address(starts), _address(values), first, last))
        return _scan_at(address, run.documents.text)

    def _scanner(self) -> int:
        """The library's scanner for this thread, freed with this object."""
        if not hasattr(self._of_thread, "address"):
            made = _made(_library().rt_scanner_new(self._qrels.address, ctypes.byref(self._rules)))
            self._of_thread.address = made
            weakref.finalize(self, _library().rt_scanner_free, made)
        return int(self._of_thread.address)


def _scan_at(address: int, text: Bytes) -> BlockScan:
    found = _library().rt_found(address).contents

    def columns(types: Mapping[str, npt.DTypeLike], count: int) -> Columns:
        return {name: _copied(getattr(found, name), count, kind) for name, kind in types.items()}

    unknown = found.unknown[: found.unknown_kept]
    return BlockScan(
        found.lines,
        found.rows,
        found.duplicates,
        columns(SEGMENT_COLUMNS, found.segment_count),
        columns(HIT_COLUMNS, found.hit_count),
        tuple((one.line, _text(text, one.name_at, one.name_length)) for one in unknown),
        tuple(_line_fault(fault, text) for fault in found.faults[: found.faults_kept]),
        found.fault_count,
        Seconds(found.read, found.check, found.join),
    )


def _text(text: Bytes, at: int, length: int) -> bytes:
    return text[at : at + length].tobytes()


def _line_fault(fault: CFault, text: Bytes) -> LineFault:
    error = LineError(fault.error)
    found = _text(text, fault.found_at, fault.found_length)
    if error == LineError.RANK_TAKEN:
        found = str(fault.number).encode()
    return LineFault(fault.line, error, fault.other, found, _text(text, fault.query_at, fault.query_length))


def compiled_cut(buffer: Bytes, end: int) -> int:
    """Where the lines of the last query begin that ends, or does not yet end, before ``end``; 0 if it is the only."""
    return int(_library().rt_cut(_address(buffer), 0, end))


def compiled_qrels(buffer: Bytes, size: int) -> Qrels | None:
    """Qrels of four columns; None where anything is wrong with them."""
    pointer = _made(_library().rt_qrels_new(_address(buffer), size))
    try:
        read: CQrels = pointer.contents
        if read.fault_count or not read.rows:
            return None
        text = ctypes.string_at(read.query_text, read.query_size).decode("utf-8", "surrogateescape")
        documents = PackedIds(
            _copied(read.document_text, read.document_size, np.uint8), _copied(read.ends, read.rows, np.int64)
        )
        judgments = Judgments(
            _copied(read.starts, read.queries + 1, np.int64),
            _copied(read.grades, read.rows, np.int32),
            np.zeros(read.queries, dtype=np.bool_),
        )
        return Qrels(tuple(text.split("\n")[:-1]), documents, judgments)
    finally:
        _library().rt_qrels_free(pointer)
