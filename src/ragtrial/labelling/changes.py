"""Changes of labels: grades of documents or passages, new queries, tags; and their history.

The history is a file of JSON lines next to the labels, with each change and the state before it.
"""

from __future__ import annotations

import getpass
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

Form = Literal["document", "quote", "content"]
"""The object of a label: a document, a passage of it, or the passage alone (match: content)."""

_PLACE = ("quote", "start", "end")


@dataclass(frozen=True, slots=True)
class Grade:
    """The relevance of a document, or a passage of it, to a query. ``relevance`` None removes the judgment.

    ``doc``, ``quote``, ``start`` and ``end`` identify the judgment as labels spell it: an existing judgment with the
    same four is changed.
    """

    query: str
    doc: str
    relevance: int | None
    quote: str | None = None
    start: int | None = None
    end: int | None = None
    text_hash: str | None = None

    def speaks_of(self, label: Mapping[str, Any]) -> bool:
        """True if it judges the same place as ``label``, a row of a labels file."""
        return place_of(label) == (self.doc, self.quote, self.start, self.end)

    def as_label(self) -> dict[str, Any]:
        """The label as a file has it, its keys in the order in which they are described."""
        keys = ("doc", "relevance", *_PLACE, "text_hash")
        return {key: value for key in keys if (value := getattr(self, key)) is not None}


@dataclass(frozen=True, slots=True)
class NewQuery:
    """A question that is not in the labels yet."""

    id: str
    text: str
    tags: tuple[str, ...] = ()
    more: Mapping[str, Any] = field(default_factory=dict)
    """Its other keys, as a file has them."""


@dataclass(frozen=True, slots=True)
class RemovedQuery:
    """A question that is taken out of the labels, with all its judgments."""

    id: str


@dataclass(frozen=True, slots=True)
class TaggedQuery:
    """A question that gets a tag more."""

    id: str
    tag: str


Change = Grade | NewQuery | RemovedQuery | TaggedQuery


def place_of(label: Mapping[str, Any]) -> tuple[Any, ...]:
    """The place that a label judges: two labels of the same place are the same judgment, whatever their grades."""
    return str(label.get("doc")), *(label.get(key) for key in _PLACE)


def query_of(change: Change) -> str:
    """The id of the query that a change is of."""
    return change.query if isinstance(change, Grade) else change.id


@dataclass(frozen=True)
class Done:
    """A change that was made: the label, or the query, before and after; None where there is none."""

    change: Change
    before: Any
    after: Any

    @property
    def action(self) -> str:
        """``add``, ``change`` or ``remove`` a judgment, add a ``query``, ``remove query``, or ``tag`` one."""
        if isinstance(self.change, TaggedQuery):
            return "tag"
        if not isinstance(self.change, Grade):
            return "query" if self.before is None else "remove query"
        return "add" if self.before is None else "remove" if self.after is None else "change"


def history_file(labels: Path) -> Path:
    """The file of the history of ``labels``: ``prompt_queries.history.jsonl`` next to ``prompt_queries.json``."""
    return labels.with_name(f"{labels.name.removesuffix('.gz').rpartition('.')[0] or labels.name}.history.jsonl")


def note(labels: Path, done: Iterable[Done], who: str, when: datetime) -> None:
    """Add a line for each change. Raises OSError."""
    rows = [
        {
            "when": when.isoformat(timespec="seconds"),
            "who": who,
            "file": labels.name,
            "query": query_of(one.change),
            "action": one.action,
            "before": one.before,
            "after": one.after,
        }
        for one in done
    ]
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    descriptor = os.open(history_file(labels), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    with os.fdopen(descriptor, "ab") as file:
        file.write(lines.encode("utf-8"))
        file.flush()
        os.fsync(file.fileno())


def current_user() -> str:
    """The default name for the history: that of the user of the machine."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"
