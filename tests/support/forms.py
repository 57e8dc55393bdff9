"""Runs and qrels as plain values, to compare what was read."""

import itertools
from collections.abc import Callable
from pathlib import Path

from expectations import P, message_of
from ragtrial.errors import InputError
from ragtrial.runs.qrels import Qrels, Run

Rows = dict[str, list[tuple[str, float | None]]]


def run_rows(run: Run) -> Rows:
    """The (document, value) pairs of each query, as they stand; None for a run that is in order already."""
    values = [None] * len(run.documents) if run.values is None else run.values.tolist()
    pairs = list(zip(run.documents, values, strict=True))
    bounds = itertools.pairwise(run.starts.tolist())
    return {query: pairs[start:end] for query, (start, end) in zip(run.queries, bounds, strict=True)}


def qrels_rows(qrels: Qrels) -> dict[str, dict[str, int]]:
    """The grade of each document of each query, both in their order."""
    pairs = list(zip(qrels.documents, qrels.judgments.grades.tolist(), strict=True))
    bounds = itertools.pairwise(qrels.judgments.starts.tolist())
    return {query: dict(pairs[start:end]) for query, (start, end) in zip(qrels.queries, bounds, strict=True)}


def told(
    folder: Path, error: type[InputError], call: Callable[P, object], /, *arguments: P.args, **options: P.kwargs
) -> list[str]:
    """The lines of the ``error`` that ``call`` raises, without the folder of its files."""
    return message_of(error, call, *arguments, **options).replace(f"{folder}/", "").splitlines()
