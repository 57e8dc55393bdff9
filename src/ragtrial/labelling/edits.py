"""The changes of labels that graded search hits and commands require."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import TypeVar

from ragtrial.config import ExperimentConfig
from ragtrial.dataset.locating import is_in
from ragtrial.dataset.texts import normalised, short
from ragtrial.errors import Fault, InputError, LabelsError
from ragtrial.labelling import label_files
from ragtrial.labelling.label_files import Change, Form, Grade, LabelsText, NewQuery, OverlayText
from ragtrial.labelling.worklist import TextToGrade, speaks_of
from ragtrial.progress import Progress
from ragtrial.records import FoundText, Judgment, PromptQueries, Query, Unit

Mark = TypeVar("Mark")

NO_TEXT = "this text is empty, and the labels name passages; leave it out."
"""Why an answer cannot be graded."""

_WORDS = 6
MOST_KEY = 9
"""The highest grade that one key gives: a higher one in labels that have none so high is a slip."""


@dataclass(frozen=True)
class Item:
    """One thing to grade among what settings found: ``hit.rank`` is its number, ``found_by`` its best rank in each."""

    hit: FoundText
    found_by: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Marks:
    """The grades of hits by their numbers, verbatim passages of hits that answer, and the groups of their labels."""

    grades: dict[int, int] = field(default_factory=dict)
    quotes: dict[int, str] = field(default_factory=dict)
    groups: dict[int, str] = field(default_factory=dict)

    def drop(self, number: int) -> None:
        """Take back all marks of a hit."""
        for marks in (self.grades, self.quotes, self.groups):
            marks.pop(number, None)


def group_like(place: str) -> str:
    """The name for the group of a label at ``place``, and of others that say the same."""
    return f"same as {short(normalised(place))}"


class AnswerSheet:
    """The labels of a config when a search begins, and the changes by graded hits.

    ``query`` is the labelled query of the same text, or None. Raises LabelsError for labels that cannot be read, and
    for a BEIR folder without an overlay or without the query.
    """

    def __init__(self, config: ExperimentConfig, text: str, progress: Progress) -> None:
        self.text = normalised(text).strip()
        self.form = labels_form(config)
        self.store = label_files.label_store(config, progress, may_be_overlay=True)
        self._queries = self.store.labels.queries
        self.query = next((query for query in self._queries if query.text.strip() == self.text), None)
        if config.dataset.beir is not None and self.query is None:
            raise LabelsError(
                f"{config.dataset.beir} has no judged query {self.text!r}, and queries cannot be added to a BEIR "
                "folder; use corpus and queries in the config."
            )

    def graded(self, items: Sequence[Item]) -> list[Item]:
        """The same with the highest grades that labels have already."""
        return [replace(item, hit=replace(item.hit, grade=self._grade_of(item.hit))) for item in items]

    def _grade_of(self, hit: FoundText) -> int | None:
        return max((label.relevance for label in self._labels_of(hit)), default=None)

    def _labels_of(self, hit: FoundText) -> Iterator[Judgment]:
        by_content, by_document = self.form == "content", self.form == "document"
        labels = self.query.relevant_docs if self.query else ()
        return (label for label in labels if speaks_of(label, hit, by_content=by_content, by_document=by_document))

    def group_of(self, hit: FoundText, quote: str | None) -> str:
        """The group of the labels of ``hit``, of which ``quote`` answers; the name for a new one if they have none."""
        named = next((label.group for label in self._labels_of(hit) if label.group is not None), None)
        label = judged(self.form, "", hit, 1, quote)
        return named or group_like(label.doc if label.quote is None else f"{label.doc}: {label.quote}")

    @property
    def has_groups(self) -> bool:
        """True if labels of the query may be in groups."""
        return not isinstance(self.store.text, OverlayText) and not (self.query and self.query.ordered)

    def changes(
        self, hits: Sequence[FoundText], marks: Marks, *, name: str | None = None, tags: Sequence[str] = ()
    ) -> list[Change]:
        """The changes of the labels by the ``marks`` of ``hits``.

        A new query has the id ``name``, or an id from its text. Raises InputError for passages that are not in their
        hit.
        """
        by_rank, grades, quotes, groups = {hit.rank: hit for hit in hits}, marks.grades, marks.quotes, marks.groups
        faults = [f"the passage of hit {number} comes without a grade." for number in quotes.keys() - grades.keys()]
        faults += [f"the group of hit {number} comes without a grade." for number in groups.keys() - grades.keys()]
        faults += [
            f"the passage {passage!r} is not in the text of hit {number}; it must be verbatim."
            for number, passage in quotes.items()
            if not is_in(passage, by_rank[number].text or "")
        ]
        highest = max([MOST_KEY, *(label.relevance for query in self._queries for label in query.relevant_docs)])
        faults += [
            f"hit {number} has the grade {grade}, above {highest} and above all grades of the labels; is it one?"
            for number, grade in grades.items()
            if grade > highest
        ]
        if not grades and not faults:
            faults.append("no hit was graded.")
        InputError.raise_any(faults)
        self._refuse_name(name, tags)
        query = self.query.id if self.query else name or new_id(self.text, {query.id for query in self._queries})
        new: list[Change] = [] if self.query else [NewQuery(query, self.text, tuple(tags))]
        known = self.query.relevant_docs if self.query else ()
        return [*new, *beside(known, self._judgments(query, by_rank, marks), self.form)]

    def _judgments(self, query: str, hits: Mapping[int, FoundText], marks: Marks) -> list[Grade]:
        """The judgments of the graded ``hits``: of the passage that is named, else of the labelled passages in the hit,
        else of all of its text.

        A label in several hits gets the highest of their grades. A hit with a part of a passage does not lower it.
        """
        judgments: dict[Grade, Grade] = {}
        for number, grade in sorted(marks.grades.items()):
            hit, quote = hits[number], marks.quotes.get(number)
            new = replace(judged(self.form, query, hit, grade, quote), group=marks.groups.get(number))
            is_any = quote is None and self.form != "document"
            passages = [label for label in self._labels_of(hit) if is_any and _is_passage(label, self.form)]
            changed = [label for label in passages if grade >= label.relevance or _is_whole_in(hit, label)]
            stay = [regraded(new, label, label.relevance) for label in passages]
            for judgment in [regraded(new, label, grade) for label in _to_change(changed, grade)] or stay or [new]:
                place = replace(judgment, relevance=0, group=None)
                judgments[place] = max(judgment, judgments.get(place, judgment), key=attrgetter("relevance"))
        return list(judgments.values())

    def refuse(self, name: str | None, tags: Sequence[str]) -> None:
        """Raise InputError for an invalid id, and LabelsError for labels that do not fit the documents, before anything
        is graded.
        """
        self._refuse_name(name, tags)
        self.store.resolved(self.store.labels)

    @property
    def queries(self) -> int | None:
        """The number of queries in the labels now; None for an overlay."""
        labels = self.store.text.labels
        return None if labels is None else len(labels.queries)

    def _refuse_name(self, name: str | None, tags: Sequence[str]) -> None:
        if self.query is not None and (name not in (None, self.query.id) or tags):
            raise InputError(f"the text is that of query {self.query.id!r}; it has an id, and its tags stay its own.")
        if self.query is None and any(name == query.id for query in self._queries):
            raise LabelsError(Fault(str(self.store.text.file), message=f"query {name!r} is there already."))

    def write(self, changes: Sequence[Change], who: str) -> list[label_files.Done]:
        """Write ``changes`` into the labels, or the overlay, if they fit the documents. Raises LabelsError."""
        try:
            return self.store.write(changes, who)
        except label_files.LabelsConflictError as error:
            again = Fault(error.faults[-1].file, message="Look at what is there now, and label these queries again.")
            raise label_files.LabelsConflictError(*error.faults, again) from error


def labels_form(config: ExperimentConfig) -> Form:
    """The form of the labels of ``config``; the usual form if they cannot be read."""
    dataset, labels = config.dataset, PromptQueries(())
    if dataset.beir is not None:
        return "document"
    with suppress(LabelsError):
        labels = LabelsText.read(dataset.queries or "").labels or labels
    return form_of(labels.queries, by_content=dataset.match == "content", unit=config.evaluators.unit)


def pooled(found: Mapping[str, Sequence[FoundText]], form: Form, top: int) -> list[Item]:
    """The ``top`` best hits of all settings, each document or passage once, numbered from 1, highest ranks first.

    If labels name passages (``form``), hits of a document are one passage if they share half of the shorter one, as
    chunks of several sizes do. Scores of several settings are not comparable, and are left out.
    """
    ranked = [(hit.rank, place, name, hit) for place, (name, hits) in enumerate(found.items()) for hit in hits]
    items: list[Item] = []
    of_document: dict[str, list[Item]] = {}
    for rank, _, name, hit in sorted(ranked, key=lambda row: row[:2]):
        known = of_document.setdefault(hit.doc, [])
        item = next((item for item in known if form == "document" or _shares_half(item.hit, hit)), None)
        if item is None:
            item = Item(replace(hit, rank=len(items) + 1, score=hit.score if len(found) == 1 else None))
            items.append(item)
            known.append(item)
        item.found_by.setdefault(name, rank)
    return items[:top]


def further(
    shown: Sequence[FoundText], found: Mapping[str, Sequence[FoundText]], form: Form, top: int
) -> list[FoundText]:
    """The best hits of all settings, as ``pooled``, without those that were ``shown``; numbered after these."""
    best = [item.hit for item in pooled(found, form, top)]
    known = {"shown": [replace(hit, rank=0) for hit in shown], "best": best}
    return [item.hit for item in pooled(known, form, len(shown) + top)[len(shown) :]]


def _shares_half(one: FoundText, other: FoundText) -> bool:
    if one.start is None or one.end is None or other.start is None or other.end is None:
        return (one.start, one.end) == (other.start, other.end)
    shared = min(one.end, other.end) - max(one.start, other.start)
    return shared * 2 >= min(one.end - one.start, other.end - other.start)


def judged(
    form: Form, query: str, hit: FoundText | TextToGrade, grade: int, passage: str | None = None, at: int | None = None
) -> Grade:
    """The judgment that the ``grade`` of a text becomes in labels of that ``form``.

    ``passage`` is the part of the text that answers, and ``at`` its place there, by default its only place. Raises
    InputError for an empty text if labels quote.
    """
    text = hit.text or ""
    if form == "document" and passage is None:
        return Grade(query, hit.doc, grade)
    quote = (passage or text).strip()
    if not quote:
        raise InputError(f"the text of {hit.doc!r} is empty and cannot be quoted; judge it in labels by document.")
    if form == "content":
        return Grade(query, quote, grade)
    if at is None and text.count(quote) == 1:
        at = text.index(quote)
    if at is None or hit.start is None:
        return Grade(query, hit.doc, grade, quote)
    return Grade(query, hit.doc, grade, quote, hit.start + at, hit.start + at + len(quote))


def new_id(text: str, taken: Collection[str]) -> str:
    """An id for the query ``text``: its first words, in small letters, and a number where that is taken."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    slug = "-".join(re.findall(r"\w+", plain)[:_WORDS])[:60].strip("-") or "query"
    number, name = 2, slug
    while name in taken:
        name, number = f"{slug}-{number}", number + 1
    return name


