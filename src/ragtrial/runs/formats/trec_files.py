"""Runs and qrels as TREC text, so that trec_eval reads what was meant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np

from ragtrial.errors import LabelsError, RunFileError
from ragtrial.rankings import Counts
from ragtrial.runs.faults import Faults, shown
from ragtrial.runs.formats.output import Target, opened
from ragtrial.runs.qrels import PackedIds, Qrels, Run

ScoresWritten = Literal["own", "by rank"]
"""Which scores a run was written with: its own, or for each query n, n - 1, ... 1."""

_MOST_BY_RANK = 2**24
"""Up to here every whole number is one of 32 bits; trec_eval keeps scores so."""


def write_trec_run(target: Target, ranked: Run, *, name: str | None = None) -> ScoresWritten:
    """Write a run whose rows stand best first; returns which scores it was written with.

    trec_eval sorts by score, as numbers of 32 bits, and equal ones by document id; the rank column means nothing to
    it. The scores of the run are written, in full, if they fall from row to row even so; else those that say the order,
    for all queries. ``name`` is the last column, the run's own by default.

    Raises RunFileError for ids and names that are empty, have white space, or begin a query with ``#`` (a comment), for
    a document twice in one query; RunError if the file cannot be written.
    """
    faults = Faults(ranked.name, RunFileError)
    tag = ranked.name if name is None else name
    if _is_unfit(tag):
        faults.add(f"the run's name {shown(tag)} is empty or has white space, which ends a column; give it another.")
    _check(ranked.queries, ranked.starts, ranked.documents, faults)
    longest = int(np.diff(ranked.starts).max(initial=0))
    own = _scores_fall(ranked)
    if not own and longest > _MOST_BY_RANK:
        faults.add(f"a query has {longest:,} documents; scores by rank can tell {_MOST_BY_RANK:,} apart.")
    faults.raise_any()
    with opened(target) as file:
        for index, documents in enumerate(_rows(ranked.starts, ranked.documents)):
            start, end = int(ranked.starts[index]), int(ranked.starts[index + 1])
            if own and ranked.values is not None:
                scores: Sequence[float] = ranked.values[start:end].tolist()
            else:
                scores = range(end - start, 0, -1)
            lines = zip(documents, range(1, end - start + 1), scores, strict=True)
            query = ranked.queries[index]
            file.write(_encoded("".join(f"{query} Q0 {doc} {rank} {score!r} {tag}\n" for doc, rank, score in lines)))
    return "own" if own else "by rank"


def write_trec_qrels(target: Target, qrels: Qrels) -> None:
    """Write qrels. Raises LabelsError for ids as ``write_trec_run`` does, RunError if the file cannot be written.

    The form has no place for a query without judgments, nor for an order of labels; these are lost.
    """
    faults = Faults("qrels", LabelsError)
    starts = qrels.judgments.starts
    _check(qrels.queries, starts, qrels.documents, faults)
    faults.raise_any()
    with opened(target) as file:
        for index, documents in enumerate(_rows(starts, qrels.documents)):
            grades = qrels.judgments.grades[int(starts[index]) : int(starts[index + 1])].tolist()
            query = qrels.queries[index]
            lines = zip(documents, grades, strict=True)
            file.write(_encoded("".join(f"{query} 0 {doc} {grade}\n" for doc, grade in lines)))


def _scores_fall(ranked: Run) -> bool:
    """Whether the scores of every query fall from row to row, as numbers of 32 bits."""
    if ranked.values is None or ranked.by_rank:
        return False
    with np.errstate(over="ignore"):
        scores = ranked.values.astype(np.float32)
    falls = np.ones(len(scores), dtype=np.bool_)
    falls[1:] = scores[1:] < scores[:-1]
    falls[ranked.starts[:-1][np.diff(ranked.starts) > 0]] = True  # the first of a query has none before it
    return bool(falls.all() and np.isfinite(scores).all())


def _check(queries: Sequence[str], starts: Counts, documents: PackedIds, faults: Faults) -> None:
    for index, names in enumerate(_rows(starts, documents)):
        query = queries[index]
        if _is_unfit(query):
            faults.add(f"the query {shown(query)} is empty or has white space, which ends a column in TREC text.")
        elif query.startswith("#"):
            faults.add(f"the query {shown(query)} begins like a comment; TREC text has no way to write it.")
        if len(set(names)) < len(names):
            twice = next(name for place, name in enumerate(names) if name in names[:place])
            faults.add(f"query {shown(query)} has document {shown(twice)} twice; trec_eval would refuse it.")
        together = "\n".join(names)
        if "\0" in together or together.split() != names:
            for name in filter(_is_unfit, names):
                message = f"the document {shown(name)} (query {shown(query)}) is empty or has white space, "
                faults.add(message + "which ends a column in TREC text.")


def _is_unfit(name: str) -> bool:
    return name.split() != [name] or "\0" in name


def _rows(starts: Counts, documents: PackedIds) -> Iterator[list[str]]:
    """The documents of each query."""
    names = iter(documents)
    for length in np.diff(starts).tolist():
        yield [next(names) for _ in range(length)]


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
