"""Qrels and runs that users pass in any form: read, and joined."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragtrial.dataset.qrels_text import Columns
from ragtrial.errors import RunFileError, did_you_mean, listed
from ragtrial.records import PromptQueries
from ragtrial.runs.formats import reading
from ragtrial.runs.formats.guessing import Form, guess
from ragtrial.runs.joins import in_order, match
from ragtrial.runs.qrels import Duplicates, Order, Qrels, Run, RunHits
from ragtrial.runs.run_files import read_run
from ragtrial.runs.streams import stem_of


@dataclass(frozen=True, eq=False)
class RunInput:
    """The qrels and runs to score, and the names of the runs.

    Without a form it is guessed; without columns those of a table have their usual names.
    """

    qrels: Any
    runs: tuple[Any, ...]
    names: tuple[str, ...] = ()
    qrels_form: Form | None = None
    run_form: Form | None = None
    qrels_columns: Columns | None = None
    run_columns: Columns | None = None

    def named_runs(self) -> Iterator[tuple[Any, str | None]]:
        """Each source of runs with the name that it is given, if any."""
        yield from zip(self.runs, self.names or (None,) * len(self.runs), strict=True)


@dataclass(frozen=True, eq=False)
class JoinedRun:
    """A run joined with its qrels, and the seconds that each part of it took."""

    name: str
    hits: RunHits
    seconds: Mapping[str, float] = field(default_factory=dict)


def load_judgments(given: RunInput) -> Qrels:
    """The qrels: a file of any known form, ``-`` (standard input), a table, dicts. Raises LabelsError."""
    return reading.read_qrels(given.qrels, form=given.qrels_form, columns=given.qrels_columns)


def joined_runs(
    source: Any, name: str | None, given: RunInput, qrels: Qrels, order: Order, duplicates: Duplicates, *, lenient: bool
) -> Iterator[JoinedRun]:
    """The runs that ``source`` holds, joined with their judgments; a report or results may hold several.

    Runs with scores are put in ``order``; ``lenient`` reads lines as trec_eval does. Raises RunFileError, ReportError.
    """
    start = time.perf_counter()
    form = None
    if isinstance(source, str | Path):
        form = given.run_form or guess(source, "run")
    if form == "trec" or form == "msmarco":
        if given.run_columns:
            raise RunFileError(f"{source} is text without names of columns (form {form}): leave them out.")
        order = "rank" if form == "msmarco" else order
        hits = read_run(source, qrels, form=form, order=order, duplicates=duplicates, lenient=lenient)
        seconds = _shares(hits.seconds, time.perf_counter() - start)
        yield JoinedRun(name or stem_of(source), hits, seconds)
        return
    for run in loaded_runs(source, name, given, qrels.labels):
        _refuse_chunks(run, duplicates)
        read = time.perf_counter() - start
        start = time.perf_counter()
        hits = match(run, qrels, order="rank" if run.by_rank else order, duplicates=duplicates)
        yield JoinedRun(run.name, hits, {"read": read, "check": 0.0, "join": time.perf_counter() - start})
        start = time.perf_counter()


def loaded_runs(
    source: Any, name: str | None, given: RunInput, labels: PromptQueries | None, *, lenient: bool = False
) -> list[Run]:
    """The runs of ``source`` in memory, as they came; lines as trec_eval's where ``lenient``.

    Raises RunFileError, ReportError.
    """
    return reading.read_runs(
        source, form=given.run_form, columns=given.run_columns, name=name, labels=labels, lenient=lenient
    )


def chosen_run(source: str | Path, name: str | None, duplicates: Duplicates, form: Form | None = None) -> Run:
    """The run of ``source`` called ``name``, or the only one, its rows best first.

    Raises RunFileError as scoring it would, or with the runs that there are.
    """
    run = run_named(source, name, form)
    _refuse_chunks(run, duplicates)
    return best_first(run, duplicates)


def run_named(
    source: str | Path,
    name: str | None,
    form: Form | None = None,
    labels: PromptQueries | None = None,
    *,
    choice: str = "--run",
) -> Run:
    """The run of ``source`` called ``name``, or the only one, its rows as they came.

    ``labels`` are where results without ids find their queries. Raises RunFileError, where there are several runs
    with their names; ``choice`` is how one of them is named.
    """
    runs = {run.name: run for run in reading.read_runs(source, form=form, labels=labels)}
    if name is None and len(runs) > 1:
        raise RunFileError(f"{source} holds several runs: {listed(runs)}. Name one with {choice}.")
    if name is not None and name not in runs:
        raise RunFileError(f"{source} has no run {name!r}.{did_you_mean(name, runs)} It has: {listed(runs)}.")
    return next(iter(runs.values())) if name is None else runs[name]


def best_first(run: Run, duplicates: Duplicates) -> Run:
    """The rows of each query best first, each document once. Raises RunFileError as scoring it would."""
    match(run, Qrels.of([]), order="rank" if run.by_rank else "score", duplicates=duplicates)
    return in_order(run, "score")


def _refuse_chunks(run: Run, duplicates: Duplicates) -> None:
    """Chunks and passages are another question than documents: one is not answered instead of the other unasked."""
    if run.of_chunks and duplicates == "error":
        raise RunFileError(
            f"run {run.name!r} is of a report of passages in chunks (unit: span), and what is scored and written here "
            'are documents. `ragtrial show` has its scores; with --duplicates first (duplicates="first" in Python) '
            "each document counts, at its first chunk."
        )


def _shares(work: Mapping[str, float], wall: float) -> dict[str, float]:
    """``wall`` seconds, divided as the work of all threads was."""
    whole = sum(work.values())
    return {stage: wall * seconds / whole for stage, seconds in work.items()} if whole else {"read": wall}