def form_of(queries: Iterable[Query], *, by_content: bool, unit: Unit) -> Form:
    """The form of the labels of ``queries``; without labels, the form in which they are scored."""
    if by_content:
        return "content"
    labels = [label for query in queries for label in query.relevant_docs if label.relevance > 0]
    quoted = sum(label.quote is not None or bool(label.spans) for label in labels)
    return "quote" if unit == "span" or quoted * 2 > len(labels) else "document"


def parse_marks(
    texts: Iterable[str], option: str, kind: Callable[[str], Mark], *, last: bool = False
) -> dict[str, Mark]:
    """The marks in texts such as ``1=2``, by the number or document of the hit. Raises InputError.

    With ``last`` the last equals sign is the separator, since a document id may have one.
    """
    marks: dict[str, Mark] = {}
    faults = []
    for text in texts:
        key, equals, value = (part.strip() for part in (text.rpartition("=") if last else text.partition("=")))
        if not (equals and key and value):
            message = f"{text!r} must be written HIT=..., the number or the document of a hit first: 1=2."
            faults.append(Fault(option, message=message))
        elif key in marks:
            faults.append(Fault(option, message=f"hit {key} is graded twice."))
        else:
            try:
                marks[key] = kind(value)
            except ValueError:
                faults.append(Fault(option, message=f"the grade {value!r} must be a whole number."))
    InputError.raise_any(faults)
    return marks


