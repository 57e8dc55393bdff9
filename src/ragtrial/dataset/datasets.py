"""What an experiment is about: where the documents are, and the labels."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import model_validator

from ragtrial.dataset.beir import beir_corpus, beir_labels
from ragtrial.dataset.documents import OnError, corpus_files
from ragtrial.dataset.labels import labels_file, load_prompt_queries
from ragtrial.errors import CorpusError, LabelsError
from ragtrial.options import Options, PathText
from ragtrial.records import PromptQueries, ReportWarning, WarningCode


class DatasetOptions(Options):
    """Documents and labels: `corpus` and `queries`, or a `beir` folder."""

    corpus: PathText | None = None
    """A folder of documents (.md, .txt, .html, .pdf), or a corpus.jsonl with `_id`, `title`, `text`."""

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
    """Where the documents of an experiment are, and its labels as they are written; what was noticed of these."""

    corpus: Path
    labels: PromptQueries
    labels_file: str
    notes: tuple[ReportWarning, ...] = ()


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
        return Dataset(corpus, read.labels, str(folder / "qrels" / f"{split}.tsv"), tuple(notes))
    file = labels_file(Path(options.queries or ""))
    try:
        return Dataset(corpus, load_prompt_queries(file), str(file))
    except LabelsError as error:
        try:  # both may be wrong
            corpus_files(corpus)
        except CorpusError as other:
            raise LabelsError(*error.faults, *other.faults) from None
        raise
