"""Files of our own as qrels and runs: labels, reports (each setting is a run), rankings files, results as JSON.

Results are written by RetrievalEvaluator, or are in the form in which results of its model were published. That form
has texts instead of ids: its documents are the texts themselves (``contexts``), and a query is known by its text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, Field, RootModel, StrictInt, StrictStr, model_validator

from ragtrial.dataset.faults import Faults, shown
from ragtrial.dataset.json_places import fault_in, json_value
from ragtrial.dataset.texts import normalised
from ragtrial.errors import LabelsError, RunFileError, listed
from ragtrial.options import validate
from ragtrial.records import ExperimentResults, Hit, PromptQueries, Query, QueryResult
from ragtrial.runs.formats.rows import distinct, json_lines, number_problem, ranked_run
from ragtrial.runs.qrels import Label, PackedIds, Qrels, Run, judged_documents
from ragtrial.runs.streams import Source, name_of, stem_of, text_of

if TYPE_CHECKING:
    from ragtrial.report.schema import QueryPart


def qrels_of_labels(labels: PromptQueries) -> Qrels:
    """Labels as qrels. A document with several labels (quotes) has the highest of their grades, at its first place.

    Passages that differ in line ends or Unicode form alone are one.
    """
    rows = []
    for query in labels.queries:
        spelled = spellings(query)
        rows.append([(spelled[normalised(one.doc)], one.relevance, one.group) for one in query.relevant_docs])
    return replace(_qrels(labels.queries, rows), labels=labels)


def _qrels(queries: Sequence[Query | QueryPart], labels: Sequence[Sequence[Label]]) -> Qrels:
    documents, judgments = judged_documents(labels, [query.ordered for query in queries])
    return Qrels(tuple(query.id for query in queries), PackedIds.of(documents), judgments)


def spellings(query: Query) -> dict[str, str]:
    """The first spelling of each document in the labels of a query, by its normalised text."""
    return {normalised(judgment.doc): judgment.doc for judgment in reversed(query.relevant_docs)}


def report_qrels(reference: Source, directory: Source) -> Qrels:
    """The labels that a report was scored by. Raises ReportError where there is no report."""
    from ragtrial.report.model import load_report

    queries = load_report(reference, directory).queries
    return _qrels(queries, [[(one.doc, one.relevance, one.group) for one in query.relevant_docs] for query in queries])


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


_Id = StrictStr | StrictInt


class _HitPart(BaseModel):
    doc: _Id
    score: Annotated[float, Field(strict=True, allow_inf_nan=False)] | None = None


class _ResultPart(BaseModel):
    id: _Id = ""
    query: StrictStr = ""
    contexts: list[StrictStr] | None = None
    hits: list[_HitPart] | None = None

    @model_validator(mode="after")
    def _says_enough(self) -> _ResultPart:
        if (self.contexts is None) == (self.hits is None):
            raise ValueError("must have `contexts` (texts, best first) or `hits`.")
        if self.id == "" and not self.query.strip():
            raise ValueError("must have a text under `query`, or an `id`.")
        return self


class _ExperimentPart(BaseModel):
    name: Any = None
    model: Any = None
    results: list[_ResultPart]


class _ResultsFile(RootModel[Annotated[list[_ExperimentPart], Field(min_length=1)]]):
    """A list of experiments, each with ``results``."""


def read_results(source: Source) -> list[ExperimentResults]:
    """The rankings in a JSON file of results, experiment by experiment; scores are not read.

    Queries and contexts are normalised as documents are; if a query has a context twice, perhaps with different white
    space, the first place counts. A query without an id has the id ``""``. Raises RunFileError with all faults, by
    line.
    """
    text = text_of(source, RunFileError)
    value = json_value(text, name_of(source), RunFileError, "results")
    parts = validate(_ResultsFile, value, RunFileError, fault_in(text, name_of(source))).root
    called = [next(filter(_is_name, (part.name, part.model)), stem_of(source)) for part in parts]
    pairs = zip(distinct(called), parts, strict=True)
    return [ExperimentResults(name, tuple(map(_result, part.results))) for name, part in pairs]


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def results_run(results: ExperimentResults, labels: PromptQueries | None = None) -> Run:
    """The run of an experiment, its queries named as by ``named_results``."""
    named = named_results(results, labels)
    ranked = {result.id: [(hit.doc, hit.score) for hit in result.hits] for result in named.results}
    return ranked_run(results.name, ranked, Faults("", RunFileError))


def named_results(results: ExperimentResults, labels: PromptQueries | None = None) -> ExperimentResults:
    """Results whose queries have their ids, or the id of the labelled query with the same text.

    A hit that is the passage of a label gets the spelling of the label. A query whose text has no label keeps the text
    as its id. Raises RunFileError if a query has no id and there are no labels, if several labelled queries have one
    text, or if a query has results twice.
    """
    faults = Faults("", RunFileError)
    by_id = {query.id: query for query in labels.queries} if labels else {}
    by_text = ids_by_text(labels)
    named: dict[str, QueryResult] = {}
    for index, result in enumerate(results.results):
        where = f"{results.name}: results[{index}]"
        names = [result.id] if result.id else by_text.get(result.query.strip(), [])
        if labels is None and not result.id:
            faults.add(f"{where} has no `id`, so its query can only be found by its text: give labels "
                       "(prompt_queries.json) as the qrels.")  # fmt: skip
        if len(names) > 1:
            faults.add(f"{where} has no `id`, and its text is that of the queries {', '.join(map(repr, names))}.")
        name = names[0] if names else result.query
        if name in named:
            faults.add(f"{where} has query {name!r}, which an earlier one has, too; keep one of them.")
        spelled = spellings(by_id[name]) if name in by_id else {}
        hits = tuple(replace(hit, doc=_label_of(hit.doc, spelled)) for hit in result.hits)
        named[name] = replace(result, id=name, hits=hits)
    if not named:
        faults.add(f"{results.name}: has no results.")
    faults.raise_any()
    return replace(results, results=tuple(named.values()))


def row_per_query(results: ExperimentResults, queries: Sequence[Query]) -> list[QueryResult]:
    """One result per query, in their order; an empty one if there is none.

    Raises LabelsError for results of unknown queries, and for a query with several.
    """
    counts = Counter(result.id for result in results.results)
    unknown = sorted(counts.keys() - {query.id for query in queries})
    if unknown:
        raise LabelsError(f"results of {results.name!r} have queries without labels: {listed(map(repr, unknown), 3)}.")
    twice = [repr(name) for name, count in counts.items() if count > 1]
    if twice:
        raise LabelsError(f"results of {results.name!r} have queries more than once: {listed(twice, 3)}; keep one.")
    by_id = {result.id: result for result in results.results}
    return [by_id.get(query.id) or QueryResult(query.id, (), query.text) for query in queries]


def ids_by_text(labels: PromptQueries | None) -> dict[str, list[str]]:
    """The ids of the labelled queries with each text; empty without labels."""
    by_text: dict[str, list[str]] = {}
    for query in labels.queries if labels else ():
        by_text.setdefault(query.text.strip(), []).append(query.id)
    return by_text


def _label_of(document: str, spelled: Mapping[str, str]) -> str:
    """The label's own spelling of a document; of a passage also where only its white space is another."""
    if document in spelled.values():
        return document
    by_words = {words(text): label for text, label in spelled.items()}
    return spelled.get(normalised(document)) or by_words.get(words(document), document)


def words(text: str) -> str:
    """A text for comparison, without regard to white space."""
    return " ".join(normalised(text).split())


def _result(part: _ResultPart) -> QueryResult:
    contexts = [normalised(text) for text in part.contexts or ()]
    first = {words(text): text for text in reversed(contexts)}
    found = [Hit(text) for text in contexts if first.pop(words(text), None) is not None]
    found += [Hit(str(hit.doc), hit.score) for hit in part.hits or ()]
    return QueryResult(str(part.id), tuple(found), normalised(part.query))
