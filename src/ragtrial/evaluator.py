"""The hub: RetrievalEvaluator retrieves with the settings of a config, and scores results from any source."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ragtrial.cache.atomic import write_text
from ragtrial.config import ExperimentConfig
from ragtrial.config.load import check
from ragtrial.config.metric_choice import MetricChoice, choose_metrics
from ragtrial.config.models import MOST_TIMED
from ragtrial.config.settings import (
    Setting,
    SettingFaults,
    at_options,
    chosen_settings,
    settings_of,
    too_long_warnings,
    uncovered_warnings,
    unheeded,
)
from ragtrial.dataset.datasets import Dataset, corpus_of, load_dataset, own_documents, with_own_documents
from ragtrial.dataset.documents import unsupported_files
from ragtrial.dataset.resolution import ResolvedLabels, resolve
from ragtrial.errors import Fault, InputError, LabelsError, ModelNotFoundError, listed, without_secrets
from ragtrial.evaluation.grading import grade
from ragtrial.evaluation.span_labels import whole_warnings
from ragtrial.pipeline.corpus import Corpus
from ragtrial.pipeline.graph import Graph
from ragtrial.pipeline.results import Results, SettingResult
from ragtrial.pipeline.scores import Scorer, evaluated, grade_given_chunks
from ragtrial.pipeline.setting_parameters import setting_parameters
from ragtrial.pipeline.written_wordings import WrittenWordings, write_wordings
from ragtrial.progress import Progress, Silent
from ragtrial.rankings import PADDING, collapse, from_rows
from ragtrial.records import (
    ExperimentResults,
    Hit,
    Mean,
    PromptQueries,
    Query,
    QueryResult,
    Question,
    ReportWarning,
    WarningCode,
)

if TYPE_CHECKING:
    from ragtrial.pipeline.dry_run import DryRun


class RetrievalEvaluator:
    """The hub: runs the settings of a config over labelled queries, and scores results from any source.

    ``prompt_queries`` are labels as ``load_prompt_queries`` gives them; by default those that the config names.
    ``settings`` keeps only the settings of these names, ``limit`` only the first queries; ``audit`` compares every
    index with exact search, however many vectors it has (those of fewer than 100,000 always are).

    Raises ConfigError if the config's parts do not fit together, LabelsError and CorpusError as labels and documents
    are looked up, which happens when they are first needed.
    """

    def __init__(
        self,
        config: ExperimentConfig,
        prompt_queries: PromptQueries | None = None,
        *,
        progress: Progress | None = None,
        settings: Sequence[str] | None = None,
        limit: int | None = None,
        strict: bool = False,
        audit: bool = False,
    ) -> None:
        check(config)
        self.config = config
        self._progress = progress or Silent()
        self._limit = limit
        self._strict = strict
        self._audit = audit
        self._given = prompt_queries
        self._latency: bool | None = None
        self._later: Sequence[Setting] = ()
        self._keeps_models = False
        every, self._warnings = settings_of(config)
        self.settings = chosen_settings(every, settings)

    def over(
        self,
        settings: Sequence[Setting],
        *,
        latency: bool | None = None,
        later: Sequence[Setting] = (),
    ) -> RetrievalEvaluator:
        """The same for other settings of the same documents, asked the same queries.

        ``latency`` says whether it is measured, None leaves that to the config. Rankings are as deep as the settings
        ``later`` will need them, too. Models stay in the memory; see ``one_by_one``.
        """
        _ = self.scorer  # made once, and shared
        made = copy(self)
        made.settings, made._latency, made._later = list(settings), latency, later  # noqa: SLF001 - its own
        made._keeps_models = True  # noqa: SLF001
        for name in ("graph", "results"):
            vars(made).pop(name, None)
        vars(made).update(dataset=self.dataset, resolved=self.resolved, corpus=self.corpus)
        return made

    def only(self, setting: Setting) -> RetrievalEvaluator:
        """The same for one of its settings alone, with the stages and the depths of rankings of all."""
        _ = self.results  # made once, and shared
        made = copy(self)
        made.settings = [setting]
        return made

    def among(self, positions: Sequence[int]) -> RetrievalEvaluator:
        """The same over some of the documents, by position. Labels are those of all documents."""
        made = copy(self)
        for name in ("graph", "results", "scorer"):
            vars(made).pop(name, None)
        vars(made).update(dataset=self.dataset, resolved=self.resolved, corpus=self.corpus.among(positions))
        return made

    @cached_property
    def dataset(self) -> Dataset:
        """Where the documents are, and the labels as written; of these the first, if there is a limit."""
        if self._given is None:
            with at_options(self.config):
                whole = load_dataset(self.config.dataset)
        else:
            whole = Dataset(corpus_of(self.config.dataset), self._given, "the given labels")
        every, kept = whole.labels.queries, whole.labels.queries[: self._limit]
        if len(kept) == len(every):
            return whole
        limit = ReportWarning(WarningCode.LIMIT, f"only the first {len(kept)} of {len(every)} queries were run.")
        return replace(whole, labels=replace(whole.labels, queries=kept), notes=(limit, *whole.notes))

    @cached_property
    def corpus(self) -> Corpus:
        """The documents, and what is made of them before anything is searched."""
        with at_options(self.config):
            return Corpus(self.config, self._progress, self.dataset.corpus)

    @cached_property
    def graph(self) -> Graph:
        """The stages of all settings, asked the questions of the labels."""
        return self._graph_of(write_wordings(self.settings, self.questions, self.corpus.resources))

    def _graph_of(self, written: WrittenWordings) -> Graph:
        config, unit = self.config, self.config.evaluators.unit
        wanted = config.latency if self._latency is None else self._latency
        latency = len(self.settings) <= MOST_TIMED if wanted is None else wanted
        asked = with_own_documents(written.questions, config.dataset, self.corpus.library)
        failures = written.failures
        return Graph(
            self.corpus,
            self.settings,
            asked,
            unit,
            latency=latency,
            seed=config.seed,
            later=self._later,
            failures=failures,
        )

    @cached_property
    def results(self) -> Results:
        """What makes the results of settings from their stages."""
        return Results(self.graph, self.config.embedder, self._audit, self.config.evaluators.ties)

    @cached_property
    def scorer(self) -> Scorer:
        """What scores the results of the settings by the labels."""
        return Scorer(self.config.evaluators, self.metrics, self.resolved.labels.queries, self.corpus.library)

    @cached_property
    def resolved(self) -> ResolvedLabels:
        """The labels, looked up in the documents."""
        dataset, config = self.dataset, self.config
        threshold, match = config.evaluators.relevance_threshold, config.dataset.match
        return resolve(
            dataset.labels, self.corpus.library, match, dataset.labels_file, threshold, places=dataset.places
        )

    @cached_property
    def metrics(self) -> MetricChoice:
        """The metrics of the config; rank-biased overlap among them if any query's labels are an order."""
        ordered = any(query.ordered for query in self.dataset.labels.queries)
        return choose_metrics(self.config, ordered=ordered)[0]

    @property
    def setting_warnings(self) -> list[ReportWarning]:
        """What was noticed about the settings, and of what they are asked."""
        return [*self._warnings, *unheeded(self.settings, self.questions)]

    @property
    def warnings(self) -> list[ReportWarning]:
        """What was noticed about the settings, the documents and the labels."""
        repaired = map(without_secrets, self.corpus.resources.workspace.repaired)
        return [
            *self.setting_warnings,
            *(ReportWarning(WarningCode.REPAIRED, message) for message in repaired),
            *self.files_left_out,
            *self.corpus.library.notes,
            *self.dataset.notes,
            *own_documents(with_own_documents(self.questions, self.config.dataset, self.corpus.library)),
            *self._label_warnings(),
            *(warning for setting in self.settings for warning in self.corpus.prefix_warnings(setting)),
        ]

    def _label_warnings(self) -> list[ReportWarning]:
        by_span = self.config.evaluators.unit == "span"
        return [*self.resolved.warnings, *(whole_warnings(self.scorer.span_labels) if by_span else [])]

    @property
    def files_left_out(self) -> list[ReportWarning]:
        """What is in the corpus and is not read: never an error, since nobody may have meant it to be."""
        shown = listed(f"{count} {kind}" for kind, count in unsupported_files(self.dataset.corpus).most_common())
        return [ReportWarning(WarningCode.PASSED_OVER, f"not read in the corpus: {shown}.")] if shown else []

    def prepare(self) -> None:
        """Find everything that the config names, before any work is done: models, functions, documents, labels.

        Raises InputError for what cannot be found or does not fit; under ``strict`` for warnings, too.
        """
        corpus, found = self.corpus, self.setting_faults()
        try:
            _ = self.resolved
        except InputError as error:
            if found:
                raise InputError(*dict.fromkeys([*found.faults, *error.faults])) from error
            raise
        found.raise_any()
        for setting in list(found.unchecked):
            with found.of(setting):
                self.check(setting)
        found.raise_any()
        if self._strict:
            faults = [Fault(self.dataset.labels_file, message=one.message) for one in self._label_warnings()]
            noticed = [*self.setting_warnings, *corpus.library.notes]
            for setting in self.settings:
                noticed += [*self.too_long(setting), *corpus.prefix_warnings(setting)]
                chunks = corpus.chunks(setting) if setting.has_chunks and setting.chunker.may_leave_out else None
                noticed += uncovered_warnings(setting, chunks) if chunks is not None else ()
            faults += [Fault(message=one.message) for one in noticed]
            if faults:
                raise LabelsError(*faults)

    def setting_faults(self) -> SettingFaults:
        """What the settings and their parts name and is not there, of the config alone: no model is loaded."""
        found = SettingFaults()
        for setting in self.used:
            with found.of(setting):
                self.corpus.prepare(setting)
        for setting in self.used:
            with found.of(setting):
                self.check(setting, loads_models=False)
        return found

    def check(self, setting: Setting, *, loads_models: bool = True) -> None:
        """Let the retriever of ``setting`` look for what it needs, of the config alone unless models may be loaded.

        Raises InputError, of what may be fetched ModelNotFoundError.
        """
        setting.retriever.check(self.corpus.context(setting, loads_models=loads_models), self.questions)

    def dry_run(self) -> DryRun:
        """What a run would do: what is cached, what is to do, and why. Raises InputError for inputs not found."""
        from ragtrial.pipeline.dry_run import dry_run

        found = SettingFaults()
        for setting in self.used:
            with found.of(setting):
                setting.retriever.inputs(self.corpus.resources.digest)
                self.corpus.stages(setting)
        found.raise_any()
        if found.to_fetch:
            raise ModelNotFoundError(*found.to_fetch, may_be_fetched=True)
        written = write_wordings(self.settings, self.questions, self.corpus.resources, asks=False)
        return dry_run(self.config.experiment, self._graph_of(written), written.planned, audit=self._audit)

    @property
    def used(self) -> list[Setting]:
        """The settings and all that they are made of, each once."""
        return list({one.ranking_key: one for setting in self.settings for one in setting.tree()}.values())

    @cached_property
    def questions(self) -> list[Question]:
        """What every setting is asked: a question for each labelled query."""
        return [query.question for query in self.dataset.labels.queries]

    def too_long(self, setting: Setting) -> list[ReportWarning]:
        """What the model of ``setting`` would not read to the end, counted without loading it."""
        return list(too_long_warnings(setting, self.results.too_long(self.corpus.stages(setting), self.questions)))

    def retrieve(self) -> list[ExperimentResults]:
        """The results of every setting, in the order of the config, not evaluated. Raises RunError if one fails.

        What is finished is kept; what failed when it was last called is tried again.
        """
        self.corpus.runner.failures.clear()
        queries = self.resolved.labels.queries  # wrong labels are refused before anything is searched
        return [self._unevaluated(self.results.of(setting), queries) for setting in self.one_by_one()]

    def one_by_one(self) -> Iterator[Setting]:
        """The settings in the order of the config; a model leaves the memory after the last setting that needs it,
        unless this was made by ``over``.
        """
        last = {one.embedder.whole: place for place, setting in enumerate(self.settings) for one in setting.tree()}
        for place, setting in enumerate(self.settings):
            yield setting
            for embedder in () if self._keeps_models else {one.embedder.whole for one in setting.tree()}:
                if last[embedder] == place:
                    self.corpus.resources.release(embedder)

    def run(self, results: Sequence[ExperimentResults]) -> list[ExperimentResults]:
        """``results``, from any source, with evaluations added, per query and as means.

        Results are matched to queries by id; a query without results scores as one that found nothing. A document
        ranked twice counts once, at its first rank. Evaluations that are there already are kept as they are. Nothing
        that is given is changed. Raises LabelsError for results of queries that are not labelled, or given twice.
        """
        return [self._evaluated(one) for one in results]

    def write(self, results: Sequence[ExperimentResults], path: str | Path) -> None:
        """Write ``results`` as JSON: full precision, whole or not at all."""
        text = json.dumps(list(results), default=_json_value, ensure_ascii=False, allow_nan=False, indent=1)
        write_text(Path(path), text + "\n")

    def _unevaluated(self, found: SettingResult, queries: Sequence[Query]) -> ExperimentResults:
        chunks, results = found.chunks, []
        rows = zip(found.ranked.units.tolist(), found.ranked.rankings.scores.tolist(), strict=True)
        for query, (units, scores) in zip(queries, rows, strict=True):
            hits = []
            for unit, score in zip(units, scores, strict=True):
                if unit != PADDING:
                    span = chunks.span(unit)
                    hits.append(Hit(chunks.document_id(unit), score, chunks.id(unit), span.start, span.end))
            results.append(QueryResult(query.id, tuple(hits), query.text))
        return ExperimentResults(found.setting.name, tuple(results), setting_parameters(found.setting))

    def _evaluated(self, results: ExperimentResults) -> ExperimentResults:
        # Passages become documents only through the library; ids are compared as they are, unless it is there anyway.
        options, by_span = self.config.evaluators, self.config.evaluators.unit == "span"
        looked_up = by_span or self.config.dataset.match == "content" or "resolved" in vars(self)
        queries = (self.resolved.labels if looked_up else self.dataset.labels).queries
        counts = Counter(result.id for result in results.results)
        unknown = sorted(counts.keys() - {query.id for query in queries})
        if unknown:
            raise LabelsError(
                f"results of {results.name!r} have queries without labels: {listed(map(repr, unknown), 3)}."
            )
        twice = [repr(name) for name, count in counts.items() if count > 1]
        if twice:
            raise LabelsError(f"results of {results.name!r} have queries more than once: {listed(twice, 3)}; keep one.")
        by_id = {result.id: result for result in results.results}
        rows = [by_id.get(query.id) or QueryResult(query.id, (), query.text) for query in queries]
        hits, depth = [row.hits for row in rows], max(setting.retriever.top_k for setting in self.settings)
        if by_span:
            labels, library = self.scorer.span_labels, self.corpus.library
            graded = grade_given_chunks(results.name, hits, labels, library, depth, options)
        else:
            documents: dict[str, int] = {}
            codes = [[documents.setdefault(hit.doc, len(documents)) for hit in row] for row in hits]
            unique = collapse(from_rows(codes), np.arange(len(documents), dtype=np.int32)).rankings
            graded = grade(unique, list(documents), queries, depth, options.relevance_threshold)
        made = evaluated(graded, self.metrics, options)
        scored = []
        for index, row in enumerate(rows):
            values = {name: evaluation.of(index) for name, evaluation in made.items()}
            scored.append(replace(row, evaluations={**values, **row.evaluations}))
        means: dict[str, Mean] = {}
        for name in made:
            known = [value for row in scored if (value := row.evaluations.get(name)) is not None]
            means[name] = Mean(float(np.mean(known)) if known else None, len(known))
        return replace(results, results=tuple(scored), evaluations={**means, **results.evaluations})


def _json_value(value: Any) -> dict[str, Any]:
    """What JSON has for a record, or for a mapping that is no dict."""
    return dict(value) if isinstance(value, Mapping) else {one.name: getattr(value, one.name) for one in fields(value)}
