"""Which column is what: the names that queries, documents, scores, ranks and grades usually have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from ragtrial.dataset.faults import Faults
from ragtrial.errors import did_you_mean, listed

Kind = Literal["qrels", "run"]
Role = Literal["query", "document", "score", "rank", "grade"]
Columns = Mapping[str, str]
"""What is what, given by the user: role to column name, such as ``{"document": "docno"}``."""

_USUAL: dict[Role, tuple[tuple[str, ...], ...]] = {
    "query": (
        ("qid", "query_id", "query-id", "q_id", "queryid", "topic_id", "question_id"),
        ("topic",),
        ("query", "question"),
    ),
    "document": (
        (
            "docid",
            "doc_id",
            "docno",
            "doc-id",
            "corpus-id",
            "corpus_id",
            "did",
            "pid",
            "passage_id",
            "document_id",
            "document-id",
            "passage-id",
        ),
        ("doc", "document"),
    ),
    "rank": (("rank",),),
    "score": (("score", "sim", "similarity"),),
    "grade": (("label", "relevance", "rel", "grade", "relevancy grade", "relevance grade"), ("score",)),
}
"""Usual names of each role, in lower case. A later group counts only where no name of an earlier one is there:
beside ``qid``, a column ``query`` is the text."""

_ROLES: dict[Kind, tuple[Role, ...]] = {
    "run": ("query", "document", "score", "rank"),
    "qrels": ("query", "document", "grade"),
}
KIND_NAMES: dict[Kind, str] = {"run": "a run", "qrels": "qrels"}


def usual_names(kind: Kind) -> set[str]:
    """All names that columns of qrels or of runs are known by, in lower case."""
    return {name for role in _ROLES[kind] for group in _USUAL[role] for name in group}


def roles_of(found: Sequence[str], kind: Kind, given: Columns | None, faults: Faults) -> dict[Role, str]:
    """The column of the query, the document, and the number, in this order: of those that are given, else of those
    with a usual name.

    The number of a run is its score or else its rank; one that is given comes before one that is guessed. Raises the
    error of ``faults`` with every role that is missing or could be several columns.
    """
    chosen = _given(found, kind, given or {}, faults)
    has = "it has: " + listed(map(repr, found)) + "."
    for role in _ROLES[kind]:
        if role in chosen or (role == "rank" and "score" in chosen) or (role == "score" and "rank" in chosen):
            continue
        matching = _matching(found, role)
        if matching:
            chosen[role] = matching[0]
        elif role != "score":
            wanted = "score or the rank" if role == "rank" else role
            faults.add(f"has no column for the {wanted}; {has} Say which it is: {role}=NAME.")
        if len(matching) > 1:
            names = listed(map(repr, matching))
            faults.add(f"the {role} may be any of the columns {names}; say which: {role}={matching[0]}.")
    faults.raise_any()
    return {role: chosen[role] for role in _ROLES[kind] if role in chosen}


def _given(found: Sequence[str], kind: Kind, given: Columns, faults: Faults) -> dict[Role, str]:
    chosen: dict[Role, str] = {}
    roles = {str(role): role for role in _ROLES[kind]}
    for role, name in given.items():
        if role not in roles:
            near = did_you_mean(role, roles)
            faults.add(f"columns has {role!r}; {KIND_NAMES[kind]} may have: {', '.join(roles)}.{near}")
        elif found.count(name) != 1:
            near = did_you_mean(name, found)
            has = f"It has: {listed(map(repr, found))}."
            faults.add(f"needs one column {name!r}, given for the {role}; it has {found.count(name)}.{near} {has}")
        else:
            chosen[roles[role]] = name
    return chosen


def _matching(found: Sequence[str], role: Role) -> list[str]:
    for group in _USUAL[role]:
        matching = [name for name in found if name.strip().lower() in group]
        if matching:
            return matching
    return []
