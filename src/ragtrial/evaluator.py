"""The hub: RetrievalEvaluator retrieves with the settings of a config, and scores results from any source."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from ragtrial.cache.atomic import write_text
from ragtrial.config.load import AnyConfig, load_config
from ragtrial.config.metric_choice import depth_of
from ragtrial.config.settings import Setting
from ragtrial.dataset.labels import load_prompt_queries
from ragtrial.evaluation.evaluators import QueryHits, evaluate
from ragtrial.evaluation.grading import GradedRankings, grade
from ragtrial.pipeline.results import setting_parameters
from ragtrial.pipeline.run import Run, RunOptions
from ragtrial.pipeline.scored_setting import grade_given_chunks
from ragtrial.rankings import PADDING, collapse, from_rows
from ragtrial.records import ExperimentResults, FoundText, Hit, Mean, PromptQueries, Query, QueryResult
from ragtrial.runs.formats.own_files import named_results, read_results, row_per_query


class RetrievalEvaluator:
    """The hub: runs the settings of a config over labelled queries, and scores results from any source.

    ``config`` is a path, a dict or a config, as in ``load_config``. ``prompt_queries`` are labels, or their file; by
    default those that the config names. ``progress`` is that of ``run_experiment``.

    Raises ConfigError for an invalid config; LabelsError and CorpusError when labels and documents are first needed.
    """

    def __init__(
        self,
        config: AnyConfig,
        prompt_queries: PromptQueries | str | Path | None = None,
        options: RunOptions | None = None,
        *,
        progress: bool | None = None,
    ) -> None:
        labels = load_prompt_queries(prompt_queries) if isinstance(prompt_queries, str | Path) else prompt_queries
        self._run = Run.of(load_config(config), (options or RunOptions()).following(progress=progress), labels)

    def retrieve(self) -> list[ExperimentResults]:
        """The results of every setting, in the order of the config, not evaluated. Raises RunError if one fails.

        Finished work is kept; a setting that failed is tried again.
        """
        self._run.corpus.runner.failures.clear()
        queries = self._run.resolved.labels.queries  # invalid labels are an error before anything is searched
        return [self._unevaluated(setting, queries) for setting in self._run.one_by_one()]

    def run(self, results: Sequence[ExperimentResults] | str | Path) -> list[ExperimentResults]:
        """``results``, from any source, with evaluations added, per query and as means.

        A path is a JSON file of results, of which the rankings are read. Results are matched to queries by id; without
        ids by the text of the query, and then hits are texts that labels quote. A query without results scores like an
        empty result. A document ranked twice counts once, at its first rank. Evaluations that are there already are
        kept. The given values are not changed. Raises LabelsError for results of queries that are not labelled, or
        given twice.
        """
        given = read_results(results) if isinstance(results, str | Path) else results
        return [self._evaluated(result) for result in given]

    def write(self, results: Sequence[ExperimentResults], path: str | Path) -> None:
        """Write ``results`` as JSON: full precision, whole or not at all."""
        text = json.dumps(list(results), default=_json_value, ensure_ascii=False, allow_nan=False, indent=1)
        write_text(Path(path), text + "\n")

    def _unevaluated(self, setting: Setting, queries: Sequence[Query]) -> ExperimentResults:
        ranked, results = self._run.graph.ranked(setting), []
        chunks = ranked.candidates.units
        rows = zip(ranked.units.tolist(), ranked.rankings.scores.tolist(), strict=True)
        for query, (units, scores) in zip(queries, rows, strict=True):
            hits = []
            for unit, score in zip(units, scores, strict=True):
                if unit != PADDING:
                    span = chunks.span(unit)
                    hits.append(Hit(chunks.document_id(unit), score, chunks.id(unit), span.start, span.end))
            results.append(QueryResult(query.id, tuple(hits), query.text))
        return ExperimentResults(setting.name, tuple(results), setting_parameters(setting))

    def _evaluated(self, results: ExperimentResults) -> ExperimentResults:
        if all(result.id for result in results.results):
            queries = self._queries_for(results)
        else:
            labels = self._run.dataset.labels
            results, queries = named_results(results, labels), labels.queries
        rows = row_per_query(results, queries)
        run, graded = self._run, self._graded(results.name, rows, queries)
        hits = QueryHits(run.metrics.functions, queries, lambda index: self._hits(rows[index]))
        evaluations = evaluate(run.metrics.metrics, graded, run.config.evaluators.no_relevant, hits)
        scored = []
        for index, row in enumerate(rows):
            values = {name: evaluation.of(index) for name, evaluation in evaluations.items()}
            scored.append(replace(row, evaluations={**values, **row.evaluations}))
        means: dict[str, Mean] = {}
        for name in evaluations:
            known = [value for row in scored if (value := row.evaluations.get(name)) is not None]
            means[name] = Mean(float(np.mean(known)) if known else None, len(known))
        return replace(results, results=tuple(scored), evaluations={**means, **results.evaluations})

    def _queries_for(self, results: ExperimentResults) -> Sequence[Query]:
        """The labelled queries. Only passages need the documents; ids of documents are compared as they are.

        Hits with a chunk come from ``retrieve``, which looked the labels up.
        """
        run = self._run
        by_passage = run.config.evaluators.unit == "span" or run.config.dataset.match == "content"
        was_retrieved = any(hit.chunk is not None for result in results.results for hit in result.hits)
        return (run.resolved.labels if by_passage or was_retrieved else run.dataset.labels).queries

    def _hits(self, row: QueryResult) -> list[FoundText]:
        """The hits of a query, each once; with the text if its characters are given, as in ``retrieve``."""
        by_span, distinct, hits = self._run.config.evaluators.unit == "span", dict[Any, Hit](), list[FoundText]()
        for hit in row.hits:
            distinct.setdefault((hit.doc, hit.start, hit.end) if by_span else hit.doc, hit)
        for rank, hit in enumerate(distinct.values(), 1):
            title, text = "", None
            if hit.start is not None and hit.end is not None:
                library = self._run.corpus.library
                position = library.positions[hit.doc]
                title, text = library.titles[position], library.text(position)[hit.start : hit.end]
            hits.append(FoundText(rank, hit.doc, title, hit.start, hit.end, hit.score, text))
        return hits

    def _graded(self, name: str, rows: Sequence[QueryResult], queries: Sequence[Query]) -> GradedRankings:
        run, options = self._run, self._run.config.evaluators
        hits, depth = [row.hits for row in rows], depth_of(run.config)
        if options.unit == "span":
            return grade_given_chunks(name, hits, run.scorer.span_labels, run.corpus.library, depth, options)
        documents: dict[str, int] = {}
        codes = [[documents.setdefault(hit.doc, len(documents)) for hit in row] for row in hits]
        unique = collapse(from_rows(codes), np.arange(len(documents), dtype=np.int32)).rankings
        return grade(unique, list(documents), queries, depth, options.relevance_threshold)


def _json_value(value: Any) -> dict[str, Any]:
    """The JSON object of a record, or of a mapping that is no dict."""
    return dict(value) if isinstance(value, Mapping) else {one.name: getattr(value, one.name) for one in fields(value)}
