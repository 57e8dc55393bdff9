"""The labels of a worklist: their judgments of its items, and the way of new judgments into them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ragtrial.config import ExperimentConfig
from ragtrial.dataset.datasets import beir_labels
from ragtrial.dataset.labels import labels_file
from ragtrial.dataset.library import Library
from ragtrial.dataset.resolution import resolve
from ragtrial.dataset.texts import normalised, short
from ragtrial.errors import Fault, LabelsError
from ragtrial.labelling.changes import Change, Done, Grade
from ragtrial.labelling.overlay import OverlayText, read_overlay_text
from ragtrial.labelling.worklist import Worklist, speaks_of
from ragtrial.labelling.write_back import LabelsText, read_labels_text, write_back
from ragtrial.pipeline.corpus import Corpus
from ragtrial.progress import Progress
from ragtrial.records import PromptQueries, Query, Span

_MOST_FAULTS = 10


class WorkLabels:
    """The file ``labels`` of a worklist, as it was when it was read last.

    With a ``config``, labels that do not fit its documents are refused; an overlay needs it. Raises LabelsError for
    invalid labels, and for labels of other queries than the worklist's.
    """

    def __init__(self, worklist: Worklist, labels: Path, config: ExperimentConfig | None, progress: Progress) -> None:
        self._worklist = worklist
        self._config = config
        self._by_document = config is not None and config.evaluators.unit == "document"
        self.file = labels_file(labels) if worklist.kind == "prompt_queries" else labels
        self._documents: Library | None = None
        if worklist.kind == "overlay" and (config is None or config.dataset.beir is None):
            message = "is laid upon the qrels of a BEIR folder; name the config that has both: --config CONFIG."
            raise LabelsError(Fault(str(self.file), message=message))
        if worklist.kind == "prompt_queries" and config is not None:
            self._documents = Corpus(config, progress).library
        self.read()

    def read(self) -> None:
        """Read the labels as they are now; the next write changes these."""
        self._take(read_overlay_text(self.file) if self._worklist.kind == "overlay" else read_labels_text(self.file))

    def earlier(self, own: Collection[Grade]) -> dict[int, int]:
        """The highest grade of each item in the labels, without the judgments ``own``."""
        by_content = self._documents is None and self._worklist.form == "content"
        labels = _without(self._labels, own)
        judgments = {query.id: query.relevant_docs for query in self._checked(labels).queries}
        earlier = {}
        for number, item in enumerate(self._worklist.items):
            grades = [
                label.relevance
                for label in judgments.get(item.query, ())
                if speaks_of(label, item, by_content=by_content, by_document=self._by_document)
            ]
            if grades:
                earlier[number] = max(grades)
        return earlier

    def has(self, query: str, text: str) -> bool:
        """True if there is a query of that id with that text."""
        return any(known.id == query and known.text == normalised(text) for known in self._labels.queries)

    def write(self, changes: Sequence[Change], who: str) -> list[Done]:
        """Make ``changes`` in the file; the changes that had an effect. Raises as ``write_back`` does."""
        base, done = write_back(self._base, changes, who, check=self._checked)
        self._take(base)
        return done

    def _take(self, base: LabelsText | OverlayText) -> None:
        labels = base.labels
        if self._worklist.kind == "overlay" and self._config is not None:
            dataset, laid = self._config.dataset, self.file if self.file.exists() else None
            labels = beir_labels(Path(dataset.beir or ""), dataset.split or "test", laid).labels
        if labels is None and self._worklist.is_drafted:
            labels = PromptQueries(())
        if labels is None:
            raise LabelsError(Fault(str(base.file), message="there is no such file; name the labels: --labels FILE."))
        if not self._worklist.is_drafted:  # its queries are new
            self._refuse_others(labels)
        self._base, self._labels = base, labels

    def _refuse_others(self, labels: PromptQueries) -> None:
        texts = {query.id: normalised(query.text).strip() for query in labels.queries}
        faults = []
        for name, text in {item.query: normalised(item.question).strip() for item in self._worklist.items}.items():
            if name not in texts:
                faults.append(f"there is no query {name!r}, {short(text)!r}, of which the worklist asks.")
            elif texts[name] != text:
                faults.append(f"query {name!r} is {short(texts[name])!r}; in the worklist it is {short(text)!r}.")
        if faults:
            rest = len(faults) - _MOST_FAULTS
            more = [f"and {rest} more faults like these."] if rest > 0 else []
            end = "The worklist is of other labels: name its own (--labels FILE), or make one of these: ragtrial pool."
            raise LabelsError(*(Fault(str(self.file), message=one) for one in [*faults[:_MOST_FAULTS], *more, end]))

    def _checked(self, labels: PromptQueries) -> PromptQueries:
        """``labels``, resolved in the documents if these are known. Raises LabelsError."""
        if self._documents is None or self._config is None:
            return labels
        return resolve(labels, self._documents, self._config.dataset.match, str(self.file)).labels


def _without(labels: PromptQueries, own: Collection[Grade]) -> PromptQueries:
    """``labels`` without the judgments that equal ``own`` judgments."""
    known: Mapping[str, set[tuple[object, ...]]] = {grade.query: set() for grade in own}
    for grade in own:
        spans = () if grade.start is None or grade.end is None else (Span(grade.start, grade.end),)
        known[grade.query].add((grade.doc, grade.relevance, grade.quote, spans))

    def left(query: Query) -> Query:
        kept = (label for label in query.relevant_docs
                if (label.doc, label.relevance, label.quote, label.spans) not in known.get(query.id, ()))  # fmt: skip
        return replace(query, relevant_docs=tuple(kept))

    return replace(labels, queries=tuple(map(left, labels.queries)))
