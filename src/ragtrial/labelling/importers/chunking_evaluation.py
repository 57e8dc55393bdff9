"""The questions of chunking_evaluation: questions_df.csv, or the same rows in JSON; references with offsets."""

from __future__ import annotations

from typing import Annotated

from pydantic import AliasChoices, Field

from ragtrial.labelling.importers.base import (
    Content,
    Foreign,
    ForeignLabels,
    ImportedAnswer,
    ImportedQuestion,
    Importer,
    InCell,
    Name,
    Number,
    Text,
    register,
)


class _Reference(Foreign):
    content: Text
    start_index: Number | None = None


class _Row(Foreign):
    id: Name = Field("", validation_alias=AliasChoices("query_id", "id"))
    question: Text
    references: Annotated[list[_Reference], InCell]
    corpus_id: Name = ""


def read(content: Content) -> ForeignLabels:
    """The questions; the corpus of each is also its tag, so that scores can be distinguished by corpus."""
    questions = []
    for where, row in content.read_rows(_Row):
        answers = tuple(
            ImportedAnswer(
                (*where, "references", number), reference.content, row.corpus_id, start=reference.start_index
            )
            for number, reference in enumerate(row.references)
        )
        tags = (row.corpus_id,) if row.corpus_id else ()
        questions.append(ImportedQuestion(where, row.id, row.question, answers, tags))
    return ForeignLabels(tuple(questions))


register(Importer("chunking-evaluation", "rows with `references`", lambda content: "references" in content.keys, read))
