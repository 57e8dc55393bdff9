"""What an experiment is about: where the documents are, and the labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from pydantic import model_validator

from ragtrial.dataset.beir import beir_corpus, beir_labels
from ragtrial.dataset.documents import OnError, corpus_files
from ragtrial.dataset.labels import labels_file, load_prompt_queries
from ragtrial.dataset.library import Library
from ragtrial.dataset.qrels_text import repeated_rows
from ragtrial.errors import CorpusError, Fault, LabelsError
from ragtrial.options import Options, PathText
from ragtrial.records import PromptQueries, Question, ReportWarning, WarningCode


class DatasetOptions(Options):
    """Documents and labels: `corpus` and `queries`, or a `beir` folder."""

    corpus: PathText | None = None
    """A folder of documents (.md, .txt, .html, .pdf; names that begin with a dot are left out), or a corpus.jsonl with
    `_id`, `title`, `text`."""

    queries: PathText | None = None
    """The labels: a prompt_queries.json."""

    match: Literal["id", "content"] = "id"
    """Whether a label's `doc` is a document's id or a verbatim passage."""

    beir: PathText | None = None
    """A folder with corpus.jsonl, queries.jsonl and qrels/, instead of `corpus` and `queries`."""

    split: str | None = None
    """The split of the BEIR folder: `qrels/SPLIT.tsv` (default: test)."""

    overlay: PathText | None = None
    """More qrels for the BEIR folder, such as labels of your own, which override those of the split."""

    drop_query_document: bool | None = None
    """Whether the document with a question's id does not count as found for it, as in ArguAna and Quora. Default: in a
    BEIR folder, if that document has the question's text."""

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
    """Where the documents of an experiment are, and its labels as they are written; what was noticed of these.

    ``places`` has the judgments (query, document) that do not stand in ``labels_file``, each with its place.
    """

    corpus: Path
    labels: PromptQueries
    labels_file: str
    notes: tuple[ReportWarning, ...] = ()
    places: Mapping[tuple[str, str], Fault] = field(default_factory=dict)


def with_own_documents(questions: Sequence[Question], options: DatasetOptions, library: Library) -> Sequence[Question]:
    """The questions, those that are documents themselves with the ids of these, as ``drop_query_document`` says."""
    drops = options.drop_query_document
    if drops is False or (drops is None and options.beir is None):
        return questions
    return [
        replace(one, own_document=one.id) if _is_document(one, library, by_id=drops is True) else one
        for one in questions
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
        yield ReportWarning(WarningCode.OWN_DOCUMENTS, message)


def corpus_of(options: DatasetOptions) -> Path:
    """Where the documents are. Raises CorpusError if a BEIR folder has none."""
    return beir_corpus(Path(options.beir)) if options.beir is not None else Path(options.corpus or "")


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
            notes.append(ReportWarning(WarningCode.OVERLAY_MISSING, message))
        elif overlay is not None:
            found = f"{read.added:,} judgments were added, and {read.changed:,} have another grade by it"
            notes.append(ReportWarning(WarningCode.OVERLAY, f"{overlay} was laid upon the qrels: {found}."))
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
