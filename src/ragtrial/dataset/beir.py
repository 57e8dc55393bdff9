"""BEIR folders: corpus.jsonl, queries.jsonl and qrels/<split>.tsv, each plain or gzipped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ragtrial.dataset.documents import json_rows, truncated
from ragtrial.dataset.json_places import id_of
from ragtrial.dataset.qrels_text import graded_rows, truncate_faults
from ragtrial.dataset.texts import normalised, read_text
from ragtrial.errors import CorpusError, Fault, LabelsError, did_you_mean
from ragtrial.records import Judgment, PromptQueries, Query


def beir_corpus(folder: Path) -> Path:
    """The corpus file of a BEIR folder. Raises CorpusError when there is none."""
    return _file(folder, "corpus.jsonl", CorpusError)


@dataclass(frozen=True)
class BeirLabels:
    """The labels of a split, and what the overlay laid upon them: judgments ``added``, and grades ``changed``.

    ``repeated`` has the lines of the split that repeat an earlier one; ``places`` the line of the overlay that each of
    its judgments (query, document) is of.
    """

    labels: PromptQueries
    added: int = 0
    changed: int = 0
    repeated: tuple[int, ...] = ()
    places: Mapping[tuple[str, str], Fault] = field(default_factory=dict)


def beir_labels(folder: Path, split: str, overlay: Path | None = None) -> BeirLabels:
    """The queries that ``qrels/<split>.tsv`` names, in the order of queries.jsonl, with their judgments.

    The judgments of the file ``overlay``, more qrels, are laid upon these: there the later line counts, and any of
    them before those of the split. Its queries are in queries.jsonl, too. Raises LabelsError with every fault and its
    line: bad rows, grades that are not integers, two grades for one pair, judged queries without a text, a split that
    is not there (with those that are).
    """
    qrels_file = _file(folder / "qrels", f"{split}.tsv", LabelsError)
    split_rows = _read_qrels(qrels_file)
    laid_rows = _read_qrels(overlay, are_laid_over=True) if overlay is not None else _Rows()
    own, laid = split_rows.judgments, laid_rows.judgments
    judgments = {query: own.get(query, {}) | laid.get(query, {}) for query in {**own, **laid}}
    queries_file = _file(folder, "queries.jsonl", LabelsError)
    faults: list[Fault] = []
    queries: dict[str, Query] = {}
    for number, entry in json_rows(queries_file, faults):
        name, text = entry.get("_id", entry.get("id")), entry.get("text")
        name = id_of(name) or ""
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
        is_own = bool(own.keys() & set(absent))
        line = 0 if is_own else min(line for (query, _), line in laid_rows.lines.items() if query in absent)
        faults.append(Fault(str(qrels_file if is_own else overlay), line, 0, message))
    if faults:
        raise LabelsError(*truncated(faults, str(queries_file)))
    rows = [(own.get(query, {}).get(doc), one) for query, row in laid.items() for doc, one in row.items()]
    changed = sum(was is not None and was.relevance != one.relevance for was, one in rows)
    places = {pair: Fault(str(overlay), line) for pair, line in laid_rows.lines.items()}
    added = sum(was is None for was, _ in rows)
    return BeirLabels(PromptQueries(tuple(queries.values())), added, changed, split_rows.repeated, places)


@dataclass(frozen=True)
class _Rows:
    """The judgments of a file by query and document, the line of each, and the lines that repeat an earlier one."""

    judgments: dict[str, dict[str, Judgment]] = field(default_factory=dict)
    lines: dict[tuple[str, str], int] = field(default_factory=dict)
    repeated: tuple[int, ...] = ()


def _read_qrels(path: Path, *, are_laid_over: bool = False) -> _Rows:
    """The rows of a file; of an overlay there may be none, and the later of two for one pair counts."""
    faults: list[Fault] = []
    judgments: dict[str, dict[str, Judgment]] = {}
    lines: dict[tuple[str, str], int] = {}
    repeated: list[int] = []
    text = read_text(path, LabelsError)
    for number, query, document, grade in graded_rows(text, str(path), faults):
        row = judgments.setdefault(query, {})
        earlier = row.get(document)
        if are_laid_over or earlier is None:
            row[document] = Judgment(document, grade)
            lines[query, document] = number
        elif earlier.relevance != grade:
            message = f"gives {document!r} the grade {grade} for query {query!r}; it was {earlier.relevance} before."
            faults.append(Fault(str(path), number, 0, message))
        else:
            repeated.append(number)
    if not judgments and not faults and not are_laid_over:
        faults.append(Fault(str(path), message="has no judgments."))
    if faults:
        raise LabelsError(*truncate_faults(faults, text, str(path)))
    return _Rows(judgments, lines, tuple(repeated))


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
