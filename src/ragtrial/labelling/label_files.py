"""Labels in their files: changes of labels, their history, and the way into a file without overwriting others' work.

Labels are a prompt_queries.json, or an overlay: qrels of one's own for a BEIR folder, which stays as it is. The history
is a file of JSON lines next to the labels, with each change and the state before it.
"""

from __future__ import annotations

import getpass
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

from ragtrial.cache.atomic import write_bytes
from ragtrial.cache.bookkeeping import only_writer
from ragtrial.config import ExperimentConfig
from ragtrial.dataset.datasets import beir_labels
from ragtrial.dataset.labels import labels_file, prompt_queries
from ragtrial.dataset.library import Library
from ragtrial.dataset.qrels_text import graded_rows, truncate_faults
from ragtrial.dataset.resolution import resolve
from ragtrial.dataset.texts import decoded, marked_encoding, read_bytes
from ragtrial.errors import Fault, LabelsError, RunError
from ragtrial.pipeline.corpus import Corpus
from ragtrial.progress import Progress
from ragtrial.records import MOST_GRADE, PromptQueries

Form = Literal["document", "quote", "content"]
"""The object of a label: a document, a passage of it, or the passage alone (match: content)."""

HEADER = "query-id\tcorpus-id\tscore"
_PLACE = ("quote", "start", "end")
_MARK = "\ufeff"
_EMPTY = '{"queries": []}'


class LabelsConflictError(LabelsError):
    """The same queries were changed by another person meanwhile; nothing was written."""


@dataclass(frozen=True, slots=True)
class Grade:
    """The relevance of a document, or a passage of it, to a query.

    ``doc``, ``quote``, ``start`` and ``end`` identify the judgment as labels spell it: an existing judgment with the
    same four is changed. It keeps its group unless ``group`` names another.
    """

    query: str
    doc: str
    relevance: int
    quote: str | None = None
    start: int | None = None
    end: int | None = None
    text_hash: str | None = None
    group: str | None = None

    @classmethod
    def of(cls, query: str, label: Mapping[str, Any]) -> Grade:
        """The judgment that a row of a labels file is."""
        more = (label.get(key) for key in (*_PLACE, "text_hash"))
        return cls(query, str(label.get("doc")), label.get("relevance", 1), *more)

    def speaks_of(self, label: Mapping[str, Any]) -> bool:
        """True if it judges the same place as ``label``, a row of a labels file."""
        other = Grade.of(self.query, label)
        return (self.doc, self.quote, self.start, self.end) == (other.doc, other.quote, other.start, other.end)

    def as_label(self) -> dict[str, Any]:
        """The label as a file has it, its keys in the order in which they are described."""
        keys = ("doc", "relevance", *_PLACE, "text_hash", "group")
        return {key: value for key in keys if (value := getattr(self, key)) is not None}


@dataclass(frozen=True, slots=True)
class NewQuery:
    """A question that is not in the labels yet; ``query`` is its id."""

    query: str
    text: str
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TaggedQuery:
    """A question that gets a tag more."""

    query: str
    tag: str


Change = Grade | NewQuery | TaggedQuery


@dataclass(frozen=True)
class Done:
    """A change that was made: the label or query before, None if it is new, and after."""

    change: Change
    before: Any
    after: Any

    @property
    def action(self) -> str:
        """``add`` or ``change`` a judgment, add a ``query``, or ``tag`` one."""
        if isinstance(self.change, TaggedQuery):
            return "tag"
        if not isinstance(self.change, Grade):
            return "query"
        return "add" if self.before is None else "change"


