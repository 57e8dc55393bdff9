"""Calls of the compiled library: arrays in, arrays out. They release the interpreter's lock while they run."""

from __future__ import annotations

import ctypes
import queue
import weakref
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ragtrial.rankings import Counts
from ragtrial.runs.compiled.binding import CFault, CNames, CQrels, CRules, library
from ragtrial.runs.compiled.found import Bytes, Duplicates, Found, LineFault, Reading, Seconds, Stretches, Wrong
from ragtrial.runs.qrels import Judgments, Names, Order, Qrels, Run

_FORMS = {"trec": 0, "msmarco": 1}
_ORDERS = {"score": 0, "trec": 1, "rank": 2, "file": 3}


def the_library() -> ctypes.CDLL:
    loaded = library()
    if loaded is None:
        raise RuntimeError("the compiled library is not there; ask ragtrial.runs.compiled.available() first")
    return loaded


def at(array: npt.NDArray[Any], offset: int = 0) -> int:
    return int(array.ctypes.data) + offset


def _copied(address: int | None, count: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    size = count * np.dtype(dtype).itemsize
    return np.frombuffer(ctypes.string_at(address, size) if size and address else b"", dtype=dtype)


class _Packed(NamedTuple):
    """Ids as the library takes them, and the arrays that must live as long."""

    struct: CNames
    arrays: tuple[npt.NDArray[Any], npt.NDArray[Any]]


def _packed(names: Names) -> _Packed:
    text, ends = np.ascontiguousarray(names.text), np.ascontiguousarray(names.ends, dtype=np.int64)
    return _Packed(CNames(at(text), at(ends), len(ends)), (text, ends))


class CompiledJudged:
    """Qrels as hash tables."""

    def __init__(self, qrels: Qrels) -> None:
        self._held = _packed(Names.of(qrels.queries)), _packed(qrels.documents)
        self._starts = np.ascontiguousarray(qrels.judgments.starts, dtype=np.int64)
        self.address = _made(
            the_library().rt_judged_new(*(ctypes.byref(names.struct) for names in self._held), at(self._starts))
        )
        weakref.finalize(self, the_library().rt_judged_free, self.address)


def _made(address: int | None) -> int:
    if not address:
        raise MemoryError
    return address


class CompiledScanner:
    """Reads blocks of a run file, or rows in memory, against qrels. Several threads may call it at once."""

    def __init__(self, judged: CompiledJudged, rules: CRules) -> None:
        self._judged, self._rules = judged, rules
        self._free: queue.SimpleQueue[int] = queue.SimpleQueue()

    @classmethod
    def of(cls, judged: CompiledJudged, reading: Reading) -> CompiledScanner:
        """One for files."""
        scores = reading.form == "trec"
        form, first = _FORMS[reading.form], reading.duplicates == "first"
        return cls(judged, CRules(form, _ORDERS[reading.order], first, reading.lenient, scores, not scores))

    @classmethod
    def of_rules(
        cls, judged: CompiledJudged, order: Order, duplicates: Duplicates, *, scores: bool, ranks: bool
    ) -> CompiledScanner:
        """One for rows in memory, which have scores, or ranks of which each may be taken once, or neither."""
        return cls(judged, CRules(0, _ORDERS[order], duplicates == "first", 0, scores, ranks))

    def scan(self, buffer: Bytes, begin: int, end: int) -> Found:
        """What stands in bytes ``begin`` to ``end`` of a buffer; the byte behind may be overwritten."""
        with _Lent(self) as address:
            _check(the_library().rt_scan(address, at(buffer, begin), end - begin))
            return _found(address, buffer[begin:])

    def match(self, run: Run, queries: Names, first: int, last: int) -> Found:
        """What the rows of queries ``first`` to ``last`` of a run are; ids in faults and unknown ones are empty."""
        names, documents = _packed(queries), _packed(run.documents)
        starts = np.ascontiguousarray(run.starts, dtype=np.int64)
        values = None if run.values is None else np.ascontiguousarray(run.values, dtype=np.float64)
        with _Lent(self) as address:
            _check(
                the_library().rt_match(
                    address,
                    ctypes.byref(names.struct),
                    ctypes.byref(documents.struct),
                    at(starts),
                    None if values is None else at(values),
                    first,
                    last,
                )
            )
            return _found(address, run.documents.text, names=False)


class _Lent:
    """A scanner of the library for one thread, for one call; freed with the Python object that lends it."""

    def __init__(self, scanner: CompiledScanner) -> None:
        self._scanner = scanner

    def __enter__(self) -> int:
        free = self._scanner._free  # noqa: SLF001 - its own part
        try:
            self._address = free.get_nowait()
        except queue.Empty:
            rules = self._scanner._rules  # noqa: SLF001
            judged = self._scanner._judged  # noqa: SLF001
            self._address = _made(the_library().rt_scanner_new(judged.address, ctypes.byref(rules)))
            weakref.finalize(self._scanner, the_library().rt_scanner_free, self._address)
        return self._address

    def __exit__(self, *_: object) -> None:
        self._scanner._free.put(self._address)  # noqa: SLF001


def _check(failed: int) -> None:
    if failed:
        raise MemoryError


def _found(address: int, text: Bytes, *, names: bool = True) -> Found:
    found = the_library().rt_found(address).contents
    stretches, hits = found.stretch_count, found.hit_count
    unknown = found.unknown[: found.unknown_kept]
    return Found(
        found.lines,
        found.rows,
        found.duplicates,
        _copied(found.queries, stretches, np.int32),
        _copied(found.keys, stretches, np.uint64),
        _copied(found.first_lines, stretches, np.int64),
        _copied(found.lengths, stretches, np.int64),
        _copied(found.hit_counts, stretches, np.int64),
        _copied(found.tied, stretches, np.bool_),
        _copied(found.contradicted, stretches, np.bool_),
        _copied(found.ranks, hits, np.int32),
        _copied(found.judgments, hits, np.int64),
        _copied(found.tie_first, hits, np.int32),
        _copied(found.tie_last, hits, np.int32),
        tuple((one.line, _text(text, one.name_at, one.name_length) if names else b"") for one in unknown),
        tuple(_line_fault(fault, text, names=names) for fault in found.faults[: found.faults_kept]),
        found.fault_count,
        Seconds(found.read, found.check, found.join),
    )


def _text(text: Bytes, at: int, length: int) -> bytes:
    return text[at : at + length].tobytes()


def _line_fault(fault: CFault, text: Bytes, *, names: bool = True) -> LineFault:
    wrong = Wrong(fault.wrong)
    found = _text(text, fault.found_at, fault.found_length)
    if wrong == Wrong.RANK_TAKEN:
        found = str(fault.number).encode()
    query = _text(text, fault.query_at, fault.query_length) if names else b""
    return LineFault(fault.line, wrong, fault.other, found, query)


def compiled_cut(buffer: Bytes, begin: int, end: int) -> int:
    """Where the lines of the last query begin that ends, or does not yet end, before ``end``."""
    return int(the_library().rt_cut(at(buffer), begin, end))


def compiled_stretches(buffer: Bytes, begin: int, end: int) -> Stretches:
    """The stretches of a block of whole lines."""
    pointer = the_library().rt_stretches(at(buffer), begin, end)
    if not pointer:
        raise MemoryError
    pieces = pointer.contents
    begins = _copied(pieces.begins, pieces.count, np.int64)
    lines = _copied(pieces.lines, pieces.count, np.int64)
    shares = _copied(pieces.shares, pieces.count, np.uint32)
    the_library().rt_pieces_free(pointer)
    return Stretches(begins, np.append(begins[1:], end) if len(begins) else begins, lines, shares)


def compiled_gather(buffer: Bytes, begins: Counts, ends: Counts) -> Bytes:
    """The pieces of a buffer, one behind the other."""
    begins, ends = np.ascontiguousarray(begins), np.ascontiguousarray(ends)
    gathered = np.empty(int((ends - begins).sum()), dtype=np.uint8)
    the_library().rt_gather(at(buffer), at(begins), at(ends), len(begins), at(gathered))
    return gathered


def compiled_groups(buffer: Bytes, begins: Counts, ends: Counts) -> Counts:
    """The number of the query of each stretch, in the order in which they first came."""
    begins, ends = np.ascontiguousarray(begins), np.ascontiguousarray(ends)
    groups = np.empty(len(begins), dtype=np.int64)
    _check(the_library().rt_groups(at(buffer), at(begins), at(ends), len(begins), at(groups)))
    return groups


def compiled_qrels(buffer: Bytes, begin: int, end: int) -> tuple[Qrels, list[LineFault], int]:
    """Qrels of four columns, the first of what is wrong with them, and how much that is."""
    pointer = the_library().rt_qrels_new(at(buffer, begin), end - begin)
    if not pointer:
        raise MemoryError
    try:
        read: CQrels = pointer.contents
        faults = [_line_fault(fault, buffer[begin:]) for fault in _first(read.faults, read.faults_kept)]
        text = ctypes.string_at(read.query_text, read.query_size).decode("utf-8", "surrogateescape")
        documents = Names(
            _copied(read.document_text, read.document_size, np.uint8), _copied(read.ends, read.rows, np.int64)
        )
        judgments = Judgments(
            _copied(read.starts, read.queries + 1, np.int64),
            _copied(read.grades, read.rows, np.int32),
            np.zeros(read.queries, dtype=np.bool_),
        )
        return Qrels(tuple(text.split("\n")[:-1]), documents, judgments), faults, read.fault_count
    finally:
        the_library().rt_qrels_free(pointer)


def _first(faults: Iterable[CFault], count: int) -> list[CFault]:
    return list(faults)[:count]


class Places(NamedTuple):
    """Where the hits of some queries go: counts of each, and room for ranks and judgments."""

    counts: Counts
    ranks: npt.NDArray[np.int32]
    judgments: Counts


def compiled_match_codes(
    codes: npt.NDArray[np.int32], judged: npt.NDArray[np.int32], starts: Counts, first: int, last: int
) -> Places:
    """The hits of queries ``first`` to ``last``; all arrays contiguous, ``starts`` int64."""
    count, room = last - first, int(starts[last] - starts[first])
    places = Places(np.empty(count, dtype=np.int64), np.empty(room, dtype=np.int32), np.empty(room, dtype=np.int64))
    counts = at(places.counts) - first * 8  # the library counts queries from 0
    failed = the_library().rt_match_codes(
        at(codes),
        codes.shape[1],
        at(judged),
        at(starts),
        first,
        last,
        counts,
        at(places.ranks),
        at(places.judgments),
    )
    _check(failed)
    hits = int(places.counts.sum())
    return Places(places.counts, places.ranks[:hits], places.judgments[:hits])
