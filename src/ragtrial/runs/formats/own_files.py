"""Files of our own as qrels and runs: labels, reports (each setting is a run) and their rankings files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ragtrial.dataset.faults import Faults, shown
from ragtrial.dataset.texts import normalised
from ragtrial.errors import Fault, LabelsError
from ragtrial.records import PromptQueries, Query, highest_grades
from ragtrial.runs.formats.gathering import number_problem, ranked_run
from ragtrial.runs.formats.rows import json_lines
from ragtrial.runs.qrels import Qrels, Run
from ragtrial.runs.streams import Source, is_read_once, name_of, release, text_of


def labels_of(source: Source) -> PromptQueries:
    """The labels of a prompt_queries.json."""
    from ragtrial.dataset.labels import load_prompt_queries

    if is_read_once(source):
        release(source)
        raise LabelsError(Fault(name_of(source), message="labels can only be read from a file: name it."))
    return load_prompt_queries(Path(source))


def qrels_of_labels(labels: PromptQueries) -> Qrels:
    """Labels as qrels. A document with several labels (quotes) has the highest of their grades, at its first place.

    Passages that differ in line ends or Unicode form alone are one.
    """
    rows = []
    for query in labels.queries:
        spelled = spellings(query)
        grades = highest_grades((spelled[normalised(one.doc)], one.relevance) for one in query.relevant_docs)
        rows.append((query.id, list(grades.items()), query.ordered))
    return replace(Qrels.of(rows), labels=labels)


def spellings(query: Query) -> dict[str, str]:
    """How the labels of a query first spell each document, by its normalised text."""
    return {normalised(judgment.doc): judgment.doc for judgment in reversed(query.relevant_docs)}


def report_qrels(reference: Source, directory: Source) -> Qrels:
    """The labels that a report was scored by. Raises ReportError where there is no report."""
    from ragtrial.report.model import load_report

    return Qrels.of(
        (query.id, list(highest_grades((one.doc, one.relevance) for one in query.relevant_docs).items()), query.ordered)
        for query in load_report(reference, directory).queries
    )


def report_runs(reference: Source, directory: Source, faults: Faults) -> list[Run]:
    """A run for each setting of a report, in its order. Raises ReportError where there is no report."""
    from ragtrial.report.model import load_report

    report = load_report(reference, directory)
    runs = []
    for setting in report.settings:
        path = report.ranking_file(setting.name)
        run = rankings_run(path, setting.name, Faults(str(path), faults.error))
        runs.append(replace(run, of_chunks=report.unit == "span"))
    return runs


def rankings_run(source: Source, name: str, faults: Faults) -> Run:
    """The run of a rankings file: a row for each query, best first, with ``query``, ``docs`` and ``scores``.

    The order of a row is the ranking. The scores are the run's values only where they say no other order.
    """
    ranked: dict[str, list[tuple[str, float | None]]] = {}
    for number, row in enumerate(json_lines(text_of(source, faults.error), faults)):
        query, docs = row.get("query"), row.get("docs")
        scores = row.get("scores") or [None] * len(docs if isinstance(docs, list) else [])
        if not _is_ranking(query, docs, scores):
            faults.add_row(number, f"must have an id `query`, ids `docs`, and a number for each under `scores`; "
                           f"found {shown(row)}.")  # fmt: skip
        elif query in ranked:
            faults.add_row(number, f"query {query!r} has a row already.")
        else:
            ranked[str(query)] = list(zip(docs, scores, strict=True))  # type: ignore[call-overload]
    if not ranked and not faults.count:
        raise faults.fail("has no rankings.")
    faults.raise_any()
    return ranked_run(name, ranked, faults)


def _is_ranking(query: object, docs: object, scores: object) -> bool:
    return (
        isinstance(query, str)
        and isinstance(docs, list)
        and isinstance(scores, list)
        and len(docs) == len(scores)
        and all(isinstance(document, str) for document in docs)
        and all(score is None or number_problem(score, "score") is None for score in scores)
    )
