"""Labels as columns of passages to find in chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ragtrial.dataset.library import Library
from ragtrial.dataset.spans import Passages
from ragtrial.rankings import Counts
from ragtrial.records import Query, ReportWarning, Span, WarningCode
from ragtrial.runs.qrels import Judgments


@dataclass(frozen=True, eq=False)
class SpanLabels:
    """One judgment for each label, in the order of the labels, and the positions of its passage.

    A label without a passage refers to the whole document: its passage is the document without white space at its ends,
    which is in no chunk. ``whole`` counts such labels whose grade is above 0.
    """

    judgments: Judgments
    passages: Passages
    whole: int


def span_labels(queries: Sequence[Query], library: Library) -> SpanLabels:
    """The labels of ``queries``, which are looked up already: every document is in ``library``."""
    texts: dict[int, Span] = {}
    grades: list[int] = []
    rows: list[tuple[int, int, int, int, int]] = []
    counts, whole = [0], 0
    for row, query in enumerate(queries):
        for label in query.relevant_docs:
            position, spans = library.positions[label.doc], label.spans
            if not spans:
                if position not in texts:
                    texts[position] = _text_of(library.text(position))
                spans = (texts[position],)
                whole += label.relevance > 0
            rows += [(row, position, span.start, span.end, len(grades)) for span in spans]
            grades.append(label.relevance)
        counts.append(len(grades))
    columns: Counts = np.array(rows, dtype=np.int64).reshape(-1, 5).T
    return SpanLabels(
        Judgments(
            np.array(counts, dtype=np.int64),
            np.array(grades, dtype=np.int32),
            np.array([query.ordered for query in queries], dtype=np.bool_),
        ),
        Passages.of(len(queries), columns[0], columns[1].astype(np.int32), *columns[2:]),
        whole,
    )


def judged_whole(queries: Sequence[Query], library: Library) -> dict[str, Span]:
    """The documents that ``queries`` judge without a passage, and the characters of each that count."""
    names = {label.doc for query in queries for label in query.relevant_docs if not label.spans}
    return {name: _text_of(library.text(library.positions[name])) for name in sorted(names)}


def _text_of(text: str) -> Span:
    """All of it but white space at its ends."""
    end = len(text.rstrip())
    return Span(min(len(text) - len(text.lstrip()), end), end)


def whole_warnings(labels: SpanLabels) -> list[ReportWarning]:
    """That some labels have no passage, which is seldom meant."""
    if not labels.whole:
        return []
    message = (
        f"labels of a grade above 0 without a quote: {labels.whole:,}. Under unit: span their passage is the whole "
        "document, of which the share span_coverage must be retrieved. Add quotes, or use unit: document."
    )
    return [ReportWarning(WarningCode.NO_PASSAGE, message)]
