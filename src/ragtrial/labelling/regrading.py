"""New judgments beside those that a query has: what they would contradict is changed with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from ragtrial.dataset.texts import normalised
from ragtrial.labelling.changes import Form, Grade
from ragtrial.records import Judgment


def beside(known: Sequence[Judgment], made: Sequence[Grade], form: Form) -> Iterator[Grade]:
    """The grades ``made`` for a query, in labels that name things as ``form`` says, with those that they change.

    A passage that is judged already gets the new grade, however its label spells it. A label of a whole document has
    one grade with every passage of it: the highest that is given now; what is graded lower does not stand beside it.
    Where documents are judged and ``known`` has passages alone, these are raised or lowered until the highest of them
    is the document's new grade.
    """
    highest: dict[str, int] = {}
    for one in made:
        highest[one.doc] = max(highest.get(one.doc, one.relevance or 0), one.relevance or 0)
    for one in made:
        own = [label for label in known if form == "content" or label.doc == one.doc]
        same = [label for label in own if _is_same(label, one, form)]
        if form != "content" and any(label.quote is None and not label.spans for label in own):
            yield from (_regraded(one, label, highest[one.doc]) for label in own)
            if not same and one.relevance == highest[one.doc]:
                yield one
        elif same:
            yield from (_regraded(one, label, one.relevance) for label in same)
        elif form == "document" and one.quote is None and any(label.relevance != one.relevance for label in own):
            yield from _levelled(one, own)
        else:
            yield one


def _levelled(made: Grade, passages: Iterable[Judgment]) -> Iterator[Grade]:
    """The passages of a document that must change for the highest of their grades to be the one that is given."""
    grade, passages = made.relevance or 0, list(passages)
    best = max(label.relevance for label in passages)
    for label in passages:
        if label.relevance > grade or label.relevance == best <= grade:
            yield _regraded(made, label, grade)


def _regraded(made: Grade, label: Judgment, grade: int | None) -> Grade:
    """The change of a label to ``grade``, named as the file has it."""
    start, end = (label.spans[0].start, label.spans[0].end) if label.spans else (None, None)
    return replace(made, doc=label.doc, relevance=grade, quote=label.quote, start=start, end=end)


def _is_same(label: Judgment, made: Grade, form: Form) -> bool:
    """Whether a label of the document is of the very passage that is graded, or under ``content`` has its words."""
    if form == "content":
        return _words(label.doc) == _words(made.doc)
    starts = [span.start for span in label.spans]
    if label.quote is None:
        return bool(starts) and [(span.start, span.end) for span in label.spans] == [(made.start, made.end)]
    if made.quote is None or _words(label.quote) != _words(made.quote):
        return False
    return not starts or made.start in (None, *starts)


def _words(passage: str) -> list[str]:
    return normalised(passage).casefold().split()
