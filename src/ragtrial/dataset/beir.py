"""BEIR folders: corpus.jsonl, queries.jsonl and qrels/<split>.tsv, each plain or gzipped."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ragtrial.dataset.documents import json_rows, truncated
from ragtrial.dataset.texts import normalised, read_text
from ragtrial.errors import CorpusError, Fault, LabelsError, did_you_mean
from ragtrial.records import MOST_GRADE, Judgment, PromptQueries, Query

_TREC = (
    "looks like TREC qrels (query, iteration, document, grade). Here there are three columns, tabs between: query-id, "
    "corpus-id, score. Take out the second: awk -v OFS='\\t' '{print $1, $3, $4}'"
)
_COLUMNS, _TREC_COLUMNS = 3, 4
HEADER = {"query-id", "query_id", "qid", "query", "topic"}
"""What the first column is called where there is a header."""


class GradedRow(NamedTuple):
    """A line of qrels: its number from 1, and what it says."""

    line: int
    query: str
    document: str
    grade: int


def beir_corpus(folder: Path) -> Path:
    """The corpus file of a BEIR folder. Raises CorpusError when there is none."""
    return _file(folder, "corpus.jsonl", CorpusError)


@dataclass(frozen=True)
class BeirLabels:
    """The labels of a split, and what the overlay laid upon them: judgments ``added``, and grades ``changed``."""

    labels: PromptQueries
    added: int = 0
    changed: int = 0


def load_beir_labels(folder: Path, split: str) -> PromptQueries:
    """The labels of ``beir_labels`` without an overlay."""
    return beir_labels(folder, split).labels


def beir_labels(folder: Path, split: str, overlay: Path | None = None) -> BeirLabels:
    """The queries that ``qrels/<split>.tsv`` names, in the order of queries.jsonl, with their judgments.

    The judgments of the file ``overlay``, more qrels, are laid upon these: there the later line counts, and any of
    them before those of the split. Its queries are in queries.jsonl, too. Raises LabelsError with every fault and its
    line: bad rows, grades that are not integers, two grades for one pair, judged queries without a text, a split that
    is not there (with those that are).
    """
    qrels_file = _file(folder / "qrels", f"{split}.tsv", LabelsError)
    judgments = _read_qrels(qrels_file)
    laid = _read_qrels(overlay, are_laid_over=True) if overlay is not None else {}
    own = {query: dict(row) for query, row in judgments.items()}
    for query, row in laid.items():
        judgments.setdefault(query, {}).update(row)
    queries_file = _file(folder, "queries.jsonl", LabelsError)
    faults: list[Fault] = []
    queries: dict[str, Query] = {}
    for number, entry in json_rows(queries_file, faults):
        name, text = entry.get("_id", entry.get("id")), entry.get("text")
        name = str(name) if isinstance(name, str | int) else ""
        message = ""
        if not name or not isinstance(text, str):
            message = "must have a text under `_id` and under `text`."
        elif name in queries:
            message = f"query id {name!r} is taken already."
        elif name in judgments:
            message = "" if text.strip() else f"query {name!r} is empty."
            queries[name] = Query(name, normalised(text), tuple(judgments[name].values()))
        if message:
            faults.append(Fault(str(queries_file), number, 0, message))
    absent = [name for name in judgments if name not in queries]
    if absent and not faults:
        message = f"judges {len(absent):,} queries that are not in {queries_file.name}, {absent[0]!r} first."
        faults.append(Fault(str(qrels_file if own.keys() & set(absent) else overlay), message=message))
    if faults:
        raise LabelsError(*truncated(faults, str(queries_file)))
    rows = [(own.get(query, {}).get(doc), one) for query, row in laid.items() for doc, one in row.items()]
    changed = sum(was is not None and was.relevance != one.relevance for was, one in rows)
    return BeirLabels(PromptQueries(tuple(queries.values())), sum(was is None for was, _ in rows), changed)


def graded_rows(text: str, file: str, faults: list[Fault]) -> Iterator[GradedRow]:
    """The rows of qrels of three columns; bad ones are added to ``faults``.

    The header (``query-id corpus-id score``) may be there or not.
    """
    for number, line in enumerate(text.splitlines(), 1):
        fields = [field.strip() for field in (line.split("\t") if "\t" in line else line.split())]
        message = ""
        if not line.strip() or (number == 1 and fields[0].lower() in HEADER and not fields[-1].lstrip("-").isdigit()):
            continue
        if len(fields) != _COLUMNS:
            message = f"must be query, document and grade, tabs between; found {len(fields)} fields."
        elif not re.fullmatch(r"[-+]?\d+", fields[2]):
            message = f"the grade {fields[2]!r} must be a whole number."
        elif abs(int(fields[2])) > MOST_GRADE:
            message = f"the grade {fields[2]} is beyond {MOST_GRADE:,}; is it one?"
        if message:
            faults.append(Fault(file, number, 0, message))
        else:
            yield GradedRow(number, fields[0], fields[1], int(fields[2]))


def truncate_faults(faults: Sequence[Fault], text: str, file: str) -> list[Fault]:
    """The first of the faults that ``graded_rows`` found in ``text``, how many more there are, and a likely cause."""
    widths = {len(line.split()) for line in text.splitlines() if line.strip()}
    return [*truncated(faults, file), *([Fault(file, message=_TREC)] if widths == {_TREC_COLUMNS} else [])]


def _read_qrels(path: Path, *, are_laid_over: bool = False) -> dict[str, dict[str, Judgment]]:
    """Judgments by query and document; of an overlay there may be none, and the later of two for one pair counts."""
    faults: list[Fault] = []
    judgments: dict[str, dict[str, Judgment]] = {}
    text = read_text(path, LabelsError)
    for number, query, document, grade in graded_rows(text, str(path), faults):
        row = judgments.setdefault(query, {})
        earlier = row.get(document)
        if are_laid_over or earlier is None:
            row[document] = Judgment(document, grade)
        elif earlier.relevance != grade:
            message = f"gives {document!r} the grade {grade} for query {query!r}; it was {earlier.relevance} before."
            faults.append(Fault(str(path), number, 0, message))
    if not judgments and not faults and not are_laid_over:
        faults.append(Fault(str(path), message="has no judgments."))
    if faults:
        raise LabelsError(*truncate_faults(faults, text, str(path)))
    return judgments


def _file(folder: Path, name: str, error: type[CorpusError | LabelsError]) -> Path:
    """The file ``name`` of ``folder``, plain or gzipped. Raises ``error`` with what is there."""
    for path in (folder / name, folder / f"{name}.gz"):
        if path.exists():
            return path
    there = sorted(
        {path.name.removesuffix(".gz") for ending in (".tsv*", ".jsonl*") for path in folder.glob(f"*{ending}")}
    )
    message = f"has no {name} (nor {name}.gz); `dataset.beir` names a BEIR folder.{did_you_mean(name, there)}"
    raise error(Fault(str(folder), message=message + (f" It has: {', '.join(there)}." if there else "")))
