"""Convert the labels of another tool to prompt_queries.json: each answer is located in the documents."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any, Literal

from ragtrial.components.endpoints.client import whole_characters
from ragtrial.dataset import locating
from ragtrial.dataset.faults import truncated
from ragtrial.dataset.library import Library
from ragtrial.dataset.texts import normalised, short, text_hash
from ragtrial.errors import Fault, LabelsError, counted, did_you_mean
from ragtrial.labelling.importers.base import ImportedAnswer, ImportedQuestion, ReadLabels
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
    "several": "in several places, any of which is the answer",
    "fuzzy": "similar text, with its score",
    "lost": "not found",
}
"""The ways in which labels are resolved, from certain to uncertain; the last one that applies is reported."""

_MOST_GUESSED = 20  # comparing a name with all ids, or a text with all texts, is slow
_MOST_PLACES = 5
_SHORTEST_PASSAGE = 8
"""Characters of a passage among several in a cell: a shorter one may be anywhere."""


@dataclass(slots=True)
class PlacedLabel:
    """An answer and its places, ascending; without places it is lost, or the whole of ``document``.

    ``sought`` is the text that is looked up, ``named`` the document that the file names. ``located`` says how the text
    was found. ``notes`` and ``hows`` add to that.
    """

    query: str
    answer: ImportedAnswer
    sought: str = ""
    named: int | None = None
    document: int | None = None
    located: locating.PassageMatch = locating.LOST
    notes: list[str] = field(default_factory=list)
    hows: list[How] = field(default_factory=list)

    @property
    def places(self) -> tuple[locating.Place, ...]:
        return self.located.places

    @property
    def how(self) -> How:
        """The least certain way in which it was found."""
        if self.document is not None:
            return "document"
        return max((self.located.how, *(self.hows if self.places else ())), key=list(HOWS).index)

    @property
    def is_one(self) -> bool:
        """True if the first place in each document is meant; otherwise all are alternatives."""
        return bool(self.answer.context) or len({place.document for place in self.places}) == len(self.places)

    def move(self, note: str) -> None:
        """Note that it is not where its file says."""
        self.hows.append("moved")
        self.notes.append(note)


def place(questions: Iterable[ImportedQuestion], library: Library, *, fuzzy: float | None = None) -> list[PlacedLabel]:
    """The place of each answer, in the order of the questions.

    An answer is searched in the document that its file names, then in all documents, then without its first line in
    documents that have this line as title, and then by likeness if ``fuzzy`` is given.
    """
    names = locating.DocumentNames(library)
    answers = ((question.id, answer) for question in questions for answer in question.answers)
    placed = [_begun(query, answer, names, library) for query, answer in answers]
    sought = [label for label in placed if label.sought]
    _look(sought, library, lambda label: label.named, None)
    _look(sought, library, lambda _: None, None)  # an answer may have moved to another document
    _look_without_title(sought, library)
    placed = _apart(placed, names, library)
    sought = [label for label in placed if label.sought]
    if fuzzy is not None:
        _look(sought, library, lambda label: label.named, fuzzy)
    for label in sought:
        if label.places:
            _narrow(label, library)
        elif label.answer.in_other_words and label.named is not None:
            label.document = label.named
            label.notes.append("the answer is in other words; the label is its document")
        elif label.answer.passage and label.answer.doc and label.named is None and label.answer.doc_is_known:
            label.notes.append(f"the corpus has no document {label.answer.doc!r}")
    for label in placed:
        label.notes += filter(None, [label.answer.note])
    return placed


def _begun(query: str, answer: ImportedAnswer, names: locating.DocumentNames, library: Library) -> PlacedLabel:
    """An answer whose text is still to be looked up, or which names a document instead of a text."""
    if answer.passage:
        named = names.position(answer.doc) if answer.doc else None
        return PlacedLabel(query, answer, normalised(answer.context or answer.passage), named)
    document = library.position(answer.doc) if answer.may_be_passage else names.position(answer.doc)
    if document is None:
        return PlacedLabel(query, answer, normalised(answer.doc) if answer.may_be_passage else "")
    if answer.start is None or answer.end is None:
        return PlacedLabel(query, answer, document=document)
    text, name = library.text(document), library.ids[document]
    if answer.text_hash and answer.text_hash != text_hash(text):
        return PlacedLabel(query, answer, notes=[f"{name} was changed since this label was made"])
    if not 0 <= answer.start < answer.end <= len(text):
        return PlacedLabel(query, answer, notes=[f"{name} has {counted(len(text), 'character')}"])
    there = (locating.Place(document, Span(answer.start, answer.end)),)
    return PlacedLabel(query, answer, located=locating.PassageMatch("exact", there))


def _apart(placed: Sequence[PlacedLabel], names: locating.DocumentNames, library: Library) -> list[PlacedLabel]:
    """The labels; one that is lost is replaced by its parts if it consists of several passages or names of documents.

    They are on lines of a cell, or between semicolons or bars; names also between commas.
    """
    apart: list[tuple[PlacedLabel, list[PlacedLabel]]] = []
    for label in placed:
        answer = label.answer
        if label.places or label.document is not None or answer.may_be_passage or answer.start is not None:
            continue
        between, text = (r"[\n;|]", answer.passage) if answer.passage else (r"[\n;|,]", answer.doc)
        parts = [part.strip() for part in re.split(between, text) if part.strip()]
        if len(parts) < 2 or (answer.passage and min(map(len, parts)) < _SHORTEST_PASSAGE):
            continue
        answers = (replace(answer, passage=part) if answer.passage else replace(answer, doc=part) for part in parts)
        apart.append((label, [_begun(label.query, part, names, library) for part in answers]))
    _look([part for _, parts in apart for part in parts if part.sought], library, lambda part: part.named, None)
    found = {
        id(label): parts for label, parts in apart if all(part.places or part.document is not None for part in parts)
    }
    return [part for label in placed for part in found.get(id(label), [label])]


def _look(
    labels: Sequence[PlacedLabel], library: Library, among: Callable[[PlacedLabel], int | None], fuzzy: float | None
) -> None:
    """Locate the lost answers, each in one document or in all."""
    lost = [label for label in labels if not label.places]
    queries = [locating.PassageQuery(label.sought, among(label)) for label in lost]
    for label, match in zip(lost, locating.locate_all(queries, library, fuzzy=fuzzy), strict=True):
        label.located = match


def _look_without_title(sought: Iterable[PlacedLabel], library: Library) -> None:
    titled: dict[str, list[int]] = {}
    for position, title in enumerate(library.titles):
        if title.strip():
            titled.setdefault(" ".join(title.split()), []).append(position)
    tried: list[tuple[PlacedLabel, locating.PassageQuery]] = []
    for label in sought:
        line, _, rest = label.sought.strip().partition("\n")
        if not label.places and rest.strip():
            documents = titled.get(" ".join(line.lstrip("#").split()), ())
            tried += ((label, locating.PassageQuery(rest.strip(), document)) for document in documents
                      if label.named in (None, document))  # fmt: skip
    for (label, query), match in zip(tried, locating.locate_all([query for _, query in tried], library), strict=True):
        if match.places and not label.places:
            label.sought, label.located = query.text, match
            label.hows.append("title")
        elif match.places:
            label.located = replace(label.located, places=(*label.places, *match.places))


def _narrow(label: PlacedLabel, library: Library) -> None:
    """Choose the places that the file means, and note where it is wrong."""
    answer = label.answer
    if answer.context:
        _look_inside(label, library)
    elif answer.start is not None and "title" not in label.hows:
        passage = normalised(answer.passage)
        places = tuple(_widened(meant, passage, library) for meant in _meant(label, answer.start))
        label.located = replace(label.located, places=places)
    if label.places and answer.doc_is_known and answer.passage and answer.doc:
        if label.named is None:
            label.move(f"the corpus has no document {answer.doc!r}")
        elif all(meant.document != label.named for meant in label.places):
            label.move(f"it is not in {library.ids[label.named]!r}")
    if len(label.places) > 1:
        label.hows.append("several")


def _meant(label: PlacedLabel, start: int) -> list[locating.Place]:
    """The place in each document that is nearest to the character in the file."""
    start += len(label.answer.passage) - len(label.answer.passage.lstrip())
    nearest_in: dict[int, locating.Place] = {}
    for meant in sorted(label.places, key=lambda place: abs(place.span.start - start)):
        nearest_in.setdefault(meant.document, meant)
    in_order = sorted(nearest_in.values())
    at_start = [meant for meant in in_order if meant.span.start == start]
    if not at_start:
        label.move(f"the file says character {start:,}")
    return at_start or in_order


def _widened(meant: locating.Place, passage: str, library: Library) -> locating.Place:
    """The place with the white space that ``passage`` has at its ends, if the document has it there, too."""
    start = meant.span.start - len(passage) + len(passage.lstrip())
    end = meant.span.end + len(passage) - len(passage.rstrip())
    is_there = start >= 0 and library.text(meant.document)[start:end] == passage
    return replace(meant, span=Span(start, end)) if is_there else meant


def _look_inside(label: PlacedLabel, library: Library) -> None:
    """Replace each place of a context by the place of the answer in it; the least certain kind of match counts."""
    answer = label.answer
    passage, start = normalised(answer.passage).strip(), max(answer.start or 0, 0)
    to_end = len(normalised(answer.context[start:]).rstrip())  # the title may be missing in front
    inside: list[locating.Place] = []
    kinds: list[locating.MatchKind] = []
    for around in label.places:
        first, last = around.span.start, around.span.end
        kind, spans = locating.places_in(passage, library.text(around.document)[first:last])
        if spans:
            nearest_span = min(spans, key=lambda span: abs(last - first - to_end - span.start))
            inside.append(locating.Place(around.document, Span(first + nearest_span.start, first + nearest_span.end)))
            kinds.append(kind)
    if not inside:
        label.located = locating.LOST
        label.notes.append(CONTEXT_ALONE)
        return
    kind = max(kinds, key=list(HOWS).index) if label.located.how == "exact" else label.located.how
    label.located = replace(label.located, how=kind, places=tuple(inside))
    if not answer.context[start:].startswith(answer.passage):
        label.move(f"it is not at character {answer.start} of its context")


@dataclass(frozen=True)
class Converted:
    """The content of prompt_queries.json, and each answer with its places.

    ``repeated`` counts labels that were left out because they repeat an earlier label of their question.
    """

    rows: Mapping[str, Any]
    placed: Sequence[PlacedLabel]
    repeated: int

    @property
    def counts(self) -> dict[How, int]:
        """The number of labels that were resolved in each way that occurs."""
        counts = Counter(label.how for label in self.placed)
        return {how: counts[how] for how in HOWS if counts[how]}

    @property
    def lost(self) -> list[PlacedLabel]:
        return [label for label in self.placed if label.how == "lost"]

    def names_in_other_case(self, library: Library) -> dict[str, str]:
        """The ids of documents by the names in the file that differ from the ends of these in case alone."""
        named = {label.answer.doc: label.named if label.document is None else label.document for label in self.placed}
        ids = {name: library.ids[position] for name, position in named.items() if position is not None}
        stems = {name: PurePosixPath(name.replace("\\", "/")).name for name in ids}
        return {name: doc for name, doc in ids.items()
                if stems[name] not in doc and stems[name].casefold() in doc.casefold()}  # fmt: skip

    @property
    def inexact(self) -> list[PlacedLabel]:
        """The labels to look at."""
        return [label for label in self.placed if label.how not in ("exact", "document") or label.notes]


def convert(read: ReadLabels, library: Library, *, fuzzy: float | None = None) -> Converted:
    """Locate each answer of ``read`` in ``library``; a lost answer is in no row.

    Raises LabelsError if answers to one question give different grades to one document or passage.
    """
    placed = place(read.questions, library, fuzzy=fuzzy)
    rows: dict[str, list[dict[str, Any]]] = {question.id: [] for question in read.questions}
    repeated, conflicts = 0, []
    for label in placed:
        known = rows[label.query]
        for row in _rows(label, library):
            if message := _conflict(label.query, row, known):
                conflicts.append(read.content.fault_at(label.answer.where, message))
            elif any(_is_same(row, other) for other in known):
                repeated += 1
            else:
                known.append(row)
    LabelsError.raise_any(truncated(conflicts, read.content.file))
    prompt = {"prompt": normalised(read.content.prompt)} if read.content.prompt else {}
    in_other_words: dict[str, list[str]] = {}
    for label in placed:
        if label.answer.in_other_words and not label.places:
            in_other_words.setdefault(label.query, []).append(label.answer.passage)
    queries = [_query_row(each, rows[each.id], in_other_words.get(each.id, [])) for each in read.questions]
    return Converted({**prompt, "queries": queries}, placed, repeated)


def _query_row(question: ImportedQuestion, labels: list[dict[str, Any]], answers: Sequence[str]) -> dict[str, Any]:
    more = dict(question.more or {})
    more["answers"] = [normalised(answer) for answer in dict.fromkeys((*answers, *more.get("answers", ())))]
    optional = {"tags": [normalised(tag) for tag in question.tags], **more}
    given = {key: value for key, value in optional.items() if value}
    if given.get("ordered"):  # an order has no alternatives
        labels = [{key: value for key, value in label.items() if key != "group"} for label in labels]
    return {"id": question.id, "text": normalised(question.text), "relevant_docs": labels, **given}


def _rows(label: PlacedLabel, library: Library) -> Iterator[dict[str, Any]]:
    """A row for each document, with its characters unless several places of the document are the answer.

    Several documents are alternatives, unless they must not be found.
    """
    group = label.answer.group
    if not group and len({spot.document for spot in label.places}) > 1 and label.answer.relevance >= 0:
        first = label.places[0]
        group = f"{library.ids[first.document]} {first.span.start}-{first.span.end}"
    alternatives = {"group": group} if group else {}
    if label.document is not None:
        yield {"doc": library.ids[label.document], "relevance": label.answer.relevance, **alternatives}
    for document, spot in sorted({spot.document: spot for spot in reversed(label.places)}.items()):
        row: dict[str, Any] = {"doc": library.ids[document], "relevance": label.answer.relevance, **alternatives}
        if label.is_one:
            text, (start, end) = library.text(document), (spot.span.start, spot.span.end)
            yield row | {"quote": text[start:end], "start": start, "end": end, "text_hash": text_hash(text)}
        else:
            yield row | {"quote": label.sought.strip()}


def _is_same(row: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(row.get(key) == other.get(key) for key in ("doc", "quote", "start", "group"))


def _conflict(query: str, row: Mapping[str, Any], known: Iterable[Mapping[str, Any]]) -> str:
    """A sentence about another grade for the same place; empty without one."""
    for other in known:
        same = _is_same(row, other)
        meets = (row["doc"], row.get("group")) == (other["doc"], other.get("group")) and (
            same or "quote" not in other or "quote" not in row
        )
        if meets and other["relevance"] != row["relevance"]:
            what = "that passage of it" if same and "quote" in row else "it, as a whole or a passage of it,"
            return (
                f"query {query!r} gives {row['doc']!r} the grade {row['relevance']}, and {what} the grade "
                f"{other['relevance']} before; one document (or one passage of it) has one grade."
            )
    return ""


def as_json(converted: Converted) -> str:
    """The text of prompt_queries.json, with U+FFFD for each half of a surrogate pair."""
    return whole_characters(json.dumps(converted.rows, ensure_ascii=False, indent=1)) + "\n"


def lost_faults(converted: Converted, read: ReadLabels, library: Library) -> list[Fault]:
    """Each lost label with its place in the file; the first with their nearest texts."""
    lost = converted.lost
    guesses = _guesses(lost[:_MOST_GUESSED], library) + [""] * (len(lost) - _MOST_GUESSED)
    pairs = zip(lost, guesses, strict=True)
    return [read.content.fault_at(label.answer.where, _lost(label, len(library)) + near) for label, near in pairs]


def lost_page(converted: Converted, read: ReadLabels, library: Library) -> str:
    """Markdown about the lost labels: each with its question, its nearest text, and what to do about it."""
    file, texts = read.content.file, {row["id"]: row["text"] for row in converted.rows["queries"]}
    lines = []
    for label, near in zip(converted.lost, _guesses(converted.lost, library), strict=True):
        fault = read.content.fault_at(label.answer.where, _lost(label, len(library)) + near)
        step = f"If that is the answer, copy it into {file}; otherwise copy the answer from its document."
        if not label.sought and not label.notes:
            path = "" if near else f" It is the path below the folder of documents, such as {library.ids[0]!r}."
            step = f"Correct the name of the document in {file}.{path}"
        elif not near:
            step = f"No text is similar: copy the answer from its document into {file}, or leave it empty."
        lines += [f"## {short(texts[label.query])}", "", str(fault), "", step, ""]
    return "\n".join(lines)


def _guesses(lost: Sequence[PlacedLabel], library: Library) -> list[str]:
    """For each label a sentence with the nearest text, or the nearest id; empty if nothing is similar."""
    answers = [label.answer for label in lost]
    texts = [answer.context or answer.passage or answer.doc * answer.may_be_passage for answer in answers]
    near = locating.nearest([locating.PassageQuery(normalised(text)) for text in texts], library)
    for number, label in enumerate(lost):
        if CONTEXT_ALONE in label.notes:
            near[number] = ""
        elif not label.answer.passage and not label.notes:
            near[number] = did_you_mean(label.answer.doc, library.ids) or near[number]
    return near


def _lost(placed: PlacedLabel, documents: int) -> str:
    """``'a.md' of query 'q' is not the id of a document (4 documents).``"""
    answer, why = placed.answer, "; ".join(placed.notes)
    named = f"{short(answer.passage or answer.doc)!r} of query {placed.query!r}"
    if answer.end is not None and answer.start is not None and why:
        return f"characters {answer.start:,} to {answer.end:,} of {named}: {why}."
    what = "is in no document" if answer.passage else "is not the id of a document"
    if not answer.passage and answer.may_be_passage:
        what = "is neither the id nor a passage of a document"
    return f"{named} {what} ({'; '.join([counted(documents, 'document'), *placed.notes])})."


def report_row(placed: PlacedLabel, read: ReadLabels, library: Library) -> dict[str, Any]:
    """The result for a label, as JSON values."""
    # In one JSON value the path is enough, and finding the lines of all values takes long.
    line = read.content.fault_at(placed.answer.where, "").line if read.content.lines else None
    places = [
        {"doc": library.ids[spot.document], "start": spot.span.start, "end": spot.span.end} for spot in placed.places
    ]
    is_whole = placed.document is not None
    return {
        "query": placed.query,
        "line": line,
        "at": read.content.called(placed.answer.where),
        "how": placed.how,
        "match": "exact" if is_whole else placed.located.how,
        "score": 1.0 if is_whole else placed.located.score,
        "places": places if placed.document is None else [{"doc": library.ids[placed.document]}],
        "notes": placed.notes,
        "text": placed.answer.passage or placed.answer.doc,
    }


def describe_places(placed: PlacedLabel, library: Library) -> str:
    """The places in a few words: ``hub/reset.md 120-160``."""
    places = [f"{library.ids[spot.document]} {spot.span.start}-{spot.span.end}" for spot in placed.places]
    rest = len(places) - _MOST_PLACES
    return ", ".join(places[:_MOST_PLACES]) + (f" and {rest} more" if rest > 0 else "")