@dataclass(frozen=True)
class LabelsText:
    """A prompt_queries.json as it was read, to be changed. ``text`` is None without a file."""

    file: Path
    text: str | None = None

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """The file at ``path``, which need not exist. Raises LabelsError if it cannot be read."""
        file = labels_file(Path(path)).resolve()
        if not file.exists():
            return cls(file)
        if file.suffix == ".gz":
            message = "is packed; labels are written back into plain files: unpack it."
            raise LabelsError(Fault(str(file), message=message))
        content = read_bytes(file, LabelsError)
        text = decoded(content, file, LabelsError)  # UTF-8 keeps its mark when it is written back
        return cls(file, content.decode() if marked_encoding(content).startswith("utf-8") else text)

    @cached_property
    def content(self) -> str:
        """The text without a byte-order mark, empty without a file."""
        return (self.text or "").removeprefix(_MARK)

    @property
    def labels(self) -> PromptQueries | None:
        """The queries, if the file has them. Raises LabelsError if it is invalid."""
        return None if self.text is None else prompt_queries(self.content, self.file, may_be_empty=True)

    @cached_property
    def rows(self) -> Mapping[str, Mapping[str, Any]]:
        """The queries in the file by their ids. Raises LabelsError if they are invalid."""
        if self.labels is None:  # which raises if the file is invalid
            return {}
        return {str(row["id"]): row for row in json.loads(self.content)["queries"]}

    def of_query(self, query: str) -> object:
        """The text and the judgments of a query, for comparison; None for an unknown query."""
        row = self.rows.get(query)
        return row and (row["text"], row["relevant_docs"])

    def edited(self, changes: Sequence[Change]) -> tuple[Self, list[Done]]:
        """The labels with ``changes``, and the effective changes. Raises LabelsError for impossible changes.

        Keys, their order and all other values stay; the text gets an indent of two spaces.
        """
        _ = self.labels  # raises for labels that are invalid before the changes
        labels = json.loads(self.content or _EMPTY)
        try:
            done = edit(labels["queries"], changes)
        except LookupError as error:
            name = error.args[0]
            known = any(isinstance(change, NewQuery) and change.query == name for change in changes)
            message = f"query {name!r} is there already." if known else f"there is no query {name!r}."
            raise LabelsError(Fault(str(self.file), message=message)) from None
        if not done:
            return self, []
        written = json.dumps(labels, indent=2, ensure_ascii=False)
        is_utf8 = not any("\ud800" <= mark <= "\udfff" for mark in written)
        return type(self)(self.file, (written if is_utf8 else json.dumps(labels, indent=2)) + "\n"), done


class OverlayText(LabelsText):
    """An overlay as it was read. Lines are added, none is touched."""

    @property
    def labels(self) -> None:
        return None

    @cached_property
    def judged(self) -> dict[tuple[str, str], int]:
        """The grade of each document of a query, by both. Raises LabelsError if the file is invalid."""
        faults: list[Fault] = []
        judged = {(row.query, row.document): row.grade for row in graded_rows(self.content, str(self.file), faults)}
        if faults:
            raise LabelsError(*truncate_faults(faults, self.content, str(self.file)))
        return judged

    def of_query(self, query: str) -> object:
        return {doc: grade for (name, doc), grade in self.judged.items() if name == query}

    def edited(self, changes: Sequence[Change]) -> tuple[Self, list[Done]]:
        """The overlay with a line for each new grade. Raises LabelsError for changes that qrels cannot express."""
        grades = [change for change in changes if isinstance(change, Grade)]
        if faults := [Fault(str(self.file), message=message) for grade in grades for message in _not_in_qrels(grade)]:
            raise LabelsError(*faults)
        judged, done = dict(self.judged), []
        text = self.text or ""
        end = "\r\n" if "\r\n" in text else "\n"
        text = text or HEADER + end
        text += "" if text.endswith("\n") else end
        for grade in grades:
            place = grade.query, grade.doc
            before = judged.get(place)
            if before != grade.relevance:
                was = None if before is None else {"doc": grade.doc, "relevance": before}
                done.append(Done(grade, was, grade.as_label()))
                judged[place] = grade.relevance
                text += f"{grade.query}\t{grade.doc}\t{grade.relevance}{end}"
        return (type(self)(self.file, text), done) if done else (self, done)


