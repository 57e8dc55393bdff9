"""What users hand in as qrels and runs, whatever its form: read, and joined."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragtrial.errors import InputError
from ragtrial.formats import guess, reading
from ragtrial.judgments import Order, Qrels, Run, RunHits
from ragtrial.matching.columns import match
from ragtrial.matching.loading import load_run_file
from ragtrial.matching.text import read_qrels, read_run

_TEXT = ("trec", "msmarco")


@dataclass(frozen=True)
class Handling:
    """How runs are read: in which order, what a document that stands twice is, what lines may look like.

    ``form`` is what the files are, None to tell by looking; ``columns`` names the columns of a table.
    """

    order: Order = "score"
    duplicates: str = "error"
    lenient: bool = False
    form: str | None = None
    columns: Mapping[str, str] | None = None


@dataclass(frozen=True, eq=False)
class JoinedRun:
    """A run joined with its qrels, and the seconds that each part of it took."""

    name: str
    hits: RunHits
    seconds: Mapping[str, float] = field(default_factory=dict)


def load_qrels(source: Any, form: str | None = None, columns: Mapping[str, str] | None = None) -> Qrels:
    """Qrels from a file of any known form, ``-`` (standard input), a table, or dicts. Raises LabelsError."""
    if isinstance(source, Qrels):
        return source
    if isinstance(source, str | Path):
        form = form or guess(source)
        if form in _TEXT:
            return read_qrels(source, form)
    return reading.read_qrels(source, form=form, columns=columns)


def joined_runs(source: Any, qrels: Qrels, handling: Handling, name: str | None = None) -> Iterator[JoinedRun]:
    """The runs that ``source`` holds, joined with ``qrels``: one, or several for a report.

    Raises RunFileError.
    """
    if isinstance(source, str | Path):
        form = handling.form or guess(source)
        if form in _TEXT:
            order: Order = "rank" if form == "msmarco" else handling.order
            start = time.perf_counter()
            hits = read_run(
                source, qrels, form=form, order=order, duplicates=handling.duplicates, lenient=handling.lenient
            )
            yield JoinedRun(name or run_name(source), hits, _shares(hits.seconds, time.perf_counter() - start))
            return
    start = time.perf_counter()
    for run in loaded_runs(source, handling, name):
        read = time.perf_counter() - start
        order = "file" if run.values is None else "rank" if run.by_rank else handling.order
        start = time.perf_counter()
        hits = match(run, qrels, order=order, duplicates=handling.duplicates)
        yield JoinedRun(run.name, hits, {"read": read, "join": time.perf_counter() - start})
        start = time.perf_counter()


def loaded_runs(source: Any, handling: Handling, name: str | None = None) -> list[Run]:
    """The runs of ``source`` in memory, as they came. Raises RunFileError."""
    if isinstance(source, Run):
        return [source]
    if isinstance(source, str | Path):
        form = handling.form or guess(source)
        if form in _TEXT:
            return [load_run_file(source, form=form, name=name or run_name(source), lenient=handling.lenient)]
    found = reading.read_runs(source, form=handling.form, columns=handling.columns, name=name)
    if not found:
        raise InputError(f"{source} holds no run.")
    return found


def _shares(work: Mapping[str, float], wall: float) -> dict[str, float]:
    """``wall`` seconds, divided as the work of all threads was."""
    whole = sum(work.values())
    return {stage: wall * seconds / whole for stage, seconds in work.items()} if whole else {"read": wall}


def run_name(source: str | Path) -> str:
    """What a run is called that has no name of its own: its file's name, without endings."""
    if str(source) == "-":
        return "stdin"
    path = Path(source)
    return path.name.removesuffix(".gz").rsplit(".", 1)[0] or path.name


def distinct(names: Sequence[str]) -> list[str]:
    """The names, those that stand twice with a number behind them."""
    taken: dict[str, int] = {}
    made = []
    for name in names:
        taken[name] = taken.get(name, 0) + 1
        made.append(name if taken[name] == 1 else f"{name}-{taken[name]}")
    return made
