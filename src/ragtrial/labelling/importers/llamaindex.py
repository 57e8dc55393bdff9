"""LlamaIndex's data sets: EmbeddingQAFinetuneDataset (questions, chunks, pairs) and LabelledRagDataset (examples)."""

from __future__ import annotations

from collections.abc import Mapping

from ragtrial.labelling.importers.base import Importer, register
from ragtrial.labelling.importers.content import Content, ContentRow
from ragtrial.labelling.importers.foreign import ForeignLabels, ImportedAnswer, ImportedQuestion


def can_read(content: Content) -> bool:
    value = content.value
    if not isinstance(value, Mapping):
        return False
    return _has_pairs(value) or isinstance(value.get("examples"), list)


def _has_pairs(value: Mapping[str, object]) -> bool:
    return all(isinstance(value.get(key), Mapping) for key in ("queries", "corpus", "relevant_docs"))


def read(content: Content) -> ForeignLabels:
    """The questions of either kind; a label is the text of a chunk."""
    file = ContentRow(
        content, (), content.value, "an object with `queries`, `corpus` and `relevant_docs`, or with `examples`"
    )
    if file.first(["queries", "corpus"]):
        return ForeignLabels(_pairs(content, file))
    rows = file.rows("examples", what="an object: an example")
    return ForeignLabels(tuple(_example(row) for row in rows))


def _pairs(content: Content, file: ContentRow) -> tuple[ImportedQuestion, ...]:
    queries, corpus, relevant = (
        ContentRow(content, (key,), file.values.get(key), "an object of ids")
        for key in ("queries", "corpus", "relevant_docs")
    )
    for unknown in relevant.values.keys() - queries.values.keys():
        content.fault(("relevant_docs", unknown), "has the id of no question in `queries`.")
    made = []
    for name in queries.values:
        answers = []
        for where, chunk in relevant.items(name, needed=False):
            if not isinstance(chunk, str) or chunk not in corpus.values:
                content.fault(where, f"is {chunk!r}, which is no id in `corpus`.")
            else:
                answers.append(ImportedAnswer(where, corpus.text(chunk)))
        made.append(ImportedQuestion(("queries", name), name, queries.text(name), tuple(answers)))
    return tuple(made)


def _example(row: ContentRow) -> ImportedQuestion:
    answers = []
    for where, text in row.items("reference_contexts", needed=False):
        if not isinstance(text, str) or not text.strip():
            row.content.fault(where, "must be a text that is not empty.")
        else:
            answers.append(ImportedAnswer(where, text))
    return ImportedQuestion(row.where, row.name("id"), row.text("query"), tuple(answers))


register(
    Importer(
        "llamaindex",
        "an object with `queries`, `corpus` and `relevant_docs`, or with the list `examples`",
        can_read,
        read,
    )
)
