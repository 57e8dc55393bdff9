"""Labels in rows: tables that anyone can write, and the rows of other tools."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import AliasChoices, BeforeValidator, ConfigDict, Field, model_validator

from ragtrial.dataset.foreign_files import Content, Foreign, cell_value, key_of, read_content
from ragtrial.errors import LabelsError
from ragtrial.labelling.importers import base
from ragtrial.labelling.importers.base import ImportedAnswer, ImportedQuestion
from ragtrial.options import FieldPath, shown
from ragtrial.records import UNANSWERABLE

_IDS = ("id", "query_id", "question_id", "qid")
_QUESTIONS = ("question", "questions", "query", "queries", "user_input", "input", "prompt", "text")
_VERBATIM = ("quote", "passage", "context")
_ANSWERS = (
    *("answer", "answers", "expected", "expected_answer", "ground_truth", "ground_truths", "gold_answer", "reference"),
)
"""They are in the documents, or in other words next to a passage or the name of a document."""
_PASSAGES = (*_VERBATIM, *_ANSWERS)
"""The first column with a text has the passage."""
_IN_OTHER_WORDS = ("expected_output", "expectedoutput", "reference_answer", "generation_gt")
_HAYSTACK = ("ground_truth_documents", "ground_truth_contexts", "expected_documents", "relevant_documents")
_LISTS = ("references", *_HAYSTACK, "documents", "reference_contexts")
"""``documents`` only in rows: among the inputs of an evaluation it may be the retrieved documents."""
_DOCUMENTS = (
    *("doc", "docs", "doc_id", "doc_ids", "document", "document_id", "document_ids", "expected_doc", "expected_docs"),
    *("file", "files", "file_name", "filename", "relevant_docs", "source", "sources", "source_document", "source_file"),
)
_FILES = ("file_path", "file_name", "source", "source_id", "url")
"""The keys in which Haystack's converters and their users note the file of a document."""
_BESIDE = {*_IDS, "tags", "cluster", "answerable", "unanswerable"}
"""Known columns next to questions alone; other columns may be answers with an unknown name."""
_NUMBERED = re.compile(rf"(?:{'|'.join(_PASSAGES)})[ _-]?\d+")
_YES, _NO = {"yes", "true", "1", "1.0", "y", "x"}, {"no", "false", "0", "0.0", "n"}


def _as_passage(value: object) -> object:
    """A text as a passage, and a document of Haystack with its metadata as keys."""
    if isinstance(value, str):
        return {"content": value}
    meta = value.get("meta") if isinstance(value, Mapping) else None
    return {**value, **meta} if isinstance(value, Mapping) and isinstance(meta, Mapping) else value


def _groups(value: object) -> object:
    """Groups of documents, of which one each is needed, as AutoRAG has them: a list of groups, one group, or an id."""
    groups = cell_value(value)
    groups = groups if isinstance(groups, list) else [groups]
    return groups if any(isinstance(group, list) for group in groups) else [groups]


def _tags(value: object) -> object:
    tags = cell_value(value)
    return list(filter(None, re.split(r"[\s,;]+", tags))) if isinstance(tags, str) else tags


class _Passage(Foreign):
    content: base.Text
    file: Any = Field("", validation_alias=AliasChoices(*_FILES))
    start: base.Number | None = Field(None, validation_alias="start_index")
    grade: base.Grade | None = Field(None, validation_alias=AliasChoices("relevance", "score"))
    """The relevance, or the score as DocumentNDCGEvaluator takes it."""


_Passages = list[Annotated[_Passage, BeforeValidator(_as_passage)]]


