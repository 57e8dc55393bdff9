"""Where the answers of another tool's labels are in the documents, and how each was found."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import PurePosixPath
from typing import Literal, cast

from ragtrial.dataset.library import Library
from ragtrial.dataset.passages import LOST, PassageMatch, PassageQuery, Place, locate_all, typographic_places
from ragtrial.dataset.texts import normalised, text_hash
from ragtrial.labelling.importers.foreign import ForeignLabels, ImportedAnswer
from ragtrial.records import Span

How = Literal[
    "document", "exact", "spacing", "case", "typography", "markup", "title", "moved", "several", "fuzzy", "lost"
]
CONTEXT_ALONE = "its context is in the documents, the answer is not in it"
"""The note of an answer that is lost though its paragraph is there."""

InContext = Literal["exact", "spacing", "case", "typography"]
HOWS: dict[How, str] = {
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
"""How a label was resolved, and what it means; from what is sure to what is not. The last that applies is reported."""


@dataclass(frozen=True, slots=True)
class PlacedLabel:
    """An answer and its places, ascending; without places the label is lost, or the whole of ``document``.

    ``match`` is how the text was found: exact, spacing, case, fuzzy or lost; ``score`` its likeness. ``sought`` is the
    normalised text that was found. ``is_one`` says that of each document the first place is meant; otherwise all are
    alternatives. ``notes`` tell what ``how`` does not.
    """

    query: str
    answer: ImportedAnswer
    how: How
    match: str = "exact"
    score: float = 1.0
    places: tuple[Place, ...] = ()
    document: int | None = None
    sought: str = ""
    is_one: bool = True
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class _PlacementSearch:
    """An answer on its way: what is looked for, where, and what was found so far."""

    query: str
    answer: ImportedAnswer
    text: str
    named: int | None
    located: PassageMatch = LOST
    notes: list[str] = field(default_factory=list)
    hows: list[How] = field(default_factory=list)


class _DocumentNames:
    """The documents by the names that other tools give them: an id, its file's name, or that name without its end."""

    def __init__(self, library: Library) -> None:
        self.exactly, self._of_path = library.position, library.position_of_path
        self._tails: dict[str, int | None] = {}
        for position, name in enumerate(library.ids):
            path = PurePosixPath(name)
            for tail in {path.name, path.stem}:
                self._tails[tail] = None if tail in self._tails else position
        self.meant_by = cache(self._meant_by)

    def _meant_by(self, name: str) -> int | None:
        """The one document that ``name`` can mean: an id, a path that ends in one, or a file's name; else None."""
        found = self._of_path(name)
        if found is not None:
            return found
        parts = PurePosixPath(name.replace("\\", "/")).parts
        forms = (parts[-1], *(unicodedata.normalize(form, parts[-1]) for form in ("NFC", "NFD"))) if parts else ()
        return next((self._tails[form] for form in forms if form in self._tails), None)


def place(labels: ForeignLabels, library: Library, *, fuzzy: float | None = None) -> list[PlacedLabel]:
    """Where each answer stands, in the order of the questions.

    An answer whose document is named is looked for there, then in all documents. What is nowhere is looked for once
    more without its first line if that is a document's title, there; and then, if ``fuzzy`` is given, by likeness.
    """
    names = _DocumentNames(library)
    searches: list[_PlacementSearch] = []
    whole: dict[int, PlacedLabel] = {}
    for question in labels.questions:
        for answer in question.answers:
            document = None
            if not answer.passage:
                document = names.exactly(answer.doc) if answer.may_be_passage else names.meant_by(answer.doc)
            if document is not None:
                whole[len(searches) + len(whole)] = _without_text(question.id, answer, document, library)
                continue
            if not answer.passage and not answer.may_be_passage:
                whole[len(searches) + len(whole)] = PlacedLabel(question.id, answer, "lost", "lost", 0.0)
                continue
            text = answer.context or answer.passage or answer.doc
            named = names.meant_by(answer.doc) if answer.passage else None
            searches.append(_PlacementSearch(question.id, answer, normalised(text), named))
    _look(searches, library)
    _look_elsewhere(searches, library)
    _look_without_title(searches, library)
    if fuzzy is not None:
        _look(searches, library, fuzzy)
    found = (_placed(search, library) for search in searches)
    return [whole[number] if number in whole else next(found) for number in range(len(searches) + len(whole))]


