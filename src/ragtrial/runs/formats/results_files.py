"""Results as JSON: those that RetrievalEvaluator writes, and the form in which results of its model were published.

The published form has texts in the place of ids: its documents are the texts themselves (``contexts``), and a query
is known by its text. ``results_run`` brings them together with labels by passage.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, Field, RootModel, StrictInt, StrictStr, model_validator

from ragtrial.dataset.faults import Faults
from ragtrial.dataset.json_places import fault_in, json_value
from ragtrial.dataset.texts import normalised
from ragtrial.errors import RunFileError
from ragtrial.options import validate
from ragtrial.records import ExperimentResults, Hit, PromptQueries, QueryResult
from ragtrial.runs.formats.gathering import distinct, ranked_run
from ragtrial.runs.formats.own_files import spellings
from ragtrial.runs.qrels import Run
from ragtrial.runs.streams import Source, name_of, stem_of, text_of

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
    """The rankings in a JSON file of results, experiment by experiment; what was said of them is not read.

    Queries and contexts are normalised as documents are; a context that a query has twice, perhaps with other white
    space, counts once, at its first place. A query without an id has the id ``""``. Raises RunFileError with
    everything that is wrong, by line.
    """
    text = text_of(source, RunFileError)
    value = json_value(text, name_of(source), RunFileError, "results")
    parts = validate(_ResultsFile, value, RunFileError, fault_in(text, name_of(source))).root
    called = [next(filter(_is_name, (part.name, part.model)), stem_of(source)) for part in parts]
    return [
        ExperimentResults(name, tuple(map(_result, part.results)))
        for name, part in zip(distinct(called), parts, strict=True)
    ]


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def results_run(results: ExperimentResults, labels: PromptQueries | None = None) -> Run:
    """The run of an experiment, its queries named by id: their own, else that of the labelled query of the same text.

    A hit that is the passage of a label is called what the label calls it. A query whose text is not labelled keeps it
    as its id, and is one that nobody judged. Raises RunFileError if a query has no id and there are no labels, if a
    text is that of several labelled queries, or if a query has results twice.
    """
    faults = Faults("", RunFileError)
    by_id = {query.id: query for query in labels.queries} if labels else {}
    by_text: dict[str, list[str]] = {}
    for query in by_id.values():
        by_text.setdefault(query.text.strip(), []).append(query.id)
    ranked: dict[str, list[tuple[str, float | None]]] = {}
    for index, result in enumerate(results.results):
        where = f"{results.name}: results[{index}]"
        names = [result.id] if result.id else by_text.get(result.query.strip(), [])
        if labels is None and not result.id:
            faults.add(f"{where} has no `id`, so its query can only be found by its text: give labels "
                       "(prompt_queries.json) as the qrels.")  # fmt: skip
        if len(names) > 1:
            faults.add(f"{where} has no `id`, and its text is that of the queries {', '.join(map(repr, names))}.")
        name = names[0] if names else result.query
        if name in ranked:
            faults.add(f"{where} has query {name!r}, which an earlier one has, too; keep one of them.")
        spelled = spellings(by_id[name]) if name in by_id else {}
        ranked[name] = [(_label_of(hit.doc, spelled), hit.score) for hit in result.hits]
    if not ranked:
        faults.add(f"{results.name}: has no results.")
    faults.raise_any()
    return ranked_run(results.name, ranked, faults)


def _label_of(document: str, spelled: Mapping[str, str]) -> str:
    """The label's own spelling of a document; of a passage also where only its white space is another."""
    if document in spelled.values():
        return document
    by_words = {_words(text): label for text, label in spelled.items()}
    return spelled.get(normalised(document)) or by_words.get(_words(document), document)


def _words(text: str) -> str:
    return " ".join(normalised(text).split())


def _result(part: _ResultPart) -> QueryResult:
    contexts = [normalised(text) for text in part.contexts or ()]
    first = {_words(text): text for text in reversed(contexts)}
    found = [Hit(text) for text in contexts if first.pop(_words(text), None) is not None]
    found += [Hit(str(hit.doc), hit.score) for hit in part.hits or ()]
    return QueryResult(str(part.id), tuple(found), normalised(part.query))
