"""Blocks of run files in plain Python: what serves where the compiled code is not installed."""

from __future__ import annotations

from functools import cached_property
from itertools import groupby
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from ragtrial.rankings import Counts
from ragtrial.runs.compiled.found import MOST_FAULTS, MOST_UNKNOWN, Bytes, Found, LineFault, Reading, Seconds, Stretches
from ragtrial.runs.qrels import Qrels
from ragtrial.runs.trec.lines import Line, lines_of, reader_of
from ragtrial.runs.trec.query_rows import Hit, Row, Rules, ranked

_NONE: dict[bytes, int] = {}


def encoded(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


class PlainJudged:
    """Who judged what, as dictionaries: queries by id, and the documents of each."""

    def __init__(self, qrels: Qrels) -> None:
        self._qrels = qrels
        self._of_query: dict[int, dict[bytes, int]] = {}
        self.queries = {encoded(name): query for query, name in enumerate(qrels.queries)}

    @cached_property
    def _documents(self) -> list[bytes]:
        return [encoded(name) for name in self._qrels.documents]

    def of_query(self, query: int) -> dict[bytes, int]:
        """The index of each judgment of a query by its document; empty for -1."""
        if query < 0:
            return _NONE
        if query not in self._of_query:
            start, end = self._qrels.judgments.starts[query : query + 2].tolist()
            self._of_query[query] = {self._documents[at]: at for at in range(start, end)}
        return self._of_query[query]


class PlainScanner:
    """Reads blocks of a run file against qrels."""

    def __init__(self, judged: PlainJudged, reading: Reading) -> None:
        self._judged, self._reading = judged, reading
        has_scores = reading.form == "trec"
        self._rules = Rules(reading.order, reading.duplicates, has_scores, not has_scores)

    def scan(self, buffer: Bytes, begin: int, end: int) -> Found:
        text = buffer[begin:end].tobytes()
        tally = Tally()
        row_of = reader_of(self._reading)
        begun = perf_counter()
        for query, lines in groupby(lines_of(text), key=_query):
            rows: list[Row] = []
            faults: list[LineFault] = []
            first = -1
            for line in lines:
                first = line.number if first < 0 else first
                row = row_of(*line)
                if isinstance(row, Row):
                    rows.append(row)
                else:
                    faults.append(row)
            read = perf_counter()
            tally.fault(faults)
            tally.add(query, first, rows, self._judged, self._rules)
            ended = perf_counter()
            tally.read, tally.check, begun = tally.read + read - begun, tally.check + ended - read, ended
        return tally.found(text.count(b"\n"))


def _query(line: Line) -> bytes:
    return line.fields[0]


class Tally:
    """Queries as they are ranked, one after the other, made columns at the end."""

    def __init__(self) -> None:
        self.rows = self.duplicates = self.fault_count = 0
        self.read = self.check = 0.0
        self._stretches: list[tuple[int, int, int, int, int, bool, bool]] = []
        self._hits: list[Hit] = []
        self._unknown: list[tuple[int, bytes]] = []
        self._faults: list[LineFault] = []

    def fault(self, faults: list[LineFault]) -> None:
        self._faults = sorted([*self._faults, *faults])[:MOST_FAULTS]
        self.fault_count += len(faults)

    def add(self, name: bytes, line: int, rows: list[Row], judged: PlainJudged, rules: Rules) -> None:
        """One query: its id, its first line and its rows."""
        query = judged.queries.get(name, -1)
        if query < 0 and len(self._unknown) < MOST_UNKNOWN:
            self._unknown.append((line, name))
        result = ranked(name, rows, judged.of_query(query), rules)
        self.rows += len(rows)
        self.duplicates += result.duplicates
        self.fault(result.faults)
        key = hash(name) & (2**64 - 1)
        self._stretches.append(
            (query, key, line, result.length, len(result.hits), result.tied, result.contradicted)
        )  # fmt: skip
        self._hits += result.hits

    def found(self, lines: int) -> Found:
        queries, keys, firsts, lengths, counts, tied, contradicted = columns(self._stretches, 7)
        ranks, judgments, tie_first, tie_last = columns(self._hits, 4)
        return Found(
            lines,
            self.rows,
            self.duplicates,
            np.array(queries, dtype=np.int32),
            np.array(keys, dtype=np.uint64),
            np.array(firsts, dtype=np.int64),
            np.array(lengths, dtype=np.int64),
            np.array(counts, dtype=np.int64),
            np.array(tied, dtype=np.bool_),
            np.array(contradicted, dtype=np.bool_),
            np.array(ranks, dtype=np.int32),
            np.array(judgments, dtype=np.int64),
            np.array(tie_first, dtype=np.int32),
            np.array(tie_last, dtype=np.int32),
            tuple(self._unknown),
            tuple(self._faults),
            self.fault_count,
            Seconds(self.read, self.check, 0.0),
        )


def columns(rows: list[Any], count: int) -> list[tuple[Any, ...]]:
    return list(zip(*rows, strict=True)) if rows else [()] * count


def plain_cut(buffer: Bytes, begin: int, end: int) -> int:
    """Where the lines of the last query begin that ends, or does not yet end, before ``end``."""
    text = buffer[begin:end].tobytes()
    at = text.rfind(b"\n") + 1
    last: bytes | None = None
    start = at
    while at:
        before = text.rfind(b"\n", 0, at - 1) + 1
        fields = text[before:at].split(None, 1)
        if fields and fields[0][:1] != b"#":
            if last is not None and fields[0] != last:
                return begin + start
            last, start = fields[0], before
        at = before
    return begin


def plain_stretches(buffer: Bytes, begin: int, end: int) -> Stretches:
    """The stretches of a block of whole lines; blank lines and comments belong to what stands before them."""
    text = buffer[begin:end].tobytes()
    begins: list[int] = []
    lines: list[int] = []
    shares: list[int] = []
    at, last = 0, None
    for number, line in enumerate(text.split(b"\n")):
        fields = line.split(None, 1)
        if fields and fields[0][:1] != b"#" and fields[0] != last:
            last = fields[0]
            begins.append(begin + at)
            lines.append(number)
            shares.append(_fnv(last))
        at += len(line) + 1
    ends = [*begins[1:], end] if begins else []
    return Stretches(_counts(begins), _counts(ends), _counts(lines), np.array(shares, dtype=np.uint32))


def plain_gather(buffer: Bytes, begins: Counts, ends: Counts) -> Bytes:
    """The pieces of a buffer, one behind the other."""
    text = buffer.tobytes()
    pieces = [text[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]
    return np.frombuffer(b"".join(pieces), dtype=np.uint8)


def plain_groups(buffer: Bytes, begins: Counts, ends: Counts) -> Counts:
    """The number of the query of each stretch, in the order in which they first came."""
    text = buffer.tobytes()
    numbers: dict[bytes, int] = {}
    names = (text[begin:end].split(None, 1)[0] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True))
    return _counts([numbers.setdefault(name, len(numbers)) for name in names])


def _counts(numbers: list[int]) -> npt.NDArray[np.int64]:
    return np.array(numbers, dtype=np.int64)


def _fnv(name: bytes) -> int:
    value = 2166136261
    for byte in name:
        value = (value ^ byte) * 16777619 & 0xFFFFFFFF
    return value
