"""The questions on which a setting is weakest, each with its answer and the first hit."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ragtrial.comparison.comparison_input import ComparisonInput
from ragtrial.errors import listed
from ragtrial.evaluation.metrics import metric_called
from ragtrial.records import heading_above
from ragtrial.report.model import LABEL_TEXT, TEXTS, Row, label_text
from ragtrial.report.schema import JudgmentPart, QueryPart
from ragtrial.views.page.blocks import FoundHits
from ragtrial.views.texts import plain_line

MOST = 3
_WIDTH = 150


@dataclass(frozen=True)
class Text:
    """A place by title and heading, and a passage there, or how it begins; the text is empty if neither is known."""

    place: str
    text: str
    is_passage: bool = False


@dataclass(frozen=True)
class Failing:
    """A question, the best answer that is not the first hit, the first hit, and the ranks of the answer in words."""

    question: str
    answer: Text
    found: Text | None
    ranks: str


def failing_questions(inputs: ComparisonInput, hits: FoundHits, setting: str) -> list[Failing]:
    """The questions with the lowest values of ``setting``. Ties go to questions on which most settings fail.

    None without a score, or where a setting has no rankings. ``hits`` are the hits of the same settings and questions.
    Questions with the best value, and those without an answer, are left out.
    """
    if not inputs.scored_queries().scored or not all(own.report.has_rankings for own in inputs.settings):
        return []
    index, sign = inputs.setting_index(setting), inputs.sign(inputs.primary)
    values = sign * inputs.scores(inputs.primary).values
    can_fail = [any(label.relevance > 0 for label in query.relevant_docs) for query in inputs.queries]
    counted = np.flatnonzero(can_fail & ~np.isnan(values[index]) & (values[index] < np.nanmax(values, initial=-np.inf)))
    order = counted[np.lexsort([np.nansum(values[:, counted], axis=0), values[index, counted]])][:MOST].tolist()
    wanted = {name for row in order for name in _chunks(hits, inputs.queries[row], row, index)}
    texts: dict[str, Row] = {}
    for report in {id(contender.report): contender.report for contender in inputs.settings}.values():
        if report.has_rankings and report.file(TEXTS).is_file():
            texts = report.texts(wanted) | texts
    return [_failing(inputs, hits, texts, row, index) for row in order]


def _chunks(hits: FoundHits, query: QueryPart, row: int, index: int) -> Iterator[str]:
    """The texts that may be shown: the first hit of the setting, all chunks of documents that answer, and labels."""
    answers = {label.doc for label in query.relevant_docs if label.relevance > 0}
    yield from (label_text(label.doc, label.spans[0].start if label.spans else 0) for label in query.relevant_docs)
    yield from (hits.names[code] for code in hits.settings[index].of_query(row)[:1] if hits.names[code])
    yield from (name for name, key in zip(hits.names, hits.keys, strict=True) if name and key[0] in answers)


def _failing(inputs: ComparisonInput, hits: FoundHits, texts: dict[str, Row], row: int, index: int) -> Failing:
    query = inputs.queries[row]
    labels = sorted(query.relevant_docs, key=lambda label: (label.relevance, bool(label.spans)), reverse=True)
    answers = [label for label in labels if label.relevance > 0]
    missed = [label for label in answers if _rank(hits, row, index, label, 1) is None]
    label, k = (missed + answers)[0], metric_called(inputs.primary).k
    first = hits.settings[index].of_query(row)[:1]
    ranks = _ranks(inputs.names, [_rank(hits, row, at, label, k) for at in range(len(hits.settings))], k)
    found = _beginning(texts.get(hits.names[first[0]]), hits.keys[first[0]][0]) if first else None
    return Failing(question=query.text or query.id, answer=_answer(label, texts), found=found, ranks=ranks)


def _answer(label: JudgmentPart, texts: dict[str, Row]) -> Text:
    """The place of the label, with the labelled passage; without one, how the document begins."""
    rows = [row for row in texts.values() if row["doc"] == label.doc]
    passages = [
        (row["text"][span.start - row["start"] : span.end - row["start"]] + " …" * (span.end > row["end"]), row, span)
        for row in rows
        for span in label.spans
        if row["start"] <= span.start < row["end"]
    ]
    if passages:
        text, row, span = max(passages, key=lambda passage: len(passage[0]))
        text = textwrap.shorten(plain_line(text, label.doc), LABEL_TEXT, placeholder=" …")
        return Text(_place(row, span.start), text, is_passage=True)
    return _beginning(next((row for row in rows if row["start"] == 0), None), label.doc)


def _beginning(row: Row | None, doc: str) -> Text:
    """How a text begins, without the heading that its place ends with."""
    if row is None:
        return Text(doc, "")
    text = row["text"].partition("\n")[2] if row["text"].startswith("#") else row["text"]
    return Text(_place(row, row["start"]), textwrap.shorten(plain_line(text, doc), _WIDTH, placeholder=" …"))


def _place(row: Row, position: int) -> str:
    """The title of the document, and the nearest heading above the character at ``position``."""
    heading = heading_above(row.get("headings", ()), position, row["title"])
    return " › ".join(filter(None, [row["title"] or row["doc"], heading]))


def _rank(hits: FoundHits, row: int, index: int, label: JudgmentPart, k: int | None) -> int | None:
    """The rank of the first hit that has the label, at most ``k``."""
    for rank, code in enumerate(hits.settings[index].of_query(row)[:k], 1):
        doc, start, end = hits.keys[code]
        spans = label.spans if hits.unit == "span" else []
        if doc == label.doc and (
            not spans or any((start or 0) < span.end and span.start < (end or 0) for span in spans)
        ):
            return rank
    return None


def _ranks(names: Sequence[str], ranks: Sequence[int | None], k: int | None) -> str:
    have = [f"{name} #{rank}" for name, rank in zip(names, ranks, strict=True) if rank is not None]
    missing = [name for name, rank in zip(names, ranks, strict=True) if rank is None]
    within = f"the first {k}" if k else "the hits"
    if len(names) == 1 and not have:
        return f"This answer is not in {within}."
    if not have:
        return f"No setting has this answer in {within}."
    rest = f"; not in {within} of {listed(missing, 5)}" if missing else ""
    return f"Rank of this answer: {listed(have, 5)}{rest}."
