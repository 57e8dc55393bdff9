"""Texts for single chunks that were made elsewhere: a JSONL file, and which chunk each of its rows is of."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ragtrial.dataset.chunks import Chunks
from ragtrial.dataset.documents import json_rows
from ragtrial.dataset.faults import truncated
from ragtrial.dataset.texts import normalised
from ragtrial.errors import Fault, PrefixesError
from ragtrial.options import FieldPath, validate

Place = tuple[str, int, int]


class PrefixRow(BaseModel):
    """A row: the chunk by its id, by its document, start and end, or by both. Other keys are ignored."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)

    prefix: str
    chunk: Annotated[str, Field(min_length=1)] | None = None
    doc: str | int | None = None
    start: Annotated[int, Field(ge=0)] | None = None
    end: Annotated[int, Field(ge=0)] | None = None
    line: int = 0

    @model_validator(mode="after")
    def _names_a_chunk(self) -> Self:
        if self.chunk is None and self.place is None:
            raise ValueError("names no chunk; it must have `chunk`, or `doc`, `start` and `end`.")
        if self.start is not None and self.end is not None and self.start > self.end:
            raise ValueError(f"start is {self.start} and end is {self.end}; a chunk ends behind its start.")
        return self

    @property
    def place(self) -> Place | None:
        if self.doc is None or self.start is None or self.end is None:
            return None
        return str(self.doc), self.start, self.end

    def __str__(self) -> str:
        spot = f"{self.place[0]!r} {self.place[1]}-{self.place[2]}" if self.place else ""
        return "chunk " + ", ".join(filter(None, [repr(self.chunk) if self.chunk else "", spot]))


def read_prefixes(file: Path) -> list[PrefixRow]:
    """The rows of a JSONL file (or .jsonl.gz): ``prefix``, and ``chunk`` or ``doc``, ``start`` and ``end``.

    Raises PrefixesError with every fault and its line.
    """
    if not file.is_file():
        found = "is a folder, not a file" if file.is_dir() else "there is no such file"
        raise PrefixesError(Fault(str(file), message=f"{found}; `context.prefixes` names it."))
    faults: list[Fault] = []
    rows: list[PrefixRow] = []
    for line, values in json_rows(file, faults):

        def fault_at(_: FieldPath, message: str, line: int = line) -> Fault:
            return Fault(str(file), line, 0, message)

        try:
            rows.append(validate(PrefixRow, {**values, "line": line}, PrefixesError, fault_at))
        except PrefixesError as error:
            faults += error.faults
    if not rows and not faults:
        faults.append(Fault(str(file), message='has no rows; each must be like {"chunk": ID, "prefix": TEXT}.'))
    if faults:
        raise PrefixesError(*truncated(sorted(faults), str(file)))
    return rows


def match_prefixes(chunks: Chunks, rows: Sequence[PrefixRow], file: Path, setting: str) -> list[str | None]:
    """The prefix of each chunk of ``setting``, normalised and stripped; None for chunks without a row.

    A row without a chunk is an error if its document, or any document for a row with an id alone, has a chunk without a
    row: the file was made for other chunks. Otherwise it is ignored. Raises PrefixesError for such rows, and for
    contradictions.
    """
    places = [(chunks.document_id(at), int(chunks.start[at]), int(chunks.end[at])) for at in range(len(chunks))]
    by_id = {chunks.id(position): position for position in range(len(chunks))}
    by_place = {place: position for position, place in enumerate(places)}
    faults: list[Fault] = []
    line_of: dict[int, int] = {}
    prefixes: list[str | None] = [None] * len(chunks)
    strays: list[PrefixRow] = []
    for row in rows:
        position = by_id.get(row.chunk) if row.chunk is not None else by_place.get(row.place or ("", -1, -1))
        message = ""
        if position is None:
            strays.append(row)
        elif row.place is not None and row.place != places[position]:
            doc, start, end = places[position]
            message = f"{row} is {doc!r} {start}-{end}; its `chunk` and its place contradict each other."
        elif position in line_of:
            message = f"{row} has a row in line {line_of[position]} already."
        else:
            line_of[position] = row.line
            prefixes[position] = normalised(row.prefix).strip()
        if message:
            faults.append(Fault(str(file), row.line, 0, message))
    lacking = {place[0] for place, prefix in zip(places, prefixes, strict=True) if prefix is None}
    known = {place[0] for place in places}
    stale = [row for row in strays if row.place is None or row.place[0] not in known or row.place[0] in lacking]
    if stale and lacking and not faults:
        message = (
            f"{len(stale):,} of {len(rows):,} rows are of chunks that setting {setting!r} does not have, {stale[0]} "
            "first: the documents or the chunker have changed since the file was made. Make it again from what "
            f"`ragtrial chunks CONFIG --setting {setting} -o FILE` writes."
        )
        faults.append(Fault(str(file), stale[0].line, 0, message))
    if faults:
        raise PrefixesError(*truncated(faults, str(file)))
    return prefixes