def _not_in_qrels(grade: Grade) -> Iterable[str]:
    if abs(grade.relevance) > MOST_GRADE:
        yield f"the grade {grade.relevance} is beyond {MOST_GRADE:,}; is it one?"
    if grade.quote is not None or grade.start is not None:
        yield (
            f"a passage of {grade.doc!r} cannot be judged in qrels; judge the document, or keep the labels in a "
            "prompt_queries.json."
        )
    if grade.group is not None:
        yield f"qrels have no groups; leave the group {grade.group!r} out, or keep the labels in a prompt_queries.json."
    if any(not name or name != name.strip() or set("\t\r\n") & set(name) for name in (grade.query, grade.doc)):
        yield f"{grade.query!r} and {grade.doc!r} cannot both be in qrels: they are set apart by tabs."


class LabelStore:
    """The labels in a file as they were when they were read last, and the documents of ``config`` that they fit.

    An overlay needs a config. Raises LabelsError for invalid labels.
    """

    def __init__(self, text: LabelsText, config: ExperimentConfig | None, progress: Progress) -> None:
        self.config, self._progress = config, progress
        self._take(text)

    def read(self) -> None:
        """Read the labels as they are now; the next write changes these."""
        self._take(type(self.text).read(self.text.file))

    def _take(self, text: LabelsText) -> None:
        labels = text.labels or PromptQueries(())
        if isinstance(text, OverlayText) and self.config is not None:
            dataset, laid = self.config.dataset, None if text.text is None else text.file
            labels = beir_labels(Path(dataset.beir or ""), dataset.split or "test", laid).labels
        self.text, self.labels = text, labels

    @cached_property
    def library(self) -> Library | None:
        """The documents that labels are checked in; None for an overlay, and without a config."""
        if self.config is None or isinstance(self.text, OverlayText):
            return None
        return Corpus(self.config, self._progress).library

    def resolved(self, labels: PromptQueries) -> PromptQueries:
        """``labels``, resolved in the documents if these are known. Raises LabelsError."""
        if self.config is None or self.library is None:
            return labels
        return resolve(labels, self.library, self.config.dataset.match, str(self.text.file)).labels

    def write(self, changes: Sequence[Change], who: str) -> list[Done]:
        """Make ``changes``, if the labels then fit the documents; the effective changes. Raises as ``write_back``."""
        text, done = write_back(self.text, changes, who, check=self.resolved)
        self._take(text)
        return done


def label_store(config: ExperimentConfig, progress: Progress, *, may_be_overlay: bool = False) -> LabelStore:
    """The labels of ``config``. Raises LabelsError for a BEIR folder, unless it has an overlay, which may be meant."""
    dataset = config.dataset
    if dataset.beir is None:
        return LabelStore(LabelsText.read(dataset.queries or ""), config, progress)
    if dataset.overlay is None or not may_be_overlay:
        message = "is a BEIR folder and stays as it is; convert it, or put labels of your own into dataset.overlay."
        raise LabelsError(Fault(dataset.beir, message=message))
    return LabelStore(OverlayText.read(dataset.overlay), config, progress)


def write_back(
    base: LabelsText,
    changes: Sequence[Change],
    who: str,
    when: datetime | None = None,
    check: Callable[[PromptQueries], object] | None = None,
) -> tuple[LabelsText, list[Done]]:
    """Make ``changes`` in the file of ``base``; the new labels, and the changes that had an effect.

    The file is replaced in one step, and the changes are noted in its history. Edits of other queries since ``base``
    was read are kept. ``check`` may raise LabelsError for labels that do not fit the documents.

    Raises LabelsConflictError if a query of the changes was edited, LabelsError if the labels would be invalid, before
    anything is written; RunError if they cannot be written.
    """
    file = base.file
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with only_writer(file.parent, file.name):
            now = type(base).read(file)
            _refuse_conflicts(base, now, changes)
            new, done = now.edited(changes)
            if done:
                labels = new.labels
                if check is not None and labels is not None:
                    check(labels)
                write_bytes(file, (new.text or "").encode("utf-8"))
                texts = {query.id: query.text for query in labels.queries} if labels is not None else {}
                note(file, done, texts, who, when or datetime.now(UTC))
            return new, done
    except OSError as error:
        raise RunError(Fault(str(file), message=f"cannot be written: {error.strerror or error}.")) from error