class Row(Foreign):
    """A question, and what answers it: passages, or documents; columns of texts are in ``model_extra``.

    Names of columns may have any case.
    """

    model_config = ConfigDict(extra="allow")

    id: base.Name = Field("", validation_alias=AliasChoices(*_IDS))
    question: base.Text = Field(validation_alias=AliasChoices(*_QUESTIONS))
    passages: Annotated[_Passages, base.InCell] = Field([], validation_alias=AliasChoices(*_LISTS))
    doc: base.Name = Field("", validation_alias=AliasChoices(*_DOCUMENTS))
    corpus_id: base.Name = ""
    groups: Annotated[list[list[base.Name]], BeforeValidator(_groups)] = Field(
        [], validation_alias=AliasChoices("retrieval_gt", "answer_session_ids")
    )
    relevance: base.Grade = 1
    group: base.Name = ""
    start: base.Number | None = None
    tags: Annotated[list[str], BeforeValidator(_tags)] = Field(default=[])
    cluster: base.Name = ""
    answerable: Any = ""
    unanswerable: Any = ""

    @classmethod
    def as_row(cls, value: Mapping[str, Any]) -> Mapping[str, Any]:
        """The object of a tool with the keys of a row."""
        return value

    @model_validator(mode="before")
    @classmethod
    def _in_small_letters(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        row = {key_of(key): item for key, item in cls.as_row(value).items()}
        for name in _DOCUMENTS:
            if isinstance(docs := cell_value(row.get(name)), list) and all(isinstance(doc, str | int) for doc in docs):
                row["retrieval_gt"] = [[doc] for doc in docs]
                del row[name]
        return row

    @property
    def all_tags(self) -> list[str]:
        """Its tags, its corpus, so that scores can be distinguished by corpus, and ``unanswerable``."""
        is_unanswerable = str(self.answerable).strip().lower() in _NO or str(self.unanswerable).strip().lower() in _YES
        return [*self.tags, *filter(None, [self.corpus_id]), *([UNANSWERABLE] if is_unanswerable else [])]

    @property
    def columns(self) -> dict[str, object]:
        """The further columns that are filled."""
        extra = self.model_extra or {}
        return {
            name: value for name, value in extra.items()
            if (value.strip() if isinstance(value, str) else value not in ([], {}))
        }  # fmt: skip


def questions_of_rows(content: Content, model: type[Row] = Row, under: str | None = None) -> list[ImportedQuestion]:
    """The questions of rows; rows that ask the same (equal id and text, or without ids equal text) are one question.

    Texts that answer in other words than the label are kept as answers. Columns that are not used are noted.
    """
    questions: dict[tuple[str, str], ImportedQuestion] = {}
    for where, row in content.read_rows(model, *filter(None, [under])):
        texts = _texts(content, where, row)
        content.unused.update(dict.fromkeys(row.columns.keys() - texts.keys()))
        column = "" if row.passages or row.groups else next((name for name in _PASSAGES if name in texts), "")
        answers_of_row = list(_labels(where, row, texts, column))
        if any(answer.group and answer.relevance < 0 for answer in answers_of_row):
            content.fault((*where, "group"), "is in a row with a grade below 0; what must not be found is in no group.")
        known = questions.get((row.id, row.question), ImportedQuestion(where, row.id, row.question))
        more = dict(known.more or {})
        answers = list(more.get("answers", ()))
        answers += [text for name in (*_ANSWERS, *_IN_OTHER_WORDS) if name != column for text in texts.get(name, ())]
        questions[row.id, row.question] = replace(
            known,
            answers=(*known.answers, *answers_of_row),
            tags=tuple(dict.fromkeys((*known.tags, *row.all_tags))),
            more={"cluster": row.cluster or more.get("cluster"), "answers": list(dict.fromkeys(answers))},
        )
    return list(questions.values())


def _texts(content: Content, where: FieldPath, row: Row) -> dict[str, list[str]]:
    """The texts in the columns that have passages or answers: one, or a list, which in CSV is in the cell."""
    texts: dict[str, list[str]] = {}
    for name, cell in row.columns.items():
        if name not in (*_PASSAGES, *_IN_OTHER_WORDS) and not _NUMBERED.fullmatch(name):
            continue
        value = cell_value(cell) if content.form == "CSV" else cell
        if isinstance(value, int | float) and name not in _VERBATIM:
            value = str(value)
        value = value.get("text") if isinstance(value, Mapping) and name == "answers" else value  # as SQuAD has them
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, list):
            content.fault((*where, name), f"is {shown(value)}; it must be a text.")
            continue
        texts[name] = [text for text in values if isinstance(text, str) and text.strip()]
    return texts


