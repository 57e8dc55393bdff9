"""Runs and qrels as TREC text, so that trec_eval reads what was meant."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import numpy as np

from ragtrial.dataset.faults import Faults, shown
from ragtrial.errors import LabelsError, RunFileError
from ragtrial.rankings import Counts
from ragtrial.runs.formats.output import Target, opened
from ragtrial.runs.lines import encoded
from ragtrial.runs.qrels import PackedIds, Qrels, Run

ScoresWritten = Literal["own", "by rank"]
"""Which scores a run was written with: its own, or for each query n, n - 1, ... 1."""


def write_trec_run(target: Target, ranked: Run) -> ScoresWritten:
    """Write a run whose rows stand best first; returns which scores it was written with.

    trec_eval sorts by score, as numbers of 32 bits, and equal ones by document id; the rank column means nothing to
    it. The scores of the run are written, in full, if that gives the order of its rows; else those that say the order,
    for all queries. The run's name is the last column.

    Raises RunFileError for ids and names that are empty, have white space, or begin a query with ``#`` (a comment), for
    a document twice in one query; RunError if the file cannot be written.
    """
    faults = Faults(ranked.name, RunFileError)
    if _is_unfit(ranked.name):
        faults.add(
            f"the run's name {shown(ranked.name)} is empty or has white space, which ends a column; give it another."
        )
    rows = _checked_rows(ranked.queries, ranked.starts, ranked.documents, faults)
    own = _scores_say_the_order(ranked)
    faults.raise_any()
    values = ranked.values.tolist() if own and ranked.values is not None else []
    with opened(target) as file:
        for query, start, documents in zip(ranked.queries, ranked.starts.tolist(), rows, strict=False):
            count = len(documents)
            scores = values[start : start + count] or range(count, 0, -1)
            lines = zip(documents, range(1, count + 1), scores, strict=True)
            file.write(
                encoded("".join(f"{query} Q0 {doc} {rank} {score!r} {ranked.name}\n" for doc, rank, score in lines))
            )
    return "own" if own else "by rank"


def write_trec_qrels(target: Target, qrels: Qrels) -> None:
    """Write qrels. Raises LabelsError for ids as ``write_trec_run`` does, RunError if the file cannot be written.

    The form has no place for a query without judgments, nor for an order of labels; these are lost.
    """
    faults = Faults("qrels", LabelsError)
    starts, grades = qrels.judgments.starts.tolist(), qrels.judgments.grades.tolist()
    rows = _checked_rows(qrels.queries, qrels.judgments.starts, qrels.documents, faults)
    faults.raise_any()
    with opened(target) as file:
        for query, start, documents in zip(qrels.queries, starts, rows, strict=False):
            lines = zip(documents, grades[start : start + len(documents)], strict=True)
            file.write(encoded("".join(f"{query} 0 {doc} {grade}\n" for doc, grade in lines)))


def _scores_say_the_order(ranked: Run) -> bool:
    """Whether trec_eval has the rows of every query in their order: by score, as numbers of 32 bits, then by id."""
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


def _checked_rows(queries: Sequence[str], starts: Counts, documents: PackedIds, faults: Faults) -> list[list[str]]:
    """The documents of each query; what trec_eval cannot read is added to ``faults``."""
    ids = list(documents)
    rows = [ids[start:end] for start, end in pairwise(starts.tolist())]
    for query, names in zip(queries, rows, strict=True):
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
    return rows


def _is_unfit(name: str) -> bool:
    return name.split() != [name] or "\0" in name
