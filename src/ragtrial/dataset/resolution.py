"""Labels against documents: every judgment becomes a document of the library and, if it quotes, spans of it."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from ragtrial.dataset.library import Library
from ragtrial.dataset.passages import Locate, Sought, locate, nearest, occurrences, short
from ragtrial.dataset.texts import normalised
from ragtrial.errors import Fault, LabelsError, did_you_mean
from ragtrial.records import Caution, Judgment, PromptQueries, Query

Match = Literal["id", "content"]
_FEW = 2  # one label that does not fit is a slip, not the labels of another data set
_MOST_FAULTS = 20
_MOST_NEAREST = 5  # a search for the nearest passage is slow, and nobody reads a hundred


@dataclass(frozen=True)
class ResolvedLabels:
    """Labels whose every ``doc`` is a document id and whose quotes are located, and what was noticed."""

    labels: PromptQueries
    cautions: tuple[Caution, ...]


def resolve(
    labels: PromptQueries,
    library: Library,
    match: Match,
    file: str = "",
    threshold: int = 1,
    located: Locate = locate,
) -> ResolvedLabels:
    """Look every judgment of ``labels`` up in ``library``.

    Under ``match: id`` a judgment's ``doc`` is a document id and its quote is searched in that document. Under
    ``match: content`` it is a passage, and becomes one judgment for each document that holds it; ``located`` finds
    these, or remembers them.

    Raises LabelsError with every unknown document, passage or quote not found, and conflicting grade.
    """
    faults: list[str] = []
    cautions: list[Caution] = []
    by_passage = _Passages(labels, library, located) if match == "content" else None
    queries = []
    for query in labels.queries:
        judgments: list[Judgment] = []
        for judgment in query.relevant_docs:
            if by_passage is not None:
                judgments += by_passage.resolved(query, judgment, faults, cautions)
            else:
                judgments += _by_id(query, judgment, library, faults, cautions)
        queries.append(replace(query, relevant_docs=_merged(query, judgments, faults, cautions)))
        if all(judgment.relevance < threshold for judgment in query.relevant_docs):
            cautions.append(Caution("no-relevant", f"query {query.id!r} has no relevant documents."))
    if match == "id" and not any(query.relevant_docs for query in queries):
        _refuse_labels_of_another_data_set(labels, library, faults)
    if faults:
        rest = len(faults) - _MOST_FAULTS
        more = [f"and {rest} more faults like these."] if rest > 0 else []
        raise LabelsError(*(Fault(file, message=fault) for fault in [*faults[:_MOST_FAULTS], *more]))
    return ResolvedLabels(replace(labels, queries=tuple(queries)), tuple(cautions))


def _by_id(
    query: Query, judgment: Judgment, library: Library, faults: list[str], cautions: list[Caution]
) -> list[Judgment]:
    # File names come in either Unicode form, depending on the system they were written on.
    forms = (judgment.doc, *(unicodedata.normalize(form, judgment.doc) for form in ("NFC", "NFD")))
    position = next((library.positions[form] for form in forms if form in library.positions), None)
    if position is None:
        near = did_you_mean(judgment.doc, library.positions) if len(faults) < _MOST_NEAREST else ""
        faults.append(
            f"query {query.id!r} judges {short(judgment.doc)!r}, which is not in the corpus "
            f"({len(library):,} documents).{near}"
        )
        return []
    judgment = replace(judgment, doc=library.ids[position])
    if judgment.quote is None:
        return [judgment]
    spans = occurrences(normalised(judgment.quote), library.text(position))
    if not spans:
        near = (
            nearest([Sought(normalised(judgment.quote), position)], library)[0] if len(faults) < _MOST_NEAREST else ""
        )
        faults.append(f"query {query.id!r} quotes {short(judgment.quote)!r}, which is not in {judgment.doc!r}.{near}")
    elif len(spans) > 1:
        cautions.append(
            Caution(
                "quote-twice",
                f"the quote {short(judgment.quote, 60)!r} of query {query.id!r} stands {len(spans)} times in "
                f"{judgment.doc!r}; each place counts as the answer.",
            )
        )
    return [replace(judgment, spans=spans)]


class _Passages:
    """The passages of all labels, located in one walk over the documents."""

    def __init__(self, labels: PromptQueries, library: Library, located: Locate) -> None:
        self._library = library
        self._found = located((label.doc for query in labels.queries for label in query.relevant_docs), library)

    def resolved(self, query: Query, judgment: Judgment, faults: list[str], cautions: list[Caution]) -> list[Judgment]:
        found = self._found[judgment.doc]
        if not found:
            near = nearest([Sought(normalised(judgment.doc))], self._library)[0] if len(faults) < _MOST_NEAREST else ""
            faults.append(
                f"the passage {short(judgment.doc)!r} of query {query.id!r} is in none of "
                f"{len(self._library):,} documents.{near}"
            )
        places = sum(len(spans) for spans in found.values())
        if places > 1:
            cautions.append(
                Caution(
                    "passage-twice",
                    f"the passage {short(judgment.doc, 60)!r} of query {query.id!r} stands in {places} places of "
                    f"{len(found)} documents; each counts as the answer.",
                )
            )
        quote = judgment.quote or judgment.doc
        return [
            Judgment(self._library.ids[position], judgment.relevance, quote, spans) for position, spans in found.items()
        ]


def _merged(
    query: Query, judgments: list[Judgment], faults: list[str], cautions: list[Caution]
) -> tuple[Judgment, ...]:
    """The judgments without repetitions; two grades for one document and passage are a fault."""
    kept: dict[str, list[Judgment]] = {}
    for judgment in judgments:
        of_document = kept.setdefault(judgment.doc, [])
        # A label without a passage speaks of the whole document, and so of every passage of it.
        rivals = [one for one in of_document if one.spans == judgment.spans or not one.spans or not judgment.spans]
        grades = sorted({one.relevance for one in rivals} | {judgment.relevance})
        if len(grades) > 1:
            faults.append(
                f"query {query.id!r} gives {judgment.doc!r} the grades {' and '.join(map(str, grades))}; "
                "one document (or one passage of it) has one grade."
            )
        elif any(one.spans == judgment.spans for one in rivals):
            cautions.append(Caution("same-label", f"query {query.id!r} judges {judgment.doc!r} twice, with one grade."))
            continue
        of_document.append(judgment)
    return tuple(judgment for of_document in kept.values() for judgment in of_document)


def _refuse_labels_of_another_data_set(labels: PromptQueries, library: Library, faults: list[str]) -> None:
    """One sentence in place of a thousand when not a single label fits: the files do not belong together."""
    docs = {judgment.doc for query in labels.queries for judgment in query.relevant_docs}
    if len(docs) < _FEW:
        return
    passages = sum(len(doc.split()) > 8 for doc in docs)
    hint = (
        " The labels hold passages: did you mean `match: content`?"
        if passages > len(docs) / 2
        else " Are these the labels of another data set, or is `dataset.corpus` another folder?"
    )
    faults[:] = [
        f"none of the {len(docs):,} judged documents is in the corpus ({len(library):,} documents). "
        f"Labels have ids like {_examples(docs)}; the corpus has ids like {_examples(library.ids)}.{hint}"
    ]


def _examples(names: Iterable[str]) -> str:
    return ", ".join(repr(short(name, 40)) for name in sorted(names)[:2])
