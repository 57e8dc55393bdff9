"""Runs and qrels as TREC text, so that trec_eval reads them as they are, and tables of scores, written as a stream."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from ragtrial.cache.untrusted import for_csv, for_markdown
from ragtrial.dataset.faults import Faults, shown
from ragtrial.errors import Fault, InputError, LabelsError, RunFileError
from ragtrial.rankings import Counts
from ragtrial.runs.lines import encoded
from ragtrial.runs.qrels import PackedIds, Qrels, Run
from ragtrial.runs.streams import Target, written

ScoresWritten = Literal["own", "by rank"]
"""The scores that a run was written with: its own, or for each query n, n - 1, ... 1."""


def write_trec_run(target: Target, ranked: Run) -> ScoresWritten:
    """Write a run whose rows are best first; returns whether its own scores were written.

    trec_eval sorts by score, as numbers of 32 bits, and equal scores by document id; it ignores the rank column. The
    scores of the run are written, in full, if they give the order of its rows; otherwise, for all queries, scores that
    follow the order. The name of the run is the last column.

    Raises RunFileError for ids and names that are empty, have white space, or begin a query with ``#`` (a comment), and
    for a document twice in one query; RunError if the file cannot be written.
    """
    faults = Faults(ranked.name, RunFileError)
    if _is_unfit(ranked.name):
        name = shown(ranked.name)
        faults.add(f"the run's name {name} is empty or has white space, which ends a column; give it another.")
    own = _scores_say_the_order(ranked)
    values = ranked.values.tolist() if own and ranked.values is not None else []

    def lines_of(query: str, documents: Sequence[str], start: int) -> Iterator[str]:
        scores = values[start : start + len(documents)] or range(len(documents), 0, -1)
        for rank, (document, score) in enumerate(zip(documents, scores, strict=True), 1):
            yield f"{query} Q0 {document} {rank} {score!r} {ranked.name}\n"

    _write_lines(target, ranked.queries, ranked.starts, ranked.documents, faults, lines_of)
    return "own" if own else "by rank"


def write_trec_qrels(target: Target, qrels: Qrels) -> None:
    """Write qrels. Raises LabelsError for ids as ``write_trec_run`` does, RunError if the file cannot be written.

    The form has no place for a query without judgments, nor for an order of labels; these are lost.
    """
    grades = qrels.judgments.grades.tolist()

    def lines_of(query: str, documents: Sequence[str], start: int) -> Iterator[str]:
        for document, grade in zip(documents, grades[start : start + len(documents)], strict=True):
            yield f"{query} 0 {document} {grade}\n"

    faults = Faults("qrels", LabelsError)
    _write_lines(target, qrels.queries, qrels.judgments.starts, qrels.documents, faults, lines_of)


def _scores_say_the_order(ranked: Run) -> bool:
    """True if trec_eval would keep the order of the rows: by score (32 bits), then by id."""
    if ranked.values is None or ranked.by_rank:
        return False
    with np.errstate(over="ignore"):
        scores = ranked.values.astype(np.float32)
    rises, is_equal = np.zeros((2, len(scores)), dtype=np.bool_)
    rises[1:], is_equal[1:] = scores[1:] > scores[:-1], scores[1:] == scores[:-1]
    begins = ranked.starts[:-1][np.diff(ranked.starts) > 0]
    rises[begins] = is_equal[begins] = False  # the first of a query has none before it
    if rises.any() or not np.isfinite(scores).all():
        return False
    ids = list(ranked.documents) if is_equal.any() else []
    return all(ids[row].encode() < ids[row - 1].encode() for row in np.flatnonzero(is_equal).tolist())


def _write_lines(
    target: Target,
    queries: Sequence[str],
    starts: Counts,
    documents: PackedIds,
    faults: Faults,
    lines_of: Callable[[str, Sequence[str], int], Iterable[str]],
) -> None:
    """Write the lines of each query. Raises the error of ``faults`` for all that trec_eval cannot read."""
    ids, bounds = list(documents), list(pairwise(starts.tolist()))
    for query, (start, end) in zip(queries, bounds, strict=True):
        names = ids[start:end]
        if _is_unfit(query):
            faults.add(f"the query {shown(query)} is empty or has white space, which ends a column in TREC text.")
        elif query.startswith("#"):
            faults.add(f"the query {shown(query)} begins like a comment; TREC text has no way to write it.")
        if len(set(names)) < len(names):
            twice = next(name for place, name in enumerate(names) if name in names[:place])
            faults.add(f"query {shown(query)} has document {shown(twice)} twice; trec_eval would refuse it.")
        for name in filter(_is_unfit, names):
            message = f"the document {shown(name)} (query {shown(query)}) is empty or has white space, "
            faults.add(message + "which ends a column in TREC text.")
    faults.raise_any()
    with written(target) as file:
        for query, (start, end) in zip(queries, bounds, strict=True):
            file.write(encoded("".join(lines_of(query, ids[start:end], start))))


def _is_unfit(name: str) -> bool:
    return name.split() != [name] or "\0" in name


Column = Sequence[object] | npt.NDArray[Any]
Row = Sequence[object]
TableForm = Literal["csv", "jsonl", "md"]

_FORMS: tuple[TableForm, ...] = get_args(TableForm)


def write_table(target: Target, columns: Mapping[str, Column], *, form: TableForm | None = None) -> None:
    """Write columns of one length, row by row, in ``form``, or in the form that the name of ``target`` ends in.

    Names end in .csv, .jsonl or .md, and may end in .gz after that. Standard output, ``-``, is CSV. Numbers are written
    in full. Texts are made harmless in CSV and Markdown (``for_csv``, ``for_markdown``), and are unchanged in JSON.
    None and NaN are an empty field in CSV (RFC 4180, UTF-8) and Markdown, null in JSON. Raises InputError for a name
    without a known ending and for values that JSON cannot hold, ValueError for columns of unequal length, RunError if
    the file cannot be written.
    """
    chosen = form or table_form(target)
    lengths = {len(column) for column in columns.values()}
    if len(lengths) > 1:
        raise ValueError(f"columns of {sorted(lengths)} rows are in no table")
    with written(target) as file:
        lines = _WRITERS[chosen](list(columns), zip(*map(_plain, columns.values()), strict=True))
        file.writelines(line.encode("utf-8", "surrogateescape") for line in lines)


def table_form(target: Target) -> TableForm:
    """The form that a name ends in. Raises InputError if it is none."""
    if str(target) == "-":
        return "csv"
    path = Path(target)
    suffix = (path.with_suffix("") if path.suffix == ".gz" else path).suffix.lower().removeprefix(".")
    for form in _FORMS:
        if suffix == form:
            return form
    endings = ", ".join(f".{form}" for form in _FORMS)
    raise InputError(Fault(str(target), message=f"ends in no form of table; it may end in {endings}."))


def _plain(column: Column) -> Iterator[object]:
    """Python's own values; None for NaN."""
    for value in column:
        plain = value.item() if isinstance(value, np.generic) else value
        yield None if isinstance(plain, float) and math.isnan(plain) else plain