def _labels(where: FieldPath, row: Row, texts: Mapping[str, list[str]], column: str) -> Iterator[ImportedAnswer]:
    """The labels of a row: its passages, those in ``column`` and in numbered columns, or its documents."""
    doc = row.doc or row.corpus_id
    if row.passages:
        answers = (_passage_answer(where, passage, doc, row.relevance) for passage in row.passages)
        yield from (replace(answer, group=row.group) for answer in answers)
        return
    if UNANSWERABLE in row.all_tags:
        return
    passages = [text for name in texts if name == column or _NUMBERED.fullmatch(name) for text in texts[name]]
    start = row.start if len(passages) == 1 else None
    for text in passages:
        is_answer = column in _ANSWERS
        yield ImportedAnswer(where, text, doc, row.relevance, start, in_other_words=is_answer, group=row.group)
    if doc and not passages:
        yield ImportedAnswer(where, doc=doc, relevance=row.relevance, group=row.group)
    for number, group in enumerate(row.groups, 1):
        name = f"g{number}" if len(group) > 1 else ""
        yield from (ImportedAnswer(where, doc=document, group=name) for document in group)


def _passage_answer(where: FieldPath, passage: _Passage, doc: str = "", relevance: int = 1) -> ImportedAnswer:
    """A passage as an answer. The file that its metadata note only helps to choose; that of its row is a claim."""
    file = passage.file if isinstance(passage.file, str) else ""
    grade = relevance if passage.grade is None else passage.grade
    return ImportedAnswer(where, passage.content, doc or file, grade, passage.start, doc_is_known=bool(doc))


def _can_read_rows(content: Content) -> bool:
    """True for rows with a question, and with an answer or only with columns that say more about questions."""
    keys = content.keys
    has_answers = any(key in (*_PASSAGES, *_LISTS, *_DOCUMENTS) or _NUMBERED.fullmatch(key) for key in keys)
    return not keys.isdisjoint(_QUESTIONS) and (has_answers or keys <= {*_QUESTIONS, *_BESIDE})


# a question with an empty answer, or alone, has no answer yet; `answerable` or `unanswerable` says that there is none
base.importer(
    "rows",
    "rows with `question` or `query`, and `quote`, `passage`, `context`, `answer` or `doc`; or questions alone",
    _can_read_rows,
    is_general=True,
)(questions_of_rows)

# questions_df.csv, or the same rows in JSON; references have offsets
base.importer("chunking-evaluation", "rows with `references`", lambda content: "references" in content.keys)(
    questions_of_rows
)


# Haystack's inputs of evaluators: questions with their relevant documents, as Document.to_dict writes them


class _Inputs(Foreign):
    questions: list[base.Text] = Field(validation_alias=AliasChoices(*_QUESTIONS))
    documents: list[_Passages] = Field(validation_alias=AliasChoices(*_HAYSTACK))


def _can_read_haystack(content: Content) -> bool:
    if not isinstance(content.value, Mapping):
        return not content.keys.isdisjoint((*_HAYSTACK, "documents"))
    inputs = content.value.get("inputs", content.value)
    return isinstance(inputs, Mapping) and all(
        any(isinstance(inputs.get(name), list) for name in names) for names in (_QUESTIONS, _HAYSTACK)
    )


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
        return questions_of_rows(content)
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


# deepeval: goldens, as EvaluationDataset.save_as and Synthesizer.save_as write them

_OF_GOLDENS = {"context", "expected_output", "retrieval_context", "actual_output"}


class _Golden(Row):
    @classmethod
    def as_row(cls, value: Mapping[str, Any]) -> Mapping[str, Any]:
        """In CSV and JSON lines all contexts of a golden are one text, with bars between them."""
        context = value.get("context")
        return {**value, "context": context.split("|")} if isinstance(context, str) else value


# `context` has the passages, `expected_output` the answer, `source_file` the document
base.importer(
    "deepeval",
    "rows with `input`, and `context`, `expected_output` or `retrieval_context`",
    lambda content: "input" in content.keys and not content.keys.isdisjoint(_OF_GOLDENS),
)(partial(questions_of_rows, model=_Golden))


# Langfuse: the items of a dataset, as its page exports them, or as its API lists them under `data`


def _parts(value: object, name: str, known: Collection[str]) -> dict[str, object]:
    """A mapping, or another value under ``name``; the value of a mapping with one unknown key is that, too."""
    parts = cell_value(value)
    if not isinstance(parts, Mapping):
        return {name: parts}
    if len(parts) == 1 and not {str(key).lower() for key in parts} & {*known}:
        return {name: next(iter(parts.values()))}
    return {str(key).lower(): part for key, part in parts.items()}


def _unquoted(value: object) -> object:
    """The text of a cell; older exports write texts in CSV as JSON, with quotation marks."""
    with suppress(ValueError, RecursionError):
        return json.loads(value) if isinstance(value, str) and value.startswith('"') else value
    return value