def _without_text(query: str, answer: ImportedAnswer, document: int, library: Library) -> PlacedLabel:
    """A label that is a document, or characters of one, which must be the text that the label was made for."""
    if answer.start is None or answer.end is None:
        return PlacedLabel(query, answer, "document", document=document)
    text, name = library.text(document), library.ids[document]
    if answer.text_hash and answer.text_hash != text_hash(text):
        return PlacedLabel(query, answer, "lost", "lost", 0.0, notes=(f"{name} was changed since this label was made",))
    if not 0 <= answer.start < answer.end <= len(text):
        return PlacedLabel(query, answer, "lost", "lost", 0.0, notes=(f"{name} has {len(text):,} characters",))
    return PlacedLabel(query, answer, "exact", places=(Place(document, Span(answer.start, answer.end)),))


def _lost(searches: Iterable[_PlacementSearch]) -> list[_PlacementSearch]:
    return [search for search in searches if search.located.how == "lost"]


def _look(searches: Iterable[_PlacementSearch], library: Library, fuzzy: float | None = None) -> None:
    wanted = _lost(searches)
    sought = [PassageQuery(search.text, search.named) for search in wanted]
    for search, located in zip(wanted, locate_all(sought, library, fuzzy=fuzzy), strict=True):
        search.located = located


def _look_elsewhere(searches: Iterable[_PlacementSearch], library: Library) -> None:
    """What is not in the document that was named may be in another: the label has moved, if the name was a claim."""
    wanted = [search for search in _lost(searches) if search.named is not None]
    for search, located in zip(wanted, locate_all([PassageQuery(one.text) for one in wanted], library), strict=True):
        search.located = located


def _look_without_title(searches: Iterable[_PlacementSearch], library: Library) -> None:
    titled: dict[str, list[int]] = {}
    for position, title in enumerate(library.titles):
        if title.strip():
            titled.setdefault(" ".join(title.split()), []).append(position)
    tried: list[tuple[_PlacementSearch, PassageQuery]] = []
    for search in _lost(searches):
        line, _, rest = search.text.strip().partition("\n")
        documents = titled.get(" ".join(line.lstrip("#").split()), ()) if rest.strip() else ()
        tried += (
            (search, PassageQuery(rest.strip(), position)) for position in documents if search.named in (None, position)
        )
    located = locate_all([sought for _, sought in tried], library)
    for (search, sought), found in zip(tried, located, strict=True):
        if found.how == "lost":
            continue
        if search.located.how == "lost":
            search.text, search.located = sought.text, found
            search.hows.append("title")
        else:
            search.located = replace(search.located, places=(*search.located.places, *found.places))


def _placed(search: _PlacementSearch, library: Library) -> PlacedLabel:
    answer, located = search.answer, search.located
    if located.how == "lost":
        return PlacedLabel(search.query, answer, "lost", "lost", 0.0, notes=_notes(search))
    places = located.places
    if answer.context:
        places, found_as = _within(search, library)
        if not places:
            search.notes.append(CONTEXT_ALONE)
            return PlacedLabel(search.query, answer, "lost", "lost", 0.0, notes=_notes(search))
        located = replace(located, how=found_as if located.how == "exact" else located.how)
    elif answer.start is not None and "title" not in search.hows:
        places = tuple(_widened(one, normalised(answer.passage), library) for one in _meant(search, places))
    if answer.doc_is_known and answer.passage and answer.doc:
        _compare_document(search, places, library)
    by_document: dict[int, list[Span]] = {}
    for one in places:
        by_document.setdefault(one.document, []).append(one.span)
    if len(places) > 1:
        search.hows.append("several")
    hows: list[How] = ["fuzzy" if located.how == "fuzzy" else located.how, *search.hows]
    how = max(hows, key=list(HOWS).index)
    is_one = bool(answer.context) or all(len(spans) == 1 for spans in by_document.values())
    return PlacedLabel(
        search.query, answer, how, located.how, located.score, places, None, search.text.strip(), is_one, _notes(search)
    )


