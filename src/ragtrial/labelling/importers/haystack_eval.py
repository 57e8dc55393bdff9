"""What goes into Haystack's evaluators: questions with their relevant documents, as Document.to_dict writes them."""

from __future__ import annotations

from collections.abc import Mapping

from ragtrial.labelling.importers import foreign
from ragtrial.labelling.importers.base import Importer, register
from ragtrial.labelling.importers.content import Content, ContentRow
from ragtrial.labelling.importers.foreign import ForeignLabels, ImportedAnswer, ImportedQuestion
from ragtrial.options import shown

_QUESTIONS = ("question", "questions", "query", "queries", "text")
_DOCUMENTS = ("ground_truth_documents", "ground_truth_contexts", "expected_documents", "relevant_documents")
_IN_ROWS = (*_DOCUMENTS, "documents")
"""``documents`` only in rows: among an evaluation's inputs it may be what was retrieved."""
_FILES = ("file_path", "file_name", "source", "source_id", "url")
"""Where Haystack's converters and their users note the file that a document is of."""


def can_read(content: Content) -> bool:
    value = content.value
    if isinstance(value, Mapping):
        inputs = value.get("inputs", value)
        return isinstance(inputs, Mapping) and all(
            any(isinstance(inputs.get(name), list) for name in names) for names in (_QUESTIONS, _DOCUMENTS)
        )
    return not content.keys.isdisjoint(_IN_ROWS)


def read(content: Content) -> ForeignLabels:
    """The questions of rows, or of an evaluation run's inputs, which are lists side by side."""
    if isinstance(content.value, Mapping):
        return ForeignLabels(_columns(content, content.value))
    questions = []
    for position, value in enumerate(content.rows):
        row = ContentRow(content, (position,), value, "an object: a question and its documents")
        answers = _answers(content, row.items(*_IN_ROWS))
        questions.append(ImportedQuestion(row.where, row.name("id"), row.text(*_QUESTIONS), answers, row.texts("tags")))
    return ForeignLabels(tuple(questions))


def _columns(content: Content, value: Mapping[str, object]) -> tuple[ImportedQuestion, ...]:
    where: foreign.Path = ("inputs",) if "inputs" in value else ()
    inputs = ContentRow(content, where, value.get("inputs", value), "an object of lists")
    texts, documents = inputs.items(*_QUESTIONS[:-1]), inputs.items(*_DOCUMENTS)
    if len(texts) != len(documents):
        content.fault(where, f"has {len(texts):,} questions and relevant documents of {len(documents):,}.")
    questions = []
    for (at, text), (beside, of_question) in zip(texts, documents, strict=False):
        if not isinstance(text, str) or not text.strip():
            content.fault(at, "must be a text that is not empty.")
        elif not isinstance(of_question, list):
            content.fault(beside, f"is {shown(of_question)}; it must be a list.")
        else:
            answers = _answers(content, [((*beside, number), one) for number, one in enumerate(of_question)])
            questions.append(ImportedQuestion(at, "", text, answers))
    return tuple(questions)


def _answers(content: Content, documents: list[tuple[foreign.Path, object]]) -> tuple[ImportedAnswer, ...]:
    answers = []
    for where, document in documents:
        if isinstance(document, str) and document.strip():
            answers.append(ImportedAnswer(where, document))
            continue
        row = ContentRow(content, where, document, "a text, or a document with `content`")
        meta = row.values.get("meta")
        named = {**row.values, **meta} if isinstance(meta, Mapping) else row.values
        file = next((str(named[key]) for key in _FILES if isinstance(named.get(key), str)), "")
        grade = row.grade() if "relevance" in row.values else _gain(row)
        answers.append(ImportedAnswer(where, row.text("content"), file, grade, doc_is_known=False))
    return tuple(answers)


def _gain(row: ContentRow) -> int:
    """The grade that a document's score is, as DocumentNDCGEvaluator takes it; 1 without one."""
    score = row.values.get("score")
    if score is None:
        return 1
    if isinstance(score, bool) or not isinstance(score, int | float) or not float(score).is_integer():
        note = "it must be a whole number, which is the grade; leave it out for 1"
        row.content.fault((*row.where, "score"), f"is {shown(score)}; {note}.")
        return 1
    return int(score)


register(
    Importer(
        "haystack",
        "rows, or an object `inputs` of lists, with `ground_truth_documents`, `ground_truth_contexts`, "
        "`expected_documents` or `relevant_documents`",
        can_read,
        read,
    )
)