def _csv_lines(names: Sequence[str], rows: Iterable[Row]) -> Iterator[str]:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    for row in chain([names], rows):
        writer.writerow([for_csv(value) if isinstance(value, str) else value for value in row])
        yield text.getvalue()
        text.seek(0)
        text.truncate()


def _jsonl_lines(names: Sequence[str], rows: Iterable[Row]) -> Iterator[str]:
    for row in rows:
        try:
            line = json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False, allow_nan=False)
        except ValueError as error:
            raise InputError("an infinite number cannot be written as JSON; write the table as CSV.") from error
        try:
            line.encode()
        except UnicodeEncodeError:  # bytes of an id that are no UTF-8 can only be escaped
            line = json.dumps(dict(zip(names, row, strict=True)))
        yield line + "\n"


def _markdown_lines(names: Sequence[str], rows: Iterable[Row]) -> Iterator[str]:
    listed = [["" if value is None else value for value in row] for row in rows]
    numeric = [any(isinstance(value, int | float) for value in column) for column in zip(*listed, strict=True)]
    rules = ["---:" if is_numeric else "---" for is_numeric in numeric] or ["---"] * len(names)
    yield f"| {' | '.join(map(for_markdown, names))} |\n|{'|'.join(rules)}|\n"
    for row in listed:
        yield f"| {' | '.join(for_markdown(value) if isinstance(value, str) else str(value) for value in row)} |\n"


_WRITERS: dict[str, Callable[[Sequence[str], Iterable[Row]], Iterator[str]]] = {
    "csv": _csv_lines,
    "jsonl": _jsonl_lines,
    "md": _markdown_lines,
}
