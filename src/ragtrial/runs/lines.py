"""Lines of run files and qrels as columns: split by the compiled code, or here, where all rules of the form are."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import IO, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ragtrial.dataset.faults import MOST_FAULTS, Faults, shown
from ragtrial.rankings import Bools, Codes, Counts, starts_of
from ragtrial.runs.compiled import compiled_library
from ragtrial.runs.compiled.library import PADDING, Block, Room, TextForm, hashes_of, split_text
from ragtrial.runs.qrels import PackedIds

Bytes = npt.NDArray[np.uint8]
Hashes = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.uint8]
LineForm = Literal["trec", "msmarco"]

BOM = b"\xef\xbb\xbf"
NO_RANK = np.iinfo(np.int64).min
"""The rank of a row that has none that is a number; no other rank has this value."""

RISES, TIES, FALLS_BACK, MAY_REPEAT, MAY_BE_JUDGED = (np.uint8(1 << bit) for bit in range(5))
"""The flags of a row, as split.c sets them. In its query, the row before has a lower score; has the same score; has a
higher rank. An earlier row may have the same document. The document may be judged."""

_HINTS = MAY_REPEAT | MAY_BE_JUDGED
_EVERY_BIT = np.full(1, 255, dtype=np.uint8)
_TEXT_FORMS: dict[LineForm, TextForm] = {
    "trec": TextForm(6, may_have_more=False, document=2, number=3, may_have_sign=True, score=4),
    "msmarco": TextForm(3, may_have_more=False, document=1, number=2, may_have_sign=False, score=-1),
}
_SCORE = re.compile(rb"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf(?:inity)?)", re.IGNORECASE)
_NAN = re.compile(rb"[+-]?nan(?:\(.*\))?", re.IGNORECASE | re.DOTALL)
_WHOLE = re.compile(rb"[+-]?[0-9]+(?:_[0-9]+)*")
_POSITIVE = re.compile(rb"[0-9]+")
_INT64 = 2**63

_COLUMNS = {
    "trec": "a TREC run has 6 (more with trec_compat): query, Q0, document, rank, score, tag",
    "msmarco": "an MS MARCO run has 3: query, document, rank",
}
_RANK = {
    "trec": "a whole number; the fourth column of a TREC run is the rank",
    "msmarco": "a whole number from 1 on; the third column of an MS MARCO run is the rank",
}
_NOT_A_NUMBER = "is not a number, so it has no place in an order; give every hit a score."
_NOT_DECIMAL = "must be a decimal number, inf or -inf."


class LineFault(NamedTuple):
    """A line, which counts from 0 from the start of the block, and its fault.

    ``message`` ends before the ``query`` and the ``earlier`` line if the line repeats what that line has; then
    ``advice`` follows them.
    """

    line: int
    message: str
    earlier: int = -1
    query: str = ""
    advice: str = ""

    def below(self, lines: int) -> LineFault:
        """The same fault in a file that has this number of lines before the block."""
        return self._replace(line=self.line + lines, earlier=self.earlier + lines if self.query else -1)

    def __str__(self) -> str:
        if not self.query:
            return self.message
        return f"{self.message} for query {self.query}, as line {self.earlier + 1} does; {self.advice}"


@dataclass(frozen=True, eq=False)
class RunRows:
    """Rows of a run as columns, grouped by query: query ``i`` has ``starts[i]:starts[i + 1]``.

    The document of a row is ``text[at:at + length]``, its hash (uint64) is in ``hashes``. ``line`` counts from 0.
    ``scores`` are float64, 0 without scores; ``ranks`` are int64 (float64 of a run in memory), ``NO_RANK`` without a
    rank. ``flags`` (uint8) spare looks at the rest. ``lines`` counts all lines of the text, ``faults`` lists their
    faults.
    """

    queries: Sequence[bytes]
    starts: Counts
    text: Bytes
    at: Counts
    length: Counts
    hashes: Hashes
    line: Counts
    scores: npt.NDArray[np.float64]
    ranks: npt.NDArray[Any]
    flags: Flags
    lines: int = 0
    faults: Sequence[LineFault] = ()

    def __len__(self) -> int:
        return len(self.at)

    def document(self, row: int) -> bytes:
        return self.text[self.at[row] : self.at[row] + self.length[row]].tobytes()

    def documents(self) -> PackedIds:
        """The documents of all rows."""
        return PackedIds(self.text[places_of(self.at, self.length)], np.cumsum(self.length))

    def of_rows(self, rows: Counts, starts: Counts | None = None) -> RunRows:
        """The ``rows``, in this order; of each query there are as many as before unless new ``starts`` say it."""
        names = ("at", "length", "hashes", "line", "scores", "ranks", "flags")
        columns = {name: getattr(self, name)[rows] for name in names}
        return replace(self, starts=self.starts if starts is None else starts, **columns).compared()

    def without(self, rows: Counts) -> RunRows:
        """All rows but these."""
        kept = np.delete(np.arange(len(self)), rows)
        return self.of_rows(kept, np.searchsorted(kept, self.starts))

    def compared(self) -> RunRows:
        """The same rows with flags from a comparison with the row before."""
        flags, follows = self.flags & _HINTS, self.follows()
        flags[1:] |= ((self.scores[1:] > self.scores[:-1]) & follows) * RISES
        flags[1:] |= ((self.scores[1:] == self.scores[:-1]) & follows) * TIES
        flags[1:] |= ((self.ranks[1:] < self.ranks[:-1]) & follows) * FALLS_BACK
        return replace(self, flags=flags)

    def unknown(self) -> RunRows:
        """The same rows, each of which may repeat another, and may be judged."""
        return replace(self, flags=self.flags | _HINTS)

    def with_flag(self, flag: np.uint8) -> Counts:
        """The rows that have the flag."""
        return np.flatnonzero((self.flags & flag) != 0)

    def any_has(self, flag: np.uint8) -> bool:
        return bool(np.bitwise_or.reduce(self.flags) & flag)

    def follows(self) -> Bools:
        """For each row but the first: True if the row before has the same query."""
        follows = np.ones(max(len(self) - 1, 0), dtype=np.bool_)
        follows[self.starts[1:-1] - 1] = False
        return follows

    def query_of_each(self) -> Counts:
        """The query of every row, by its place."""
        return np.repeat(np.arange(len(self.queries)), np.diff(self.starts))

    def query_of(self, rows: Counts) -> Counts:
        """The query of each of the ``rows``, by its place."""
        return np.searchsorted(self.starts, rows, side="right") - 1

    def place_of(self, rows: Counts) -> Codes:
        """The place of each of the ``rows`` in its query, from 1 on."""
        return (rows - self.starts[self.query_of(rows)] + 1).astype(np.int32)

    def gathered(self) -> RunRows:
        """The same rows, grouped by query, queries in the order of their first rows."""
        codes = {name: code for code, name in enumerate(dict.fromkeys(self.queries))}
        if len(codes) == len(self.queries):
            return self
        of_segment = np.array([codes[name] for name in self.queries], dtype=np.int64)
        of_row = np.repeat(of_segment, np.diff(self.starts))
        gathered = self.of_rows(np.argsort(of_row, kind="stable"), starts_of(of_row, len(codes)))
        return replace(gathered, queries=list(codes)).unknown()


def places_of(at: Counts, length: Counts) -> Counts:
    """The places ``at``, ``at + 1``, ... of each of some texts of these lengths, one text after another."""
    before = np.cumsum(length) - length
    return np.repeat(at - before, length) + np.arange(int(length.sum()))


def encoded(name: str) -> bytes:
    """The bytes of an id; bytes that are not UTF-8 are surrogates in text."""
    return name.encode("utf-8", "surrogateescape")


def hasher() -> Callable[[PackedIds], Hashes]:
    """A function that hashes documents as ``split`` hashes them."""
    loaded = compiled_library()
    if loaded is not None:
        return lambda ids: hashes_of(loaded, ids.text, ids.ends)
    return lambda ids: np.fromiter(map(hash, map(encoded, ids)), dtype=np.int64, count=len(ids)).view(np.uint64)


def whole(stream: IO[bytes]) -> Block:
    """All that is left of a stream, without its byte order mark, as one block."""
    content = stream.read().removeprefix(BOM)
    return Block(np.frombuffer(bytearray(content + bytes(PADDING)), dtype=np.uint8), len(content), Room())


def split(
    block: Block, form: LineForm, *, lenient: bool, needs_ranks: bool, judged_bits: Bytes = _EVERY_BIT
) -> RunRows:
    """The text of a block as rows, each query as often as it comes; see ``split_text``.

    ``lenient`` reads lines as trec_eval does: column 6 and all that follows are the tag. Ranks that are no numbers are
    faults if it ``needs_ranks``.
    """
    rows = _split_compiled(block, _TEXT_FORMS[form]._replace(may_have_more=lenient), judged_bits)
    if rows is None or (form == "msmarco" and len(rows) and int(rows.ranks.min()) < 1):
        return _split_here(block.buffer[: block.size].tobytes(), form, lenient=lenient, needs_ranks=needs_ranks)
    return rows


def split_qrels(block: Block) -> RunRows | None:
    """Qrels of four columns as rows whose ranks are the grades; None if the compiled code cannot read them."""
    return _split_compiled(block, TextForm(4, may_have_more=False, document=2, number=3, may_have_sign=True, score=-1))


def _split_compiled(block: Block, form: TextForm, judged_bits: Bytes = _EVERY_BIT) -> RunRows | None:
    loaded = compiled_library()
    found = None if loaded is None else split_text(loaded, block, form, judged_bits)
    if found is None:
        return None
    columns = found.columns
    names = zip(columns["name_at"].tolist(), columns["name_length"].tolist(), strict=True)
    queries = [block.buffer[at : at + length].tobytes() for at, length in names]
    starts = np.append(columns["first_row"], len(columns["at"]))
    scores = columns["score"] if form.score >= 0 else np.zeros(len(columns["at"]))
    return RunRows(
        queries, starts, block.buffer, columns["at"], columns["length"], columns["hash"], columns["line"], scores,
        columns["number"], columns["flags"], found.lines,
    )  # fmt: skip


def _split_here(content: bytes, form: LineForm, *, lenient: bool, needs_ranks: bool) -> RunRows:
    """The rows of ``split``, in plain Python."""
    queries: list[bytes] = []
    starts, rows, faults = list[int](), list[_Row](), list[LineFault]()
    for number, fields in lines_of(content.split(b"\n")):
        row = _row_of(number, fields, form, lenient=lenient, needs_ranks=needs_ranks)
        if isinstance(row, LineFault):
            faults.append(row)
            continue
        if not queries or queries[-1] != fields[0]:
            queries.append(fields[0])
            starts.append(len(rows))
        rows.append(row)
    documents, line, scores, ranks = zip(*rows, strict=True) if rows else ((), (), (), ())
    length = np.fromiter(map(len, documents), dtype=np.int64, count=len(rows))
    ends = np.cumsum(length)
    text = np.frombuffer(b"".join(documents), dtype=np.uint8)
    split = RunRows(
        queries, np.array([*starts, len(rows)]), text, ends - length, length, hasher()(PackedIds(text, ends)),
        np.array(line, dtype=np.int64), np.array(scores, dtype=np.float64), np.array(ranks, dtype=np.int64),
        np.full(len(rows), _HINTS), content.count(b"\n") + (not content.endswith(b"\n")), faults,
    )  # fmt: skip
    return split.compared()


class _Row(NamedTuple):
    """A row of a run. ``score`` is 0 without scores, ``rank`` is ``NO_RANK`` if it is no number."""

    document: bytes
    line: int
    score: float
    rank: int


def lines_of(lines: Iterable[bytes]) -> Iterator[tuple[int, list[bytes]]]:
    """The number, from 0, and the fields of each line that is neither blank nor a comment.

    Fields end at white space: space, tab, CR, VT, FF.
    """
    for number, line in enumerate(lines):
        fields = (line.removeprefix(BOM) if number == 0 else line).split()
        if fields and fields[0][:1] != b"#":
            yield number, fields


def _row_of(line: int, fields: list[bytes], form: LineForm, *, lenient: bool, needs_ranks: bool) -> _Row | LineFault:
    """The row of a line of a run, or its fault."""
    count, is_trec = len(fields), form == "trec"
    if (count < 6 or (count > 6 and not lenient)) if is_trec else count != 3:
        return LineFault(line, f"has {count:,} column{'s' * (count != 1)}; {_COLUMNS[form]}, with white space between.")
    written = fields[3] if is_trec else fields[2]
    if is_trec:
        rank, is_wrong = _whole_number(written), needs_ranks and not _WHOLE.fullmatch(written)
    else:
        rank = int(written) if _POSITIVE.fullmatch(written) and len(written) < 1000 else 0
        is_wrong = not 0 < rank < _INT64
    if is_wrong:
        return LineFault(line, f"the rank {shown(written)} must be {_RANK[form]}.")
    if not is_trec:
        return _Row(fields[1], line, 0.0, rank)
    if not _SCORE.fullmatch(fields[4]):
        why = _NOT_A_NUMBER if _NAN.fullmatch(fields[4]) else _NOT_DECIMAL
        return LineFault(line, f"the score {shown(fields[4])} {why}")
    return _Row(fields[2], line, float(fields[4]), rank)


def _whole_number(field: bytes) -> int:
    """The number, at the nearest that fits into 64 bits; ``NO_RANK`` if it is none. ``1_000`` is one."""
    if not _WHOLE.fullmatch(field):
        return NO_RANK
    digits = field.lstrip(b"+-").replace(b"_", b"").lstrip(b"0")
    size = int(digits or b"0") if len(digits) < 20 else _INT64
    return max(-size, 1 - _INT64) if field[:1] == b"-" else min(size, _INT64 - 1)


def first_faults(faults: Iterable[LineFault], *more: Iterable[LineFault]) -> list[LineFault]:
    """The first faults by line: no more are shown."""
    return sorted(chain(faults, *more))[:MOST_FAULTS]


def add_line_faults(faults: Faults, line_faults: Sequence[LineFault], count: int) -> None:
    """Adds the faults of lines of a run; ``count`` is the number of all, listed or not."""
    for fault in line_faults:
        faults.add(str(fault), fault.line + 1)
    faults.count += count - len(line_faults)
