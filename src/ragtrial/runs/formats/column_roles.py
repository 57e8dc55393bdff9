"""Which column is what: the names that queries, documents, scores, ranks and grades usually have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from ragtrial.errors import did_you_mean, listed
from ragtrial.runs.faults import Faults

Kind = Literal["qrels", "run"]
Role = Literal["query", "document", "score", "rank", "grade"]
Columns = Mapping[str, str]
"""What is what, given by the user: role to column name, such as ``{"document": "docno"}``."""

_USUAL: dict[Role, tuple[tuple[str, ...], ...]] = {
    "query": (("qid", "query_id", "query-id", "q_id"), ("topic",), ("query",)),
    "document": (
        ("docid", "doc_id", "docno", "doc-id", "corpus-id", "corpus_id", "did", "pid", "passage_id", "document_id"),
        ("doc",),
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
_ORDERING: frozenset[Role] = frozenset({"score", "rank"})
"""One of these is enough: what puts a run in order."""


def usual_names(kind: Kind) -> set[str]:
    """All names that columns of qrels or of runs are known by, in lower case."""
    return {name for role in _ROLES[kind] for group in _USUAL[role] for name in group}


def roles_of(found: Sequence[str], kind: Kind, given: Columns | None, faults: Faults) -> dict[Role, str]:
    """The column of each role: those that are given, and for the others the one with a usual name.

    A run needs a score or a rank, and where both are there has the score; one that is given comes before one that is
    guessed. Raises the error of ``faults`` with every role that is missing or could be several columns.
    """
    chosen = _given(found, kind, given or {}, faults)
    for role in _ROLES[kind]:
        if role in chosen or (role in _ORDERING and _ORDERING & chosen.keys()):
            continue
        matching = _matching(found, role)
        if len(matching) == 1:
            chosen[role] = matching[0]
        elif matching:
            faults.add(
                f"the {role} may be any of the columns {_quoted(matching)}; say which when naming the columns: "
                f"{role}={matching[0]}."
            )
        elif role not in _ORDERING:
            faults.add(_missing(f"column for the {role}", found, role, kind))
    if kind == "run" and not _ORDERING & chosen.keys() and not _matching(found, "score"):
        faults.add(_missing("column for the score or the rank", found, "score", kind))
    faults.raise_any()
    return chosen


def _given(found: Sequence[str], kind: Kind, given: Columns, faults: Faults) -> dict[Role, str]:
    chosen: dict[Role, str] = {}
    roles = {str(role): role for role in _ROLES[kind]}
    for role, name in given.items():
        if role not in roles:
            what = "qrels" if kind == "qrels" else "a run"
            faults.add(f"columns has {role!r}; {what} may have: {', '.join(roles)}.{did_you_mean(role, roles)}")
        elif found.count(name) > 1:
            faults.add(f"the column {name!r}, given for the {role}, is there {found.count(name)} times; rename one.")
        elif name not in found:
            near = did_you_mean(name, found)
            faults.add(f"has no column {name!r}, which is given for the {role}.{near} It has: {_quoted(found)}.")
        else:
            chosen[roles[role]] = name
    return chosen


def _matching(found: Sequence[str], role: Role) -> list[str]:
    for group in _USUAL[role]:
        matching = [name for name in found if name.strip().lower() in group]
        if matching:
            return matching
    return []


def _missing(what: str, found: Sequence[str], role: Role, kind: Kind) -> str:
    usual = listed((name for group in _USUAL[role] for name in group), 6)
    needed = "qrels need" if kind == "qrels" else "a run needs"
    return (
        f"has no {what}, which {needed}; it has: {_quoted(found)}. Usual names are {usual}; "
        f"or say which it is when naming the columns: {role}=NAME."
    )


def _quoted(names: Sequence[str]) -> str:
    return listed(map(repr, names)) if names else "none"
