"""Queries added to labels, removed from them, and merged from other files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from ragtrial.config import ExperimentConfig
from ragtrial.dataset.resolution import resolve
from ragtrial.errors import Fault, LabelsError, did_you_mean
from ragtrial.labelling.answers import new_id
from ragtrial.labelling.changes import Change, Done, Grade, NewQuery, RemovedQuery, place_of
from ragtrial.labelling.write_back import LabelsText, read_labels_text, write_back
from ragtrial.pipeline.corpus import Corpus
from ragtrial.progress import Progress
from ragtrial.records import PromptQueries

Prefer = Literal["mine", "theirs"]
_KEYS = ("id", "text", "relevant_docs", "tags")


def labels_of(config: ExperimentConfig) -> LabelsText:
    """The labels of ``config``. Raises LabelsError for a BEIR folder, which is not changed, and for invalid labels."""
    if config.dataset.beir is not None:
        message = "is a BEIR folder and stays as it is; convert it, or put labels of your own into dataset.overlay."
        raise LabelsError(Fault(config.dataset.beir, message=message))
    return read_labels_text(config.dataset.queries or "")


def write(
    base: LabelsText, changes: Sequence[Change], config: ExperimentConfig, who: str, progress: Progress
) -> tuple[LabelsText, list[Done]]:
    """Make ``changes``, if the labels then fit the documents of ``config``. Raises LabelsError."""

    def check(labels: PromptQueries) -> object:
        return resolve(labels, Corpus(config, progress).library, config.dataset.match, str(base.file))

    return write_back(base, changes, who, check=check)


def added(base: LabelsText, text: str, name: str | None, tags: Sequence[str], label: Grade) -> list[Change]:
    """The changes that add a judgment of the question ``text``, and the question if it is new.

    ``label.query`` is not looked at. Raises LabelsError for a ``name`` that another question has.
    """
    rows = base.rows
    known = next((key for key, row in rows.items() if row["text"].strip() == text.strip()), None)
    if known is None and name is not None and name in rows:
        raise LabelsError(Fault(str(base.file), message=f"query {name!r} is another question: {rows[name]['text']!r}."))
    query = known or name or new_id(text, rows)
    new: list[Change] = [] if known else [NewQuery(query, text.strip(), tuple(tags))]
    return [*new, Grade(query, label.doc, label.relevance, label.quote)]


def removed(base: LabelsText, query: str, doc: str | None, quote: str | None) -> list[Change]:
    """The changes that remove a query, or its judgments of ``doc``, or of one passage of that. Raises LabelsError."""
    rows = base.rows
    if query not in rows:
        raise LabelsError(Fault(str(base.file), message=f"there is no query {query!r}.{did_you_mean(query, rows)}"))
    if doc is None:
        return [RemovedQuery(query)]
    labels = rows[query]["relevant_docs"]
    places = [place_of(one) for one in labels if str(one["doc"]) == doc and quote in (None, one.get("quote"))]
    if not places:
        known = ", ".join(dict.fromkeys(str(one["doc"]) for one in labels)) or "none"
        message = f"query {query!r} has no such judgment of {doc!r}; it judges: {known}."
        raise LabelsError(Fault(str(base.file), message=message))
    return [Grade(query, name, None, *rest) for name, *rest in dict.fromkeys(places)]


def merged(base: LabelsText, files: Sequence[Path], prefer: Prefer | None = None) -> list[Change]:
    """The changes that bring the labels of ``files`` into ``base``: queries of one text are one, and keep their id.

    Raises LabelsError with all judgments of one place that have different grades, unless ``prefer`` says whose hold.
    """
    rows: dict[str, Mapping[str, Any]] = dict(base.rows)
    by_text = {row["text"].strip(): key for key, row in rows.items()}
    grades = {
        (key, place_of(one)): one.get("relevance", 1) for key, row in rows.items() for one in row["relevant_docs"]
    }
    changes: list[Change] = []
    faults: list[Fault] = []
    for file in files:
        for key, row in _there(file).rows.items():
            text = row["text"].strip()
            query = by_text.get(text)
            if query is None:
                query = by_text[text] = key if key not in rows else new_id(text, rows)
                rows[query] = row
                more = {name: value for name, value in row.items() if name not in _KEYS}
                changes.append(NewQuery(query, row["text"], tuple(row.get("tags", ())), more))
            for grade in _grades(query, row):
                known = grades.setdefault((query, place_of(grade.as_label())), grade.relevance)
                if known == grade.relevance or prefer == "theirs":
                    changes.append(grade)
                elif prefer is None:
                    what = f"query {query!r}, {grade.doc!r}: grade {grade.relevance}, and {known} in {base.file.name}."
                    faults.append(Fault(str(file), message=what))
    if faults:
        rest = "Nothing was written; --prefer mine or --prefer theirs decides."
        raise LabelsError(*faults, Fault(str(base.file), message=rest))
    return changes


def _grades(query: str, row: Mapping[str, Any]) -> Iterator[Grade]:
    for one in row["relevant_docs"]:
        doc, quote, start, end = place_of(one)
        yield Grade(query, doc, one.get("relevance", 1), quote, start, end, one.get("text_hash"))


def _there(file: Path) -> LabelsText:
    labels = read_labels_text(file)
    if labels.text is None:
        raise LabelsError(Fault(str(file), message="there is no such file."))
    return labels
