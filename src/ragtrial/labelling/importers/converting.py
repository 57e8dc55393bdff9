"""Convert the labels of another tool to prompt_queries.json, and report the result for each label."""

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
from ragtrial.labelling.importers.base import ForeignLabels, ImportedAnswer, ImportedQuestion, ReadLabels
from ragtrial.labelling.importers.content import first_faults
from ragtrial.labelling.importers.placement import CONTEXT_ALONE, HOWS, How, PlacedLabel, place

_MOST_GUESSED = 20  # comparing a name with all ids, or a text with all texts, is slow
_MOST_PLACES = 5
_PARTS = re.compile(r"\n|[|;]")


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

    @property
    def inexact(self) -> list[PlacedLabel]:
        """The labels to look at."""
        return [label for label in self.placed if label.how not in ("exact", "document") or label.notes]


def convert(read: ReadLabels, library: Library, *, fuzzy: float | None = None) -> Converted:
    """Locate each answer of ``read`` in ``library``; a lost answer is in no row.

    Raises LabelsError if answers to one question give different grades to one document or passage.
    """
    labels = _with_parts(read, library) if read.content.is_csv else read.labels
    placed = place(labels, library, fuzzy=fuzzy)
    by_query: dict[str, list[PlacedLabel]] = {}
    for label in placed:
        by_query.setdefault(label.query, []).append(label)
    writer = _Writer(library)
    queries = [writer.query(question, by_query.get(question.id, ())) for question in labels.questions]
    if writer.conflicts:
        faults = [read.content.fault_at(label.answer.where, message) for label, message in writer.conflicts]
        raise LabelsError(*first_faults(faults, read.content.file))
    prompt = {"prompt": normalised(read.labels.prompt)} if read.labels.prompt else {}
    return Converted({**prompt, "queries": queries}, placed, writer.repeated)


def _with_parts(read: ReadLabels, library: Library) -> ForeignLabels:
    """The labels, with several answers for a cell that is lost while its lines or parts (``|``, ``;``) are found."""
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
        replace(question, answers=tuple(part for answer in question.answers for part in several.get(answer, [answer])))
        for question in read.labels.questions
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
        for label in placed:
            for row in self._rows(label):
                if not self._is_known(label, row, rows):
                    rows.append(row)
        optional = {"tags": [normalised(tag) for tag in question.tags], **(question.more or {})}
        given = {key: value for key, value in optional.items() if value}
        return {"id": question.id, "text": normalised(question.text), "relevant_docs": rows, **given}

    def _rows(self, placed: PlacedLabel) -> Iterator[dict[str, Any]]:
        """A row for each document, with its characters unless several places of the document are the answer."""
        grade = placed.answer.relevance
        if placed.document is not None:
            yield {"doc": self.library.ids[placed.document], "relevance": grade}
        done: set[int] = set()
        for spot in placed.places:
            if spot.document in done:
                continue
            done.add(spot.document)
            row: dict[str, Any] = {"doc": self.library.ids[spot.document], "relevance": grade}
            if placed.is_one:
                quote = self.library.text(spot.document)[spot.span.start : spot.span.end]
                row |= {"quote": quote, "start": spot.span.start, "end": spot.span.end}
                row["text_hash"] = self._hash(spot.document)
            else:
                row["quote"] = placed.sought
            yield row

    def _is_known(self, placed: PlacedLabel, row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> bool:
        """True if an equal row exists; another grade for the same place is a conflict."""
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
    """Each lost label with its place in the file; the first with their nearest texts."""
    faults, lost = [], converted.lost
    answers = [label.answer for label in lost[:_MOST_GUESSED]]
    texts = [answer.context or answer.passage or answer.doc * answer.may_be_passage for answer in answers]
    near_texts = nearest([PassageQuery(normalised(text)) for text in texts], library)
    for number, label in enumerate(lost):
        is_guessed = number < _MOST_GUESSED
        near = near_texts[number] if is_guessed and CONTEXT_ALONE not in label.notes else ""
        if not label.answer.passage and not label.notes and is_guessed:
            near = did_you_mean(label.answer.doc, library.ids) or near
        faults.append(read.content.fault_at(label.answer.where, _lost(label, len(library)) + near))
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
    """The result for a label, as JSON values."""
    # In one JSON value the path is enough, and finding the lines of all values takes long.
    line = read.content.fault_at(placed.answer.where, "").line if read.content.lines else None
    return {
        "query": placed.query,
        "line": line,
        "at": read.content.called(placed.answer.where),
        "how": placed.how,
        "match": placed.match,
        "score": placed.score,
        "places": [
            {"doc": library.ids[spot.document], "start": spot.span.start, "end": spot.span.end}
            for spot in placed.places
        ]
        if placed.document is None
        else [{"doc": library.ids[placed.document]}],
        "notes": list(placed.notes),
        "text": placed.answer.passage or placed.answer.doc,
    }


def describe_places(placed: PlacedLabel, library: Library) -> str:
    """The places in a few words: ``hub/reset.md 120-160``."""
    places = [f"{library.ids[spot.document]} {spot.span.start}-{spot.span.end}" for spot in placed.places]
    rest = len(places) - _MOST_PLACES
    return ", ".join(places[:_MOST_PLACES]) + (f" and {rest} more" if rest > 0 else "")
