"""Changes of labels written into the file that they are from, and nothing else: never over another's work."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
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
from ragtrial.labelling.changes import Change, Done, NewQuery, RemovedQuery, TaggedQuery, note, place_of, query_of
from ragtrial.labelling.label_edits import EMPTY, edited
from ragtrial.records import PromptQueries

_MARK = "\ufeff"
_MOST_SHOWN = 5
_MOST_TEXT = 60


class LabelsConflictError(LabelsError):
    """Somebody else has changed the same judgments meanwhile; nothing was written."""


class WritableLabels(Protocol):
    """A file of labels as it was read, which changes are made from: a prompt_queries.json, or qrels of one's own."""

    @property
    def file(self) -> Path: ...

    @property
    def content(self) -> str:
        """The text of the file, empty where there is none yet."""

    @property
    def labels(self) -> PromptQueries | None:
        """The queries, if the file has them. Raises LabelsError where it is invalid."""

    def read_again(self) -> Self: ...

    def of_query(self, query: str) -> Mapping[str, Any] | None:
        """The ``text`` and the ``relevant_docs`` of a query; None where the file does not have it."""

    def edited(self, changes: Sequence[Change]) -> tuple[Self, list[Done]]:
        """The labels with ``changes``, and those that change anything. Raises LabelsError for what cannot be done."""


LabelsT = TypeVar("LabelsT", bound=WritableLabels)


@dataclass(frozen=True)
class LabelsText:
    """A prompt_queries.json as it was read. ``text`` is None where there is no file yet."""

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
        """The queries by their ids, as the file has them. Raises LabelsError where they are invalid."""
        if self.labels is None:  # which raises if the file is invalid
            return {}
        return {str(row["id"]): row for row in json.loads(self.content.removeprefix(_MARK))["queries"]}

    def edited(self, changes: Sequence[Change]) -> tuple[LabelsText, list[Done]]:
        """Keys and values stay, whatever they are; the layout becomes that of ``json.dumps`` with an indent of two."""
        _ = self.labels  # what is wrong before is reported as it is, and not as what the changes came to
        try:
            text, done = edited((self.text or EMPTY).removeprefix(_MARK), changes)
        except LookupError as error:
            name = error.args[0]
            known = any(isinstance(change, NewQuery) and change.id == name for change in changes)
            message = f"query {name!r} is there already." if known else f"there is no query {name!r}."
            raise LabelsError(Fault(str(self.file), message=message)) from None
        return LabelsText(self.file, text), done


def read_labels_text(path: str | Path) -> LabelsText:
    """The file of labels at ``path``, which need not be there yet. Raises LabelsError if it cannot be read."""
    file = labels_file(Path(path)).resolve()
    if not file.exists():
        return LabelsText(file, None)
    if file.suffix == ".gz":
        raise LabelsError(Fault(str(file), message="is packed; labels are written back into plain files: unpack it."))
    content = read_bytes(file, LabelsError)
    text = decoded(content, file, LabelsError)  # what is UTF-8 keeps its mark when it is written back
    return LabelsText(file, content.decode() if marked_encoding(content).startswith("utf-8") else text)


def write_back(
    base: LabelsT,
    changes: Sequence[Change],
    who: str,
    when: datetime | None = None,
    check: Callable[[PromptQueries], object] | None = None,
) -> tuple[LabelsT, list[Done]]:
    """Make ``changes`` in the file of ``base``; the labels as they are then, and what was changed.

    The file is replaced in one step, and the changes are noted in the file of its history. Where it was edited since
    ``base`` was read, the changes are made in what it says now, unless the judgments or the text of a query that they
    are of were edited, too. ``check`` may raise LabelsError for labels that do not fit the documents.

    Raises LabelsConflictError in that case, LabelsError if the labels would be invalid, before anything is written;
    RunError if they cannot be written.
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
    faults = []
    for query in dict.fromkeys(map(query_of, changes)) if base.content != now.content else ():
        was, stands = base.of_query(query), now.of_query(query)
        if was != stands:
            ours = [one for one in changes if query_of(one) == query and not isinstance(one, TaggedQuery)]
            faults.append(Fault(str(base.file), message=_conflict(query, _theirs(was, stands), ours)))
    if faults:
        message = "was changed by somebody else since it was read; nothing was written."
        raise LabelsConflictError(*faults, Fault(str(base.file), message=message))


def differences(was: Sequence[Mapping[str, Any]], stands: Sequence[Mapping[str, Any]]) -> list[str]:
    """What somebody did to the labels of a query: each that was added, changed or removed; empty if none was."""
    gone, new = list(was), []
    for label in stands:
        if label in gone:
            gone.remove(label)
        else:
            new.append(label)
    found = []
    for label in new:
        before = next((one for one in gone if place_of(one) == place_of(label)), None)
        if before is None:
            found.append(f"added {_json(label)}")
        else:
            gone.remove(before)
            found.append(f"changed {_json(before)} to {_json(label)}")
    return [*found, *(f"removed {_json(label)}" for label in gone)]


def _conflict(query: str, theirs: Sequence[str], ours: Sequence[Change]) -> str:
    """One line: what somebody else did to a query, ``theirs``, and the changes of it that are refused."""
    rest = len(theirs) - _MOST_SHOWN
    more = [f"and {rest:,} more"] if rest > 0 else []
    own = "; ".join(map(_own, ours[:_MOST_SHOWN])) + (
        f"; and {len(ours) - _MOST_SHOWN:,} more" if len(ours) > _MOST_SHOWN else ""
    )
    return f"query {query!r}, meanwhile: {'; '.join([*theirs[:_MOST_SHOWN], *more])}. Yours: {own}."


def _theirs(was: Any, stands: Any) -> list[str]:
    if was is None:
        return [f"added the query, {short(stands['text'], _MOST_TEXT)!r}"]
    if stands is None:
        return ["removed the query"]
    text = [] if was["text"] == stands["text"] else [
        f"changed its text from {short(was['text'], _MOST_TEXT)!r} to {short(stands['text'], _MOST_TEXT)!r}"
    ]  # fmt: skip
    labels = differences(was["relevant_docs"] or (), stands["relevant_docs"] or ())
    return [*text, *labels] or ["put its labels into another order"]


def _own(change: Change) -> str:
    if isinstance(change, NewQuery):
        return f"a new query, {short(change.text, _MOST_TEXT)!r}"
    if isinstance(change, RemovedQuery):
        return "the query is removed"
    if isinstance(change, TaggedQuery):
        return f"the tag {change.tag}"
    return f"{_json(change.as_label())}{' taken back' if change.relevance is None else ''}"


def _json(label: Mapping[str, Any]) -> str:
    cut = {key: short(value, _MOST_TEXT) if isinstance(value, str) else value for key, value in label.items()}
    return json.dumps(cut, ensure_ascii=False)
