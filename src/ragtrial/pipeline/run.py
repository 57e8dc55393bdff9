"""A run: settings that are asked the questions of labels over documents, found and checked before any work."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

from ragtrial.config import ExperimentConfig
from ragtrial.config.load import check
from ragtrial.config.metric_choice import MetricChoice, choose_metrics
from ragtrial.config.settings import (
    Setting,
    SettingFaults,
    at_options,
    chosen_settings,
    length_warnings,
    settings_of,
    uncovered_warnings,
    unheeded,
)
from ragtrial.dataset.datasets import Dataset, corpus_of, load_dataset, own_documents, with_own_documents
from ragtrial.dataset.documents import unsupported_files
from ragtrial.dataset.resolution import ResolvedLabels, forbidden_warnings, resolve
from ragtrial.errors import (
    Fault,
    InputError,
    LabelsError,
    ModelNotFoundError,
    RagtrialError,
    RunError,
    listed,
    without_frames,
    without_secrets,
)
from ragtrial.evaluation.evaluators import code_of
from ragtrial.evaluation.spans import whole_warnings
from ragtrial.pipeline.corpus import Corpus, Graph
from ragtrial.pipeline.scored_setting import ScoredSetting, Scorer
from ragtrial.pipeline.written_wordings import write_wordings
from ragtrial.progress import Listener, Silent
from ragtrial.records import PromptQueries, Question, ReportWarning
from ragtrial.registry import late
from ragtrial.report.schema import FailurePart

if TYPE_CHECKING:
    from ragtrial.pipeline.dry_run import DryRun


@dataclass(frozen=True)
class RunOptions:
    """The options of a run, apart from its config.

    ``settings`` restricts it to the settings of these names, ``limit`` to the first queries. ``strict`` makes warnings
    about labels and documents errors. ``audit`` compares every index with exact search; an index of fewer than 100,000
    vectors is always compared. ``fail_fast`` ends the run at the first setting that fails. ``listener`` follows the
    run.
    """

    settings: Sequence[str] | None = None
    limit: int | None = None
    strict: bool = False
    audit: bool = False
    fail_fast: bool = False
    listener: Listener = field(default_factory=Listener)

    def following(self, *, progress: bool | None) -> RunOptions:
        """These options with ``progress`` of a run in Python, unless they have a listener."""
        is_silent = type(self.listener) is Listener and isinstance(self.listener.progress, Silent)
        return replace(self, listener=late("cli.terminal:python_listener")(shows=progress)) if is_silent else self


Known = Mapping[tuple[str, int], ScoredSetting]
"""Settings that were scored before, by their keys."""

_NONE: Known = MappingProxyType({})


@dataclass
class RunOutcome:
    """The scored settings of a run and its failures, by name, in the order in which they ended."""

    scored: dict[str, ScoredSetting] = field(default_factory=dict)
    errors: dict[str, Exception] = field(default_factory=dict)
    failures: dict[str, FailurePart] = field(default_factory=dict)

    def fail(self, setting: str, error: Exception) -> FailurePart:
        """Keep the failure of ``setting`` as the report has it: with the traceback if ``error`` is unexpected."""
        summary, details = str(error), None
        if not isinstance(error, RagtrialError):
            summary = without_secrets(f"it broke ({type(error).__name__}: {error})")
            details = without_secrets("".join(traceback.format_exception(error)))
        if isinstance(error, ModuleNotFoundError) and error.name:
            advice = "install its package, or put its file where Python looks for it"
            summary = f"there is no module {error.name} here; {advice}"
        self.errors[setting] = without_frames(error)
        self.failures[setting] = FailurePart(name=setting, error=summary, details=details)
        return self.failures[setting]

    def error(self) -> Exception:
        """The error to raise if no setting succeeded; an unexpected error keeps its traceback."""
        faults: list[Fault] = []
        for name, error in self.errors.items():
            if not isinstance(error, RagtrialError):
                return error
            faults += (replace(fault, message=f"setting {name!r}: {fault.message}") for fault in error.faults)
        return RunError(*faults)


@dataclass(frozen=True, eq=False)
class Run:
    """Settings of a config with their documents and labels, which are loaded when first needed.

    ``given`` labels replace the labels that the config names. ``latency`` overrides whether the config measures it.
    With ``keeps_models``, models stay in memory after their last setting. ``noticed`` are warnings about the settings
    of the config.
    """

    config: ExperimentConfig
    settings: Sequence[Setting]
    options: RunOptions = RunOptions()
    given: PromptQueries | None = None
    latency: bool | None = None
    keeps_models: bool = False
    noticed: Sequence[ReportWarning] = ()

    @classmethod
    def of(
        cls, config: ExperimentConfig, options: RunOptions | None = None, labels: PromptQueries | None = None
    ) -> Run:
        """The run of ``config``; documents and labels are loaded later. Raises ConfigError."""
        check(config)
        options = options or RunOptions()
        settings, noticed = settings_of(config)
        return cls(config, chosen_settings(settings, options.settings), options, labels, noticed=noticed)

    @classmethod
    def prepare(
        cls, config: ExperimentConfig, options: RunOptions | None = None, labels: PromptQueries | None = None
    ) -> Run:
        """The run of ``config``, with everything found and checked; raises InputError with all faults."""
        run = cls.of(config, options, labels)
        run.check()
        return run

    def of_settings(
        self, settings: Sequence[Setting], *, latency: bool | None = None, keeps_models: bool = False
    ) -> Run:
        """A run of other ``settings`` over the same documents and labels."""
        run = replace(self, settings=settings, latency=latency, keeps_models=keeps_models)
        for name in ("dataset", "corpus", "resolved", "metrics", "scorer", "questions"):
            run.__dict__[name] = getattr(self, name)
        return run

    # --- documents and labels

    @cached_property
    def dataset(self) -> Dataset:
        """The place of the documents, and the labels as written, up to the limit of queries."""
        if self.given is None:
            with at_options(self.config):
                whole = load_dataset(self.config.dataset)
        else:
            whole = Dataset(corpus_of(self.config.dataset), self.given, "the given labels")
        every, kept = whole.labels.queries, whole.labels.queries[: self.options.limit]
        if len(kept) == len(every):
            return whole
        limit = ReportWarning.of_verdict("limit", f"only the first {len(kept):,} of {len(every):,} queries ran.")
        return replace(whole, labels=replace(whole.labels, queries=kept), notes=(limit, *whole.notes))

    @cached_property
    def corpus(self) -> Corpus:
        """All documents, with the stages made from them."""
        with at_options(self.config):
            return Corpus(self.config, self.options.listener.progress, self.dataset.corpus)

    @cached_property
    def resolved(self) -> ResolvedLabels:
        """The labels, looked up in all documents."""
        dataset, library, match = self.dataset, self.corpus.library, self.config.dataset.match
        threshold = self.config.evaluators.relevance_threshold
        resolved = resolve(dataset.labels, library, match, dataset.labels_file, threshold, places=dataset.places)
        for metric in self.metrics.metrics:
            metric.check_groups(has_groups=resolved.labels.have_alternatives)
        return resolved

    @cached_property
    def metrics(self) -> MetricChoice:
        """The metrics of the config, and those for labels of the kind that there are."""
        return choose_metrics(self.config, self.dataset.labels.queries)[0]

    @cached_property
    def scorer(self) -> Scorer:
        return Scorer(self.config.evaluators, self.metrics, self.resolved.labels.queries, self.corpus.library)

    @cached_property
    def questions(self) -> Sequence[Question]:
        """One question for each labelled query; a question that is a document itself names it."""
        questions = [query.question for query in self.dataset.labels.queries]
        return with_own_documents(questions, self.config.dataset, self.corpus.library)

    # --- work

    def score_all(self, known: Known = _NONE, *, were_reported: bool = False) -> RunOutcome:
        """Score all settings; a setting that fails is a value, and the others go on.

        Settings in ``known`` are not scored again. The listener gets the score of each of several settings for which
        a stage was built, and each failure, unless these ``were_reported``. Raises RunError if none was scored.
        """
        outcome, listener, runner = RunOutcome(), self.options.listener, self.corpus.runner
        primary, count = str(self.metrics.primary), len(self.settings)
        for setting in self.one_by_one():
            if setting.key in known:
                outcome.scored[setting.name] = known[setting.key].renamed(setting)
                continue
            built, scored = runner.built, self.score(setting, outcome, were_reported=were_reported)
            mean = None if scored is None else scored.evaluations[primary].mean.mean
            if count > 1 and runner.built > built and mean is not None:
                listener.notice(f"{setting.name}: {primary} {mean:.4f} ({len(outcome.scored)} of {count} settings)")
        if not outcome.scored:
            raise outcome.error()
        if not runner.built:
            listener.notice(f"Nothing was computed: all {len(runner.kept):,} stages are cached, and only scored again.")
        return outcome

    def score(self, setting: Setting, outcome: RunOutcome, *, were_reported: bool = False) -> ScoredSetting | None:
        """Make or read the stages of ``setting``, and score it; None if it fails. ``outcome`` gets either.

        Finished stages are kept. Under ``fail_fast`` the failure is raised.
        """
        try:
            scored = self.scorer.score(self.graph.result(setting))
        except MemoryError:
            raise
        except Exception as error:
            failure = outcome.fail(setting.name, error)
            if not were_reported:
                self.options.listener.failed(setting.name, failure.error)
            if self.options.fail_fast:
                raise outcome.error() from error
            return None
        outcome.scored[setting.name] = scored
        return scored

    @cached_property
    def graph(self) -> Graph:
        """The stages of the settings. Chat models write their wordings first, where a setting needs some."""
        written = write_wordings(self.settings, self.questions, self.corpus.resources)
        return Graph(self.corpus, self.settings, written, self.latency, self.options.audit)

    def one_by_one(self) -> Iterator[Setting]:
        """The settings in order. A model leaves the memory after its last setting, unless models are kept."""
        parts = ((index, part) for index, setting in enumerate(self.settings) for part in setting.tree())
        last = {part.embedder.untruncated: index for index, part in parts}
        for index, setting in enumerate(self.settings):
            yield setting
            for embedder in () if self.keeps_models else {part.embedder.untruncated for part in setting.tree()}:
                if last[embedder] == index:
                    self.corpus.resources.release(embedder)

    @property
    def used(self) -> list[Setting]:
        """The settings and all their parts, each once."""
        return list({part.ranking_key: part for setting in self.settings for part in setting.tree()}.values())

    # --- warnings

    @property
    def setting_warnings(self) -> list[ReportWarning]:
        """Warnings about the settings and their questions."""
        return [*self.noticed, *unheeded(self.settings, self.questions)]

    @property
    def warnings(self) -> list[ReportWarning]:
        """Warnings about the settings, the documents and the labels."""
        repaired = map(without_secrets, self.corpus.resources.workspace.repaired)
        return [
            *self.setting_warnings,
            *(ReportWarning("repaired", message) for message in repaired),
            *self.files_left_out,
            *self.corpus.library.notes,
            *self.dataset.notes,
            *own_documents(self.questions),
            *self._label_warnings(),
            *(warning for setting in self.settings for warning in self.corpus.prefix_warnings(setting)),
        ]

    def _label_warnings(self) -> list[ReportWarning]:
        by_span = self.config.evaluators.unit == "span"
        queries = self.resolved.labels.queries
        of_unit = whole_warnings(self.scorer.span_labels) if by_span else forbidden_warnings(queries)
        return [*self.resolved.warnings, *of_unit]

    @property
    def files_left_out(self) -> list[ReportWarning]:
        """A warning about files that no reader knows; never an error, as they may be there by accident."""
        shown = listed(f"{count} {kind}" for kind, count in unsupported_files(self.dataset.corpus).most_common())
        return [ReportWarning("passed-over", f"not read in the corpus: {shown}.")] if shown else []

    def too_long(self, setting: Setting) -> list[ReportWarning]:
        """Warnings about texts that the model of ``setting`` would cut; counted without loading the model."""
        return list(length_warnings(setting, self.graph.too_long(self.corpus.stages(setting), self.questions)))

    # --- checks before any work

    def check(self) -> None:
        """Find all that the config names: models, functions, documents, labels.

        Raises one InputError with every fault; under ``strict``, warnings are faults.
        """
        faults = self.setting_faults()
        try:
            _ = self.resolved
        except InputError as error:
            if faults:
                raise InputError(*dict.fromkeys([*faults.faults, *error.faults])) from None
            raise
        faults.raise_any()
        for setting in list(faults.unchecked):
            with faults.of(setting):
                self.check_setting(setting)
        faults.raise_any()
        if self.options.strict and (strict_faults := list(self._strict_faults())):
            raise LabelsError(*strict_faults)

    def _strict_faults(self) -> Iterator[Fault]:
        corpus = self.corpus
        yield from (Fault(self.dataset.labels_file, message=warning.message) for warning in self._label_warnings())
        warnings = [*self.setting_warnings, *corpus.library.notes]
        for setting in self.settings:
            warnings += [*self.too_long(setting), *corpus.prefix_warnings(setting)]
            chunks = corpus.chunks(setting) if setting.has_chunks and setting.chunker.may_leave_out else None
            warnings += uncovered_warnings(setting, chunks) if chunks is not None else ()
        yield from (Fault(message=warning.message) for warning in warnings)

    def setting_faults(self) -> SettingFaults:
        """Missing models, functions and files of the settings and their parts, found without loading a model."""
        faults, corpus = SettingFaults(), self.corpus  # a missing file of labels is no fault of the settings
        for function in choose_metrics(self.config)[0].functions.values():
            try:
                code_of(function)
            except ModelNotFoundError as error:
                faults.add(self.config.fault_at(function.where, str(error)))
        for setting in self.used:
            with faults.of(setting):
                corpus.prepare(setting)
        for setting in self.used:
            with faults.of(setting):
                self.check_setting(setting, loads_models=False)
        return faults

    def check_setting(self, setting: Setting, *, loads_models: bool = True) -> None:
        """Let the retriever of ``setting`` check what it needs. Raises InputError.

        Without ``loads_models``, a check that takes a model raises ModelNotFoundError.
        """
        setting.retriever.check(self.corpus.context(setting, loads_models=loads_models), self.questions)

    def notice_unlabelled(self) -> None:
        """Notify the listener before any work if no question has a label that could give a score."""
        if not any(label.relevance > 0 for query in self.resolved.labels.queries for label in query.relevant_docs):
            self.options.listener.notice(
                f"No question in {self.dataset.labels_file} has a relevant document: settings are run, but get no "
                'scores. `ragtrial search CONFIG "a question" --label` labels one.'
            )

    def dry_run(self) -> DryRun:
        """The work that a run would do, and why. Raises InputError for missing inputs."""
        from ragtrial.pipeline.dry_run import dry_run

        faults = SettingFaults()
        for setting in self.used:
            with faults.of(setting):
                setting.retriever.hashed_content(self.corpus.resources.digest)
                self.corpus.stages(setting)
        faults.raise_any()
        if faults.to_fetch:
            raise ModelNotFoundError(*faults.to_fetch, may_be_fetched=True)
        written = write_wordings(self.settings, self.questions, self.corpus.resources, asks=False)
        return dry_run(Graph(self.corpus, self.settings, written, self.latency, self.options.audit))