def _notes(search: _PlacementSearch) -> tuple[str, ...]:
    return (*search.notes, search.answer.note) if search.answer.note else tuple(search.notes)


def _compare_document(search: _PlacementSearch, places: Sequence[Place], library: Library) -> None:
    name = search.answer.doc
    if search.named is None:
        search.notes.append(f"the corpus has no document {name!r}")
    elif all(one.document != search.named for one in places):
        search.notes.append(f"it is not in {library.ids[search.named]!r}")
    else:
        return
    search.hows.append("moved")


def _meant(search: _PlacementSearch, places: tuple[Place, ...]) -> tuple[Place, ...]:
    """Of the places in each document the one that is nearest to where the file says."""
    answer = search.answer
    start = (answer.start or 0) + len(answer.passage) - len(answer.passage.lstrip())
    nearest: dict[int, Place] = {}
    for one in places:
        known = nearest.setdefault(one.document, one)
        if abs(one.span.start - start) < abs(known.span.start - start):
            nearest[one.document] = one
    at_start = [one for one in nearest.values() if one.span.start == start]
    if not at_start:
        search.hows.append("moved")
        search.notes.append(f"the file says character {start:,}")
    return tuple(at_start or nearest.values())


def _widened(place: Place, passage: str, library: Library) -> Place:
    """The place with the white space that ``passage`` has at its ends, if the document has it there, too."""
    start = place.span.start - len(passage) + len(passage.lstrip())
    end = place.span.end + len(passage) - len(passage.rstrip())
    is_there = start >= 0 and library.text(place.document)[start:end] == passage
    return replace(place, span=Span(start, end)) if is_there else place


def _within(search: _PlacementSearch, library: Library) -> tuple[tuple[Place, ...], InContext]:
    """The answer inside each place of its context, and how it was found: the least sure way."""
    answer = search.answer
    passage = normalised(answer.passage).strip()
    start = max(answer.start or 0, 0)
    left_out = _characters(normalised(answer.context)) - _characters(search.text)  # the title, or nothing
    before = _characters(normalised(answer.context[:start])) - left_out
    found: list[Place] = []
    kinds: list[InContext] = []
    for one in search.located.places:
        region = library.text(one.document)[one.span.start : one.span.end]
        at = _character_after(before, region)
        kind, spans = _occurrences(passage, region)
        if spans:
            nearest = min(spans, key=lambda span: abs(span.start - at))
            found.append(Place(one.document, Span(one.span.start + nearest.start, one.span.start + nearest.end)))
            kinds.append(kind)
    if found and not answer.context[start:].startswith(answer.passage):
        search.hows.append("moved")
        search.notes.append(f"it is not at character {answer.start} of its context")
    return tuple(found), max(kinds, key=list(HOWS).index, default="exact")


def _characters(text: str) -> int:
    """How many characters are no white space."""
    return sum(not character.isspace() for character in text)


def _character_after(count: int, text: str) -> int:
    """The character of ``text`` that has ``count`` characters but white space before it."""
    for place, character in enumerate(text):
        if not character.isspace():
            if count <= 0:
                return place
            count -= 1
    return len(text)


def _occurrences(passage: str, region: str) -> tuple[InContext, list[Span]]:
    """The places of an answer in its paragraph, and how it was found; in other case only if it is not as it is."""
    words = r"\s+".join(map(re.escape, passage.split()))
    for kind, pattern in (("exact", re.escape(passage)), ("spacing", words), ("case", f"(?i:{words})")):
        spans = [Span(*match.span()) for match in re.finditer(pattern, region)]
        if spans:
            return cast("InContext", kind), spans
    return "typography", typographic_places(passage, region)
