"""BEIR folders: corpus.jsonl, queries.jsonl and qrels/<split>.tsv, each plain or gzipped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ragtrial.dataset.documents import json_rows
from ragtrial.dataset.texts import normalised, read_text
from ragtrial.errors import CorpusError, Fault, LabelsError, did_you_mean
from ragtrial.records import MOST_GRADE, Judgment, PromptQueries, Query

_MOST_FAULTS = 20
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
    return _one_of(folder, "corpus.jsonl", CorpusError)


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
    qrels_file = _split(folder, split)
    judgments = _read_qrels(qrels_file)
    laid = _read_qrels(overlay, are_laid_over=True) if overlay is not None else {}
    own = {query: dict(row) for query, row in judgments.items()}
    for query, row in laid.items():
        judgments.setdefault(query, {}).update(row)
    queries_file = _one_of(folder, "queries.jsonl", LabelsError)
    faults: list[Fault] = []
    queries: dict[str, Query] = {}
    for number, entry in json_rows(queries_file, faults):
        name, text = entry.get("_id", entry.get("id")), entry.get("text")
        name = str(name) if isinstance(name, str | int) else ""
        if not name or not isinstance(text, str):
            faults.append(Fault(str(queries_file), number, 0, "must have a text under `_id` and under `text`."))
        elif name in queries:
            faults.append(Fault(str(queries_file), number, 0, f"query id {name!r} is taken already."))
        elif name in judgments:
            if not text.strip():
                faults.append(Fault(str(queries_file), number, 0, f"query {name!r} is empty."))
            queries[name] = Query(name, normalised(text), tuple(judgments[name].values()))
    absent = [name for name in judgments if name not in queries]
    if absent and not faults:
        faults.append(
            Fault(
                str(qrels_file if own.keys() & set(absent) else overlay),
                message=f"judges {len(absent):,} queries that are not in {queries_file.name}, {absent[0]!r} first.",
            )
        )
    if faults:
        raise LabelsError(*faults[:_MOST_FAULTS])
    rows = [(own.get(query, {}).get(doc), one) for query, row in laid.items() for doc, one in row.items()]
    changed = sum(was is not None and was.relevance != one.relevance for was, one in rows)
    return BeirLabels(PromptQueries(tuple(queries.values())), sum(was is None for was, _ in rows), changed)


def graded_rows(text: str, file: str, faults: list[Fault]) -> Iterator[GradedRow]:
    """The rows of qrels of three columns; bad ones are added to ``faults``.

    The header (``query-id corpus-id score``) may be there or not.
    """
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        fields = line.split("\t") if "\t" in line else line.split()
        if len(fields) != _COLUMNS:
            message = f"must be query, document and grade, tabs between; found {len(fields)} fields."
            faults.append(Fault(file, number, 0, message))
            continue
        query, document, written = (field.strip() for field in fields)
        try:
            grade = int(written)
        except ValueError:
            if number > 1 or query.lower() not in HEADER:
                faults.append(Fault(file, number, 0, f"the grade {written!r} must be a whole number."))
            continue
        if abs(grade) > MOST_GRADE:
            faults.append(Fault(file, number, 0, f"the grade {written} is beyond {MOST_GRADE:,}; is it one?"))
            continue
        yield GradedRow(number, query, document, grade)


def truncate_faults(faults: Sequence[Fault], text: str, file: str) -> list[Fault]:
    """The first of the faults that ``graded_rows`` found in ``text``, how many more there are, and a likely cause."""
    rest = len(faults) - _MOST_FAULTS
    more = [Fault(file, message=f"and {rest:,} more faults like these.")] if rest > 0 else []
    widths = {len(line.split()) for line in text.splitlines() if line.strip()}
    cause = [Fault(file, message=_TREC)] if widths == {_TREC_COLUMNS} else []
    return [*faults[:_MOST_FAULTS], *more, *cause]


def _read_qrels(path: Path, *, are_laid_over: bool = False) -> dict[str, dict[str, Judgment]]:
    """Judgments by query and document; of an overlay there may be none, and the later of two for one pair counts."""
    faults: list[Fault] = []
    judgments: dict[str, dict[str, Judgment]] = {}
    text = read_text(path, LabelsError)
    for number, query, document, grade in graded_rows(text, str(path), faults):
        if are_laid_over:
            judgments.setdefault(query, {})[document] = Judgment(document, grade)
            continue
        earlier = judgments.setdefault(query, {}).setdefault(document, Judgment(document, grade))
        if earlier.relevance != grade:
            faults.append(
                Fault(
                    str(path),
                    number,
                    0,
                    f"gives {document!r} the grade {grade} for query {query!r}; it was {earlier.relevance} before.",
                )
            )
    if not judgments and not faults and not are_laid_over:
        faults.append(Fault(str(path), message="has no judgments."))
    if faults:
        raise LabelsError(*truncate_faults(faults, text, str(path)))
    return judgments


def _one_of(folder: Path, name: str, error: type[CorpusError | LabelsError]) -> Path:
    for path in (folder / name, folder / f"{name}.gz"):
        if path.exists():
            return path
    raise error(Fault(str(folder), message=f"has no {name} (nor {name}.gz); `dataset.beir` names a BEIR folder."))


def _split(folder: Path, split: str) -> Path:
    for path in (folder / "qrels" / f"{split}.tsv", folder / "qrels" / f"{split}.tsv.gz"):
        if path.exists():
            return path
    there = sorted({path.name.split(".tsv")[0] for path in (folder / "qrels").glob("*.tsv*")})
    known = f" Splits there: {', '.join(there)}.{did_you_mean(split, there)}" if there else ""
    raise LabelsError(Fault(str(folder / "qrels"), message=f"has no {split}.tsv (nor {split}.tsv.gz).{known}"))
