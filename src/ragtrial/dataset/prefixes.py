"""Texts for single chunks that were made elsewhere: a JSONL file, and which chunk each of its rows is of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ragtrial.dataset.chunks import Chunks
from ragtrial.dataset.documents import json_rows
from ragtrial.dataset.texts import normalised
from ragtrial.errors import Fault, PrefixesError
from ragtrial.options import shown

_MOST_FAULTS = 20

Place = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class PrefixRow:
    """A row: the chunk by its id, by its document, start and end, or by both."""

    line: int
    prefix: str
    chunk: str | None = None
    place: Place | None = None

    def named(self) -> str:
        """The chunk in words."""
        if self.place is None:
            return f"chunk {self.chunk!r}"
        doc, start, end = self.place
        spot = f"{doc!r} {start}-{end}"
        return f"chunk {self.chunk!r}, {spot}" if self.chunk else f"chunk {spot}"


def read_prefixes(file: Path) -> list[PrefixRow]:
    """The rows of a JSONL file (or .jsonl.gz): ``prefix``, and ``chunk`` or ``doc``, ``start`` and ``end``.

    Other keys are passed over. Prefixes are normalised as documents are, without white space at their ends. Raises
    PrefixesError with every fault and its line: what is no JSON, wrong types, a chunk that stands twice.
    """
    if not file.is_file():
        found = "is a folder, not a file" if file.is_dir() else "there is no such file"
        raise PrefixesError(Fault(str(file), message=f"{found}; `context.prefixes` names it."))
    faults: list[Fault] = []
    rows: list[PrefixRow] = []
    first: dict[str | Place | None, int] = {}
    for line, values in json_rows(file, faults):
        row = _row(line, values)
        if isinstance(row, str):
            faults.append(Fault(str(file), line, 0, row))
            continue
        key = row.chunk or row.place
        if key in first:
            faults.append(Fault(str(file), line, 0, f"{row.named()} has a row in line {first[key]} already."))
            continue
        first[key] = line
        rows.append(row)
    _raise_any(file, faults)
    if not rows:
        raise PrefixesError(Fault(str(file), message='has no rows; each must be like {"chunk": ID, "prefix": TEXT}.'))
    return rows


def match_prefixes(chunks: Chunks, rows: Sequence[PrefixRow], file: Path, setting: str) -> list[str | None]:
    """The prefix of each chunk of ``setting``; None for those that have no row.

    A row of no chunk is an error if its document (or, where it names none that is there, any document) has a chunk
    without a row: the file was made for other chunks. Where all chunks have theirs, it is a row for another chunking.
    Raises PrefixesError for such rows, and for those that contradict themselves or one another.
    """
    found = _Positions(chunks)
    faults: list[Fault] = []
    line_of: dict[int, int] = {}
    prefixes: list[str | None] = [None] * len(chunks)
    strays: list[PrefixRow] = []
    for row in rows:
        position = found.of(row)
        if position is None:
            strays.append(row)
        elif row.place is not None and row.place != found.place(position):
            doc, start, end = found.place(position)
            message = f"{row.named()} is {doc!r} {start}-{end}; its `chunk` and its place contradict each other."
            faults.append(Fault(str(file), row.line, 0, message))
        elif position in line_of:
            message = f"{row.named()} has a row in line {line_of[position]} already."
            faults.append(Fault(str(file), row.line, 0, message))
        else:
            line_of[position] = row.line
            prefixes[position] = row.prefix
    _raise_any(file, faults)
    stale = _stale(chunks, prefixes, strays)
    if stale:
        row = stale[0]
        count = f"{len(stale):,} of {len(rows):,} rows are of chunks" if len(rows) > 1 else "its row is of a chunk"
        message = (
            f"{count} that setting {setting!r} does not have, {row.named()} first, and chunks that it has are without "
            "a row: the documents or the chunker have changed since the file was made. Make it again from what "
            f"`ragtrial chunks CONFIG --setting {setting} -o FILE` writes."
        )
        raise PrefixesError(Fault(str(file), row.line, 0, message))
    return prefixes


class _Positions:
    """Where chunks stand, by id and by place."""

    def __init__(self, chunks: Chunks) -> None:
        self._chunks = chunks
        self._by_id = {chunks.id(position): position for position in range(len(chunks))}
        self._by_place: dict[Place, int] | None = None

    def of(self, row: PrefixRow) -> int | None:
        if row.chunk is not None:
            return self._by_id.get(row.chunk)
        if self._by_place is None:
            self._by_place = {self.place(position): position for position in range(len(self._chunks))}
        return self._by_place.get(row.place) if row.place else None

    def place(self, position: int) -> Place:
        span = self._chunks.span(position)
        return self._chunks.document_id(position), span.start, span.end


def _stale(chunks: Chunks, prefixes: Sequence[str | None], strays: Iterable[PrefixRow]) -> list[PrefixRow]:
    """The rows of no chunk whose document has a chunk that lacks one."""
    lacking = {chunks.document_id(position) for position, prefix in enumerate(prefixes) if prefix is None}
    if not lacking:
        return []
    ids = {chunks.library.ids[document] for document in set(chunks.document.tolist())}
    return [row for row in strays if row.place is None or row.place[0] not in ids or row.place[0] in lacking]


def _row(line: int, values: Mapping[str, object]) -> PrefixRow | str:
    """The row of a JSON object, or what is wrong with it."""
    prefix, chunk = values.get("prefix"), values.get("chunk")
    if "prefix" not in values:
        return f"has no prefix; found keys: {', '.join(values) or 'none'}."
    if not isinstance(prefix, str):
        return f"prefix is {shown(prefix)}; it must be a text."
    if chunk is not None and (not isinstance(chunk, str) or not chunk):
        return f"chunk is {shown(chunk)}; it must be the id of a chunk, as `ragtrial chunks` writes it."
    place = _place(values)
    if isinstance(place, str):
        return place
    if place is None and chunk is None:
        missing = [name for name in ("doc", "start", "end") if values.get(name) is None]
        if len(missing) < 3:
            return f"has no {' and no '.join(missing)}; without a `chunk`, a row needs all three."
        return f"names no chunk; it must have `chunk`, or `doc`, `start` and `end`. Found keys: {', '.join(values)}."
    return PrefixRow(line, normalised(prefix).strip(), chunk, place)


def _place(values: Mapping[str, object]) -> Place | str | None:
    """Document, start and end of a row; None where it has not all of them, what is wrong where it has."""
    doc, start, end = values.get("doc"), values.get("start"), values.get("end")
    if doc is None or start is None or end is None:
        return None
    if isinstance(doc, bool) or not isinstance(doc, str | int):
        return f"doc is {shown(doc)}; it must be the id of a document."
    for name, value in (("start", start), ("end", end)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            return f"{name} is {shown(value)}; it must be a whole number, at least 0."
    if not isinstance(start, int) or not isinstance(end, int) or start > end:
        return f"start is {start} and end is {end}; a chunk ends behind its start."
    return str(doc), start, end


def _raise_any(file: Path, faults: list[Fault]) -> None:
    told = sorted(faults)[:_MOST_FAULTS]
    if len(faults) > _MOST_FAULTS:
        told.append(Fault(str(file), message=f"and {len(faults) - _MOST_FAULTS:,} more like these."))
    if told:
        raise PrefixesError(*told)
