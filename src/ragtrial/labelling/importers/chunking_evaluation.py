"""The questions of chunking_evaluation: questions_df.csv, or the same rows in JSON; references with offsets."""

from __future__ import annotations

from ragtrial.labelling.importers.base import Importer, register
from ragtrial.labelling.importers.content import Content, ContentRow
from ragtrial.labelling.importers.foreign import ForeignLabels, ImportedAnswer, ImportedQuestion


def can_read(content: Content) -> bool:
    return "references" in content.keys


def read(content: Content) -> ForeignLabels:
    """The questions; the corpus of each is also its tag, so that scores can be distinguished by corpus."""
    questions = []
    for position, value in enumerate(content.rows):
        row = ContentRow(content, (position,), value, "an object: a question")
        corpus = row.name("corpus_id")
        references = row.rows("references", what="an object: a reference")
        answers = tuple(
            ImportedAnswer(one.where, one.text("content"), corpus, start=one.whole("start_index")) for one in references
        )
        tags = (corpus,) if corpus else ()
        questions.append(ImportedQuestion(row.where, row.name("query_id", "id"), row.text("question"), answers, tags))
    if not isinstance(content.value, list):
        content.fault((), "must be a list of questions, or CSV.")
    return ForeignLabels(tuple(questions))


register(Importer("chunking-evaluation", "rows with `references`", can_read, read))
