"""Labels that are one JSON object of a shape of its own: ragtrial's, LlamaIndex's and SQuAD's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from ragtrial.dataset.foreign_files import Content, Foreign
from ragtrial.dataset.labels import LabelRow, QueryRow
from ragtrial.dataset.texts import normalised
from ragtrial.labelling.importers import base
from ragtrial.labelling.importers.base import ImportedAnswer, ImportedQuestion
from ragtrial.labelling.importers.rows import questions_of_rows
from ragtrial.options import FieldPath
from ragtrial.records import UNANSWERABLE


def _is_object(content: Content, kind: type, *keys: str) -> bool:
    """True if the file has an object whose values under ``keys`` are of that kind."""
    value = content.value
    return isinstance(value, Mapping) and all(isinstance(value.get(key), kind) for key in keys)


# prompt_queries.json, also with passages instead of ids, as David Kirchhoff's framework wrote it


class _OwnLabel(LabelRow, Foreign):
    pass


class _OwnQuery(QueryRow, Foreign):
    id: base.Name = ""
    relevant_docs: list[_OwnLabel]  # type: ignore[assignment]


class _OwnFile(Foreign):
    prompt: str | None = None
    queries: list[_OwnQuery]


@base.importer(
    "prompt-queries", "an object with the list `queries`", lambda content: _is_object(content, list, "queries")
)
def read_own(content: Content) -> list[ImportedQuestion]:
    """The questions of ``{"queries": [{"id", "text", "relevant_docs": [{"doc", "relevance"}]}]}``."""
    file = content.read(_OwnFile, content.value)
    questions = []
    for number, query in enumerate(file.queries if file else ()):
        where: FieldPath = ("queries", number)
        labels = enumerate(query.relevant_docs)
        answers = tuple(_own_answer((*where, "relevant_docs", place), label) for place, label in labels)
        names = ("cluster", "answers", "ordered", "phrasings", "where", "where_document")
        more: dict[str, Any] = {name: getattr(query, name) for name in names}
        more["phrasings"] = list(map(normalised, query.phrasings))
        questions.append(ImportedQuestion(where, query.id, query.text, answers, tuple(query.tags), more))
    content.prompt = file.prompt if file else None
    return questions


def _own_answer(where: FieldPath, label: LabelRow) -> ImportedAnswer:
    group = "" if label.group is None else str(label.group)
    answer = ImportedAnswer(where, label.quote or "", str(label.doc), label.relevance, label.start, group=group)
    if label.quote:
        return answer
    text_hash = label.text_hash or ""
    return replace(answer, end=label.end, text_hash=text_hash, may_be_passage=label.start is None)


# LlamaIndex, both of its data sets: EmbeddingQAFinetuneDataset has pairs, and LabelledRagDataset has examples

_PAIRS = ("queries", "corpus", "relevant_docs")


class _Pairs(Foreign):
    queries: dict[str, base.Text]
    corpus: dict[str, base.Text]
    relevant_docs: dict[str, list[str]]


@base.importer(
    "llamaindex",
    "an object with `queries`, `corpus` and `relevant_docs`, or with the list `examples`",
    lambda content: _is_object(content, Mapping, *_PAIRS) or _is_object(content, list, "examples"),
)
def read_llamaindex(content: Content) -> list[ImportedQuestion]:
    """The questions of either kind; a label is the text of a chunk."""
    value = content.value
    if isinstance(value, Mapping) and ("queries" in value or "corpus" in value):
        pairs = content.read(_Pairs, value)
        return [] if pairs is None else _of_pairs(content, pairs)
    return questions_of_rows(content, under="examples")


def _of_pairs(content: Content, pairs: _Pairs) -> list[ImportedQuestion]:
    for unknown in pairs.relevant_docs.keys() - pairs.queries.keys():
        content.fault(("relevant_docs", unknown), "has the id of no question in `queries`.")
    questions = []
    for name, text in pairs.queries.items():
        answers = []
        for place, chunk in enumerate(pairs.relevant_docs.get(name, ())):
            if chunk in pairs.corpus:
                answers.append(ImportedAnswer(("relevant_docs", name, place), pairs.corpus[chunk]))
            else:
                content.fault(("relevant_docs", name, place), f"is {chunk!r}, which is no id in `corpus`.")
        questions.append(ImportedQuestion(("queries", name), name, text, tuple(answers)))
    return questions


# SQuAD 1.1 and 2.0, and data sets in its format: answers with their first character in a paragraph


class _SquadAnswer(Foreign):
    text: base.Text
    answer_start: base.Number


class _SquadQuestion(Foreign):
    id: base.Name = ""
    question: base.Text
    answers: list[_SquadAnswer] = Field(default=[])
    is_impossible: bool = False


class _Paragraph(Foreign):
    context: base.Text
    qas: list[_SquadQuestion]


class _Article(Foreign):
    paragraphs: list[_Paragraph]


class _SquadFile(Foreign):
    data: list[_Article]


class _SquadLists(Foreign):
    text: list[base.Text]
    answer_start: list[base.Number]

    @model_validator(mode="after")
    def _are_parallel(self) -> Self:
        if len(self.text) != len(self.answer_start):
            raise ValueError(f"it has {len(self.text)} texts and {len(self.answer_start)} first characters.")
        return self


class _SquadRow(Foreign):
    id: base.Name = ""
    question: base.Text
    context: base.Text
    answers: Annotated[_SquadLists, base.InCell]


@base.importer(
    "squad",
    "an object with the list `data`, or rows with `context` and `answers`",
    lambda content: _is_object(content, list, "data") or {"context", "answers"} <= content.keys,
)
def read_squad(content: Content) -> list[ImportedQuestion]:
    """The questions of ``{"data": [{"paragraphs": [{"context", "qas"}]}]}``, or of rows as the hub's copy has them.

    The answers to a question are alternatives: the most frequent is kept, then the longest, then the first. A question
    without answers gets the tag unanswerable, as SQuAD 2.0 means it.
    """
    if not isinstance(content.value, Mapping):
        return [
            _squad_question(where, row, row.context, list(zip(row.answers.text, row.answers.answer_start, strict=True)))
            for where, row in content.read_rows(_SquadRow)
        ]
    file = content.read(_SquadFile, content.value)
    return [
        _squad_question(
            ("data", article, "paragraphs", place, "qas", number), question, paragraph.context,
            [] if question.is_impossible else [(answer.text, answer.answer_start) for answer in question.answers],
        )
        for article, of_article in enumerate(file.data if file else ())
        for place, paragraph in enumerate(of_article.paragraphs)
        for number, question in enumerate(paragraph.qas)
    ]  # fmt: skip


def _squad_question(
    where: FieldPath, row: _SquadQuestion | _SquadRow, context: str, given: Sequence[tuple[str, int]]
) -> ImportedQuestion:
    if not given:
        return ImportedQuestion(where, row.id, row.question, tags=(UNANSWERABLE,))
    counts = Counter(given)
    text, start = max(counts, key=lambda answer: (counts[answer], len(answer[0])))
    note = f"the most frequent of {len(counts)} different answers" if len(counts) > 1 else ""
    answer = ImportedAnswer((*where, "answers"), text, start=start, context=context, note=note)
    return ImportedQuestion(where, row.id, row.question, (answer,))
