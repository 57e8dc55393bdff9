"""Rescoring: the rankings of a report scored by other labels or metrics, as another report."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

from ragtrial.config import ExperimentConfig, load_config
from ragtrial.config.load import check, config_as_written
from ragtrial.config.metric_choice import MetricChoice, choose_metrics
from ragtrial.config.settings import settings_of
from ragtrial.dataset.chunks import Chunks
from ragtrial.dataset.datasets import corpus_of
from ragtrial.dataset.library import Library, NamedDocuments
from ragtrial.dataset.resolution import resolve, unlabelled_share
from ragtrial.errors import (
    ConfigError,
    CorpusError,
    CutoffError,
    Fault,
    InputError,
    LabelsError,
    MetricError,
    ReportError,
    listed,
)
from ragtrial.evaluation.metrics import parse_metric, parse_metrics
from ragtrial.evaluation.metrics.base import Family
from ragtrial.evaluation.metrics.spelling import spellings
from ragtrial.evaluation.spans import whole_warnings
from ragtrial.options import VARIABLE
from ragtrial.pipeline import reporting
from ragtrial.pipeline.corpus import Corpus
from ragtrial.pipeline.scored_setting import ScoredSetting, Scorer
from ragtrial.pipeline.text_stages import fingerprint_of
from ragtrial.progress import Progress, Silent
from ragtrial.records import PromptQueries, ReportWarning
from ragtrial.report.model import PARTS, Report, environment, new_run_id, write_report
from ragtrial.report.rows import Row
from ragtrial.runs.inputs import RunInput
from ragtrial.scoring.as_report import check_new, write_new, write_score_report
from ragtrial.scoring.score_runs import Protocol, score_given
from ragtrial.scoring.stored import ChosenLabels, StoredSetting, choose_labels, stored_setting

_OF_LABELS = {
    "few-judged", "tag-contradicts", "ties",
    "no-relevant", "same-label", "label-moved", "text-changed", "quote-twice", "passage-twice", "no-passage",
    "overlay", "overlay-missing", "limit", "index-loss", "budget-not-full", "skipped",
}  # fmt: skip
"""Warnings about labels or metrics, which may not hold for other labels or metrics."""

_OF_QUERIES = {"short"}
"""Warnings that count queries: kept if the queries are the same."""


def rescore(
    report: Report,
    labels: str | Path | None = None,
    *,
    overrides: Sequence[str] = (),
    metrics: str | None = None,
    config_file: str | Path | None = None,
    target: str | Path | None = None,
    progress: Progress | None = None,
) -> Report:
    """Score the rankings of a run's ``report`` again, and write the result as another report.

    ``labels`` is a prompt_queries.json or qrels, by default the labels of the report; ``overrides`` set keys of
    ``evaluators``; ``metrics`` are comma-separated names that replace the metrics of the config. The numbers equal a
    run with these labels and metrics, and the same rankings. Documents are read only if labels have passages: the
    documents of ``config_file``, or of ``labels`` if it is a config. ``target`` is a new folder, by default next to the
    folder of ``report``.

    Raises ConfigError for metrics that look deeper than the kept rankings, LabelsError, DocumentsNotFoundError,
    ReportError.
    """
    if labels is None and metrics is None and not overrides:
        raise InputError("nothing would change: give --labels, --metrics, or --set evaluators...")
    if target is not None:
        check_new(Path(target))
    if is_of_given_runs(report):
        if overrides or config_file:
            raise InputError("--set and --config belong to experiments; a report of `ragtrial score` has no config.")
        return rescore_given_runs(report, labels, metrics, target)
    if config_file is None and labels is not None and Path(labels).suffix in (".yaml", ".yml"):
        config_file = labels
    config = _config(report, overrides, metrics, None if config_file is None else load_config(config_file))
    chosen = choose_labels(report, labels)
    choice, faults = choose_metrics(config, ordered=any(query.ordered for query in chosen.labels.queries))
    if faults:
        raise ConfigError(*(config.fault_at(where, message) for where, message in faults))
    check(config)
    rescoring = _Rescoring(report, config, choice, chosen, config_file, progress or Silent())
    scored = rescoring.scored()
    return _write(report, rescoring.report_of(scored), scored, target)


def _config(
    report: Report, overrides: Sequence[str], metrics: str | None, named: ExperimentConfig | None
) -> ExperimentConfig:
    """The config of ``report`` with other ``evaluators``; the first of named ``metrics`` is the primary metric.

    Raises InputError for other overrides, which would need another run; MetricError; ConfigError.
    """
    keys = [override.partition("=")[0].strip() for override in overrides]
    faults = [
        Fault(f"--set #{number}", message=f"{key} says what was ranked, which another run alone can change; only "
              "other keys of evaluators can be set.")
        for number, key in enumerate(keys, 1)
        if not key.startswith("evaluators.") or key in ("evaluators.unit", "evaluators.ties")
    ]  # fmt: skip
    if faults:
        raise InputError(*faults)
    written = dict(report.config)
    if metrics is not None:
        chosen = [parse_metric(name) for name in spellings(metrics)]
        if not chosen:
            raise MetricError(f"{metrics!r} names no metric; write them like ndcg@10,ap,rbp(p=0.8)@10.")
        written["evaluators"] = {**written.get("evaluators", {}), "primary_metric": str(chosen[0])}
        for family in get_args(Family):
            names = [str(metric) for metric in chosen if metric.definition.family == family]
            written["evaluators"][family] = {"k": [], "metrics": names}
    try:
        return config_as_written(written, report.folder, overrides, f"the config of run {report.run_id}", named)
    except ConfigError as error:
        if named is not None or not VARIABLE.search(json.dumps(report.config)):
            raise
        message = "its variables are not read unless a config is named that has them: --config CONFIG."
        raise ConfigError(*error.faults, Fault(f"the config of run {report.run_id}", message=message)) from error


def _write(parent: Report, report: Report, scored: Sequence[ScoredSetting], target: str | Path | None) -> Report:
    """Write ``report``, with rankings and texts from ``parent``, as ``target``, by default next to ``parent``.

    There it is the latest run. Raises RunError if it cannot be written.
    """
    asked = [query.id for query in report.queries]
    rankings = {one.name: _rows(parent, one, asked) for one in scored}
    for path in sorted((parent.folder / "rankings" / PARTS).glob("*.jsonl.gz")):
        name = f"{PARTS}/{path.name.removesuffix('.jsonl.gz')}"
        rankings[name] = parent.rankings(name, asked)
    texts = parent.all_texts()
    copy, own = parent.file("config.yaml"), parent.folder.absolute()
    text = copy.read_text(encoding="utf-8") if copy.is_file() else json.dumps(report.config, indent=1) + "\n"
    if target is None and (own.name, own.parent.name) == (parent.run_id, parent.experiment):
        return write_report(report, own.parent.parent, rankings, texts, text)
    folder = own.with_name(f"{own.name}-{report.run_id}") if target is None else Path(target)
    return write_new(report, folder, rankings, texts, text)


def _rows(parent: Report, scored: ScoredSetting, queries: Sequence[str]) -> Iterator[Row]:
    """The rows of a setting's rankings with the new grades."""
    for index, row in enumerate(parent.rankings(scored.name, queries)):
        yield {**row, "grades": reporting.grades_row(scored.graded, index, len(row["docs"]))}


