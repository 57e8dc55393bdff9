"""Labels of another tool as prompt_queries.json: the rows of each label, and what became of each."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from ragtrial.dataset.library import Library
from ragtrial.dataset.locating import PassageQuery, locate_all, nearest
from ragtrial.dataset.texts import normalised, short, text_hash
from ragtrial.errors import Fault, LabelsError, did_you_mean
from ragtrial.labelling.importers.content import MOST_FAULTS
from ragtrial.labelling.importers.foreign import ForeignLabels, ImportedAnswer, ImportedQuestion
from ragtrial.labelling.importers.placement import CONTEXT_ALONE, HOWS, How, PlacedLabel, place
from ragtrial.labelling.importers.recognition import ReadLabels

_MOST_GUESSED = 20  # comparing a name with all ids, or a text with all texts, is slow
_MOST_PLACES = 5
_PARTS = re.compile(r"\n|[|;]")


@dataclass(frozen=True)
class Converted:
    """The labels as prompt_queries.json has them, and each answer with its places.

    ``repeated`` counts labels that were left out since an equal one of their question stands before them.
    """

    rows: Mapping[str, Any]
    placed: Sequence[PlacedLabel]
    repeated: int

    @property
    def counts(self) -> dict[How, int]:
        """How many labels were resolved in each way; ways of which there is none are left out."""
        counted = Counter(one.how for one in self.placed)
        return {how: counted[how] for how in HOWS if counted[how]}

    @property
    def lost(self) -> list[PlacedLabel]:
        return [one for one in self.placed if one.how == "lost"]

    @property
    def inexact(self) -> list[PlacedLabel]:
        """What somebody may want to look at."""
        return [one for one in self.placed if one.how not in ("exact", "document") or one.notes]


def convert(read: ReadLabels, library: Library, *, fuzzy: float | None = None) -> Converted:
    """Each answer of ``read`` looked up in ``library``; those that are lost are in no row.

    Raises LabelsError where answers of one question are one document or passage with different grades.
    """
    labels = _with_parts(read, library) if read.content.is_csv else read.labels
    placed = place(labels, library, fuzzy=fuzzy)
    by_query: dict[str, list[PlacedLabel]] = {}
    for one in placed:
        by_query.setdefault(one.query, []).append(one)
    writer = _Writer(library)
    queries = [writer.query(question, by_query.get(question.id, ())) for question in labels.questions]
    if writer.conflicts:
        rest = len(writer.conflicts) - MOST_FAULTS
        more = [Fault(read.content.file, message=f"and {rest:,} more faults like these.")] if rest > 0 else []
        found = writer.conflicts[:MOST_FAULTS]
        raise LabelsError(*(read.content.fault_at(one.answer.where, message) for one, message in found), *more)
    prompt = {"prompt": normalised(read.labels.prompt)} if read.labels.prompt else {}
    return Converted({**prompt, "queries": queries}, placed, writer.repeated)


def _with_parts(read: ReadLabels, library: Library) -> ForeignLabels:
    """The labels, a cell that is nowhere in the documents as several answers if all of its lines are (or its parts
    between ``|`` or ``;``).
    """
    parts = {
        answer: pieces
        for question in read.labels.questions
        for answer in question.answers
        if not answer.context and len(pieces := list(filter(None, map(str.strip, _PARTS.split(answer.passage))))) > 1
    }
    sought = [PassageQuery(normalised(text)) for answer, pieces in parts.items() for text in (answer.passage, *pieces)]
    located = iter(locate_all(sought, library)) if sought else iter(())
    several: dict[ImportedAnswer, list[ImportedAnswer]] = {}
    for answer, pieces in parts.items():
        whole, *of_pieces = (next(located).how for _ in range(len(pieces) + 1))
        if whole == "lost" and "lost" not in of_pieces:
            several[answer] = [replace(answer, passage=piece, start=None) for piece in pieces]
    questions = (
        replace(one, answers=tuple(part for answer in one.answers for part in several.get(answer, [answer])))
        for one in read.labels.questions
    )
    return replace(read.labels, questions=tuple(questions))


def as_json(converted: Converted) -> str:
    """The text of prompt_queries.json."""
    return json.dumps(converted.rows, ensure_ascii=False, indent=1) + "\n"


class _Writer:
    def __init__(self, library: Library) -> None:
        self.library = library
        self.repeated = 0
        self.conflicts: list[tuple[PlacedLabel, str]] = []
        self._hash = cache(lambda position: text_hash(library.text(position)))

    def query(self, question: ImportedQuestion, placed: Sequence[PlacedLabel]) -> dict[str, Any]:
        rows: list[dict[str, Any]] = []
        for one in placed:
            for row in self._rows(one):
                if not self._is_known(one, row, rows):
                    rows.append(row)
        made: dict[str, Any] = {"id": question.id, "text": normalised(question.text), "relevant_docs": rows}
        if question.tags:
            made["tags"] = [normalised(tag) for tag in question.tags]
        if question.ordered:
            made["ordered"] = True
        if question.phrasings:
            made["phrasings"] = [normalised(phrasing) for phrasing in question.phrasings]
        if question.where_metadata is not None:
            made["where"] = question.where_metadata
        if question.where_document is not None:
            made["where_document"] = question.where_document
        return made

    def _rows(self, placed: PlacedLabel) -> Iterator[dict[str, Any]]:
        """A row for each document; it says where, unless several places of the document are the answer."""
        grade = placed.answer.relevance
        if placed.document is not None:
            yield {"doc": self.library.ids[placed.document], "relevance": grade}
        done: set[int] = set()
        for one in placed.places:
            if one.document in done:
                continue
            done.add(one.document)
            row: dict[str, Any] = {"doc": self.library.ids[one.document], "relevance": grade}
            if placed.is_one:
                quote = self.library.text(one.document)[one.span.start : one.span.end]
                row |= {"quote": quote, "start": one.span.start, "end": one.span.end}
                row["text_hash"] = self._hash(one.document)
            else:
                row["quote"] = placed.sought
            yield row

    def _is_known(self, placed: PlacedLabel, row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> bool:
        """Whether an equal row stands there already; another grade for the same is a conflict."""
        for known in rows:
            if known["doc"] != row["doc"]:
                continue
            same = all(known.get(key) == row.get(key) for key in ("quote", "start"))
            if (same or "quote" not in known or "quote" not in row) and known["relevance"] != row["relevance"]:
                what = "that passage of it" if same and "quote" in row else "it, as a whole or a passage of it,"
                self.conflicts.append(
                    (
                        placed,
                        f"query {placed.query!r} gives {row['doc']!r} the grade {row['relevance']}, and {what} the "
                        f"grade {known['relevance']} before; one document (or one passage of it) has one grade.",
                    )
                )
                return True
            if same:
                self.repeated += 1
                return True
        return False


def lost_faults(converted: Converted, read: ReadLabels, library: Library) -> list[Fault]:
    """Each lost label with its place in the file; the first with the text that is nearest to them."""
    faults, lost = [], converted.lost
    texts = [
        one.answer.context or one.answer.passage or (one.answer.doc if one.answer.may_be_passage else "")
        for one in lost[:_MOST_GUESSED]
    ]
    places = nearest([PassageQuery(normalised(text)) for text in texts], library)
    places += [""] * (len(lost) - len(places))
    for number, (one, found) in enumerate(zip(lost, places, strict=True)):
        text = one.answer.passage or one.answer.doc
        near = "" if CONTEXT_ALONE in one.notes else found
        if not one.answer.passage and not one.notes and number < _MOST_GUESSED:
            near = did_you_mean(text, library.ids) or near
        faults.append(read.content.fault_at(one.answer.where, _lost(one, len(library)) + near))
    return faults


def _lost(placed: PlacedLabel, documents: int) -> str:
    """``'a.md' of query 'q' is in none of 4 documents.``"""
    answer, why = placed.answer, "; ".join(placed.notes)
    named = f"{short(answer.passage or answer.doc)!r} of query {placed.query!r}"
    if answer.end is not None and answer.start is not None and why:
        return f"characters {answer.start:,} to {answer.end:,} of {named}: {why}."
    what = "is not in any of the"
    if not answer.passage:
        what = (
            "is neither the id nor a passage of any of the" if answer.may_be_passage else "is not the id of any of the"
        )
    return f"{named} {what} {documents:,} documents{f' ({why})' if why else ''}."


def report_row(placed: PlacedLabel, read: ReadLabels, library: Library) -> dict[str, Any]:
    """What became of a label, as JSON values."""
    # In one JSON value the path says it all, and looking for the lines of all values takes long.
    line = read.content.fault_at(placed.answer.where, "").line if read.content.lines else None
    return {
        "query": placed.query,
        "line": line,
        "at": read.content.called(placed.answer.where),
        "how": placed.how,
        "match": placed.match,
        "score": placed.score,
        "places": [
            {"doc": library.ids[one.document], "start": one.span.start, "end": one.span.end} for one in placed.places
        ]
        if placed.document is None
        else [{"doc": library.ids[placed.document]}],
        "notes": list(placed.notes),
        "text": placed.answer.passage or placed.answer.doc,
    }


def describe_places(placed: PlacedLabel, library: Library) -> str:
    """The places in a few words: ``hub/reset.md 120-160``."""
    told = [f"{library.ids[one.document]} {one.span.start}-{one.span.end}" for one in placed.places[:_MOST_PLACES]]
    rest = len(placed.places) - _MOST_PLACES
    return ", ".join(told) + (f" and {rest} more" if rest > 0 else "")
