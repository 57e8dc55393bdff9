"""Resolve labels: every judgment becomes a document of the library and, if it has a passage, spans of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from ragtrial.dataset.faults import MOST_FAULTS, truncated
from ragtrial.dataset.labels import label_places
from ragtrial.dataset.library import Library
from ragtrial.dataset.locating import LOST, MATCH_KINDS, Locate, MatchKind, PassageQuery, how_alike, locate_all, nearest
from ragtrial.dataset.texts import normalised, short, text_hash
from ragtrial.errors import Fault, LabelsError, counted, did_you_mean, listed
from ragtrial.records import (
    DRAFTED,
    NOT_REVIEWED,
    UNANSWERABLE,
    Judgment,
    PromptQueries,
    Query,
    ReportWarning,
    Span,
    highest_grades,
)

Match = Literal["id", "content"]
LOST_ANSWERS = "answers_not_found.md"
"""The list of answers that `ragtrial init` did not find, next to the labels."""

_MOST_NEAREST = 5
_MOST_PLACES = 3
_MOST_QUOTED = 3
"""Sentences of one kind of warning; the others are counted."""
_LONGEST_ID = 160


@dataclass(frozen=True, slots=True)
class Resolution:
    """How the passage of one label was found.

    ``docs`` are the documents that hold it: one, or at least one under ``match: content``. ``quote`` is the passage in
    the label, None for offsets alone. ``how`` is a kind of ``PassageMatch``, or ``offsets``: not compared. ``places``
    counts the places that are the answer. ``moved`` says that the quote is no longer at the label's offsets,
    ``changed`` that the document was edited after the label was made.
    """

    query: str
    docs: tuple[str, ...]
    quote: str | None
    how: MatchKind | Literal["offsets"]
    places: int
    moved: bool = False
    changed: bool = False

    @property
    def is_plain(self) -> bool:
        """True if the passage is verbatim in the expected place, once."""
        return self.how in ("exact", "offsets") and self.places == 1 and not self.moved and not self.changed


@dataclass(frozen=True)
class ResolvedLabels:
    """Labels with a document id in every ``doc`` and located quotes, and the warnings about them.

    ``resolutions`` has every label with a passage, in the order of the labels, before equal labels are merged.
    """

    labels: PromptQueries
    warnings: tuple[ReportWarning, ...]
    resolutions: tuple[Resolution, ...] = ()


def resolve(
    labels: PromptQueries,
    library: Library,
    match: Match,
    file: str = "",
    threshold: int = 1,
    located: Locate = locate_all,
    places: Mapping[tuple[str, str], Fault] | None = None,
) -> ResolvedLabels:
    """Look every judgment of ``labels`` up in ``library``.

    Under ``match: id`` a judgment's ``doc`` is a document id and its quote is searched in that document; if the quote
    is at the judgment's own span, only that place counts. Under ``match: content`` ``doc`` is a passage, and becomes
    one judgment for each document that holds it, all in one group; ``located`` finds them. ``places`` has the judgments
    (query, document) that come from another file than ``file``, each with its place.

    Raises LabelsError with every unknown document, lost passage or quote, span outside its document or of an edited
    text, and conflicting grade.
    """
    resolver = _Resolver(labels, library, match, file, located, places or {})
    queries = []
    for query in labels.queries:
        labelled = enumerate(query.relevant_docs)
        judgments = [found for number, label in labelled for found in resolver.resolved(query.id, label, number)]
        if query.ordered:  # an order has no alternatives
            judgments = [replace(judgment, group=None) for judgment in judgments]
        merged = resolver.merged(query.id, judgments)
        queries.append(query if merged == query.relevant_docs else replace(query, relevant_docs=merged))
        if UNANSWERABLE in query.tags and any(judgment.relevance >= threshold for judgment in query.relevant_docs):
            message = f"query {query.id!r} has the tag {UNANSWERABLE!r} and relevant documents; remove one."
            resolver.warn("tag-contradicts", message)
    resolver.raise_faults()
    shares = [unlabelled_share(labels, threshold, file), drafted_share([query.tags for query in labels.queries])]
    warnings = tuple(filter(None, [*resolver.warnings, *shares]))
    return ResolvedLabels(replace(labels, queries=tuple(queries)), warnings, tuple(resolver.resolutions))


class _Resolver:
    """Looks labels up one by one, and keeps faults and warnings in their order."""

    def __init__(
        self, labels: PromptQueries, library: Library, match: Match, file: str, located: Locate,
        places: Mapping[tuple[str, str], Fault],
    ) -> None:  # fmt: skip
        self._library, self._file, self._places = library, file, places
        self._by_content = match == "content"
        self._faults: list[tuple[str, PassageQuery | None, tuple[str, str, int]]] = []
        self._label = ("", "", -1)
        """The label that is looked up: its query, its document, and its number in the query."""

        self._noticed: dict[str, list[str]] = {}
        self._counts = Counter[str]()
        self.resolutions: list[Resolution] = []
        judgments = [judgment for query in labels.queries for judgment in query.relevant_docs]
        docs = {judgment.doc for judgment in judgments}
        self._refuse_other_labels(docs)
        sought = list(dict.fromkeys(query for judgment in judgments if (query := self._sought(judgment)) is not None))
        locate = located if self._by_content else locate_all
        self._located = dict(zip(sought, locate(sought, library), strict=True))

    def _refuse_other_labels(self, docs: Collection[str]) -> None:
        """Raise LabelsError if ``docs`` belong to other documents: one sentence instead of a thousand."""
        message = ""
        if self._by_content and docs and set(docs).issubset(self._library.ids):
            message = (
                "`match: content` says that `doc` holds a passage, and each label has the id of a document there, like "
                f"{_examples(docs)}. Did you mean `match: id`?"
            )
        elif not self._by_content and len(docs) > 1 and all(self._library.position(doc) is None for doc in docs):
            hint = (
                "The labels hold passages: did you mean `match: content`?"
                if sum(len(doc.split()) > 8 for doc in docs) > len(docs) / 2
                else "Are these the labels of another data set, or is `dataset.corpus` another folder?"
            )
            message = (
                f"none of the {len(docs):,} judged documents is in the corpus "
                f"({counted(len(self._library), 'document')}). Labels have ids like {_examples(docs)}; the corpus has "
                f"ids like {_examples(self._library.ids)}. {hint}"
            )
        if message:
            raise LabelsError(Fault(self._file, message=message))

    def _sought(self, judgment: Judgment) -> PassageQuery | None:
        """The passage of a judgment, None if it has none or its document is unknown."""
        if self._by_content:
            return PassageQuery(normalised(judgment.doc))
        position = self._library.position(judgment.doc)
        known = judgment.quote is not None and position is not None
        return PassageQuery(normalised(judgment.quote or ""), position) if known else None

    def warn(self, code: str, message: str) -> None:
        """Count a sentence of this kind, and keep the first different sentences."""
        self._counts[code] += 1
        messages = self._noticed.setdefault(code, [])
        if len(messages) < _MOST_QUOTED and message not in messages:
            messages.append(message)

    @property
    def warnings(self) -> Iterator[ReportWarning]:
        """One warning of each kind: its first sentences, and the count of the others."""
        for code, messages in self._noticed.items():
            left = self._counts[code] - len(messages)
            message = " ".join([*messages, *([f"And {left:,} more."] if left else [])])
            yield ReportWarning(code, message, may_change_verdict=code == "unknown-documents")

    def _refuse(self, message: str, lost: PassageQuery | None = None) -> Sequence[Judgment]:
        """Note a fault of the label; for a ``lost`` passage the nearest text will be shown."""
        self._faults.append((message, lost, self._label))
        return []

    def raise_faults(self) -> None:
        """Raise LabelsError if there are faults, with the text nearest to the first lost passages."""
        if not self._faults:
            return
        first, lines = self._faults[:MOST_FAULTS], label_places(Path(self._file))
        lost = [passage for _, passage, _ in first[:_MOST_NEAREST] if passage is not None]
        near = dict(zip(lost, map(self._elsewhere, lost, nearest(lost, self._library)), strict=True))
        faults = []
        for message, passage, (query, doc, number) in first:
            place = self._places.get((query, doc)) or lines.get((query, number)) or Fault(self._file)
            faults.append(replace(place, message=message + (near.get(passage, "") if passage else "")))
        raise LabelsError(*truncated(faults, self._file, len(self._faults)))

    def _elsewhere(self, lost: PassageQuery, near: str) -> str:
        """The sentence about the nearest text, or about another document that has the passage itself."""
        match = locate_all([PassageQuery(lost.text)], self._library)[0] if lost.among is not None else LOST
        documents = dict.fromkeys(repr(self._library.ids[place.document]) for place in match.places)
        return f" It is in {listed(documents, 3)}." if documents else near

    def merged(self, query: str, judgments: list[Judgment]) -> tuple[Judgment, ...]:
        """The judgments without repetitions; two grades for one document and passage are a fault."""
        kept: dict[str, dict[tuple[tuple[Span, ...], str | None], Judgment]] = {}
        for judgment in judgments:
            doc = judgment.doc
            of_document = kept.setdefault(doc, {})
            # A label without a passage judges the whole document, and so every passage of it.
            rivals = [
                rival
                for (spans, group), rival in of_document.items()
                if (not judgment.spans or spans in (judgment.spans, ()))
                and (group == judgment.group or min(rival.relevance, judgment.relevance) < 0)
            ]
            grades = sorted({rival.relevance for rival in [*rivals, judgment]})
            if len(grades) > 1:
                given = f"query {query!r} gives {doc!r} the grades {' and '.join(map(str, grades))}"
                self._refuse(f"{given}; one document (or one passage of it) has one grade.")
            elif (judgment.spans, judgment.group) in of_document:
                self.warn("same-label", f"query {query!r} judges {doc!r} twice, with one grade.")
            of_document.setdefault((judgment.spans, judgment.group), judgment)
        return tuple(judgment for of_document in kept.values() for judgment in of_document.values())

    def resolved(self, query: str, judgment: Judgment, number: int) -> Sequence[Judgment]:
        """The judgment with its places, for each document that it judges; ``number`` is its position in the query."""
        self._label = (query, judgment.doc, number)
        if self._by_content:
            return self._passage_anywhere(query, judgment)
        position = self._library.position(judgment.doc)
        if position is None and judgment.relevance <= 0:
            return self._left_out(query, judgment)
        if position is None:
            near = did_you_mean(judgment.doc, self._library.ids) if len(self._faults) < _MOST_NEAREST else ""
            named = repr(judgment.doc if len(judgment.doc) <= _LONGEST_ID else short(judgment.doc))
            count = counted(len(self._library), "document")
            return self._refuse(f"query {query!r} judges {named}, which is not in the corpus ({count}).{near}")
        needs_text = judgment.text_hash is not None or judgment.spans  # a library may have names alone
        doc, text = self._library.ids[position], self._library.text(position) if needs_text else ""
        judgment = judgment if judgment.doc == doc else replace(judgment, doc=doc)
        changed = judgment.text_hash is not None and judgment.text_hash != text_hash(text)
        if sought := self._sought(judgment):
            return self._with_quote(query, judgment, sought, text, changed=changed)
        if not judgment.spans:
            if changed:
                message = f"{doc!r} was changed since the label of query {query!r} was made; it still counts."
                self.warn("text-changed", message)
            return [judgment]
        places = f"query {query!r} judges {_shown(judgment.spans)} of {doc!r}"
        if changed and judgment.relevance <= 0:
            return self._left_out(query, judgment, f"{_shown(judgment.spans)} of ", "was changed since")
        if changed:
            step = "add the quote, or make the label again"
            return self._refuse(f"{places}, which was changed since this label was made; {step}.")
        if not all(0 <= span.start < span.end <= len(text) for span in judgment.spans):
            step = "offsets count the characters of its normalised text from 0"
            return self._refuse(f"{places}, which has {counted(len(text), 'character')}; {step}.")
        self.resolutions.append(Resolution(query, (doc,), None, "offsets", len(judgment.spans)))
        return [judgment]

    def _with_quote(
        self, query: str, judgment: Judgment, sought: PassageQuery, text: str, *, changed: bool
    ) -> Sequence[Judgment]:
        doc, quote, located = judgment.doc, judgment.quote or "", self._located[sought]
        if located.how == "lost" and judgment.relevance <= 0:
            return self._left_out(query, judgment, f"{short(quote, 60)!r} of ", "is not there")
        if located.how == "lost":
            since = ", which was changed since this label was made" if changed else ""
            return self._refuse(f"query {query!r} quotes {short(quote)!r}, which is not in {doc!r}{since}.", sought)
        how: MatchKind = located.how
        spans = tuple(place.span for place in located.places)
        stands = _how_at(judgment.spans, sought.text, text)
        if stands is not None:
            how, spans = stands, judgment.spans
        moved = spans != judgment.spans != ()
        quoted = f"the quote {short(quote, 60)!r} of query {query!r}"
        if moved:
            message = (
                f"{quoted} is not at {_shown(judgment.spans)} of {doc!r}, where its label says; it was found at "
                f"{_shown(spans)}, and that counts."
            )
            self.warn("label-moved", message)
        if changed:
            message = f"{doc!r} was changed since the label of query {query!r} was made; its quote is still there."
            self.warn("text-changed", message)
        if len(spans) > 1:
            message = f"{quoted} occurs {len(spans)} times in {doc!r}; each place counts as the answer."
            self.warn("quote-twice", message)
        self.resolutions.append(Resolution(query, (doc,), quote, how, len(spans), moved, changed))
        return [replace(judgment, spans=spans)]

    def _left_out(
        self, query: str, judgment: Judgment, part: str = "", missing: str = "is not in the corpus"
    ) -> Sequence[Judgment]:
        """No judgment, with a warning: nothing can find the document or passage, and its grade adds to no score."""
        named = f"query {query!r} gives {part}{short(judgment.doc, 60)!r} the grade {judgment.relevance}"
        self.warn("unknown-documents", f"{named}, and it {missing}; the label has no effect.")
        return []

    def _passage_anywhere(self, query: str, judgment: Judgment) -> Sequence[Judgment]:
        """The judgment of a passage, for each document that has it."""
        named = f"the passage {short(judgment.doc)!r} of query {query!r}"
        if judgment.spans or judgment.text_hash is not None:
            given = "start and end" if judgment.spans else "text_hash"
            step = f"leave {given} out, or write `match: id`, the document's id in doc and the passage in quote"
            return self._refuse(f"{named} has {given}, which belongs to `match: id`; {step}.")
        sought = PassageQuery(normalised(judgment.doc))
        located = self._located[sought]
        if located.how == "lost" and judgment.relevance <= 0:
            return self._left_out(query, judgment)
        if located.how == "lost":
            return self._refuse(f"{named} is in no document ({counted(len(self._library), 'document')}).", sought)
        spans_in: dict[str, list[Span]] = {}
        for place in located.places:
            spans_in.setdefault(self._library.ids[place.document], []).append(place.span)
        if len(located.places) > 1:
            message = (
                f"the passage {short(judgment.doc, 60)!r} of query {query!r} is in {len(located.places)} places of "
                f"{counted(len(spans_in), 'document')}; any one of them is the answer."
            )
            self.warn("passage-twice", message)
        self.resolutions.append(Resolution(query, tuple(spans_in), judgment.doc, located.how, len(located.places)))
        quote = judgment.quote or judgment.doc
        group, first = judgment.group, located.places[0]
        if len(spans_in) > 1 and judgment.relevance >= 0:  # what must not be found must not be found anywhere
            group = group or f"{self._library.ids[first.document]} {first.span.start}-{first.span.end}"
        return [Judgment(doc, judgment.relevance, quote, tuple(spans), None, group) for doc, spans in spans_in.items()]


def _how_at(spans: Iterable[Span], quote: str, text: str) -> MatchKind | None:
    """The worst kind in which the pieces of a text are the quote; None without pieces, or if one is not."""
    hows = [how_alike(quote, text[span.start : span.end]) if span.end <= len(text) else None for span in spans]
    return None if None in hows else max(filter(None, hows), key=MATCH_KINDS.index, default=None)


def _shown(spans: Sequence[Span]) -> str:
    """``characters 3 to 10 and 20 to 27``."""
    places = [f"{span.start:,} to {span.end:,}" for span in spans[:_MOST_PLACES]]
    return f"characters {' and '.join(places)}{' and elsewhere' if len(spans) > _MOST_PLACES else ''}"


def _examples(names: Iterable[str]) -> str:
    return ", ".join(repr(short(name, 40)) for name in sorted(names)[:2])


def drafted_share(tags: Sequence[Collection[str]]) -> ReportWarning | None:
    """A warning about the drafted questions, by the tags of each question; None if there are none."""
    drafted = [own for own in tags if DRAFTED in own]
    if not drafted:
        return None
    reviewed, verb = sum(NOT_REVIEWED not in own for own in drafted), "was" if len(drafted) == 1 else "were"
    return ReportWarning.of_verdict(
        "drafted-questions",
        f"{len(drafted):,} of {counted(len(tags), 'question')} {verb} drafted by a model; people reviewed {reviewed:,} "
        f"of these ({reviewed / len(drafted):.0%}). Questions made from passages share their words, which favours "
        "lexical retrievers.",
    )


def unlabelled_sentence(queries: int, unlabelled: int) -> str:
    """The share of questions without a relevant document, its effect, and the way to change it."""
    have = "has" if unlabelled == 1 else "have"
    of_all = f"{unlabelled:,} of {counted(queries, 'question')} {have} no relevant document yet"
    ways = "label one, or add the tag `unanswerable` (in a table: `no` in a column `answerable`)"
    return f"{of_all} (searched, not scored): {ways}."


def unlabelled_share(labels: PromptQueries, threshold: int = 1, file: str = "") -> ReportWarning | None:
    """A note on the questions that have neither a relevant document nor the tag unanswerable; None without any.

    It names the list of answers that were not found when labels were written, if it is next to the labels' ``file``.
    """
    count = sum(
        UNANSWERABLE not in query.tags and all(judgment.relevance < threshold for judgment in query.relevant_docs)
        for query in labels.queries
    )
    message = unlabelled_sentence(len(labels.queries), count)
    if file and Path(file).with_name(LOST_ANSWERS).is_file():
        message += f" {LOST_ANSWERS}, next to the labels, has the answers that were not found in the documents."
    return ReportWarning("no-relevant", message) if count else None


def forbidden_warnings(queries: Sequence[Query]) -> list[ReportWarning]:
    """A warning about passages below grade 0 in documents that the same query grades higher, for scores of documents.

    A document counts by its highest grade, so forbidden@k cannot count these.
    """
    hidden = [
        f"{doc!r} for query {query.id!r}"
        for query in queries
        for doc, highest in highest_grades((label.doc, label.relevance) for label in query.relevant_docs).items()
        if highest >= 0 and any(label.relevance < 0 for label in query.relevant_docs if label.doc == doc)
    ]
    if not hidden:
        return []
    message = (
        f"forbidden@k does not count passages below grade 0 of documents that have a higher grade, too: "
        f"{listed(hidden, 3)}. Under `unit: span` it does."
    )
    return [ReportWarning("forbidden-not-counted", message)]
