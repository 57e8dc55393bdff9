"""Write changes of labels into their file, without overwriting the work of others."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

from ragtrial.cache.atomic import write_bytes
from ragtrial.cache.presence import only_writer
from ragtrial.dataset.labels import labels_file, prompt_queries
from ragtrial.dataset.texts import decoded, marked_encoding, read_bytes, short
from ragtrial.errors import Fault, LabelsError, RunError
from ragtrial.labelling.changes import Change, Done, Grade, NewQuery, RemovedQuery, TaggedQuery, note, query_of
from ragtrial.records import PromptQueries

_MARK = "\ufeff"
_EMPTY = '{"queries": []}'
_MOST_SHOWN = 5
_MOST_TEXT = 60


class LabelsConflictError(LabelsError):
    """The same queries were changed by another person meanwhile; nothing was written."""


class WritableLabels(Protocol):
    """A file of labels as it was read, to be changed: a prompt_queries.json, or an overlay."""

    @property
    def file(self) -> Path: ...

    @property
    def content(self) -> str:
        """The text of the file, empty without a file."""

    @property
    def labels(self) -> PromptQueries | None:
        """The queries, if the file has them. Raises LabelsError if it is invalid."""

    def read_again(self) -> Self: ...

    def of_query(self, query: str) -> Mapping[str, Any] | None:
        """The ``text`` and the ``relevant_docs`` of a query; None for an unknown query."""

    def edited(self, changes: Sequence[Change]) -> tuple[Self, list[Done]]:
        """The labels with ``changes``, and the effective changes. Raises LabelsError for impossible changes."""


LabelsT = TypeVar("LabelsT", bound=WritableLabels)


@dataclass(frozen=True)
class LabelsText:
    """A prompt_queries.json as it was read. ``text`` is None without a file."""

    file: Path
    text: str | None

    @property
    def content(self) -> str:
        return self.text or ""

    @property
    def labels(self) -> PromptQueries | None:
        return (
            None if self.text is None else prompt_queries(self.text.removeprefix(_MARK), self.file, may_be_empty=True)
        )

    def read_again(self) -> LabelsText:
        return read_labels_text(self.file)

    def of_query(self, query: str) -> Mapping[str, Any] | None:
        row = self.rows.get(query)
        return None if row is None else {key: row.get(key) for key in ("text", "relevant_docs")}

    @cached_property
    def rows(self) -> Mapping[str, Mapping[str, Any]]:
        """The queries in the file by their ids. Raises LabelsError if they are invalid."""
        if self.labels is None:  # which raises if the file is invalid
            return {}
        return {str(row["id"]): row for row in json.loads(self.content.removeprefix(_MARK))["queries"]}

    def edited(self, changes: Sequence[Change]) -> tuple[LabelsText, list[Done]]:
        """Other keys and values stay; the text gets an indent of two spaces."""
        _ = self.labels  # raises for labels that are invalid before the changes
        try:
            text, done = edited((self.text or _EMPTY).removeprefix(_MARK), changes)
        except LookupError as error:
            name = error.args[0]
            known = any(isinstance(change, NewQuery) and change.id == name for change in changes)
            message = f"query {name!r} is there already." if known else f"there is no query {name!r}."
            raise LabelsError(Fault(str(self.file), message=message)) from None
        return LabelsText(self.file, text), done


def read_labels_text(path: str | Path) -> LabelsText:
    """The file of labels at ``path``, which need not exist. Raises LabelsError if it cannot be read."""
    file = labels_file(Path(path)).resolve()
    if not file.exists():
        return LabelsText(file, None)
    if file.suffix == ".gz":
        raise LabelsError(Fault(str(file), message="is packed; labels are written back into plain files: unpack it."))
    content = read_bytes(file, LabelsError)
    text = decoded(content, file, LabelsError)  # UTF-8 keeps its mark when it is written back
    return LabelsText(file, content.decode() if marked_encoding(content).startswith("utf-8") else text)


def write_back(
    base: LabelsT,
    changes: Sequence[Change],
    who: str,
    when: datetime | None = None,
    check: Callable[[PromptQueries], object] | None = None,
) -> tuple[LabelsT, list[Done]]:
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
            now = base.read_again()
            _refuse_conflicts(base, now, changes)
            new, done = now.edited(changes)
            if done:
                labels = new.labels
                if check is not None and labels is not None:
                    check(labels)
                write_bytes(file, new.content.encode("utf-8"))
                note(file, done, who, when or datetime.now(UTC))
            return new, done
    except OSError as error:
        raise RunError(Fault(str(file), message=f"cannot be written: {error.strerror or error}.")) from error


def _refuse_conflicts(base: LabelsT, now: LabelsT, changes: Sequence[Change]) -> None:
    """Raise LabelsConflictError if a query of ``changes`` was changed in the file after ``base`` was read."""
    changed = (
        query
        for query in dict.fromkeys(map(query_of, changes))
        if base.content != now.content and base.of_query(query) != now.of_query(query)
    )
    faults = [Fault(str(base.file), message=_conflict(query, changes)) for query in changed]
    if faults:
        raise LabelsConflictError(*faults)


def _conflict(query: str, changes: Sequence[Change]) -> str:
    own = [_shown(change) for change in changes if query_of(change) == query and not isinstance(change, TaggedQuery)]
    more = [f"and {len(own) - _MOST_SHOWN:,} more"] if len(own) > _MOST_SHOWN else []
    yours = f" Yours: {'; '.join([*own[:_MOST_SHOWN], *more])}." if own else ""
    return f"query {query!r} was changed by somebody else since it was read; nothing was written.{yours}"


def _shown(change: Change) -> str:
    if isinstance(change, NewQuery):
        return f"a new query, {short(change.text, _MOST_TEXT)!r}"
    if isinstance(change, RemovedQuery | TaggedQuery):
        return "the query is removed"
    label = change.as_label().items()
    cut = {key: short(value, _MOST_TEXT) if isinstance(value, str) else value for key, value in label}
    return json.dumps(cut, ensure_ascii=False) + (" taken back" if change.relevance is None else "")


def edited(text: str, changes: Iterable[Change]) -> tuple[str, list[Done]]:
    """Labels as ``text`` with ``changes``, and the effective changes; without any, ``text`` itself.

    Keys, their order and all other values stay; the text gets an indent of two spaces. Raises LookupError for an
    unknown query, and for a new query with the id of another.
    """
    labels = json.loads(text)
    queries = {str(row["id"]): row for row in labels["queries"]}
    done: list[Done] = []
    for change in changes:
        if isinstance(change, Grade):
            done += _graded(queries[change.query]["relevant_docs"], change)
        elif isinstance(change, TaggedQuery):
            done += _tagged(queries[change.id], change)
        elif isinstance(change, RemovedQuery):
            gone = queries.pop(change.id)
            labels["queries"].remove(gone)
            done.append(Done(change, gone, None))
        elif change.id in queries:
            raise LookupError(change.id)
        else:
            row = queries[change.id] = _new_row(change)
            labels["queries"].append(row)
            done.append(Done(change, None, {**row, "relevant_docs": []}))
    if not done:
        return text, []
    written = json.dumps(labels, indent=2, ensure_ascii=False)
    is_utf8 = not any("\ud800" <= mark <= "\udfff" for mark in written)
    return (written if is_utf8 else json.dumps(labels, indent=2)) + "\n", done


def _new_row(change: NewQuery) -> dict[str, Any]:
    tags = {"tags": list(change.tags)} if change.tags else {}
    return {"id": change.id, "text": change.text, "relevant_docs": [], **tags, **change.more}


def _tagged(row: dict[str, Any], change: TaggedQuery) -> list[Done]:
    before = list(row.get("tags", ()))
    if change.tag in before:
        return []
    row["tags"] = [*before, change.tag]
    return [Done(change, before, row["tags"])]


def _graded(labels: list[dict[str, Any]], change: Grade) -> list[Done]:
    """The effect of ``change`` on the labels of its query; a repeated label is changed twice."""
    same = [label for label in labels if change.speaks_of(label)]
    if change.relevance is None:
        labels[:] = [label for label in labels if not change.speaks_of(label)]
        return [Done(change, label, None) for label in same]
    if not same:
        labels.append(change.as_label())
        return [Done(change, None, change.as_label())]
    done = []
    for label in same:
        if label.get("relevance", 1) != change.relevance:
            before = dict(label)
            label["relevance"] = change.relevance
            done.append(Done(change, before, dict(label)))
    return done
