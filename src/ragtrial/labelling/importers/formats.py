"""The formats of labels that are read: the files of other tools, and rows that anyone can write."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Self

from pydantic import AliasChoices, BeforeValidator, ConfigDict, Field, model_validator

from ragtrial.dataset.labels import LabelRow, QueryRow
from ragtrial.dataset.texts import normalised
from ragtrial.labelling.importers import base
from ragtrial.labelling.importers.base import Content, Foreign, ImportedAnswer, ImportedQuestion
from ragtrial.options import FieldPath, shown
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


@base.importer("kirchhoff", "an object with the list `queries`", lambda content: _is_object(content, list, "queries"))
def read_own(content: Content) -> list[ImportedQuestion]:
    """The questions of ``{"queries": [{"id", "text", "relevant_docs": [{"doc", "relevance"}]}]}``."""
    file = content.read(_OwnFile, content.value)
    questions = []
    for number, query in enumerate(file.queries if file else ()):
        where: FieldPath = ("queries", number)
        answers = tuple(
            _own_answer((*where, "relevant_docs", place), label) for place, label in enumerate(query.relevant_docs)
        )
        more: dict[str, Any] = {
            "cluster": query.cluster,
            "ordered": query.ordered,
            "phrasings": list(map(normalised, query.phrasings)),
            "where": query.where,
            "where_document": query.where_document,
        }
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
    return _of_rows(content, "examples")


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


# Rows: a question, and the passages or the document that answer it

_QUESTIONS = ("question", "questions", "query", "queries", "user_input", "prompt", "text")
_PASSAGES = ("quote", "passage", "context", "answer", "expected", "ground_truth", "reference")
"""The first column with a text has the passage: next to a context, an answer is often in other words."""
_HAYSTACK = ("ground_truth_documents", "ground_truth_contexts", "expected_documents", "relevant_documents")
_LISTS = ("references", *_HAYSTACK, "documents", "reference_contexts")
"""``documents`` only in rows: among the inputs of an evaluation it may be the retrieved documents."""
_DOCUMENTS = ("doc", "document", "file")
_FILES = ("file_path", "file_name", "source", "source_id", "url")
"""The keys in which Haystack's converters and their users note the file of a document."""
_BESIDE = {"id", "query_id", "tags", "cluster", "answerable", "unanswerable"}
"""Known columns next to questions alone; other columns may be answers with an unknown name."""
_NUMBERED = re.compile(rf"(?:{'|'.join(_PASSAGES)})[ _-]?\d+")
_YES, _NO = {"yes", "true", "1", "1.0", "y", "x"}, {"no", "false", "0", "0.0", "n"}


def _as_passage(value: object) -> object:
    """A text as a passage, and a document of Haystack with its metadata as keys."""
    if isinstance(value, str):
        return {"content": value}
    meta = value.get("meta") if isinstance(value, Mapping) else None
    return {**value, **meta} if isinstance(value, Mapping) and isinstance(meta, Mapping) else value


def _tags(value: object) -> object:
    tags = base.cell_value(value)
    return list(filter(None, re.split(r"[\s,;]+", tags))) if isinstance(tags, str) else tags


class _Passage(Foreign):
    content: base.Text
    file: Any = Field("", validation_alias=AliasChoices(*_FILES))
    start: base.Number | None = Field(None, validation_alias="start_index")
    grade: base.Grade | None = Field(None, validation_alias=AliasChoices("relevance", "score"))
    """The relevance, or the score as DocumentNDCGEvaluator takes it."""


_Passages = list[Annotated[_Passage, BeforeValidator(_as_passage)]]


class _Row(Foreign):
    """A question; columns of passages are in ``model_extra``."""

    model_config = ConfigDict(extra="allow")

    id: base.Name = Field("", validation_alias=AliasChoices("id", "query_id"))
    question: base.Text = Field(validation_alias=AliasChoices(*_QUESTIONS))
    passages: Annotated[_Passages, base.InCell] = Field([], validation_alias=AliasChoices(*_LISTS))
    doc: base.Name = Field("", validation_alias=AliasChoices(*_DOCUMENTS))
    corpus_id: base.Name = ""
    relevance: base.Grade = 1
    group: base.Name = ""
    start: base.Number | None = None
    tags: Annotated[list[str], BeforeValidator(_tags)] = Field(default=[])
    cluster: base.Name = ""
    answerable: Any = ""
    unanswerable: Any = ""

    @property
    def all_tags(self) -> list[str]:
        """Its tags, its corpus, so that scores can be distinguished by corpus, and ``unanswerable``."""
        is_unanswerable = str(self.answerable).strip().lower() in _NO or str(self.unanswerable).strip().lower() in _YES
        return [*self.tags, *filter(None, [self.corpus_id]), *([UNANSWERABLE] if is_unanswerable else [])]


class _Inputs(Foreign):
    questions: list[base.Text] = Field(validation_alias=AliasChoices(*_QUESTIONS))
    documents: list[_Passages] = Field(validation_alias=AliasChoices(*_HAYSTACK))


