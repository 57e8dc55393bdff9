"""Labels against documents: every judgment becomes a document of the library and, if it has a passage, spans of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ragtrial.dataset.library import Library
from ragtrial.dataset.passages import (
    MATCH_KINDS,
    Locate,
    MatchKind,
    PassageMatch,
    PassageQuery,
    how_alike,
    locate_all,
    nearest,
    short,
)
from ragtrial.dataset.texts import normalised, text_hash
from ragtrial.errors import Fault, LabelsError, did_you_mean
from ragtrial.records import Judgment, PromptQueries, Query, ReportWarning, Span, WarningCode

Match = Literal["id", "content"]
_FEW = 2  # one label that does not fit is a slip, not the labels of another data set
_MOST_FAULTS = 20
_MOST_NEAREST = 5  # nobody reads a hundred
_MOST_PLACES = 3
_LONGEST_ID = 160


@dataclass(frozen=True, slots=True)
class Resolution:
    """How the passage of one label was found.

    ``docs`` are the documents that hold it: one, or under ``match: content`` at least one. ``quote`` is the passage as
    the label has it, None where it has offsets alone. ``how`` is as of ``PassageMatch``, or ``offsets``: taken at
    its word. ``places`` counts the places that are the answer. ``moved``: the quote is no longer at the label's
    offsets. ``changed``: the text is not the one that the label was made for.
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
        """Whether there is nothing to tell: the passage stands where it should, verbatim, once."""
        return self.how in ("exact", "offsets") and self.places == 1 and not self.moved and not self.changed


@dataclass(frozen=True)
class ResolvedLabels:
    """Labels whose every ``doc`` is a document id and whose quotes are located, and what was noticed.

    ``resolutions`` has every label with a passage, in the order of the labels, before equal ones are merged.
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
) -> ResolvedLabels:
    """Look every judgment of ``labels`` up in ``library``.

    Under ``match: id`` a judgment's ``doc`` is a document id and its quote is searched in that document; a span that
    it has already is the one place that it means, where the quote still stands there. Under ``match: content`` it is a
    passage, and becomes one judgment for each document that holds it; ``located`` finds these, or remembers them.

    Raises LabelsError with every unknown document, passage or quote not found, span outside its document or of a text
    that has changed, and conflicting grade.
    """
    if match == "content":
        _refuse_ids_for_passages(labels, library, file)
    noticed = _Noticed(library)
    looked_up = _ById(labels, library, noticed) if match == "id" else _ByContent(labels, library, noticed, located)
    queries = []
    for query in labels.queries:
        judgments = [found for judgment in query.relevant_docs for found in looked_up.resolved(query.id, judgment)]
        queries.append(replace(query, relevant_docs=_merged(query, judgments, noticed)))
        if all(judgment.relevance < threshold for judgment in query.relevant_docs):
            noticed.warning(WarningCode.NO_RELEVANT, f"query {query.id!r} has no relevant documents.")
    faults = noticed.faults()
    if isinstance(looked_up, _ById) and not looked_up.knows_any:
        _refuse_labels_of_another_data_set(labels, library, faults)
    if faults:
        rest = len(faults) - _MOST_FAULTS
        more = [f"and {rest} more faults like these."] if rest > 0 else []
        raise LabelsError(*(Fault(file, message=fault) for fault in [*faults[:_MOST_FAULTS], *more]))
    return ResolvedLabels(replace(labels, queries=tuple(queries)), tuple(noticed.warnings), tuple(noticed.resolutions))


class _Noticed:
    """What is told of the labels, in their order."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._faults: list[tuple[str, PassageQuery | None]] = []
        self.warnings: list[ReportWarning] = []
        self.resolutions: list[Resolution] = []

    def fault(self, message: str, lost: PassageQuery | None = None) -> None:
        """A fault; of a passage that is lost, what is nearest to it will be told."""
        self._faults.append((message, lost))

    def warning(self, code: WarningCode, message: str) -> None:
        self.warnings.append(ReportWarning(code, message))

    def faults(self) -> list[str]:
        """The faults, the first of lost passages with what is nearest to them: found in one walk over the documents."""
        lost = [number for number, (_, one) in enumerate(self._faults[:_MOST_NEAREST]) if one is not None]
        near = nearest([one for _, one in self._faults[:_MOST_NEAREST] if one is not None], self._library)
        shown = dict(zip(lost, near, strict=True))
        return [message + shown.get(number, "") for number, (message, _) in enumerate(self._faults)]

    @property
    def is_early(self) -> bool:
        """Whether what comes next is among the first faults, which are told with suggestions."""
        return len(self._faults) < _MOST_NEAREST


