"""Runs in memory, whole and in order: for reports and for writing them again."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ragtrial.errors import Fault, RunFileError
from ragtrial.runs.compiled.found import Form, Reading
from ragtrial.runs.qrels import Names, Order, Run
from ragtrial.runs.trec.blocks import BLOCK, Source, cut_lines
from ragtrial.runs.trec.line_faults import Faults
from ragtrial.runs.trec.lines import lines_of, reader_of
from ragtrial.runs.trec.query_rows import Row


def load_run_file(path: Path | str, *, form: Form, name: str, lenient: bool = False) -> Run:
    """A run file in memory, its rows as they came. Raises RunFileError with the faults of all lines."""
    row_of = reader_of(Reading(form, "file", "first", lenient))
    rows: dict[bytes, list[Row]] = {}
    at = 0
    with Source(path, RunFileError) as source:
        faults = Faults(source.name, "run", form)
        for block in source.blocks(cut_lines, BLOCK):
            text = block.buffer[block.begin : block.end].tobytes()
            for line in lines_of(text):
                row = row_of(*line)
                if isinstance(row, Row):
                    rows.setdefault(line.fields[0], []).append(row)
                else:
                    faults.add([row.placed(at.__add__)], 1)
            at += text.count(b"\n")
            source.reuse(block)
    faults.raise_any(RunFileError)
    if not rows:
        raise RunFileError(Fault(source.name, message="has no rows; a run has at least one."))
    ranked = [row for one in rows.values() for row in one]
    return Run(
        name,
        tuple(query.decode("utf-8", "surrogateescape") for query in rows),
        np.cumsum([0, *map(len, rows.values())], dtype=np.int64),
        Names.of(row.document.decode("utf-8", "surrogateescape") for row in ranked),
        np.array([row.rank if form == "msmarco" else row.score for row in ranked], dtype=np.float64),
        by_rank=form == "msmarco",
    )


def in_order(run: Run, order: Order) -> Run:
    """The rows of each query best first, each document once: the first of those that stand twice."""
    documents = list(run.documents)
    kept: list[int] = []
    lengths = []
    for start, end in zip(run.starts.tolist(), run.starts[1:].tolist(), strict=False):
        rows = list(range(start, end))
        if run.values is not None:
            values = run.values
            if order == "trec":
                rows.sort(key=lambda row: documents[row].encode("utf-8", "surrogateescape"), reverse=True)
            rows.sort(key=lambda row: values[row] if run.by_rank else -values[row])
        first: dict[str, int] = {}
        for row in rows:
            first.setdefault(documents[row], row)
        rows = list(first.values())
        kept += rows
        lengths.append(len(rows))
    return Run(
        run.name,
        run.queries,
        np.cumsum([0, *lengths], dtype=np.int64),
        Names.of(documents[row] for row in kept),
        None if run.values is None else run.values[kept],
        by_rank=run.by_rank,
    )