class _Rescoring:
    """A report, and the labels and metrics by which it is scored now."""

    def __init__(
        self,
        report: Report,
        config: ExperimentConfig,
        metrics: MetricChoice,
        chosen: ChosenLabels,
        config_file: str | Path | None,
        progress: Progress,
    ) -> None:
        self._report, self._config, self._options = report, config, config.evaluators
        self._metrics, self._chosen = metrics, chosen
        self._warnings = list(chosen.warnings)
        self._of_config = {setting.name: setting for setting in settings_of(config)[0]}
        strange = [setting.name for setting in report.settings if setting.name not in self._of_config]
        if strange:
            raise ReportError(
                f"run {report.run_id} has the settings {listed(strange, 3)}, which its own config does not make: it "
                "was written by another version. Run the experiment again."
            )
        queries = [query.id for query in chosen.labels.queries]
        top_ks = {name: setting.retriever.top_k for name, setting in self._of_config.items()}
        self._settings = [stored_setting(report, part, queries, top_ks[part.name]) for part in report.settings]
        self._corpus = self._documents(config_file, progress)
        self._library: Library = self._corpus.library if self._corpus else self._named()
        self._labels = self._looked_up()

    def scored(self) -> list[ScoredSetting]:
        """Each setting by the new labels and metrics."""
        scorer = Scorer(self._options, self._metrics, self._labels.queries, self._library)
        if self._options.unit == "span":
            self._warnings += whole_warnings(scorer.span_labels)
        return [self._score(stored, scorer) for stored in self._settings]

    def _score(self, stored: StoredSetting, scorer: Scorer) -> ScoredSetting:
        name, whole = stored.part.name, self._all_chunks(stored) if self._options.unit == "span" else None
        if self._options.unit == "span" and whole is None:
            self._warn(
                "chunks-not-known",
                f"{name}: what its chunks allow (span_precision_ceiling) is not known, since only the "
                "chunks in rankings are. --config CONFIG names where the others are; or run the experiment again.",
            )
        if self._options.budget is not None and stored.sizes().tokens is None:
            message = f"{name}: the run counted no tokens, so there are no scores within the budget."
            self._warn("budget-not-known", message)
        return stored.scored(scorer, self._library, whole)

    def report_of(self, scored: Sequence[ScoredSetting]) -> Report:
        """The report of the settings, not yet written."""
        report, options, queries = self._report, self._options, reporting.query_parts(self._labels)
        warnings = [*self._kept_warnings(), *self._warnings]
        primary = self._metrics.primary
        for setting in scored:
            warnings += reporting.scoring_warnings(setting)
        warnings += reporting.judged_warnings({setting.name: setting.graded for setting in scored}, primary.k)
        tied = {setting.name: setting.judged.tied for setting in scored if setting.judged}
        warnings += reporting.tie_warnings(tied, str(primary), options.ties)
        by_span = options.unit == "span"
        dataset = {
            "queries": len(queries),
            "labels_fingerprint": reporting.labels_fingerprint(queries),
            "judged_whole": reporting.judged_whole_parts(self._labels, self._library) if by_span else {},
        }
        return report.model_copy(
            update={
                "run_id": new_run_id(datetime.now(UTC)),
                "parent": report.run_id,
                "config": self._config.as_written,
                "dataset": report.dataset.model_copy(update=dataset),
                "span_coverage": options.span_coverage if by_span else None,
                "relevance_threshold": options.relevance_threshold,
                "primary_metric": str(primary),
                "metrics": reporting.metric_parts(self._metrics, options),
                "prompt": self._labels.prompt,
                "queries": queries,
                "settings": [setting.to_part() for setting in scored],
                "warnings": reporting.warning_parts(warnings),
                "environment": environment(report.environment.get("packages", ())),
            }
        )

    def _warn(self, code: str, message: str) -> None:
        self._warnings.append(ReportWarning(code, message))

    def _documents(self, config_file: str | Path | None, progress: Progress) -> Corpus | None:
        """The documents, if the labels need them; if documents would only be useful, None without them."""
        by_span = self._options.unit == "span"
        labels = (label for query in self._chosen.labels.queries for label in query.relevant_docs)
        whole = by_span and any(not label.spans for label in labels)
        needed = whole or self._chosen.need_texts(by_content=self._config.dataset.match == "content")
        if not (needed or by_span or config_file):
            return None
        try:
            return documents_of(self._report, config_file, progress)[1]
        except DocumentsNotFoundError:
            if needed or config_file:
                raise
            return None

    def _named(self) -> NamedDocuments:
        """The documents that rankings and labels name. Raises LabelsError if these have none in common."""
        names = {doc: None for stored in self._settings for doc in stored.docs}
        names |= dict.fromkeys(label.doc for query in self._report.queries for label in query.relevant_docs)
        labelled = dict.fromkeys(label.doc for query in self._chosen.labels.queries for label in query.relevant_docs)
        known = NamedDocuments(names)
        strange = [doc for doc in labelled if known.position(doc) is None]
        message = (
            f"{len(strange):,} of the {len(labelled):,} documents in the labels are in no stored ranking and in no "
            f"earlier label: {listed(strange, 5)}."
        )
        if strange and len(strange) == len(labelled):
            which = f"The report has {listed(names, 3)}. Are these the labels of another data set?"
            raise LabelsError(Fault(self._chosen.file, message=f"{message} {which}"))
        if strange:
            unchecked = "They count as not found; whether they exist was not checked (--config CONFIG does)."
            self._warn("unknown-documents", f"{message} {unchecked}")
        return NamedDocuments([*names, *strange])

    def _looked_up(self) -> PromptQueries:
        chosen, threshold = self._chosen, self._options.relevance_threshold
        if not chosen.are_places:
            match = "id" if chosen.are_qrels else self._config.dataset.match
            resolved = resolve(chosen.labels, self._library, match, chosen.file, threshold)
            self._warnings += resolved.warnings
            return resolved.labels
        unlabelled = unlabelled_share(chosen.labels, threshold)
        self._warnings += [unlabelled] if unlabelled else []
        return chosen.labels

    def _all_chunks(self, setting: StoredSetting) -> Chunks | None:
        """All chunks that ``setting`` ranks, if they are cached or can be cut without a model."""
        for one in self._of_config[setting.part.name].tree() if self._corpus else ():
            chunks = self._corpus.chunks(one, loads_models=False) if self._corpus else None
            if chunks is not None and setting.are_of(chunks):
                return chunks
        return None

    def _kept_warnings(self) -> list[ReportWarning]:
        """The warnings of the parent that still hold."""
        left_out = _OF_LABELS if all(one.is_all for one in self._settings) else _OF_LABELS | _OF_QUERIES
        kept = [ReportWarning(one.code, one.message) for one in self._report.warnings if one.code not in left_out]
        if any(setting.audit for setting in self._report.settings):
            message = (
                f"indexes were compared with exact search in run {self._report.run_id}, by its labels: what they lose "
                "by these is not known."
            )
            kept.append(ReportWarning("audit-of-parent", message))
        return kept