class _ById:
    """Judgments that name documents, their quotes located together."""

    def __init__(self, labels: PromptQueries, library: Library, noticed: _Noticed) -> None:
        self._library = library
        self._noticed = noticed
        self._hashes: dict[int, str] = {}
        self.knows_any = False
        sought = list(
            dict.fromkeys(
                PassageQuery(normalised(judgment.quote), position)
                for query in labels.queries
                for judgment in query.relevant_docs
                if judgment.quote is not None and (position := self._library.position(judgment.doc)) is not None
            )
        )
        self._located = dict(zip(sought, locate_all(sought, library), strict=True))

    def resolved(self, query: str, judgment: Judgment) -> Sequence[Judgment]:
        position = self._library.position(judgment.doc)
        if position is None:
            near = did_you_mean(judgment.doc, self._library.positions) if self._noticed.is_early else ""
            self._noticed.fault(
                f"query {query!r} judges {_named(judgment.doc)}, which is not in the corpus "
                f"({len(self._library):,} documents).{near}"
            )
            return []
        self.knows_any = True
        judgment = replace(judgment, doc=self._library.ids[position])
        changed = judgment.text_hash is not None and judgment.text_hash != self._hash(position)
        if judgment.quote is None:
            return self._without_quote(query, judgment, position, changed=changed)
        sought = PassageQuery(normalised(judgment.quote), position)
        located = self._located[sought]
        if located.how == "lost":
            since = ", which was changed since this label was made" if changed else ""
            self._noticed.fault(
                f"query {query!r} quotes {short(judgment.quote)!r}, which is not in {judgment.doc!r}{since}.", sought
            )
            return []
        spans = tuple(place.span for place in located.places)
        how: MatchKind = located.how
        moved = False
        if judgment.spans:
            stands = _how_at(judgment.spans, sought.text, self._library.text(position))
            moved = stands is None
            how, spans = (how, spans) if stands is None else (stands, judgment.spans)
        self._tell(query, judgment, spans, moved=moved, changed=changed)
        self._noticed.resolutions.append(
            Resolution(query, (judgment.doc,), judgment.quote, how, len(spans), moved, changed)
        )
        return [replace(judgment, spans=spans)]

    def _hash(self, position: int) -> str:
        if position not in self._hashes:
            self._hashes[position] = text_hash(self._library.text(position))
        return self._hashes[position]

    def _without_quote(self, query: str, judgment: Judgment, position: int, *, changed: bool) -> Sequence[Judgment]:
        if not judgment.spans:
            if changed:
                self._noticed.warning(WarningCode.TEXT_CHANGED, _changed(query, judgment.doc) + "it still counts.")
            return [judgment]
        length = len(self._library.text(position))
        if changed:
            self._noticed.fault(
                f"query {query!r} judges {_shown(judgment.spans)} of {judgment.doc!r}, which was changed since this "
                "label was made; add the quote, or make the label again."
            )
        elif not all(0 <= span.start < span.end <= length for span in judgment.spans):
            self._noticed.fault(
                f"query {query!r} judges {_shown(judgment.spans)} of {judgment.doc!r}, which has {length:,} "
                "characters; offsets count the characters of its normalised text from 0."
            )
        else:
            self._noticed.resolutions.append(Resolution(query, (judgment.doc,), None, "offsets", len(judgment.spans)))
            return [judgment]
        return []

    def _tell(self, query: str, judgment: Judgment, spans: tuple[Span, ...], *, moved: bool, changed: bool) -> None:
        quoted = f"the quote {short(judgment.quote or '', 60)!r} of query {query!r}"
        if moved:
            self._noticed.warning(
                WarningCode.LABEL_MOVED,
                f"{quoted} is not at {_shown(judgment.spans)} of {judgment.doc!r}, where its label says; "
                f"it was found at {_shown(spans)}, and that counts.",
            )
        if changed:
            self._noticed.warning(WarningCode.TEXT_CHANGED, _changed(query, judgment.doc) + "its quote is still there.")
        if len(spans) > 1:
            self._noticed.warning(
                WarningCode.QUOTE_TWICE,
                f"{quoted} stands {len(spans)} times in {judgment.doc!r}; each place counts as the answer.",
            )


