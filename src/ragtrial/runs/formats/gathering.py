"""Rows of (query, document, number), in any order, become qrels and runs: those of one query side by side."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
import numpy.typing as npt

from ragtrial.rankings import Counts
from ragtrial.runs.faults import Faults, shown
from ragtrial.runs.qrels import Judgments, PackedIds, Qrels, Run

_BLOCK = 1_000_000


@dataclass(frozen=True, eq=False)
class CodedIds:
    """A column of ids: the distinct ones in the order in which they first came, and which each row has.

    ``codes`` is int64 (rows,), positions in ``names``.
    """

    codes: Counts
    names: tuple[str, ...]


def id_of(value: object) -> str | None:
    """The id that a value spells: a string as it is, a whole number in digits (7.0, too); None if it spells none."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool | np.bool_):
        return None
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Real) and float(value).is_integer():
        return str(int(float(value)))
    return None


def id_problem(role: str, value: object) -> str:
    """What is wrong with a value for which ``id_of`` has nothing."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return f"has no {role}: null is no id."
    return f"the {role} is {shown(value)}; an id is a string or a whole number."


def ids_of(values: Sequence[object], role: str, faults: Faults) -> list[str]:
    """The id of each row; a fault for each value that is none."""
    if set(map(type, values)) <= {str}:
        return values if isinstance(values, list) else list(values)  # type: ignore[arg-type]
    ids = []
    for row, value in enumerate(values):
        name = id_of(value)
        if name is None:
            faults.add_row(row, id_problem(role, value))
        ids.append(name or "")
    return ids


def coded(ids: Sequence[str]) -> CodedIds:
    """A column of ids, told apart."""
    places: dict[str, int] = {}
    codes = np.fromiter((places.setdefault(name, len(places)) for name in ids), dtype=np.int64, count=len(ids))
    return CodedIds(codes, tuple(places))


def recoded(codes: Counts, ids: Sequence[str]) -> CodedIds:
    """``codes`` into ``ids`` that may hold one id twice (7 and "7"); every one of them has a row."""
    again = coded(ids)
    return CodedIds(again.codes[codes] if len(again.names) < len(ids) else codes, again.names)


def packed(ids: Iterable[str], faults: Faults, role: str = "document") -> PackedIds:
    """The ids as ``PackedIds``; a fault if one has half of a surrogate pair, which JSON and Python can spell."""
    names = ids if isinstance(ids, list) else list(ids)
    try:
        return PackedIds.of(names)
    except UnicodeEncodeError:
        for name in dict.fromkeys(names):
            try:
                name.encode("utf-8", "surrogateescape")
            except UnicodeEncodeError:
                faults.add(f"the {role} {name!r} has half of a surrogate pair; no text can be written with it.")
        faults.raise_any()
        raise


def ids_at(names: PackedIds, wanted: Counts) -> PackedIds:
    """The names at the positions ``wanted``, in that order, each as often as it stands there."""
    lengths = np.diff(names.ends, prepend=0)
    starts, lengths = (names.ends - lengths)[wanted], lengths[wanted]
    ends = np.cumsum(lengths, dtype=np.int64)
    text = np.empty(int(ends[-1]) if len(ends) else 0, dtype=np.uint8)
    for first in range(0, len(wanted), _BLOCK):  # the positions of all bytes take eight times their room
        block = slice(first, first + _BLOCK)
        offset = int(ends[first - 1]) if first else 0
        shifts = starts[block] - (ends[block] - lengths[block])
        end = int(ends[min(first + _BLOCK, len(ends)) - 1])
        text[offset:end] = names.text[np.arange(offset, end) + np.repeat(shifts, lengths[block])]
    return PackedIds(text, ends)


def qrels_of(queries: CodedIds, documents: CodedIds, grades: npt.NDArray[np.int64], faults: Faults) -> Qrels:
    """Qrels of rows; a fault for each row whose pair an earlier one judges. Raises the faults, these and earlier."""
    keys = queries.codes * np.int64(max(len(documents.names), 1)) + documents.codes
    distinct, first, which = np.unique(keys, return_index=True, return_inverse=True)
    if len(distinct) < len(keys):

        def twice(row: int) -> str:
            query, document = queries.names[queries.codes[row]], documents.names[documents.codes[row]]
            earlier = int(first[which[row]])
            place = f"row {earlier}" if faults.lines is None else f"line {faults.lines[earlier]}"
            return f"judges document {document!r} for query {query!r}, as {place} does; give each pair one grade."

        is_later = np.ones(len(keys), dtype=np.bool_)
        is_later[first] = False
        faults.add_rows(is_later, twice)
    _ = packed(queries.names, faults, "query")
    names = packed(documents.names, faults)
    faults.raise_any()
    order, starts = _grouped(queries)
    codes = documents.codes if order is None else documents.codes[order]
    own = grades if order is None else grades[order]
    unordered = np.zeros(len(queries.names), dtype=np.bool_)
    return Qrels(queries.names, ids_at(names, codes), Judgments(starts, own.astype(np.int32), unordered))


def run_of(name: str, queries: CodedIds, documents: PackedIds, values: npt.NDArray[np.float64], faults: Faults) -> Run:
    """A run of rows with scores; they stay in their order within each query. Raises the faults there are."""
    _ = packed(queries.names, faults, "query")
    faults.raise_any()
    order, starts = _grouped(queries)
    if order is not None:
        documents, values = ids_at(documents, order), values[order]
    return Run(name, queries.names, starts, documents, values)


def _grouped(queries: CodedIds) -> tuple[Counts | None, Counts]:
    """The order that puts the rows of each query side by side (None if they stand so), and where each begins."""
    codes = queries.codes
    counts = np.bincount(codes, minlength=len(queries.names))
    starts = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    if bool((codes[1:] >= codes[:-1]).all()):
        return None, starts
    few = len(queries.names) <= 2**16  # of short integers the sort is by digits, and several times as fast
    return np.argsort(codes.astype(np.uint16) if few else codes, kind="stable"), starts
