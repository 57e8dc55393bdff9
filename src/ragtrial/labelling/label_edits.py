"""Changes of labels as edits of the text that has them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ragtrial.labelling.changes import Change, Done, Grade, NewQuery
from ragtrial.labelling.json_edits import JsonText, Layout, Path

EMPTY = '{"queries": [\n]}\n'
"""Labels without any query, to which the first can be added."""


def edited(text: str, changes: Iterable[Change]) -> tuple[str, list[Done]]:
    """``text``, labels, with ``changes``, and what each came to; those that change nothing are not among these.

    Raises LookupError for a grade of a query that is not there, and for a query that is.
    """
    labels, done = JsonText(text), []
    for change in changes:
        labels, made = _with_query(labels, change) if isinstance(change, NewQuery) else _with_grade(labels, change)
        done += made
    return labels.text, done


def query_row(labels: JsonText, query: str) -> tuple[int, dict[str, Any]] | None:
    """Where a query stands among the queries, and its row; None if it is not there."""
    rows = enumerate(labels.value["queries"])
    return next(((index, row) for index, row in rows if str(row.get("id")) == query), None)


def _with_query(labels: JsonText, change: NewQuery) -> tuple[JsonText, list[Done]]:
    if query_row(labels, change.id):
        raise LookupError(change.id)
    row: dict[str, Any] = {"id": change.id, "text": change.text, "relevant_docs": []}
    if change.tags:
        row["tags"] = list(change.tags)
    queries, members = labels.value["queries"], {}
    like = labels.layout(("queries", len(queries) - 1)) if queries else labels.plain
    for key, value in row.items():
        is_list = isinstance(value, list)
        members[key] = labels.written_list(value, labels.plain) if is_list else labels.written(value)
    written = labels.written_object(members, like)
    return labels.with_last(("queries",), written, Layout("\n  ", ",\n  ", "\n")), [Done(change, None, row)]


def _with_grade(labels: JsonText, change: Grade) -> tuple[JsonText, list[Done]]:
    found = query_row(labels, change.query)
    if found is None:
        raise LookupError(change.query)
    index, row = found
    where: Path = ("queries", index, "relevant_docs")
    places = [place for place, label in enumerate(row["relevant_docs"]) if change.speaks_of(label)]
    if not places:
        return (labels, []) if change.relevance is None else _added(labels, where, change)
    before = row["relevant_docs"][places[0]]
    if change.relevance is None:
        for place in reversed(places):
            labels = labels.without((*where, place))
        return labels, [Done(change, row["relevant_docs"][place], None) for place in places]
    done = []
    for place in places:  # the same label twice: both, or they would contradict one another
        before = row["relevant_docs"][place]
        if before.get("relevance", 1) != change.relevance:
            labels = _regraded(labels, (*where, place), change.relevance)
            done.append(Done(change, before, {**before, "relevance": change.relevance}))
    return labels, done


def _regraded(labels: JsonText, where: Path, relevance: int) -> JsonText:
    grade = (*where, "relevance")
    if grade in labels.extents:
        return labels.with_value(grade, labels.written(relevance))
    member = labels.written("relevance") + labels.layout(where).colon + labels.written(relevance)
    return labels.with_last(where, member)


def _added(labels: JsonText, where: Path, change: Grade) -> tuple[JsonText, list[Done]]:
    label = change.as_label()
    rows = labels.value["queries"]
    others: Sequence[Path] = [
        ("queries", index, "relevant_docs") for index, row in enumerate(rows) if row.get("relevant_docs")
    ]
    donors = [where] if where in others else others
    like = inside = labels.plain
    if donors:
        like = labels.layout(donors[0])
        inside = labels.layout((*donors[0], labels.count(donors[0]) - 1))
    written = labels.written_object({key: labels.written(value) for key, value in label.items()}, inside)
    return labels.with_last(where, written, like), [Done(change, None, label)]
