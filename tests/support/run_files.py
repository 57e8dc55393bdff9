"""Small qrels and runs, as bytes and as files, and what is equal of two joined runs."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from ragtrial.errors import RagtrialError
from ragtrial.runs.joins import read_run
from ragtrial.runs.qrels import Qrels, RunHits

LEFT_OUT = ("seconds", "some_documents", "note")
QRELS = Qrels.of([("q1", [("d1", 1), ("d2", 0), ("d3", 2)], False), ("q2", [("d1", 1)], False), ("q3", [], False)])


def columns_of(hits: RunHits) -> dict[str, Any]:
    """All of it but the seconds and some documents, as lists; floats and ints compare exactly."""
    every = {field.name: getattr(hits, field.name) for field in fields(hits) if field.name not in LEFT_OUT}
    return {
        name: (value.dtype.str, value.tolist()) if isinstance(value, np.ndarray) else value
        for name, value in every.items()
    }


def hits_of(hits: RunHits) -> list[list[tuple[int, int]]]:
    """For each query its (rank, judgment) pairs."""
    pairs = list(zip(hits.ranks.tolist(), hits.judgments.tolist(), strict=True))
    return [pairs[start:end] for start, end in zip(hits.starts.tolist(), hits.starts[1:].tolist(), strict=False)]


def outcome(path: Path, qrels: Qrels = QRELS, *, raises: bool = False, **options: Any) -> dict[str, Any] | str:
    """What reading the run gives: its columns, or the text of the error, unless it is to be raised."""
    settings: dict[str, Any] = {"form": "trec", "order": "score", "duplicates": "error", **options}
    try:
        return columns_of(read_run(path, qrels, **settings))
    except RagtrialError as error:
        if raises:
            raise
        return f"{type(error).__name__}: {error}"
