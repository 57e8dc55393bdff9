"""How the labels of one query differ between two reports, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from ragtrial.comparison.report_inputs import ComparedReport
from ragtrial.records import Unit, highest_grades
from ragtrial.report.schema import QueryPart, SpanPart

_MOST_DOCUMENTS = 2
_LONGEST_TEXT = 60


@dataclass(frozen=True)
class Sides:
    """Two reports, by name, and what of their labels matters.

    Of documents the highest grade counts; of passages each, with its place, or, in other documents, its length: there
    the same passage may stand elsewhere. The ``orders`` of labels matter to metrics of orders.
    """

    first: str
    other: str
    unit: Unit
    places: bool
    orders: bool

    @classmethod
    def of(cls, first: ComparedReport, other: ComparedReport, *, orders: bool) -> Sides:
        one, two = first.report.dataset.documents_fingerprint, other.report.dataset.documents_fingerprint
        return cls(first.name, other.name, first.report.unit, one == two, orders)


def label_difference(sides: Sides, first: QueryPart, other: QueryPart) -> str:
    """What differs between the labels of a query; nothing where they are the same."""
    told = list(islice(_differences(sides, first, other), _MOST_DOCUMENTS + 1))
    if not told:
        return ""
    more = ", ..." if len(told) > _MOST_DOCUMENTS else ""
    return f"query {first.id!r}: {', '.join(told[:_MOST_DOCUMENTS])}{more}"


def _differences(sides: Sides, first: QueryPart, other: QueryPart) -> Iterator[str]:
    if first.text and other.text and first.text != other.text:
        yield f"it asks {_short(first.text)} in {sides.first}, {_short(other.text)} in {sides.other}"
    ones, others = (highest_grades((one.doc, one.relevance) for one in query.relevant_docs) for query in (first, other))
    for doc in dict.fromkeys([*ones, *others]):
        if doc not in others or doc not in ones:
            yield f"{doc!r} is judged in {sides.first if doc in ones else sides.other} alone"
        elif ones[doc] != others[doc]:
            yield f"{doc!r} has grade {ones[doc]} in {sides.first}, {others[doc]} in {sides.other}"
        elif sides.unit == "span" and _passages(sides, first, doc) != _passages(sides, other, doc):
            yield f"{doc!r} has other passages"
    if sides.orders and ones == others and first.ordered != other.ordered:
        yield f"its labels are an order in {sides.first if first.ordered else sides.other} alone"
    if sides.orders and first.ordered and other.ordered and ones == others and list(ones) != list(others):
        yield "its labels have another order"


def _passages(sides: Sides, query: QueryPart, doc: str) -> Counter[tuple[int, tuple[tuple[int, int], ...]]]:
    """How often each grade and set of passages is there; of passages in other documents the lengths alone."""

    def shown(span: SpanPart) -> tuple[int, int]:
        return (span.start, span.end) if sides.places else (0, span.end - span.start)

    labels = (one for one in query.relevant_docs if one.doc == doc)
    return Counter((one.relevance, tuple(sorted(map(shown, one.spans)))) for one in labels)


def _short(text: str) -> str:
    return repr(text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT - 3]}...")