def by_number(items: Sequence[Item], marks: Mapping[str, Mark]) -> dict[int, Mark]:
    """``marks`` by the number of the hit that each key means. Raises InputError for keys that mean none, or several."""
    numbered: dict[int, Mark] = {}
    faults = []
    for key, mark in marks.items():
        named = [item.hit.rank for item in items if item.hit.doc == key]
        numbers = [int(key)] if key.isdecimal() and 1 <= int(key) <= len(items) else named
        if len(numbers) > 1:
            listed = ", ".join(map(str, numbers))
            faults.append(f"{key} is the document of hits {listed}; give the number of one.")
        elif not numbers:
            faults.append(
                f"{key!r} is not among hits 1 to {len(items)}. Show more with --top, or add the label to the file."
            )
        elif numbers[0] in numbered:
            faults.append(f"hit {numbers[0]} is graded twice.")
        else:
            numbered[numbers[0]] = mark
    InputError.raise_any(faults)
    return numbered


def beside(known: Sequence[Judgment], grades: Sequence[Grade], form: Form) -> Iterator[Grade]:
    """The new ``grades`` of a query, and the changes of other labels that they require.

    A passage that is judged already gets the new grade, however its label spells it. A label of a whole document has
    the highest new grade of its passages; lower grades are left out. If documents are judged and ``known`` has passages
    alone, these are changed until their highest grade is the new grade of the document.
    """
    highest: dict[str, int] = {}
    for new in grades:
        highest[new.doc] = max(highest.get(new.doc, new.relevance), new.relevance)
    for new in grades:
        own = [label for label in known if form == "content" or label.doc == new.doc]
        same = [label for label in own if _is_same(label, new, form)]
        has_whole = not all(_is_passage(label, form) for label in own)
        is_whole = form != "content" and (has_whole or (form == "document" and new.quote is None))
        relevance = highest[new.doc] if is_whole else new.relevance
        changed = own if is_whole else same
        if is_whole and own and not has_whole:  # only passages that keep the highest from being the new grade
            changed = _to_change(own, relevance)
        yield from (regraded(new, label, relevance) for label in changed)
        if not changed or (not same and new.quote is not None and new.relevance == highest[new.doc]):
            yield new


