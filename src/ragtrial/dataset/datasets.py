"""The data set of an experiment: the documents, and the labels of a file or of a BEIR folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from pydantic import model_validator

from ragtrial.dataset.documents import OnError, corpus_files, json_rows
from ragtrial.dataset.faults import truncated
from ragtrial.dataset.json_places import id_of
from ragtrial.dataset.labels import labels_file, load_prompt_queries
from ragtrial.dataset.library import Library
from ragtrial.dataset.qrels_text import graded_rows, repeated_rows, truncate_faults
from ragtrial.dataset.texts import normalised, read_text
from ragtrial.errors import CorpusError, Fault, LabelsError, counted, did_you_mean
from ragtrial.options import Options, PathText
from ragtrial.records import Judgment, PromptQueries, Query, Question, ReportWarning


@dataclass(frozen=True)
class BeirLabels:
    """The labels of a split with its overlay, which ``added`` judgments and ``changed`` grades.

    ``repeated`` has the lines of the split that repeat an earlier line; ``places`` has the line of the overlay for each
    of its judgments (query, document).
    """

    labels: PromptQueries
    added: int = 0
    changed: int = 0
    repeated: tuple[int, ...] = ()
    places: Mapping[tuple[str, str], Fault] = field(default_factory=dict)


def beir_labels(folder: Path, split: str, overlay: Path | None = None) -> BeirLabels:
    """The queries in ``qrels/<split>.tsv``, in the order of queries.jsonl, with their judgments.

    The judgments of the file ``overlay`` replace those of the split, and its later lines replace earlier lines. Its
    queries are in queries.jsonl, too.

    Raises LabelsError with every fault and its line: bad rows, grades that are not integers, two grades for one pair,
    judged queries without a text, a missing split (with the existing splits).
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
        message = f"judges {counted(len(absent), 'query', 'queries')} not in {queries_file.name}, {absent[0]!r} first."
        is_own = bool(own.keys() & set(absent))
        line = 0 if is_own else min(line for (query, _), line in laid_rows.lines.items() if query in absent)
        faults.append(Fault(str(qrels_file if is_own else overlay), line, 0, message))
    LabelsError.raise_any(truncated(faults, str(queries_file)))
    pairs = [(own.get(query, {}).get(doc), judgment) for query, row in laid.items() for doc, judgment in row.items()]
    changed = sum(before is not None and before.relevance != after.relevance for before, after in pairs)
    places = {pair: Fault(str(overlay), line) for pair, line in laid_rows.lines.items()}
    added = sum(before is None for before, _ in pairs)
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
    """The file ``name`` of ``folder``, plain or gzipped. Raises ``error`` with the existing files."""
    for path in (folder / name, folder / f"{name}.gz"):
        if path.exists():
            return path
    there = sorted(
        {path.name.removesuffix(".gz") for ending in (".tsv*", ".jsonl*") for path in folder.glob(f"*{ending}")}
    )
    message = f"has no {name} (nor {name}.gz); `dataset.beir` names a BEIR folder.{did_you_mean(name, there)}"
    raise error(Fault(str(folder), message=message + (f" It has: {', '.join(there)}." if there else "")))


class DatasetOptions(Options):
    """Documents and labels: `corpus` and `queries`, or a `beir` folder."""

    corpus: PathText | None = None
    """A folder of documents (.md, .txt, .html, .pdf; names that begin with a dot are left out), or a corpus.jsonl with
    `_id`, `title`, `text`. Other keys of rows and of front matter are not kept."""

    queries: PathText | None = None
    """The labels: a prompt_queries.json."""

    match: Literal["id", "content"] = "id"
    """The content of a label's `doc`: a document's id, or a verbatim passage."""

    beir: PathText | None = None
    """A folder with corpus.jsonl, queries.jsonl and qrels/, instead of `corpus` and `queries`."""

    split: str | None = None
    """The split of the BEIR folder: `qrels/SPLIT.tsv` (default: test)."""

    overlay: PathText | None = None
    """More qrels for the BEIR folder, such as your own labels, which override the split."""

    drop_query_document: bool | None = None
    """True if the document with the id of a question does not count as found for it, as in ArguAna and Quora. Default:
    in a BEIR folder, if that document has the text of the question."""

    on_error: OnError = "stop"
    """Files or rows that cannot be read (damaged, encrypted, not UTF-8): stop with an error, or skip and name them."""

    @model_validator(mode="after")
    def _one_way(self) -> DatasetOptions:
        if self.beir is not None and (self.corpus is not None or self.queries is not None or self.match != "id"):
            raise ValueError("give either beir, or corpus, queries and match; not both.")
        if self.beir is None and (self.corpus is None or self.queries is None):
            raise ValueError("corpus and queries must be given (or beir: a BEIR folder).")
        if self.beir is None and (self.split is not None or self.overlay is not None):
            raise ValueError("split and overlay belong to beir; leave them out.")
        return self