class _ByContent:
    """Judgments that name passages, located together in all documents."""

    def __init__(self, labels: PromptQueries, library: Library, noticed: _Noticed, located: Locate) -> None:
        self._library = library
        self._noticed = noticed
        passages = dict.fromkeys(judgment.doc for query in labels.queries for judgment in query.relevant_docs)
        found = located([PassageQuery(normalised(passage)) for passage in passages], library)
        self._located: dict[str, PassageMatch] = dict(zip(passages, found, strict=True))

    def resolved(self, query: str, judgment: Judgment) -> Sequence[Judgment]:
        named = f"the passage {short(judgment.doc)!r} of query {query!r}"
        if judgment.spans or judgment.text_hash is not None:
            given = "start and end" if judgment.spans else "text_hash"
            self._noticed.fault(
                f"{named} has {given}, which speaks of one document; under `match: content` the passage itself says "
                f"where it is: leave {given} out, or write `match: id`, the document's id in doc and the passage in "
                "quote."
            )
            return []
        located = self._located[judgment.doc]
        if located.how == "lost":
            self._noticed.fault(
                f"{named} is in none of {len(self._library):,} documents.", PassageQuery(normalised(judgment.doc))
            )
            return []
        found: dict[int, list[Span]] = {}
        for place in located.places:
            found.setdefault(place.document, []).append(place.span)
        if len(located.places) > 1:
            self._noticed.warning(
                WarningCode.PASSAGE_TWICE,
                f"the passage {short(judgment.doc, 60)!r} of query {query!r} stands in {len(located.places)} places of "
                f"{len(found)} documents; each counts as the answer.",
            )
        docs = tuple(self._library.ids[position] for position in found)
        self._noticed.resolutions.append(Resolution(query, docs, judgment.doc, located.how, len(located.places)))
        quote = judgment.quote or judgment.doc
        return [
            Judgment(doc, judgment.relevance, quote, tuple(spans))
            for doc, spans in zip(docs, found.values(), strict=True)
        ]


def _named(doc: str) -> str:
    """An id as it is written, white space at its ends and all; a long one, a passage perhaps, in short."""
    return repr(doc if len(doc) <= _LONGEST_ID else short(doc))


def _how_at(spans: Iterable[Span], quote: str, text: str) -> MatchKind | None:
    """How the pieces of a text are the quote, the least like it; None if one is not, or lies outside."""
    hows = [how_alike(quote, text[span.start : span.end]) if span.end <= len(text) else None for span in spans]
    found = [how for how in hows if how is not None]
    return max(found, key=MATCH_KINDS.index) if len(found) == len(hows) else None


def _shown(spans: Sequence[Span]) -> str:
    """``characters 3 to 10 and 20 to 27``."""
    places = [f"{span.start:,} to {span.end:,}" for span in spans[:_MOST_PLACES]]
    return f"characters {' and '.join(places)}{' and elsewhere' if len(spans) > _MOST_PLACES else ''}"


def _changed(query: str, doc: str) -> str:
    return f"{doc!r} was changed since the label of query {query!r} was made; "


def _merged(query: Query, judgments: list[Judgment], noticed: _Noticed) -> tuple[Judgment, ...]:
    """The judgments without repetitions; two grades for one document and passage are a fault."""
    kept: dict[str, dict[tuple[Span, ...], Judgment]] = {}
    for judgment in judgments:
        of_document = kept.setdefault(judgment.doc, {})
        # A label without a passage speaks of the whole document, and so of every passage of it.
        rivals = [of_document[spans] for spans in {judgment.spans, ()} if spans in of_document]
        if not judgment.spans:
            rivals = list(of_document.values())
        grades = sorted({one.relevance for one in rivals} | {judgment.relevance})
        if len(grades) > 1:
            noticed.fault(
                f"query {query.id!r} gives {judgment.doc!r} the grades {' and '.join(map(str, grades))}; "
                "one document (or one passage of it) has one grade."
            )
        elif judgment.spans in of_document:
            noticed.warning(
                WarningCode.SAME_LABEL, f"query {query.id!r} judges {judgment.doc!r} twice, with one grade."
            )
        of_document.setdefault(judgment.spans, judgment)
    return tuple(judgment for of_document in kept.values() for judgment in of_document.values())


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


def _refuse_ids_for_passages(labels: PromptQueries, library: Library, file: str) -> None:
    """One sentence in place of a fault for each label, where all of them name documents."""
    docs = {judgment.doc for query in labels.queries for judgment in query.relevant_docs}
    if docs and docs.issubset(library.ids):
        message = (
            "`match: content` says that `doc` holds a passage, and each label has the id of a document there, like "
            f"{_examples(docs)}. Did you mean `match: id`?"
        )
        raise LabelsError(Fault(file, message=message))


def _examples(names: Iterable[str]) -> str:
    return ", ".join(repr(short(name, 40)) for name in sorted(names)[:2])
