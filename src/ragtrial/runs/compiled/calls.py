"""Calls of the compiled library: arrays in, arrays out. They release the interpreter's lock while they run."""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ragtrial.rankings import Counts
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


def load_library() -> ctypes.CDLL:
    """The library. Raises RuntimeError where it is not there."""
    loaded = library()
    if loaded is None:
        raise RuntimeError("the compiled library is not there; ask ragtrial.runs.compiled.available() first")
    return loaded


def address_of(array: npt.NDArray[Any], offset: int = 0) -> int:
    return int(array.ctypes.data) + offset


def _copied(address: int | None, count: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    size = count * np.dtype(dtype).itemsize
    return np.frombuffer(ctypes.string_at(address, size) if size and address else b"", dtype=dtype)


class _Packed(NamedTuple):
    """Ids as the library takes them, and the arrays that must live as long."""

    struct: CNames
    arrays: tuple[npt.NDArray[Any], npt.NDArray[Any]]


def _packed(names: PackedIds) -> _Packed:
    text, ends = np.ascontiguousarray(names.text), np.ascontiguousarray(names.ends, dtype=np.int64)
    return _Packed(CNames(address_of(text), address_of(ends), len(ends)), (text, ends))


class _CompiledQrels:
    """Qrels as hash tables."""

    def __init__(self, qrels: Qrels) -> None:
        self._held = _packed(PackedIds.of(qrels.queries)), _packed(qrels.documents)
        self._starts = np.ascontiguousarray(qrels.judgments.starts, dtype=np.int64)
        queries, documents = (ctypes.byref(ids.struct) for ids in self._held)
        self.address = _made(load_library().rt_judged_new(queries, documents, address_of(self._starts)))
        weakref.finalize(self, load_library().rt_judged_free, self.address)


_compiled: weakref.WeakKeyDictionary[Qrels, _CompiledQrels] = weakref.WeakKeyDictionary()


def _made(address: int | None) -> int:
    if not address:
        raise MemoryError
    return address


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

    def scan(self, buffer: Bytes, begin: int, end: int) -> BlockScan:
        """What is in bytes ``begin`` to ``end`` of a buffer; the byte behind may be overwritten."""
        address = self._address()
        _check(load_library().rt_scan(address, address_of(buffer, begin), end - begin))
        return _scan_at(address, buffer[begin:])

    def match(self, run: Run, queries: PackedIds, first: int, last: int) -> BlockScan:
        """What the rows of queries ``first`` to ``last`` of a run are; ids in faults and unknown ones are empty."""
        names, documents = _packed(queries), _packed(run.documents)
        starts = np.ascontiguousarray(run.starts, dtype=np.int64)
        values = None if run.values is None else np.ascontiguousarray(run.values, dtype=np.float64)
        address = self._address()
        failed = load_library().rt_match(
            address,
            ctypes.byref(names.struct),
            ctypes.byref(documents.struct),
            address_of(starts),
            None if values is None else address_of(values),
            first,
            last,
        )
        _check(failed)
        return _scan_at(address, run.documents.text, names=False)

    def _address(self) -> int:
        """The library's scanner for this thread, freed with this object."""
        if not hasattr(self._of_thread, "address"):
            self._of_thread.address = _made(
                load_library().rt_scanner_new(self._qrels.address, ctypes.byref(self._rules))
            )
            weakref.finalize(self, load_library().rt_scanner_free, self._of_thread.address)
        address: int = self._of_thread.address
        return address


def _check(failed: int) -> None:
    if failed:
        raise MemoryError


def _scan_at(address: int, text: Bytes, *, names: bool = True) -> BlockScan:
    found = load_library().rt_found(address).contents

    def columns(types: Mapping[str, npt.DTypeLike], count: int) -> Columns:
        return {name: _copied(getattr(found, name), count, kind) for name, kind in types.items()}

    unknown = found.unknown[: found.unknown_kept]
    return BlockScan(
        found.lines,
        found.rows,
        found.duplicates,
        columns(SEGMENT_COLUMNS, found.segment_count),
        columns(HIT_COLUMNS, found.hit_count),
        tuple((one.line, _text(text, one.name_at, one.name_length) if names else b"") for one in unknown),
        tuple(_line_fault(fault, text, names=names) for fault in found.faults[: found.faults_kept]),
        found.fault_count,
        Seconds(found.read, found.check, found.join),
    )


def _text(text: Bytes, at: int, length: int) -> bytes:
    return text[at : at + length].tobytes()


def _line_fault(fault: CFault, text: Bytes, *, names: bool = True) -> LineFault:
    error = LineError(fault.error)
    found = _text(text, fault.found_at, fault.found_length)
    if error == LineError.RANK_TAKEN:
        found = str(fault.number).encode()
    query = _text(text, fault.query_at, fault.query_length) if names else b""
    return LineFault(fault.line, error, fault.other, found, query)


def compiled_cut(buffer: Bytes, begin: int, end: int) -> int:
    """Where the lines of the last query begin that ends, or does not yet end, before ``end``."""
    return int(load_library().rt_cut(address_of(buffer), begin, end))


def compiled_segments(buffer: Bytes, begin: int, end: int) -> Segments:
    """The segments of a block of whole lines."""
    pointer = load_library().rt_segments(address_of(buffer), begin, end)
    if not pointer:
        raise MemoryError
    pieces = pointer.contents
    begins = _copied(pieces.begins, pieces.count, np.int64)
    lines = _copied(pieces.lines, pieces.count, np.int64)
    shares = _copied(pieces.shares, pieces.count, np.uint32)
    load_library().rt_pieces_free(pointer)
    return Segments(begins, np.append(begins[1:], end) if len(begins) else begins, lines, shares)


def compiled_gather(buffer: Bytes, begins: Counts, ends: Counts) -> Bytes:
    """The pieces of a buffer, one behind the other."""
    begins, ends = np.ascontiguousarray(begins), np.ascontiguousarray(ends)
    gathered = np.empty(int((ends - begins).sum()), dtype=np.uint8)
    load_library().rt_gather(
        address_of(buffer), address_of(begins), address_of(ends), len(begins), address_of(gathered)
    )
    return gathered


def compiled_groups(buffer: Bytes, begins: Counts, ends: Counts) -> Counts:
    """The number of the query of each segment, in the order in which they first came."""
    begins, ends = np.ascontiguousarray(begins), np.ascontiguousarray(ends)
    groups = np.empty(len(begins), dtype=np.int64)
    _check(
        load_library().rt_groups(
            address_of(buffer), address_of(begins), address_of(ends), len(begins), address_of(groups)
        )
    )
    return groups


def compiled_qrels(buffer: Bytes, begin: int, end: int) -> tuple[Qrels, list[LineFault], int]:
    """Qrels of four columns, the first of what is wrong with them, and how much that is."""
    pointer = load_library().rt_qrels_new(address_of(buffer, begin), end - begin)
    if not pointer:
        raise MemoryError
    try:
        read: CQrels = pointer.contents
        faults = [_line_fault(fault, buffer[begin:]) for fault in read.faults[: read.faults_kept]]
        text = ctypes.string_at(read.query_text, read.query_size).decode("utf-8", "surrogateescape")
        documents = PackedIds(
            _copied(read.document_text, read.document_size, np.uint8), _copied(read.ends, read.rows, np.int64)
        )
        judgments = Judgments(
            _copied(read.starts, read.queries + 1, np.int64),
            _copied(read.grades, read.rows, np.int32),
            np.zeros(read.queries, dtype=np.bool_),
        )
        return Qrels(tuple(text.split("\n")[:-1]), documents, judgments), faults, read.fault_count
    finally:
        load_library().rt_qrels_free(pointer)


class Segments(NamedTuple):
    """Where segments are in a block: bytes ``begins`` to ``ends`` (int64), whole lines, from line ``lines`` on.

    ``shares`` (uint32) is a hash of the query's id (FNV-1a, 32 bits), by which a file is divided into parts.
    """

    begins: Counts
    ends: Counts
    lines: Counts
    shares: npt.NDArray[np.uint32]


class NamePlaces(NamedTuple):
    """Where the hits of some queries go: counts of each, and room for ranks and judgments."""

    counts: Counts
    ranks: npt.NDArray[np.int32]
    judgments: Counts


def compiled_match_codes(
    codes: npt.NDArray[np.int32], judged: npt.NDArray[np.int32], starts: Counts, first: int, last: int
) -> NamePlaces:
    """The hits of queries ``first`` to ``last``; all arrays contiguous, ``starts`` int64."""
    count, room = last - first, int(starts[last] - starts[first])
    places = NamePlaces(np.empty(count, dtype=np.int64), np.empty(room, dtype=np.int32), np.empty(room, dtype=np.int64))
    counts = address_of(places.counts) - first * 8  # the library counts queries from 0
    failed = load_library().rt_match_codes(
        address_of(codes),
        codes.shape[1],
        address_of(judged),
        address_of(starts),
        first,
        last,
        counts,
        address_of(places.ranks),
        address_of(places.judgments),
    )
    _check(failed)
    hits = int(places.counts.sum())
    return NamePlaces(places.counts, places.ranks[:hits], places.judgments[:hits])
