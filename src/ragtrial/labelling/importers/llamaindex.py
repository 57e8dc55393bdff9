"""LlamaIndex's data sets: EmbeddingQAFinetuneDataset (questions, chunks, pairs) and LabelledRagDataset (examples)."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from ragtrial.labelling.importers.base import (
    Content,
    Foreign,
    ForeignLabels,
    ImportedAnswer,
    ImportedQuestion,
    Importer,
    Name,
    Text,
    register,
)


class _Pairs(Foreign):
    queries: dict[str, Text]
    corpus: dict[str, Text]
    relevant_docs: dict[str, list[str]]


class _Example(Foreign):
    id: Name = ""
    query: Text
    reference_contexts: list[Text] = Field(default=[])


class _Examples(Foreign):
    examples: list[_Example]


def can_read(content: Content) -> bool:
    value = content.value
    if not isinstance(value, Mapping):
        return False
    has_pairs = all(isinstance(value.get(key), Mapping) for key in ("queries", "corpus", "relevant_docs"))
    return has_pairs or isinstance(value.get("examples"), list)


def read(content: Content) -> ForeignLabels:
    """The questions of either kind; a label is the text of a chunk."""
    value = content.value
    if isinstance(value, Mapping) and ("queries" in value or "corpus" in value):
        pairs = content.read(_Pairs, value)
        return ForeignLabels(() if pairs is None else _of_pairs(content, pairs))
    examples = content.read(_Examples, value)
    return ForeignLabels(tuple(
        ImportedQuestion(("examples", number), example.id, example.query, tuple(
            ImportedAnswer(("examples", number, "reference_contexts", place), text)
            for place, text in enumerate(example.reference_contexts)
        ))
        for number, example in enumerate(examples.examples if examples else ())
    ))  # fmt: skip


def _of_pairs(content: Content, pairs: _Pairs) -> tuple[ImportedQuestion, ...]:
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
    return tuple(questions)


register(
    Importer(
        "llamaindex",
        "an object with `queries`, `corpus` and `relevant_docs`, or with the list `examples`",
        can_read,
        read,
    )
)
