"""Locate the answers of imported labels in the documents, and report how each was found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from ragtrial.dataset.library import Library
from ragtrial.dataset.locating import (
    LOST,
    DocumentNames,
    MatchKind,
    PassageMatch,
    PassageQuery,
    Place,
    locate_all,
    places_in,
)
from ragtrial.dataset.texts import normalised, text_hash
from ragtrial.labelling.importers.base import ForeignLabels, ImportedAnswer
from ragtrial.records import Span

How = Literal[
    "document", "exact", "spacing", "case", "typography", "markup", "title", "moved", "several", "fuzzy", "lost"
]
CONTEXT_ALONE = "its context is in the documents, the answer is not in it"
"""The note of a lost answer whose paragraph was found."""

HOWS: Mapping[How, str] = {
    "document": "the label is the whole document",
    "exact": "as it is in the document",
    "spacing": "with other white space",
    "case": "in other case",
    "typography": "with other quotation marks or dashes",
    "markup": "without Markdown signs",
    "title": "without its first line, which is the document's title",
    "moved": "not where the file says: another character, another document",
    "several": "in several places, each of which counts as the answer",
    "fuzzy": "similar text, with its score",
    "lost": "not found",
}
"""The ways in which labels are resolved, from certain to uncertain; the last one that applies is reported."""


@dataclass(frozen=True, slots=True)
class PlacedLabel:
    """An answer and its places, ascending; without places it is lost, or the whole of ``document``.

    ``match`` says how the text ``sought`` was found, ``score`` is its likeness. ``is_one`` says that the first place in
    each document is meant; otherwise all are alternatives. ``notes`` add to ``how``.
    """

    query: str
    answer: ImportedAnswer
    how: How
    match: MatchKind = "exact"
    score: float = 1.0
    places: tuple[Place, ...] = ()
    document: int | None = None
    sought: str = ""
    is_one: bool = True
    notes: tuple[str, ...] = ()


def _lost(query: str, answer: ImportedAnswer, *notes: str) -> PlacedLabel:
    return PlacedLabel(query, answer, "lost", "lost", 0.0, notes=notes)


@dataclass(slots=True)
class _Search:
    """The search for an answer: its text, the document that its file names, and the result until now."""

    query: str
    answer: ImportedAnswer
    text: str
    named: int | None
    located: PassageMatch = LOST
    notes: list[str] = field(default_factory=list)
    hows: list[How] = field(default_factory=list)

    def lost(self, *notes: str) -> PlacedLabel:
        return _lost(self.query, self.answer, *self.notes, *notes, *filter(None, [self.answer.note]))


def place(labels: ForeignLabels, library: Library, *, fuzzy: float | None = None) -> list[PlacedLabel]:
    """The place of each answer, in the order of the questions.

    An answer is searched in the document that its file names, then in all documents, then without its first line in
    documents that have this line as title, and then by likeness if ``fuzzy`` is given.
    """
    names = DocumentNames(library)
    answers = ((question.id, answer) for question in labels.questions for answer in question.answers)
    begun = [_begun(query, answer, names, library) for query, answer in answers]
    searches = [search for search in begun if isinstance(search, _Search)]
    _look(searches, library, [search.named for search in searches])
    _look(searches, library, [None] * len(searches))  # an answer may have moved to another document
    _look_without_title(searches, library)
    if fuzzy is not None:
        _look(searches, library, [search.named for search in searches], fuzzy)
    return [_placed(search, library) if isinstance(search, _Search) else search for search in begun]


def _begun(query: str, answer: ImportedAnswer, names: DocumentNames, library: Library) -> _Search | PlacedLabel:
    """The search for an answer; its place if it names a document instead of a text."""
    named = names.position(answer.doc) if answer.doc else None
    if answer.passage:
        return _Search(query, answer, normalised(answer.context or answer.passage), named)
    if answer.may_be_passage:
        named = library.position(answer.doc)
    if named is not None:
        return _of_document(query, answer, named, library)
    return _Search(query, answer, normalised(answer.doc), None) if answer.may_be_passage else _lost(query, answer)


def _of_document(query: str, answer: ImportedAnswer, document: int, library: Library) -> PlacedLabel:
    """The place of a label that is a document, or characters of the text that the label was made for."""
    if answer.start is None or answer.end is None:
        return PlacedLabel(query, answer, "document", document=document)
    text, name = library.text(document), library.ids[document]
    if answer.text_hash and answer.text_hash != text_hash(text):
        return _lost(query, answer, f"{name} was changed since this label was made")
    if not 0 <= answer.start < answer.end <= len(text):
        return _lost(query, answer, f"{name} has {len(text):,} characters")
    return PlacedLabel(query, answer, "exact", places=(Place(document, Span(answer.start, answer.end)),))


def _look(
    searches: Sequence[_Search], library: Library, among: Iterable[int | None], fuzzy: float | None = None
) -> None:
    """Locate the lost answers, each in one document or in all."""
    wanted = [pair for pair in zip(searches, among, strict=True) if pair[0].located.how == "lost"]
    matches = locate_all([PassageQuery(search.text, named) for search, named in wanted], library, fuzzy=fuzzy)
    for (search, _), match in zip(wanted, matches, strict=True):
        search.located = match


def _look_without_title(searches: Iterable[_Search], library: Library) -> None:
    titled: dict[str, list[int]] = {}
    for position, title in enumerate(library.titles):
        if title.strip():
            titled.setdefault(" ".join(title.split()), []).append(position)
    tried: list[tuple[_Search, PassageQuery]] = []
    for search in searches:
        line, _, rest = search.text.strip().partition("\n")
        if search.located.how == "lost" and rest.strip():
            documents = titled.get(" ".join(line.lstrip("#").split()), ())
            tried += ((search, PassageQuery(rest.strip(), document)) for document in documents
                      if search.named in (None, document))  # fmt: skip
    for (search, query), match in zip(tried, locate_all([query for _, query in tried], library), strict=True):
        if match.how != "lost" and search.located.how == "lost":
            search.text, search.located = query.text, match
            search.hows.append("title")
        elif match.how != "lost":
            search.located = replace(search.located, places=(*search.located.places, *match.places))


def _placed(search: _Search, library: Library) -> PlacedLabel:
    """The label of a search, and the least certain way in which it was found."""
    answer, located = search.answer, search.located
    if located.how == "lost":
        return search.lost()
    places = located.places
    if answer.context:
        places, kind = _within(search, library)
        if not places:
            return search.lost(CONTEXT_ALONE)
        located = replace(located, how=kind if located.how == "exact" else located.how)
    elif answer.start is not None and "title" not in search.hows:
        places = tuple(_widened(meant, normalised(answer.passage), library) for meant in _meant(search, places))
    if answer.doc_is_known and answer.passage and answer.doc:
        _compare_document(search, places, library)
    if len(places) > 1:
        search.hows.append("several")
    hows: list[How] = [located.how, *search.hows]
    is_one = bool(answer.context) or len({meant.document for meant in places}) == len(places)
    notes = (*search.notes, *filter(None, [answer.note]))
    how = max(hows, key=list(HOWS).index)
    return PlacedLabel(
        search.query, answer, how, located.how, located.score, places, None, search.text.strip(), is_one, notes
    )


def _compare_document(search: _Search, places: Sequence[Place], library: Library) -> None:
    """Note that the answer is not in the document that its file names."""
    if search.named is None:
        search.notes.append(f"the corpus has no document {search.answer.doc!r}")
    elif all(meant.document != search.named for meant in places):
        search.notes.append(f"it is not in {library.ids[search.named]!r}")
    else:
        return
    search.hows.append("moved")


def _meant(search: _Search, places: tuple[Place, ...]) -> tuple[Place, ...]:
    """The place in each document that is nearest to the character in the file."""
    answer = search.answer
    start = (answer.start or 0) + len(answer.passage) - len(answer.passage.lstrip())
    nearest: dict[int, Place] = {}
    for meant in sorted(places, key=lambda known: abs(known.span.start - start)):
        nearest.setdefault(meant.document, meant)
    in_order = [nearest[document] for document in dict.fromkeys(known.document for known in places)]
    at_start = [meant for meant in in_order if meant.span.start == start]
    if not at_start:
        search.hows.append("moved")
        search.notes.append(f"the file says character {start:,}")
    return tuple(at_start or in_order)


def _widened(meant: Place, passage: str, library: Library) -> Place:
    """The place with the white space that ``passage`` has at its ends, if the document has it there, too."""
    start = meant.span.start - len(passage) + len(passage.lstrip())
    end = meant.span.end + len(passage) - len(passage.rstrip())
    is_there = start >= 0 and library.text(meant.document)[start:end] == passage
    return replace(meant, span=Span(start, end)) if is_there else meant


def _within(search: _Search, library: Library) -> tuple[tuple[Place, ...], MatchKind]:
    """The answer inside each place of its context, and the least certain kind of match."""
    answer = search.answer
    passage = normalised(answer.passage).strip()
    start = max(answer.start or 0, 0)
    left_out = _visible(normalised(answer.context)) - _visible(search.text)  # the title, or nothing
    before = _visible(normalised(answer.context[:start])) - left_out
    inside: list[Place] = []
    kinds: list[MatchKind] = []
    for around in search.located.places:
        region = library.text(around.document)[around.span.start : around.span.end]
        at = _character_after(before, region)
        kind, spans = places_in(passage, region)
        if spans:
            nearest = min(spans, key=lambda span: abs(span.start - at))
            first = around.span.start
            inside.append(Place(around.document, Span(first + nearest.start, first + nearest.end)))
            kinds.append(kind)
    if inside and not answer.context[start:].startswith(answer.passage):
        search.hows.append("moved")
        search.notes.append(f"it is not at character {answer.start} of its context")
    return tuple(inside), max(kinds, key=list(HOWS).index, default="exact")


def _visible(text: str) -> int:
    """The number of characters that are not white space."""
    return sum(not character.isspace() for character in text)


def _character_after(count: int, text: str) -> int:
    """The place in ``text`` after ``count`` characters that are not white space."""
    for offset, character in enumerate(text):
        if not character.isspace():
            if count <= 0:
                return offset
            count -= 1
    return len(text)
