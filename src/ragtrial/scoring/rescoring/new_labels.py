"""New labels against the queries that a report has rankings of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from ragtrial.config import load_config
from ragtrial.dataset.datasets import load_dataset
from ragtrial.dataset.labels import load_prompt_queries
from ragtrial.errors import Fault, LabelsError, did_you_mean, listed
from ragtrial.records import Judgment, PromptQueries, Query, ReportWarning, Span, WarningCode
from ragtrial.report.model import Report
from ragtrial.report.schema import QueryPart
from ragtrial.runs.formats.guessing import guess
from ragtrial.runs.inputs import RunInput, load_judgments
from ragtrial.runs.qrels import Qrels


@dataclass(frozen=True)
class ChosenLabels:
    """The labels by which rankings are scored: of queries that have one, in the order of the labels.

    ``file`` is where they are from. ``are_places`` says that their documents are ids and their passages are located.
    """

    labels: PromptQueries
    file: str
    are_places: bool
    are_qrels: bool
    warnings: tuple[ReportWarning, ...]

    def need_texts(self, *, by_content: bool) -> bool:
        """Whether only the texts of the documents tell what they mean."""
        if self.are_places:
            return False
        return (by_content and not self.are_qrels) or any(
            judgment.quote is not None or judgment.spans or judgment.text_hash is not None
            for query in self.labels.queries
            for judgment in query.relevant_docs
        )


def labels_of_report(report: Report) -> PromptQueries:
    """The labels that a report was scored by, with documents and places as they were looked up."""
    return PromptQueries(tuple(map(_query, report.queries)), report.prompt)


def choose_labels(report: Report, file: str | Path | None) -> ChosenLabels:
    """The labels of ``file``, or those of ``report``, of the queries that the report has rankings of.

    ``file`` is a prompt_queries.json, or qrels in any known form, whose queries have the texts of the report, or a
    config that names its labels. Queries
    that are in one of both alone, or whose text is another now, are left out, with a warning. Raises LabelsError for
    what cannot be read, and if no query is left.
    """
    own = labels_of_report(report)
    if file is None:
        return ChosenLabels(own, str(report.folder / "report.json"), are_places=True, are_qrels=False, warnings=())
    known = {query.id: query for query in own.queries}
    given, are_qrels, notes = _given(file, known)
    labels = replace(given, prompt=own.prompt) if are_qrels else given
    kept = [query for query in labels.queries if query.id in known and _asks_the_same(query, known[query.id])]
    if not kept:
        names = [query.id for query in labels.queries]
        near = did_you_mean(names[0], known)
        message = (
            f"none of its {len(names):,} queries is one that run {report.run_id} has rankings of. It has "
            f"{listed(names, 3)}; the report has {listed(known, 3)}.{near}"
        )
        raise LabelsError(Fault(str(file), message=message))
    warnings = (*notes, *_left_out(report, labels.queries, known))
    return ChosenLabels(replace(labels, queries=tuple(kept)), str(file), are_places=False, are_qrels=are_qrels,
                        warnings=warnings)  # fmt: skip


def _given(file: str | Path, known: dict[str, Query]) -> tuple[PromptQueries, bool, tuple[ReportWarning, ...]]:
    """The labels of ``file``, whether they are qrels, by document id, and what was noticed."""
    if Path(file).suffix in (".yaml", ".yml"):
        dataset = load_config(file).dataset
        loaded = load_dataset(dataset)
        return loaded.labels, dataset.beir is not None, loaded.notes
    if guess(file, "qrels") == "labels":
        return load_prompt_queries(file), False, ()
    return _from_qrels(load_judgments(RunInput(file, ())).qrels, known), True, ()


def _left_out(report: Report, queries: Sequence[Query], known: dict[str, Query]) -> list[ReportWarning]:
    new = [query.id for query in queries if query.id not in known]
    changed = [query.id for query in queries if query.id in known and not _asks_the_same(query, known[query.id])]
    gone = list(known.keys() - {query.id for query in queries})
    told = (
        (
            WarningCode.NOT_RANKED,
            new,
            f"have labels and no ranking in run {report.run_id}; run the experiment to have them",
        ),
        (
            WarningCode.TEXT_OF_QUERY,
            changed,
            f"have another text than in run {report.run_id}, so their rankings are of something else; "
            "run the experiment again",
        ),
        (WarningCode.NO_LABELS_LEFT, sorted(gone), "are in the report and no more in the labels"),
    )
    return [
        ReportWarning(code, f"{len(names):,} queries {why}: {listed(names, 5)}. They were left out.")
        for code, names, why in told
        if names
    ]


def _asks_the_same(query: Query, ranked: Query) -> bool:
    return ranked.text in ("", query.text)


def _from_qrels(qrels: Qrels, known: dict[str, Query]) -> PromptQueries:
    documents, grades = list(qrels.documents), qrels.judgments.grades.tolist()
    queries = []
    for name, (start, end), ordered in zip(
        qrels.queries, pairwise(qrels.judgments.starts.tolist()), qrels.judgments.ordered.tolist(), strict=True
    ):
        judged = tuple(map(Judgment, documents[start:end], grades[start:end]))
        query = known.get(name, Query(name, ""))
        queries.append(replace(query, relevant_docs=judged, ordered=ordered))
    return PromptQueries(tuple(queries))


def _query(part: QueryPart) -> Query:
    judgments = tuple(
        Judgment(one.doc, one.relevance, None, tuple(Span(span.start, span.end) for span in one.spans))
        for one in part.relevant_docs
    )
    return Query(part.id, part.text, judgments, tuple(part.tags), part.ordered)
