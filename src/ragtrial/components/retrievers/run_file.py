"""Rankings that were made elsewhere: a run file joins as a setting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ragtrial.cache.fingerprints import Digest
from ragtrial.components.interfaces import RETRIEVERS, Candidates, Fact, Facts, Retriever, RetrieverContext
from ragtrial.dataset.chunks import SpanCodes
from ragtrial.dataset.library import Library
from ragtrial.dataset.texts import short
from ragtrial.errors import Fault, RunFileError, counted, did_you_mean, listed
from ragtrial.options import PathText
from ragtrial.rankings import from_rows
from ragtrial.records import PromptQueries, Query, Question, ReportWarning
from ragtrial.report.find import find_report
from ragtrial.runs.formats.guessing import Form, guess

if TYPE_CHECKING:
    from ragtrial.runs.qrels import Run

_LARGEST = float(np.finfo(np.float32).max)


@RETRIEVERS.register("run_file")
class RunFileRetriever(Retriever):
    """Rankings made elsewhere, read from a file."""

    @property
    def has_latency(self) -> bool:
        return False

    kind: Literal["run_file"] = "run_file"
    """Rankings made elsewhere, read from a file."""

    path: PathText
    """A run of documents: a TREC file, JSONL, JSON, Parquet, spans, a report's folder; all that `ragtrial score`
    reads."""

    form: Form | None = None
    """The format, if it is not detected."""

    name: str | None = None
    """Which run, where the file holds several: a setting of a report, a retriever of spans."""

    def hashed_content(self, digest: Digest) -> Any:
        return [digest(path) for path in self._files()]

    def asked(self, question: Question) -> Any:
        return [question.id, question.text]

    def check(self, context: RetrieverContext, questions: Sequence[Question]) -> None:
        if questions and not self.read(context.library, questions)[0]:
            message = (
                f"has none of the {len(questions):,} labelled queries, neither by id nor by text. "
                f"It has: {listed(map(repr, self._run(questions, context.library).queries), 3)}; the labels have: "
                f"{listed((repr(_key(question)) for question in questions), 3)}."
            )
            raise RunFileError(Fault(self.path, message=message))

    def open(self, context: RetrieverContext) -> _OpenRunFile:
        return _OpenRunFile(self, context)

    def warnings(self, setting: str, facts: Facts) -> Iterator[ReportWarning]:
        if facts.get("missing"):
            message = f"{setting}: labelled queries that are not in {Path(self.path).name}: {facts['missing']:,}"
            yield ReportWarning.of_verdict("queries-not-in-run", f"{message} ({facts['first_missing']}); they score 0.")
        if facts.get("duplicates"):
            message = f"{setting}: hits of a document that stands higher in the same ranking: {facts['duplicates']:,}"
            yield ReportWarning("duplicate-hits", f"{message}; the first counts.")
        if facts.get("left_out"):
            yield ReportWarning("spans-left-out", f"{setting}: {facts['left_out']}")

    def _files(self) -> list[Path]:
        """The files that the rankings are read from."""
        path = Path(self.path)
        if (self.form or guess(path, "run")) != "report":
            return [path]
        folder = find_report(self.path, path.parent)
        return [folder / "report.json", *sorted((folder / "rankings").glob("*.jsonl.gz"))]

    def read(self, library: Library, questions: Sequence[Question]) -> tuple[dict[str, _RunFileRow], str]:
        """The rankings of ``questions``, by their id, or text where they have none, and the note of the run.

        All are of documents of ``library``. Raises RunFileError and ReportError.
        """
        from ragtrial.runs.inputs import best_first

        run = self._run(questions, library)
        ordered, rows = best_first(run, "first"), dict[str, _RunFileRow]()
        documents = list(ordered.documents)
        known = ordered.values is not None and not ordered.by_rank
        scores = ordered.values if known and ordered.values is not None else np.full(len(documents), np.nan)
        places = {query: place for place, query in enumerate(ordered.queries)}
        for question in questions:
            place = next((places[key] for key in (question.id, question.text) if key and key in places), None)
            if place is not None:
                start, end = ordered.starts[place : place + 2].tolist()
                duplicates = int(np.diff(run.starts)[place]) - (end - start)
                rows[_key(question)] = _RunFileRow(documents[start:end], scores[start:end].tolist(), duplicates)
        names = [name for row in rows.values() for name in row.documents]
        unknown = Counter(name for name in names if name not in library.positions)
        if unknown:
            message = (
                f"{unknown.total():,} of {len(names):,} hits name documents that are not in the corpus "
                f"({counted(len(library), 'document')}): {listed(map(repr, unknown), 3)}."
                f"{did_you_mean(next(iter(unknown)), library.ids)}"
            )
            raise RunFileError(Fault(self.path, message=message))
        return rows, run.note

    def _run(self, questions: Sequence[Question], library: Library) -> Run:
        """The run in the file, which has finite scores of documents. Raises RunFileError, ReportError."""
        from ragtrial.runs.inputs import run_named

        labels = PromptQueries(tuple(Query(_key(question), question.text) for question in questions))
        run = run_named(self.path, self.name, self.form, labels, library, choice="`name:`")
        if run.of_chunks:
            raise RunFileError(
                f"{self.path}: run {run.name!r} is of passages in chunks (unit: span), and only rankings of documents "
                "can join as a setting; `ragtrial export --duplicates first` writes its documents."
            )
        values = np.zeros(0) if run.values is None else run.values
        wrong = values[np.isinf(values) | (np.abs(values) > _LARGEST)]
        if len(wrong):
            raise RunFileError(Fault(self.path, message=f"has the score {wrong[0]}; scores must be finite numbers."))
        return run


@dataclass(frozen=True)
class _RunFileRow:
    """The documents of one question, best first, their scores (NaN where not known), and how many came twice."""

    documents: list[str]
    scores: list[float]
    duplicates: int


class _OpenRunFile:
    def __init__(self, options: RunFileRetriever, context: RetrieverContext) -> None:
        self._options = options
        self._library = context.library
        self._places = SpanCodes(context.library)
        self._read: tuple[dict[str, _RunFileRow], str] | None = None

    def search(self, questions: Sequence[Question], depth: int) -> Candidates:
        if self._read is None:
            self._read = self._options.read(self._library, questions)
        known, note = self._read
        rows = [known.get(_key(question), _RunFileRow([], [], 0)) for question in questions]
        missing = [_key(question) for question in questions if _key(question) not in known]
        positions = self._library.positions
        codes = [[self._places.code(positions[name]) for name in row.documents[:depth]] for row in rows]
        beyond = sum(max(len(row.documents) - depth, 0) for row in rows)
        facts: dict[str, Fact] = {"duplicates": sum(row.duplicates for row in rows), "beyond_top_k": beyond}
        facts |= {"missing": len(missing), **({"left_out": note} if note else {})}
        if missing:
            facts["first_missing"] = listed((repr(short(key, 60)) for key in missing), 3)
        return Candidates.of(self._places.chunks(), from_rows(codes, [row.scores[:depth] for row in rows]), facts)


def _key(question: Question) -> str:
    return question.id or question.text
