"""What labelling changes: grades of documents or passages for a query, and queries that are new."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Form = Literal["document", "quote", "content"]
"""What a label names: a document, a passage of it, or the passage alone (match: content)."""

_PLACE = ("quote", "start", "end")


@dataclass(frozen=True, slots=True)
class Grade:
    """How relevant a document, or a passage of it, is to a query. ``relevance`` None takes its judgment back.

    ``doc``, ``quote``, ``start`` and ``end`` say what is judged, as the labels spell it: a judgment that is there with
    the same four is changed.
    """

    query: str
    doc: str
    relevance: int | None
    quote: str | None = None
    start: int | None = None
    end: int | None = None
    text_hash: str | None = None

    def speaks_of(self, label: Mapping[str, Any]) -> bool:
        """Whether it is the grade of the label ``label``, as a file has it."""
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


Change = Grade | NewQuery


def place_of(label: Mapping[str, Any]) -> tuple[Any, ...]:
    """What of the documents a label judges: two of the same place are the same judgment, whatever their grades."""
    return str(label.get("doc")), *(label.get(key) for key in _PLACE)


def query_of(change: Change) -> str:
    """The id of the query that a change is of."""
    return change.id if isinstance(change, NewQuery) else change.query
