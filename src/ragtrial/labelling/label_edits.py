"""Changes of labels made in the text of a prompt_queries.json."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from ragtrial.labelling.changes import Change, Done, Grade, NewQuery, RemovedQuery, TaggedQuery

EMPTY = '{"queries": []}'
"""Labels without any query, to which the first can be added."""


def edited(text: str, changes: Iterable[Change]) -> tuple[str, list[Done]]:
    """``text``, labels, with ``changes``, and what each changed; ``text`` itself if none changed anything.

    Keys, their order and all values but those of the labels stay; the text is laid out with an indent of two spaces.
    Raises LookupError for an unknown query, and for a new one whose id is taken.
    """
    labels = json.loads(text)
    queries = {str(row["id"]): row for row in labels["queries"]}
    done: list[Done] = []
    for change in changes:
        if isinstance(change, Grade):
            done += _graded(queries[change.query]["relevant_docs"], change)
            continue
        if isinstance(change, TaggedQuery):
            done += _tagged(queries[change.id], change)
            continue
        if isinstance(change, RemovedQuery):
            gone = queries.pop(change.id)
            labels["queries"].remove(gone)
            done.append(Done(change, gone, None))
            continue
        if change.id in queries:
            raise LookupError(change.id)
        row = _new_row(change)
        queries[change.id] = row
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
    """What ``change`` does to the labels of its query; the same label twice is changed twice."""
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