# --- the documents of a report


class DocumentsNotFoundError(CorpusError):
    """The documents of a report are not available."""


def documents_of(report: Report, config_file: str | Path | None, progress: Progress) -> tuple[ExperimentConfig, Corpus]:
    """The config in ``config_file``, and its documents, which must equal the documents of ``report``.

    Raises DocumentsNotFoundError without a config, or if its documents have changed.
    """
    if config_file is None:
        raise DocumentsNotFoundError(
            f"the documents of run {report.run_id} are needed, to find the passages that labels mean. Name the config "
            "that it was run with: --config CONFIG."
        )
    config = config_with_documents(report, config_file)
    return config, Corpus(config, progress)


def config_with_documents(report: Report, config_file: str | Path) -> ExperimentConfig:
    """The config in ``config_file``. Raises DocumentsNotFoundError if ``report`` has other documents."""
    config = load_config(config_file)
    if fingerprint_of(config) != report.dataset.documents_fingerprint:
        message = (
            f"its documents, {corpus_of(config.dataset)}, are not those of run {report.run_id}: they were changed "
            "since, or it is the config of another experiment. Name the right one, or run the experiment again."
        )
        raise DocumentsNotFoundError(Fault(str(config_file), message=message))
    return config


# --- reports of runs that other tools made


