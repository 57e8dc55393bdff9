"""Results as JSON: those that RetrievalEvaluator writes, and the form in which results of its model were published.

The published form has texts in the place of ids: its documents are the texts themselves (``contexts``), and a query
is known by its text. ``results_run`` brings them together with labels by passage.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from ragtrial.dataset.texts import normalised
from ragtrial.errors import RunFileError
from ragtrial.records import ExperimentResults, Hit, Mean, PromptQueries, QueryResult
from ragtrial.runs.faults import Faults, shown
from ragtrial.runs.formats.gathering import id_of
from ragtrial.runs.formats.labelled import spellings
from ragtrial.runs.formats.mappings import json_text
from ragtrial.runs.formats.report_runs import is_descending, ranked_run
from ragtrial.runs.qrels import Run
from ragtrial.runs.streams import Source, name_of, stem_of


def read_results(source: Source) -> list[ExperimentResults]:
    """The results of a JSON file, experiment by experiment.

    Queries and contexts are normalised as documents are; a context that a query has twice, perhaps with other white
    space, counts once, at its first place. A query without an id has the id ``""``. Raises RunFileError with
    everything that is wrong, by path.
    """
    faults = Faults(name_of(source), RunFileError)
    value, _ = json_text(source, faults)
    if not isinstance(value, list) or not value:
        raise faults.fail("must be a list of experiments, each with `results`.")
    made = [_experiment(entry, f"[{index}]", stem_of(source), faults) for index, entry in enumerate(value)]
    faults.raise_any()
    return _with_unique_names(made)


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
    rows: dict[str, list[Hit]] = {}
    for index, result in enumerate(results.results):
        where = f"{results.name}: results[{index}]"
        name = result.id or _by_text(result, by_text, where, faults, has_labels=labels is not None)
        if name in rows:
            faults.add(f"{where} has query {name!r}, which an earlier one has, too; keep one of them.")
        spelled = spellings(by_id[name]) if name in by_id else {}
        rows[name] = [Hit(_label_of(hit.doc, spelled), hit.score) for hit in result.hits]
    if not rows:
        faults.add(f"{results.name}: has no results.")
    faults.raise_any()
    hits = [hit for row in rows.values() for hit in row]
    scores = [hit.score for hit in hits if hit.score is not None]
    known = len(scores) == len(hits) and all(is_descending([hit.score or 0.0 for hit in row]) for row in rows.values())
    documents = [hit.doc for hit in hits]
    return ranked_run(
        results.name, list(rows), list(map(len, rows.values())), documents, scores if known else None, faults
    )


def _label_of(document: str, spelled: Mapping[str, str]) -> str:
    """The label's own spelling of a document; of a passage also where only its white space is another."""
    if document in spelled.values():
        return document
    by_words = {_words(text): label for text, label in spelled.items()}
    return spelled.get(normalised(document)) or by_words.get(_words(document), document)


def _words(text: str) -> str:
    return " ".join(normalised(text).split())


def _by_text(
    result: QueryResult, by_text: Mapping[str, Sequence[str]], where: str, faults: Faults, *, has_labels: bool
) -> str:
    if not has_labels:
        faults.add(
            f"{where} has no `id`, so its query can only be found by its text: give labels (prompt_queries.json) "
            "as the qrels."
        )
    names = by_text.get(result.query.strip(), [])
    if len(names) > 1:
        faults.add(f"{where} has no `id`, and its text is that of the queries {', '.join(map(repr, names))}.")
    return names[0] if names else result.query


def _experiment(entry: object, path: str, stem: str, faults: Faults) -> ExperimentResults:
    rows = entry.get("results") if isinstance(entry, dict) else None
    if not isinstance(entry, dict) or not isinstance(rows, list):
        faults.add(f"{path} must be an object with a list under `results`; found {shown(entry)}.")
        return ExperimentResults("", ())
    name = next((entry[key] for key in ("name", "model") if isinstance(entry.get(key), str) and entry[key]), stem)
    parameters = {key: value for key, value in entry.items() if key in ("model", "parameters", "timestamp_end")}
    own = entry.get("parameters")
    results = tuple(_result(row, f"{path}.results[{index}]", faults) for index, row in enumerate(rows))
    return ExperimentResults(
        name, results, own if isinstance(own, dict) else parameters, _means(entry.get("evaluations"))
    )


def _result(row: object, path: str, faults: Faults) -> QueryResult:
    if not isinstance(row, dict):
        faults.add(f"{path} must be an object; found {shown(row)}.")
        return QueryResult("")
    name, text = row.get("id", ""), row.get("query", "")
    identity = id_of(name)
    if identity is None:
        faults.add(f"{path}.id is {shown(name)}; an id is a string or a whole number.")
    if not isinstance(text, str) or not (text.strip() or identity):
        faults.add(f"{path} must have a text under `query`, or an `id`; found {shown(text)}.")
        text = ""
    if ("contexts" in row) == ("hits" in row):
        faults.add(f"{path} must have `contexts` (texts, best first) or `hits`.")
    hits = _hits(row["hits"], path, faults) if "hits" in row else _contexts(row.get("contexts", []), path, faults)
    return QueryResult(identity or "", hits, normalised(text), _values(row.get("evaluations")))


def _contexts(contexts: object, path: str, faults: Faults) -> tuple[Hit, ...]:
    if not isinstance(contexts, list) or not all(isinstance(text, str) for text in contexts):
        faults.add(f"{path}.contexts must be a list of texts; found {shown(contexts)}.")
        return ()
    texts = [normalised(text) for text in contexts]
    first = {_words(text): text for text in reversed(texts)}
    return tuple(Hit(text) for text in texts if first.pop(_words(text), None) is not None)


def _hits(hits: object, path: str, faults: Faults) -> tuple[Hit, ...]:
    if not isinstance(hits, list):
        faults.add(f"{path}.hits must be a list; found {shown(hits)}.")
        return ()
    made = []
    for index, hit in enumerate(hits):
        document = id_of(hit.get("doc")) if isinstance(hit, dict) else None
        score = hit.get("score") if isinstance(hit, dict) else None
        if document is None or not (score is None or _is_number(score)):
            faults.add(
                f"{path}.hits[{index}] must have an id under `doc` and a number under `score`; found {shown(hit)}."
            )
        else:
            places = {key: hit[key] for key in ("chunk", "start", "end") if key in hit}
            made.append(Hit(document, score, **places))
    return tuple(made)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _values(evaluations: object) -> dict[str, float | None]:
    """Metric to value; what is no number is left out."""
    found = evaluations if isinstance(evaluations, dict) else {}
    return {name: value for name, value in found.items() if value is None or _is_number(value)}


def _means(evaluations: object) -> dict[str, Mean]:
    """The means that tell their n; others say nothing that could be relied on, and are left out."""
    found = evaluations if isinstance(evaluations, dict) else {}
    return {name: Mean(**one) for name, one in found.items() if isinstance(one, dict) and one.keys() == {"mean", "n"}}


def _with_unique_names(experiments: Sequence[ExperimentResults]) -> list[ExperimentResults]:
    """The experiments with names of their own: one that several share gets their number, from 1."""
    counts = Counter(one.name for one in experiments)
    seen: Counter[str] = Counter()
    made = []
    for one in experiments:
        seen[one.name] += 1
        name = f"{one.name}-{seen[one.name]}" if counts[one.name] > 1 else one.name
        made.append(ExperimentResults(name, one.results, one.parameters, one.evaluations))
    return made
