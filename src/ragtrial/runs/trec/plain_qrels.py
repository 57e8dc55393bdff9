"""Qrels files in plain Python: what serves where the compiled code is not installed."""

from __future__ import annotations

import numpy as np

from ragtrial.runs.compiled.found import MOST_FAULTS, Bytes, LineFault, Wrong
from ragtrial.runs.qrels import Judgments, Names, Qrels
from ragtrial.runs.trec.lines import grade_of, lines_of


def plain_qrels(buffer: Bytes, begin: int, end: int) -> tuple[Qrels, list[LineFault], int]:
    """Qrels of four columns, the first of what is wrong with them, and how much that is."""
    faults: list[LineFault] = []
    judged: dict[bytes, dict[bytes, tuple[int, int]]] = {}
    for number, fields in lines_of(buffer[begin:end].tobytes()):
        if len(fields) != 4:
            faults.append(LineFault(number, Wrong.COLUMNS, len(fields)))
            continue
        query, _, document, text = fields
        grade = grade_of(text)
        if grade is None:
            faults.append(LineFault(number, Wrong.GRADE, 0, text))
            continue
        line, _ = judged.setdefault(query, {}).setdefault(document, (number, grade))
        if line != number:
            faults.append(LineFault(number, Wrong.JUDGED_TWICE, line, document, query))
    lengths = [0, *(len(documents) for documents in judged.values())]
    grades = [grade for documents in judged.values() for _, grade in documents.values()]
    judgments = Judgments(
        np.cumsum(lengths, dtype=np.int64), np.array(grades, dtype=np.int32), np.zeros(len(judged), dtype=np.bool_)
    )
    documents = Names.of(_decoded(document) for documents in judged.values() for document in documents)
    return Qrels(tuple(map(_decoded, judged)), documents, judgments), sorted(faults)[:MOST_FAULTS], len(faults)


def _decoded(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")
