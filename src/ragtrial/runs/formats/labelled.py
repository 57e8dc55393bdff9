"""Qrels of three columns, as BEIR has them, and labels of ours, as qrels."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from ragtrial.dataset.texts import normalised
from ragtrial.errors import Fault, LabelsError
from ragtrial.records import PromptQueries, Query, highest_grades
from ragtrial.runs.faults import Faults
from ragtrial.runs.formats.gathering import coded, qrels_of
from ragtrial.runs.qrels import Qrels
from ragtrial.runs.streams import Source, is_read_once, is_standard_input, name_of, release, text_of


def beir_qrels(source: Source, faults: Faults) -> Qrels:
    """Qrels of three columns: query, document, grade; with a header or without."""
    from ragtrial.dataset.beir import graded_rows

    found: list[Fault] = []
    rows = list(graded_rows(text_of(source, faults.error), name_of(source), found))
    for fault in found:
        faults.add(fault.message, fault.line, fault.column)
    if not rows and not faults.count:
        raise faults.fail("has no judgments.")
    faults.lines = [row.line for row in rows]
    grades = np.array([row.grade for row in rows], dtype=np.int64)
    return qrels_of(coded([row.query for row in rows]), coded([row.document for row in rows]), grades, faults)


def labels_of(source: Source) -> PromptQueries:
    """The labels of a prompt_queries.json."""
    from ragtrial.dataset.labels import load_prompt_queries

    if is_standard_input(source):
        release(source)
        raise LabelsError("labels cannot be read from standard input; name the file.")
    if is_read_once(source):
        release(source)
        raise LabelsError(Fault(name_of(source), message="is a pipe; labels can only be read from a file: name it."))
    return load_prompt_queries(Path(source))


def qrels_of_labels(labels: PromptQueries) -> Qrels:
    """Labels as qrels. A document with several labels (quotes) has the highest of their grades, at its first place."""
    return Qrels.of((query.id, list(judged(query).items()), query.ordered) for query in labels.queries)


def judged(query: Query) -> dict[str, int]:
    """The grade of each document of a query; passages that differ in line ends or Unicode form alone are one."""
    spelled = spellings(query)
    return highest_grades((spelled[normalised(one.doc)], one.relevance) for one in query.relevant_docs)


def spellings(query: Query) -> dict[str, str]:
    """How the labels of a query first spell each document, by its normalised text."""
    return _first((normalised(judgment.doc), judgment.doc) for judgment in query.relevant_docs)


def _first(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    made: dict[str, str] = {}
    for key, value in pairs:
        made.setdefault(key, value)
    return made