@dataclass(frozen=True)
class Dataset:
    """The documents of an experiment, its labels as they are written, and notes about them.

    ``places`` has the judgments (query, document) that are not in ``labels_file``, each with its place.
    """

    corpus: Path
    labels: PromptQueries
    labels_file: str
    notes: tuple[ReportWarning, ...] = ()
    places: Mapping[tuple[str, str], Fault] = field(default_factory=dict)


def with_own_documents(questions: Sequence[Question], options: DatasetOptions, library: Library) -> Sequence[Question]:
    """The questions; a question that is a document itself gets the id of that document, as ``drop_query_document``
    says.
    """
    drops = options.drop_query_document
    if drops is False or (drops is None and options.beir is None):
        return questions
    return [
        replace(question, own_document=question.id)
        if _is_document(question, library, by_id=drops is True)
        else question
        for question in questions
    ]


def _is_document(question: Question, library: Library, *, by_id: bool) -> bool:
    place = library.position(question.id)
    if place is None or by_id:
        return place is not None
    text, own = library.text(place), question.text.split()
    return own in (text.split(), f"{library.titles[place]} {text}".split())


def own_documents(questions: Sequence[Question]) -> Iterator[ReportWarning]:
    """A note if documents of questions do not count as found."""
    count = sum(bool(question.own_document) for question in questions)
    if count:
        are = "question is a document" if count == 1 else "questions are documents"
        message = f"{count:,} {are} of the corpus, dropped from its own ranking (dataset.drop_query_document)."
        yield ReportWarning("own-documents", message)


def corpus_of(options: DatasetOptions) -> Path:
    """The path of the documents. Raises CorpusError if a BEIR folder has none."""
    if options.beir is not None:
        return _file(Path(options.beir), "corpus.jsonl", CorpusError)
    return Path(options.corpus or "")


def load_dataset(options: DatasetOptions) -> Dataset:
    """Read the labels and find the documents. Raises LabelsError or CorpusError."""
    corpus = corpus_of(options)
    if options.beir is not None:
        folder, split = Path(options.beir), options.split or "test"
        overlay = None if options.overlay is None else Path(options.overlay)
        missing = overlay is not None and overlay.parent.is_dir() and not overlay.exists()
        read = beir_labels(folder, split, None if missing else overlay)
        notes: list[ReportWarning] = []
        if missing:
            message = f"{overlay} (dataset.overlay) does not exist yet and counts as empty: the first label makes it."
            notes.append(ReportWarning("overlay-missing", message))
        elif overlay is not None:
            counts = f"judgments added: {read.added:,}, given another grade: {read.changed:,}"
            notes.append(ReportWarning("overlay", f"{overlay} was laid upon the qrels: {counts}."))
        if read.repeated:
            notes.append(repeated_rows(len(read.repeated), f"qrels/{split}.tsv, line {read.repeated[0]} first"))
        return Dataset(corpus, read.labels, str(folder / "qrels" / f"{split}.tsv"), tuple(notes), read.places)
    file = labels_file(Path(options.queries or ""))
    try:
        return Dataset(corpus, load_prompt_queries(file), str(file))
    except LabelsError as error:
        try:  # both may be wrong
            corpus_files(corpus)
        except CorpusError as other:
            raise LabelsError(*error.faults, *other.faults) from None
        raise