def is_of_given_runs(report: Report) -> bool:
    """True if ``ragtrial score -o`` wrote the report."""
    return set(report.config) == {"score"}


def rescore_given_runs(
    report: Report, labels: str | Path | None, metrics: str | None, target: str | Path | None
) -> Report:
    """Score the rankings of a report of ``ragtrial score`` again, by its own rules, and write another report.

    ``labels`` and ``metrics`` default to those in ``report``. Raises CutoffError for metrics that look deeper than
    the kept rankings; InputError if unjudged hits were dropped from cut rankings, since hits further down are lost.
    """
    rules = report.config["score"]
    chosen = choose_labels(report, labels)
    protocol = _protocol(rules, metrics)
    deep = [
        str(metric) for metric in protocol.metrics if protocol.depth is not None and (metric.k or 0) > protocol.depth
    ]
    if metrics is not None and deep:
        raise CutoffError(
            f"{', '.join(deep)}: run {report.run_id} kept only the first {protocol.depth} hits (--depth)."
        )
    if protocol.judged_only and protocol.depth is not None and labels is not None:
        raise InputError(
            f"run {report.run_id} was scored with --judged-only and --depth {protocol.depth}: which hits would move up "
            "by other labels was not kept. Score its runs again with `ragtrial score`."
        )
    given = RunInput(chosen.labels, (str(report.folder),))
    scoring = score_given(given, protocol)
    runs = tuple(replace(run, warnings=(*chosen.warnings, *run.warnings)) for run in scoring.runs)
    sources = {"qrels": rules["qrels"] if labels is None else str(labels), "runs": rules["runs"]}
    run_id = new_run_id(datetime.now(UTC))
    folder = report.folder.with_name(f"{report.folder.name}-{run_id}") if target is None else Path(target)
    others = {"run_id": run_id, "parent": report.run_id, "config": {"score": {**protocol.as_json(), **sources}}}
    return write_score_report(replace(scoring, runs=runs), given, folder, others)


def _protocol(rules: Mapping[str, Any], metrics: str | None) -> Protocol:
    chosen = tuple(parse_metrics(rules["metrics"] if metrics is None else metrics))
    names = [field.name for field in fields(Protocol) if field.name != "metrics" and field.name in rules]
    return Protocol(chosen, **{name: rules[name] for name in names})
