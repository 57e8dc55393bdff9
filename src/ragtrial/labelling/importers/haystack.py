"""Haystack's inputs of evaluators: questions with their relevant documents, as Document.to_dict writes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AliasChoices, BeforeValidator, Field

from ragtrial.labelling.importers import base
from ragtrial.labelling.importers.base import Content, Foreign, ImportedAnswer, ImportedQuestion
from ragtrial.options import FieldPath

_QUESTIONS = ("question", "questions", "query", "queries", "text")
_DOCUMENTS = ("ground_truth_documents", "ground_truth_contexts", "expected_documents", "relevant_documents")
_IN_ROWS = (*_DOCUMENTS, "documents")
"""``documents`` only in rows: among the inputs of an evaluation it may be the retrieved documents."""
_FILES = ("file_path", "file_name", "source", "source_id", "url")
"""The keys in which Haystack's converters and their users note the file of a document."""


def _as_document(value: object) -> object:
    """A text as a document, and a document with its metadata as keys."""
    if isinstance(value, str):
        return {"content": value}
    meta = value.get("meta") if isinstance(value, Mapping) else None
    return {**value, **meta} if isinstance(value, Mapping) and isinstance(meta, Mapping) else value


class _Document(Foreign):
    content: base.Text
    file: Any = Field("", validation_alias=AliasChoices(*_FILES))
    grade: base.Grade = Field(1, validation_alias=AliasChoices("relevance", "score"))
    """The relevance, or the score as DocumentNDCGEvaluator takes it."""


Documents = list[Annotated[_Document, BeforeValidator(_as_document)]]


class _Row(Foreign):
    id: base.Name = ""
    question: base.Text = Field(validation_alias=AliasChoices(*_QUESTIONS))
    documents: Annotated[Documents, base.InCell] = Field(validation_alias=AliasChoices(*_IN_ROWS))
    tags: Annotated[list[str], base.InCell] = Field(default=[])


class _Inputs(Foreign):
    questions: list[base.Text] = Field(validation_alias=AliasChoices(*_QUESTIONS[:-1]))
    documents: list[Documents] = Field(validation_alias=AliasChoices(*_DOCUMENTS))


def can_read(content: Content) -> bool:
    if isinstance(content.value, Mapping):
        inputs = content.value.get("inputs", content.value)
        return isinstance(inputs, Mapping) and all(
            any(isinstance(inputs.get(name), list) for name in names) for names in (_QUESTIONS, _DOCUMENTS)
        )
    return not content.keys.isdisjoint(_IN_ROWS)


@base.importer(
    "haystack",
    "rows, or an object `inputs` of lists, with `ground_truth_documents`, `ground_truth_contexts`, "
    "`expected_documents` or `relevant_documents`",
    can_read,
)
def read(content: Content) -> list[ImportedQuestion]:
    """The questions of rows, or of the inputs of an evaluation run, which are parallel lists."""
    value = content.value
    if not isinstance(value, Mapping):
        return [
            ImportedQuestion(where, row.id, row.question, _answers(where, row.documents), tuple(row.tags))
            for where, row in content.read_rows(_Row)
        ]
    where: FieldPath = ("inputs",) if "inputs" in value else ()
    inputs = content.read(_Inputs, value.get("inputs", value), where)
    if inputs is None:
        return []
    texts, documents = inputs.questions, inputs.documents
    if len(texts) != len(documents):
        content.fault(where, f"has {len(texts):,} questions and relevant documents of {len(documents):,}.")
    return [
        ImportedQuestion(where, "", text, _answers(where, relevant))
        for text, relevant in zip(texts, documents, strict=False)
    ]


def _answers(where: FieldPath, documents: Documents) -> tuple[ImportedAnswer, ...]:
    return tuple(
        ImportedAnswer(where, document.content, document.file if isinstance(document.file, str) else "", document.grade,
                       doc_is_known=False)
        for document in documents
    )  # fmt: skip
