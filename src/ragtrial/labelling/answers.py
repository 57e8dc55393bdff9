"""Search hits, graded by a person, as labels of the query."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from ragtrial.config import ExperimentConfig
from ragtrial.dataset.datasets import beir_labels
from ragtrial.dataset.locating import is_in
from ragtrial.dataset.resolution import resolve
from ragtrial.dataset.texts import normalised
from ragtrial.errors import Fault, InputError, LabelsError
from ragtrial.labelling.changes import Change, Done, Form, Grade, NewQuery, query_of
from ragtrial.labelling.overlay import OverlayText, read_overlay_text
from ragtrial.labelling.worklist import TextToGrade
from ragtrial.labelling.write_back import LabelsConflictError, LabelsText, read_labels_text, write_back
from ragtrial.pipeline.corpus import Corpus
from ragtrial.progress import Progress, Silent
from ragtrial.records import FoundText, Judgment, PromptQueries, Query, Unit

Mark = TypeVar("Mark")

NO_TEXT = "this text is empty, and the labels name passages; leave it out."
"""Why an answer cannot be graded."""

_WORDS = 6
_MOST_KEY = 9
"""The highest grade that one key gives: a higher one in labels that have none so high is a slip."""


@dataclass(frozen=True)
class Added:
    """A query with judgments that were written to ``file``; ``is_new`` if it was not there before."""

    file: Path
    query: str
    is_new: bool
    done: tuple[Done, ...]
    queries: int | None


@dataclass(frozen=True)
class Item:
    """One thing to grade among what settings found: ``hit.rank`` is its number, ``found_by`` its best rank in each."""

    hit: FoundText
    found_by: Mapping[str, int]


class AnswerSheet:
    """The labels of a config when a search begins, and the changes by graded hits.

    ``query`` is the labelled query of the same text, or None. Raises LabelsError for labels that cannot be read, and
    for a BEIR folder without an overlay or without the query.
    """

    def __init__(self, config: ExperimentConfig, text: str) -> None:
        self._config = config
        self.text = normalised(text).strip()
        options = config.dataset
        if options.beir is not None:
            if options.overlay is None:
                raise LabelsError("a BEIR folder stays as it is; name a file for labels of your own: dataset.overlay.")
            self._base: LabelsText | OverlayText = read_overlay_text(options.overlay)
            laid = self._base.file if self._base.content else None
            labels = beir_labels(Path(options.beir), options.split or "test", laid).labels
        else:
            self._base = read_labels_text(options.queries or "")
            labels = self._base.labels or PromptQueries(())
        self._labels = labels
        self.query = next((query for query in labels.queries if query.text.strip() == self.text), None)
        if options.beir is not None and self.query is None:
            raise LabelsError(
                f"{options.beir} has no judged query {self.text!r}, and queries cannot be added to a BEIR folder; "
                "use corpus and queries in the config."
            )
        by_passage = config.dataset.match == "content"
        self.form: Form = (
            "document"
            if options.beir is not None
            else form_of(labels.queries, by_content=by_passage, unit=config.evaluators.unit)
        )

    def graded(self, items: Sequence[Item]) -> list[Item]:
        """The same with the grades that labels have already."""
        return [replace(item, hit=replace(item.hit, grade=self._grade_of(item.hit))) for item in items]

    def changes(
        self,
        hits: Sequence[FoundText],
        grades: Mapping[int, int],
        quotes: Mapping[int, str] | None = None,
        *,
        name: str | None = None,
        tags: Sequence[str] = (),
    ) -> list[Change]:
        """The changes of the labels by the ``grades`` of ``hits``, which are given by the numbers of the hits.

        ``quotes`` are verbatim passages of hits that answer, instead of the whole text. A new query has the id
        ``name``, or an id from its text. Raises InputError for passages that are not in their hit.
        """
        by_rank, quotes = {hit.rank: hit for hit in hits}, dict(quotes or {})
        faults = [f"the passage of hit {number} comes without a grade." for number in quotes.keys() - grades.keys()]
        faults += [
            f"the passage {passage!r} is not in the text of hit {number}; it must be verbatim."
            for number, passage in quotes.items()
            if not has_passage(by_rank[number], passage)
        ]
        known = [label.relevance for query in self._labels.queries for label in query.relevant_docs]
        highest = max([_MOST_KEY, *known])
        faults += [
            f"hit {number} has the grade {grade}, above {highest} and above all grades of the labels; is it one?"
            for number, grade in grades.items()
            if grade > highest
        ]
        if not grades and not faults:
            faults.append("no hit was graded.")
        if faults:
            raise InputError(*faults)
        self._refuse_name(name, tags)
        query = self.query.id if self.query else name or new_id(self.text, {one.id for one in self._labels.queries})
        new: list[Change] = [] if self.query else [NewQuery(query, self.text, tuple(tags))]
        made = [judged(self.form, query, by_rank[number], grade, quotes.get(number))
                for number, grade in sorted(grades.items())]  # fmt: skip
        return [*new, *beside(self.query.relevant_docs if self.query else (), made, self.form)]

    def refuse(self, name: str | None = None, tags: Sequence[str] = (), progress: Progress | None = None) -> None:
        """Raise InputError for an invalid id, and LabelsError for labels that do not fit the documents, before anything
        is graded.
        """
        self._refuse_name(name, tags)
        if self._base.labels is not None:
            self._check(progress or Silent())(self._base.labels)

    def _refuse_name(self, name: str | None, tags: Sequence[str]) -> None:
        if self.query is not None and (name not in (None, self.query.id) or tags):
            raise InputError(f"the text is that of query {self.query.id!r}; it has an id, and its tags stay its own.")
        if self.query is None and any(name == one.id for one in self._labels.queries):
            raise LabelsError(Fault(str(self._base.file), message=f"query {name!r} is there already."))

    def write(self, changes: Sequence[Change], who: str, progress: Progress | None = None) -> Added:
        """Write ``changes`` into the labels, or the overlay, if they fit the documents. Raises LabelsError."""
        try:
            written, done = write_back(self._base, changes, who, check=self._check(progress or Silent()))
        except LabelsConflictError as error:
            again = Fault(error.faults[-1].file, message="Look at what is there now, and label these queries again.")
            raise LabelsConflictError(*error.faults, again) from error
        is_new = any(isinstance(one.change, NewQuery) for one in done)
        count = None if written.labels is None else len(written.labels.queries)
        return Added(written.file, query_of(changes[0]), is_new=is_new, done=tuple(done), queries=count)

    def _check(self, progress: Progress) -> Callable[[PromptQueries], object]:
        """A function that raises LabelsError for labels that do not fit the documents."""

        def check(labels: PromptQueries) -> object:
            config = self._config
            corpus = Corpus(config, progress)
            file = str(config.dataset.queries)
            return resolve(labels, corpus.library, config.dataset.match, file)

        return check

    def _grade_of(self, hit: FoundText) -> int | None:
        text = (hit.text or "").strip()
        labels = self.query.relevant_docs if self.query else ()
        met = [
            one.relevance
            for one in labels
            if (one.doc.strip() in text if self.form == "content" else one.doc == hit.doc)
            and (one.quote is None or self.form != "quote" or one.quote in text)
        ]
        return max(met, default=None)


def labels_form(config: ExperimentConfig) -> Form:
    """The form of the labels of ``config``; the usual form if they cannot be read."""
    options, unit = config.dataset, config.evaluators.unit
    if options.beir is not None:
        return "document"
    try:
        labels = read_labels_text(options.queries or "").labels
    except LabelsError:
        labels = None
    return form_of(labels.queries if labels else (), by_content=options.match == "content", unit=unit)


def pooled(found: Mapping[str, Sequence[FoundText]], form: Form, top: int) -> list[Item]:
    """The ``top`` best hits of all settings, each document or passage once, numbered from 1, highest ranks first.

    If labels name passages (``form``), hits of a document are one passage if they share half of the shorter one, as
    chunks of several sizes do. Scores of several settings are not comparable, and are left out.
    """
    placed = [(hit.rank, place, name, hit) for place, (name, row) in enumerate(found.items()) for hit in row]
    pools: list[_Pool] = []
    of_document: dict[str, list[_Pool]] = {}
    for _, _, name, hit in sorted(placed, key=lambda one: one[:2]):
        known = of_document.setdefault(hit.doc, [])
        pool = next((one for one in known if form == "document" or one.holds(hit)), None)
        if pool is None:
            pool = _Pool(hit)
            pools.append(pool)
            known.append(pool)
        pool.add(name, hit, widen=form != "document")
    kept = [(pool.whole if len(found) == 1 else replace(pool.whole, score=None), pool.found_by) for pool in pools[:top]]
    return [Item(replace(hit, rank=number), found_by) for number, (hit, found_by) in enumerate(kept, 1)]


class _Pool:
    """Hits that count as one item: the ``first``, and the ``whole`` of all that share half of it."""

    def __init__(self, first: FoundText) -> None:
        self.first = self.whole = first
        self.found_by: dict[str, int] = {}

    def holds(self, hit: FoundText) -> bool:
        return _shares_half(self.first, hit) or _shares_half(self.whole, hit)

    def add(self, setting: str, hit: FoundText, *, widen: bool) -> None:
        self.found_by.setdefault(setting, hit.rank)
        if widen and _shares_half(self.first, hit):
            self.whole = _union(self.whole, hit)


def _shares_half(one: FoundText, other: FoundText) -> bool:
    if one.start is None or one.end is None or other.start is None or other.end is None:
        return (one.start, one.end) == (other.start, other.end)
    shared = min(one.end, other.end) - max(one.start, other.start)
    return shared * 2 >= min(one.end - one.start, other.end - other.start)


def _union(one: FoundText, other: FoundText) -> FoundText:
    """``one`` with the text of another that overlaps it."""
    first, last = sorted((one, other), key=lambda hit: hit.start or 0)
    if first.end is None or last.start is None or last.end is None or last.end <= first.end:
        return replace(one, start=first.start, end=first.end, text=first.text)
    text = (first.text or "") + (last.text or "")[first.end - last.start :]
    return replace(one, start=first.start, end=last.end, text=text)


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


def has_passage(hit: FoundText | TextToGrade, passage: str) -> bool:
    """True if the text has the passage, found as quotes of labels are."""
    return is_in(passage, hit.text or "")


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


def parse_marks(texts: Iterable[str], option: str, *, last: bool = False) -> dict[str, str]:
    """The marks in texts such as ``1=2``, by the number or document of the hit. Raises InputError.

    With ``last`` the last equals sign is the separator, since a document id may have one.
    """
    found: dict[str, str] = {}
    faults = []
    for text in texts:
        key, equals, said = (part.strip() for part in (text.rpartition("=") if last else text.partition("=")))
        if not (equals and key and said):
            message = f"{text!r} must be written HIT=..., the number or the document of a hit first: 1=2."
            faults.append(Fault(option, message=message))
        elif key in found:
            faults.append(Fault(option, message=f"hit {key} is graded twice."))
        else:
            found[key] = said
    if faults:
        raise InputError(*faults)
    return found


def parse_grades(texts: Iterable[str], option: str = "--grade") -> dict[str, int]:
    """The grade of each hit by its number or document. Raises InputError."""
    found = parse_marks(texts, option, last=True)
    wrong = [said for said in found.values() if not re.fullmatch(r"-?\d+", said)]
    if wrong:
        raise InputError(*(Fault(option, message=f"the grade {said!r} must be a whole number.") for said in wrong))
    return {key: int(said) for key, said in found.items()}


def by_number(items: Sequence[Item], marks: Mapping[str, Mark]) -> dict[int, Mark]:
    """``marks`` by the number of the hit that each key means. Raises InputError for keys that mean none, or several."""
    found: dict[int, Mark] = {}
    faults = []
    for key, mark in marks.items():
        named = [one.hit.rank for one in items if one.hit.doc == key]
        numbers = [int(key)] if key.isdecimal() and 1 <= int(key) <= len(items) else named
        if len(numbers) > 1:
            listed = ", ".join(map(str, numbers))
            faults.append(f"{key} is the document of hits {listed}; give the number of one.")
        elif not numbers:
            faults.append(
                f"{key!r} is not among hits 1 to {len(items)}. Show more with --top, or add the label with "
                "`ragtrial labels add`."
            )
        elif numbers[0] in found:
            faults.append(f"hit {numbers[0]} is graded twice.")
        else:
            found[numbers[0]] = mark
    if faults:
        raise InputError(*faults)
    return found


def beside(known: Sequence[Judgment], made: Sequence[Grade], form: Form) -> Iterator[Grade]:
    """The ``made`` grades for a query, and the changes of other labels that they require.

    A passage that is judged already gets the new grade, however its label spells it. A label of a whole document has
    the highest new grade of its passages; lower grades are left out. If documents are judged and ``known`` has passages
    alone, these are changed until their highest grade is the new grade of the document.
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
    """The passages of a document that must change, so that their highest grade is the new grade."""
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
    """True if a label judges the graded passage; under ``content`` equal words are enough."""
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
