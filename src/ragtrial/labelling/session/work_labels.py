"""The labels that a worklist is for: what they judge already, and how new judgments come into them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ragtrial.config import ExperimentConfig
from ragtrial.dataset.beir import beir_labels
from ragtrial.dataset.labels import labels_file
from ragtrial.dataset.library import Library
from ragtrial.dataset.resolution import resolve
from ragtrial.dataset.texts import normalised, short
from ragtrial.errors import Fault, LabelsError
from ragtrial.labelling.changes import Change, Done, Grade
from ragtrial.labelling.overlay import OverlayText, read_overlay_text
from ragtrial.labelling.pooling.worklist import Worklist, speaks_of
from ragtrial.labelling.write_back import LabelsText, read_labels_text, write_back
from ragtrial.pipeline.corpus import Corpus
from ragtrial.progress import Progress
from ragtrial.records import PromptQueries, Query, Span

_MOST_FAULTS = 10


class WorkLabels:
    """The file ``labels`` of a worklist, as it was when it was read last.

    ``config`` names the documents: where it is given, labels that do not fit them are refused. An overlay needs it.
    Raises LabelsError for labels that cannot be read, and for those of other queries than the worklist's.
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
        """Read the labels as they are now: what is written next is made from these."""
        self._take(read_overlay_text(self.file) if self._worklist.kind == "overlay" else read_labels_text(self.file))

    def earlier(self, own: Collection[Grade]) -> dict[int, int]:
        """The grade of each item that the labels judge, the judgments ``own`` apart; the highest where it has several.

        ``speaks_of`` says which judgments are of an item.
        """
        by_content = self._documents is None and self._worklist.form == "content"
        labels = _without(self._labels, own)
        judgments = {query.id: query.relevant_docs for query in self._checked(labels).queries}
        found = {}
        for number, item in enumerate(self._worklist.items):
            met = [
                one.relevance
                for one in judgments.get(item.query, ())
                if speaks_of(one, item, by_content=by_content, by_document=self._by_document)
            ]
            if met:
                found[number] = max(met)
        return found

    def has(self, query: str, text: str) -> bool:
        """Whether there is a query of that id with that text."""
        return any(one.id == query and one.text == normalised(text) for one in self._labels.queries)

    def write(self, changes: Sequence[Change], who: str) -> list[Done]:
        """Make ``changes`` in the file; what was changed. What it says then is what is known from now on.

        Raises as ``write_back`` does, and nothing is written then.
        """
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
        if not self._worklist.is_drafted:  # whose queries are new
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
        """``labels``, looked up in the documents where these are known. Raises LabelsError."""
        if self._documents is None or self._config is None:
            return labels
        return resolve(labels, self._documents, self._config.dataset.match, str(self.file)).labels


def _without(labels: PromptQueries, own: Collection[Grade]) -> PromptQueries:
    """``labels`` without the judgments that are ``own``, word for word."""
    known: Mapping[str, set[tuple[object, ...]]] = {one.query: set() for one in own}
    for one in own:
        spans = () if one.start is None or one.end is None else (Span(one.start, one.end),)
        known[one.query].add((one.doc, one.relevance, one.quote, spans))

    def left(query: Query) -> Query:
        kept = (one for one in query.relevant_docs
                if (one.doc, one.relevance, one.quote, one.spans) not in known.get(query.id, ()))  # fmt: skip
        return replace(query, relevant_docs=tuple(kept))

    return replace(labels, queries=tuple(map(left, labels.queries)))
