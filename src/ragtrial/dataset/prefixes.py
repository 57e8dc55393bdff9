"""Texts for single chunks that were made elsewhere: a JSONL file, and which chunk each of its rows is of."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from ragtrial.dataset.chunks import Chunks
from ragtrial.dataset.documents import json_rows
from ragtrial.dataset.faults import truncated
from ragtrial.dataset.texts import normalised
from ragtrial.errors import Fault, PrefixesError
from ragtrial.options import FieldPath, validate


class PrefixRow(BaseModel):
    """A row: the id of a chunk, its prefix, and perhaps the document of the chunk. Other keys are ignored."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)

    prefix: str
    chunk: Annotated[str, Field(min_length=1)]
    doc: str | int | None = None
    line: int = 0


def read_prefixes(file: Path) -> list[PrefixRow]:
    """The rows of a JSONL file (or .jsonl.gz).

    Raises PrefixesError with every fault and its line.
    """
    if not file.is_file():
        reason = "is a folder, not a file" if file.is_dir() else "there is no such file"
        raise PrefixesError(Fault(str(file), message=f"{reason}; `context.prefixes` names it."))
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
    PrefixesError.raise_any(truncated(sorted(faults), str(file)))
    return rows


def match_prefixes(chunks: Chunks, rows: Sequence[PrefixRow], file: Path, setting: str) -> list[str | None]:
    """The prefix of each chunk of ``setting``, normalised and stripped; None for chunks without a row.

    A row without a chunk is an error if its document, or any document for a row that names none, has a chunk without a
    row: the file was made for other chunks. Otherwise it is ignored. Raises PrefixesError for such rows, and for a
    chunk with two rows.
    """
    documents = [chunks.document_id(position) for position in range(len(chunks))]
    positions = {chunks.id(position): position for position in range(len(chunks))}
    faults: list[Fault] = []
    line_of: dict[int, int] = {}
    prefixes: list[str | None] = [None] * len(chunks)
    strays: list[PrefixRow] = []
    for row in rows:
        position = positions.get(row.chunk)
        if position is None:
            strays.append(row)
        elif position in line_of:
            message = f"chunk {row.chunk!r} has a row in line {line_of[position]} already."
            faults.append(Fault(str(file), row.line, 0, message))
        else:
            line_of[position] = row.line
            prefixes[position] = normalised(row.prefix).strip()
    complete = set(documents) - {name for name, prefix in zip(documents, prefixes, strict=True) if prefix is None}
    stale = [row for row in strays if str(row.doc) not in complete]
    if stale and None in prefixes and not faults:
        message = (
            f"rows of chunks that setting {setting!r} does not have: {len(stale):,} of {len(rows):,}, chunk "
            f"{stale[0].chunk!r} first; the documents or the chunker have changed since the file was made. Make it "
            f"again from what `ragtrial chunks CONFIG --setting {setting} -o FILE` writes."
        )
        faults.append(Fault(str(file), stale[0].line, 0, message))
    PrefixesError.raise_any(truncated(faults, str(file)))
    return prefixes