def _refuse_conflicts(base: LabelsText, now: LabelsText, changes: Sequence[Change]) -> None:
    """Raise LabelsConflictError if a query of ``changes`` was changed in the file after ``base`` was read."""
    queries = dict.fromkeys(change.query for change in changes) if base.content != now.content else ()
    changed = [query for query in queries if base.of_query(query) != now.of_query(query)]
    said = "was changed by somebody else since it was read; nothing was written."
    if changed:
        raise LabelsConflictError(*(Fault(str(base.file), message=f"query {query!r} {said}") for query in changed))


def edit(rows: list[dict[str, Any]], changes: Iterable[Change]) -> list[Done]:
    """Make ``changes`` in the queries ``rows``; the effective changes.

    Raises LookupError for an unknown query, and for a new query with the id of another.
    """
    queries = {str(row["id"]): row for row in rows}
    done: list[Done] = []
    for change in changes:
        if isinstance(change, Grade):
            done += _graded(queries[change.query]["relevant_docs"], change)
        elif isinstance(change, TaggedQuery):
            row = queries[change.query]
            before = list(row.get("tags", ()))
            if change.tag not in before:
                row["tags"] = [*before, change.tag]
                done.append(Done(change, before, row["tags"]))
        elif change.query in queries:
            raise LookupError(change.query)
        else:
            tags = {"tags": list(change.tags)} if change.tags else {}
            row = {"id": change.query, "text": change.text, "relevant_docs": [], **tags}
            queries[change.query] = row
            rows.append(row)
            done.append(Done(change, None, {**row, "relevant_docs": []}))
    return done


def _graded(labels: list[dict[str, Any]], change: Grade) -> list[Done]:
    """The effect of ``change`` on the labels of its query; a repeated label is changed twice.

    If one of the repeated labels is in the group of the change, all keep theirs: a document may be in several.
    """
    same = [label for label in labels if change.speaks_of(label)]
    if not same:
        labels.append(change.as_label())
        return [Done(change, None, change.as_label())]
    done, groups = [], {str(label["group"]) for label in same if label.get("group") is not None}
    for label in same:
        before = dict(label)
        if label.get("relevance", 1) != change.relevance:
            label["relevance"] = change.relevance
        if change.group is not None and change.group not in groups:
            label["group"] = change.group
        if label != before:
            done.append(Done(change, before, dict(label)))
    return done


def history_file(labels: Path) -> Path:
    """The file of the history of ``labels``: ``prompt_queries.history.jsonl`` next to ``prompt_queries.json``."""
    return labels.with_name(f"{labels.name.removesuffix('.gz').rpartition('.')[0] or labels.name}.history.jsonl")


def note(labels: Path, done: Iterable[Done], texts: Mapping[str, str], who: str, when: datetime) -> None:
    """Add a line for each change, with the text of its query from ``texts``: its id may change. Raises OSError."""
    head = {"when": when.isoformat(timespec="seconds"), "who": who, "file": labels.name}
    rows = [
        {**head, "query": edited.change.query, "text": texts.get(edited.change.query), "action": edited.action,
         "before": edited.before, "after": edited.after}
        for edited in done
    ]  # fmt: skip
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    descriptor = os.open(history_file(labels), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    with os.fdopen(descriptor, "ab") as file:
        file.write(lines.encode("utf-8"))
        file.flush()
        os.fsync(file.fileno())


def changed_labels(labels: Path) -> dict[str, list[Grade]]:
    """The places that people added, changed or removed, by a query's text; none if only the query was changed.

    A line of the history that is not whole is left out.
    """
    history, places = history_file(labels), dict[str, list[Grade]]()
    for line in history.read_bytes().splitlines() if history.is_file() else []:  # texts may have other ends of lines
        with suppress(ValueError, LookupError, TypeError, AttributeError):
            change = json.loads(line)
            known = places.setdefault(str(change["text"]), [])
            known += [Grade.of("", row) for row in (change["before"], change["after"]) if row and "doc" in row]
    return places


def current_user() -> str:
    """The default name for the history: that of the user of the machine."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"