def _of_rows(content: Content, *under: str) -> list[ImportedQuestion]:
    """The questions of rows; rows that ask the same (equal id and text, or without ids equal text) are one question."""
    questions: dict[tuple[str, str], ImportedQuestion] = {}
    for where, row in content.read_rows(_Row, *under):
        known = questions.get((row.id, row.question), ImportedQuestion(where, row.id, row.question))
        tags = dict.fromkeys((*known.tags, *row.all_tags))
        answers = (*known.answers, *_answers(content, where, row))
        more = {"cluster": row.cluster} if row.cluster else known.more
        questions[row.id, row.question] = replace(known, answers=answers, tags=tuple(tags), more=more)
    return list(questions.values())


def _answers(content: Content, where: FieldPath, row: _Row) -> tuple[ImportedAnswer, ...]:
    doc = row.doc or row.corpus_id
    if row.passages:
        answers = (_passage_answer(where, passage, doc, row.relevance) for passage in row.passages)
        return tuple(replace(answer, group=row.group) for answer in answers)
    if UNANSWERABLE in row.all_tags:
        return ()
    texts = _texts(content, where, row.model_extra or {})
    start = row.start if len(texts) == 1 else None
    texts = texts or ([""] if doc else [])
    return tuple(ImportedAnswer(where, text, doc, row.relevance, start, group=row.group) for text in texts)


def _passage_answer(where: FieldPath, passage: _Passage, doc: str = "", relevance: int = 1) -> ImportedAnswer:
    """A passage as an answer. The file that its metadata note only helps to choose; that of its row is a claim."""
    file = passage.file if isinstance(passage.file, str) else ""
    grade = relevance if passage.grade is None else passage.grade
    return ImportedAnswer(where, passage.content, doc or file, grade, passage.start, doc_is_known=bool(doc))


def _texts(content: Content, where: FieldPath, columns: Mapping[str, object]) -> list[str]:
    """The passages of a row: in its first column that has one, in a list there, and in numbered columns."""
    filled = [name for name, value in columns.items() if not isinstance(value, str) or value.strip()]
    first = [name for name in _PASSAGES if name in filled][:1]
    passages: list[str] = []
    for name in [*first, *filter(_NUMBERED.fullmatch, filled)]:
        value = base.cell_value(columns[name]) if content.is_csv else columns[name]
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, list):
            content.fault((*where, name), f"is {shown(value)}; it must be a text.")
            continue
        passages += [text for text in texts if isinstance(text, str) and text.strip()]
    return passages


def _can_read_rows(content: Content) -> bool:
    """True for rows with a question, and with an answer or only with columns that say more about questions."""
    keys = content.keys
    has_answers = any(key in (*_PASSAGES, *_LISTS, *_DOCUMENTS) or _NUMBERED.fullmatch(key) for key in keys)
    return not keys.isdisjoint(_QUESTIONS) and (has_answers or keys <= {*_QUESTIONS, *_BESIDE})


def _can_read_haystack(content: Content) -> bool:
    if not isinstance(content.value, Mapping):
        return not content.keys.isdisjoint((*_HAYSTACK, "documents"))
    inputs = content.value.get("inputs", content.value)
    return isinstance(inputs, Mapping) and all(
        any(isinstance(inputs.get(name), list) for name in names) for names in (_QUESTIONS, _HAYSTACK)
    )


@base.importer(
    "rows",
    "rows with `question` or `query`, and `quote`, `passage`, `context`, `answer` or `doc`; or questions alone",
    _can_read_rows,
    is_general=True,
)
def read_rows(content: Content) -> list[ImportedQuestion]:
    """The questions of a table. One with an empty answer, or alone, has no answer yet; a column ``answerable`` or
    ``unanswerable`` says that the documents have none.
    """
    return _of_rows(content)


@base.importer("chunking-evaluation", "rows with `references`", lambda content: "references" in content.keys)
def read_references(content: Content) -> list[ImportedQuestion]:
    """The questions of questions_df.csv, or of the same rows in JSON; references have offsets."""
    return _of_rows(content)


@base.importer(
    "haystack",
    "rows, or an object `inputs` of lists, with `ground_truth_documents`, `ground_truth_contexts`, "
    "`expected_documents` or `relevant_documents`",
    _can_read_haystack,
)
def read_haystack(content: Content) -> list[ImportedQuestion]:
    """The questions of rows, or of the inputs of an evaluation run, which are parallel lists."""
    value = content.value
    if not isinstance(value, Mapping):
        return _of_rows(content)
    where: FieldPath = ("inputs",) if "inputs" in value else ()
    inputs = content.read(_Inputs, value.get("inputs", value), where)
    if inputs is None:
        return []
    texts, documents = inputs.questions, inputs.documents
    if len(texts) != len(documents):
        content.fault(where, f"has {len(texts):,} questions and relevant documents of {len(documents):,}.")
    return [
        ImportedQuestion(where, "", text, tuple(_passage_answer(where, passage) for passage in passages))
        for text, passages in zip(texts, documents, strict=False)
    ]