def _is_passage(label: Judgment, form: Form) -> bool:
    return form == "content" or label.quote is not None or bool(label.spans)


def _is_whole_in(hit: FoundText, label: Judgment) -> bool:
    start, end = hit.start or 0, hit.end
    return end is None or all(start <= span.start and span.end <= end for span in label.spans)


def _to_change(labels: Sequence[Judgment], relevance: int) -> list[Judgment]:
    """The labels whose change to ``relevance`` makes it the highest grade of all."""
    best = max((label.relevance for label in labels), default=relevance)
    return [label for label in labels if label.relevance > relevance or label.relevance == best <= relevance]


def regraded(new: Grade, label: Judgment, relevance: int) -> Grade:
    """The change of a label to ``relevance``, named as the file has it."""
    start, end = (label.spans[0].start, label.spans[0].end) if label.spans else (None, None)
    return replace(new, doc=label.doc, relevance=relevance, quote=label.quote, start=start, end=end)


def _is_same(label: Judgment, new: Grade, form: Form) -> bool:
    """True if a label judges the graded passage; under ``content`` equal words are enough."""
    if form == "content":
        return _words(label.doc) == _words(new.doc)
    starts = [span.start for span in label.spans]
    if label.quote is None:
        return bool(starts) and [(span.start, span.end) for span in label.spans] == [(new.start, new.end)]
    if new.quote is None or _words(label.quote) != _words(new.quote):
        return False
    return not starts or new.start in (None, *starts)


def _words(passage: str) -> list[str]:
    return normalised(passage).casefold().split()