def _asked(value: object) -> object:
    """The input of an item; of messages the last of the user."""
    value = cell_value(value)
    messages = value.get("messages") if isinstance(value, Mapping) else value
    if not isinstance(messages, list):
        return value
    spoken = [turn.get("content") for turn in messages if isinstance(turn, Mapping) and turn.get("role") == "user"]
    return spoken[-1] if spoken else value


class _Item(Row):
    @classmethod
    def as_row(cls, value: Mapping[str, Any]) -> Mapping[str, Any]:
        """The item with what is in its input, expected output and metadata, whose keys are the user's own."""
        item = {key_of(key): _unquoted(part) for key, part in value.items()}
        asked = item.pop("input", None) or item.pop("inputs", None)
        known = item.pop("expectedoutput", None) or item.pop("outputs", None)
        question = _parts(_asked(asked), "question", _QUESTIONS)
        expected = _parts(known, "expected_output", (*_VERBATIM, *_LISTS, *_DOCUMENTS))
        answers = {"expected_output" if name in _ANSWERS else name: part for name, part in expected.items()}
        metadata = cell_value(item.pop("metadata", None))
        tags = {"tags": ["archived"]} if item.pop("status", "") == "ARCHIVED" else {}
        return {**(metadata if isinstance(metadata, Mapping) else {}), **answers, **question, **item, **tags}


def _can_read_langfuse(content: Content) -> bool:
    rows = content.value.get("data") if isinstance(content.value, Mapping) else content.value
    first = rows[0] if isinstance(rows, list) and rows else None
    return isinstance(first, Mapping) and {"input", "expectedoutput"} <= {str(key).lower() for key in first}


@base.importer(
    "langfuse", "rows with `input` and `expectedOutput`, or an object with such rows in `data`", _can_read_langfuse
)
def read_langfuse(content: Content) -> list[ImportedQuestion]:
    """The items. An archived item gets the tag ``archived``."""
    return questions_of_rows(content, _Item, None if isinstance(content.value, list) else "data")


@base.importer("langsmith", "rows with `inputs` and `outputs`", lambda content: {"inputs", "outputs"} <= content.keys)
def read_langsmith(content: Content) -> list[ImportedQuestion]:
    """The examples of a dataset, whose inputs, outputs and metadata have the user's own keys."""
    return questions_of_rows(content, _Item)


# LongMemEval: questions about conversations; the sessions are the documents


class _Memory(Row):
    @classmethod
    def as_row(cls, value: Mapping[str, Any]) -> Mapping[str, Any]:
        """The sessions with the evidence are all needed; a question whose id ends so has no answer in any session."""
        sessions, kind = value.get("answer_session_ids"), value.get("question_type")
        known = {"question_type", "haystack_session_ids", "haystack_sessions", "answer_session_ids"}
        row = {key: part for key, part in value.items() if key not in known}
        row["retrieval_gt"] = [[session] for session in sessions] if isinstance(sessions, list) else sessions
        row["tags"] = [kind] if kind else []
        return {**row, "unanswerable": "yes" if str(value.get("question_id")).endswith("_abs") else ""}


@base.importer("longmemeval", "rows with `answer_session_ids`", lambda content: "answer_session_ids" in content.keys)
def read_longmemeval(content: Content) -> list[ImportedQuestion]:
    """The questions, with their type as tag; a label is the id of a session."""
    return questions_of_rows(content, _Memory)


# AutoRAG: qa.parquet, whose labels are ids of chunks in the corpus.parquet next to it


@base.importer("autorag", "rows with `retrieval_gt`", lambda content: "retrieval_gt" in content.keys)
def read_autorag(content: Content) -> list[ImportedQuestion]:
    """The questions. A label is the text of a chunk if corpus.parquet is in the same folder, else a document's id."""
    questions = questions_of_rows(content)
    corpus = Path(content.file).with_name("corpus.parquet")
    if not corpus.exists():
        return questions
    chunks = {row.doc_id: row.contents for _, row in read_content(corpus, LabelsError).read_rows(_Chunk)}
    return [
        replace(question, answers=tuple(
            replace(answer, passage=chunks[answer.doc], doc="") if answer.doc in chunks else answer
            for answer in question.answers
        ))
        for question in questions
    ]  # fmt: skip


class _Chunk(Foreign):
    doc_id: base.Name
    contents: base.Text
