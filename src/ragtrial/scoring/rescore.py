"""Rescoring: the rankings of a report scored by other labels or metrics, as another report."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import get_args

import numpy as np

from ragtrial.config import ExperimentConfig, load_config
from ragtrial.config.load import check, config_as_written
from ragtrial.config.metric_choice import MetricChoice, PlacedFunction, choose_metrics
from ragtrial.config.settings import Setting, settings_of
from ragtrial.dataset.chunks import Chunks
from ragtrial.dataset.datasets import corpus_of
from ragtrial.dataset.library import Library, NamedDocuments
from ragtrial.dataset.resolution import forbidden_warnings, resolve, unlabelled_share
from ragtrial.dataset.spans import ChunkSpans
from ragtrial.errors import ConfigError, CorpusError, Fault, InputError, LabelsError, MetricError, ReportError, listed
from ragtrial.evaluation.context_sizes import ContextSizes, context_sizes
from ragtrial.evaluation.metrics import parse_metric
from ragtrial.evaluation.metrics.base import MetricFamily
from ragtrial.evaluation.metrics.spelling import spellings
from ragtrial.evaluation.separation import top_scores
from ragtrial.evaluation.spans import whole_warnings
from ragtrial.options import VARIABLE
from ragtrial.pipeline.corpus import Corpus
from ragtrial.pipeline.corpus_stages import fingerprint_of
from ragtrial.pipeline.reporting import build_report, grades_row
from ragtrial.pipeline.scored_setting import KNOWN, ScoredSetting, Scorer, context_parts
from ragtrial.progress import Progress, Silent
from ragtrial.rankings import PADDING, Bools, Codes, Counts, Rankings, from_rows
from ragtrial.records import FoundText, PromptQueries, ReportWarning
from ragtrial.report.model import PARTS, Report, Row, write_report
from ragtrial.report.schema import QueryColumns, SettingPart
from ragtrial.scoring.as_report import check_new
from ragtrial.scoring.labels import ChosenLabels, choose_labels

_OF_LABELS = {
    "chunk-labels", "tag-contradicts", "ties",
    "no-relevant", "same-label", "label-moved", "text-changed", "quote-twice", "passage-twice", "no-passage",
    "overlay", "overlay-missing", "limit", "index-loss", "budget-not-full", "skipped", "easy-unanswerable",
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
        raise InputError(
            f"run {report.run_id} was written by `ragtrial score`, which scores its rankings again: "
            "ragtrial score LABELS REPORT -o FOLDER."
        )
    if config_file is None and labels is not None and Path(labels).suffix in (".yaml", ".yml"):
        config_file = labels
    named = None if config_file is None else load_config(config_file)
    config = _config(report, overrides, metrics, named)
    chosen = choose_labels(report, labels)
    choice, faults = choose_metrics(config, chosen.labels.queries)
    ConfigError.raise_any([config.fault_at(where, message) for where, message in faults])
    check(config)
    choice = replace(choice, functions=_functions(choice, metrics, named))
    notes = list(chosen.warnings)
    rescoring = _Rescoring(report, config, choice, chosen, config_file, progress or Silent(), notes)
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
    InputError.raise_any(faults)
    written = dict(report.config)
    if metrics is not None:
        chosen = [parse_metric(name) for name in spellings(metrics)]
        if not chosen:
            raise MetricError(f"{metrics!r} names no metric; write them like ndcg@10,ap,rbp(p=0.8)@10.")
        written["evaluators"] = {**written.get("evaluators", {}), "primary_metric": str(chosen[0])}
        for family in get_args(MetricFamily):
            names = [str(metric) for metric in chosen if metric.definition.family == family]
            written["evaluators"][family] = {"k": [], "metrics": names}
    try:
        return config_as_written(written, report.folder, overrides, f"the config of run {report.run_id}", named)
    except ConfigError as error:
        if named is not None or not VARIABLE.search(json.dumps(report.config)):
            raise
        message = "its variables are not read unless a config is named that has them: --config CONFIG."
        raise ConfigError(*error.faults, Fault(f"the config of run {report.run_id}", message=message)) from error


def _functions(
    choice: MetricChoice, metrics: str | None, named: ExperimentConfig | None
) -> Mapping[str, PlacedFunction]:
    """The functions to call: those that the ``named`` config has, or that were typed as ``metrics``, found from here.

    A report names none that is imported. Raises InputError for functions that only the report names.
    """
    known = dict(choose_metrics(named)[0].functions) if named else {}
    typed = {metric.name for metric in map(parse_metric, spellings(metrics or ""))}
    known |= {name: PlacedFunction(name, Path.cwd()) for name in choice.functions if name in typed - known.keys()}
    if unknown := choice.functions.keys() - known.keys():
        raise InputError(
            f"the report has functions as metrics ({listed(sorted(unknown))}), and none is imported because a report "
            "names it. Name the config that has them, --config CONFIG, or the metrics to score by, --metrics."
        )
    return known


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
    return write_report(report, folder.parent, rankings, texts, text, name=folder.name)


def _rows(parent: Report, scored: ScoredSetting, queries: Sequence[str]) -> Iterator[Row]:
    """The rows of a setting's rankings with the new grades."""
    for index, row in enumerate(parent.rankings(scored.name, queries)):
        yield {**row, "grades": grades_row(scored.graded, index, len(row["docs"]))}


@dataclass(eq=False)
class _Rescoring:
    """A report, and the labels and metrics by which it is scored now."""

    report: Report
    config: ExperimentConfig
    metrics: MetricChoice
    chosen: ChosenLabels
    config_file: str | Path | None
    progress: Progress
    warnings: list[ReportWarning]

    @cached_property
    def settings(self) -> dict[str, Setting]:
        """The settings of the config, by name. Raises ReportError if the report has others, as an edited one may."""
        settings = {setting.name: setting for setting in settings_of(self.config)[0]}
        if strange := [part.name for part in self.report.settings if part.name not in settings]:
            raise ReportError(
                f"run {self.report.run_id} has the settings {listed(strange, 3)}, which its own config does not make. "
                "Run the experiment again."
            )
        return settings

    @cached_property
    def stored(self) -> list[StoredSetting]:
        queries, top_ks = [query.id for query in self.chosen.labels.queries], self.settings
        parts = self.report.settings
        return [stored_setting(self.report, part, queries, top_ks[part.name].retriever.top_k) for part in parts]

    @cached_property
    def corpus(self) -> Corpus | None:
        """The documents, if the labels need them; if documents would only be useful, None without them."""
        by_span = self.config.evaluators.unit == "span"
        labels = (label for query in self.chosen.labels.queries for label in query.relevant_docs)
        whole = by_span and any(not label.spans for label in labels)
        needed = whole or self.chosen.need_texts(by_content=self.config.dataset.match == "content")
        if not (needed or by_span or self.config_file):
            return None
        try:
            return documents_of(self.report, self.config_file, self.progress)
        except DocumentsNotFoundError:
            if needed or self.config_file:
                raise
            return None

    @cached_property
    def library(self) -> Library:
        """The documents; without them, the ids in rankings and labels. Raises LabelsError if these share none."""
        if self.corpus:
            return self.corpus.library
        names = dict.fromkeys(doc for stored in self.stored for doc in stored.docs)
        names |= dict.fromkeys(label.doc for query in self.report.queries for label in query.relevant_docs)
        labelled = dict.fromkeys(label.doc for query in self.chosen.labels.queries for label in query.relevant_docs)
        known = NamedDocuments(names)
        strange = [doc for doc in labelled if known.position(doc) is None]
        message = (
            f"documents in the labels that are in no stored ranking and in no earlier label: {len(strange):,} of "
            f"{len(labelled):,} ({listed(strange, 5)})."
        )
        if strange and len(strange) == len(labelled):
            which = f"The report has {listed(names, 3)}. Are these the labels of another data set?"
            raise LabelsError(Fault(self.chosen.file, message=f"{message} {which}"))
        if strange:
            unchecked = "They count as not found; whether they exist was not checked (--config CONFIG does)."
            self.warnings.append(ReportWarning.of_verdict("unknown-documents", f"{message} {unchecked}"))
        return NamedDocuments([*names, *strange])

    @cached_property
    def labels(self) -> PromptQueries:
        """The labels, looked up in the documents."""
        chosen, threshold = self.chosen, self.config.evaluators.relevance_threshold
        if chosen.are_places:
            unlabelled = unlabelled_share(chosen.labels, threshold, chosen.file)
            self.warnings += [unlabelled] if unlabelled else []
            return chosen.labels
        match = "id" if chosen.are_qrels else self.config.dataset.match
        resolved = resolve(chosen.labels, self.library, match, chosen.file, threshold)
        self.warnings += resolved.warnings
        return resolved.labels

    def scored(self) -> list[ScoredSetting]:
        """Each setting by the new labels and metrics."""
        options, library, labels = self.config.evaluators, self.library, self.labels
        scorer, by_span = Scorer(options, self.metrics, labels.queries, library), options.unit == "span"
        self.warnings += whole_warnings(scorer.span_labels) if by_span else forbidden_warnings(labels.queries)
        names = {name for stored in self.stored for name in stored.names}
        texts = self.report.texts(names if self.metrics.functions else ())
        scored = []
        for stored in self.stored:
            name, whole = stored.part.name, self._all_chunks(stored) if by_span else None
            if by_span and whole is None:
                message = (
                    f"{name}: what its chunks allow (span_precision_ceiling) is not known, since only the chunks in "
                    "rankings are. --config CONFIG names where the others are; or run the experiment again."
                )
                self.warnings.append(ReportWarning("chunks-not-known", message))
            if options.budget is not None and stored.sizes.tokens is None:
                message = f"{name}: the run counted no tokens, so there are no scores within the budget."
                self.warnings.append(ReportWarning("budget-not-known", message))
            scored.append(stored.scored(scorer, library, whole, texts))
        return scored

    def _all_chunks(self, stored: StoredSetting) -> Chunks | None:
        """All chunks that ``stored`` ranks, if they are cached or can be cut without a model."""
        for setting in self.settings[stored.part.name].tree() if self.corpus else ():
            chunks = self.corpus.chunks(setting, loads_models=False) if self.corpus else None
            if chunks is not None and stored.are_of(chunks):
                return chunks
        return None

    def report_of(self, scored: Sequence[ScoredSetting]) -> Report:
        """The report of the settings, not yet written."""
        report = self.report
        return build_report(
            scored,
            self.labels,
            self.metrics,
            self.config.evaluators,
            self.library,
            [*self._kept_warnings(), *self.warnings],
            documents=report.dataset.model_dump(include={"documents", "empty_documents", "documents_fingerprint"}),
            packages=report.environment.get("packages", ()),
            parent=report.original_run,
            experiment=report.experiment,
            config=self.config.as_written,
            search=report.search,
            failures=report.failures,
        )

    def _kept_warnings(self) -> Iterator[ReportWarning]:
        """The warnings of the parent that still hold."""
        left_out = _OF_LABELS if all(stored.is_all for stored in self.stored) else _OF_LABELS | _OF_QUERIES
        for warning in self.report.warnings:
            if warning.code not in left_out:
                yield ReportWarning(**dict(warning))
        if any(setting.audit for setting in self.report.settings):
            yield ReportWarning(
                "audit-of-parent",
                f"indexes were compared with exact search in run {self.report.run_id}, by its labels: what they lose "
                "by these is not known.",
            )


# --- stored rankings


@dataclass(frozen=True, eq=False)
class StoredSetting:
    """The stored hits of a setting for some queries, in their order.

    The codes in ``ranked`` number the chunks: their ``names``, ``docs``, and ``columns``, int64 (chunks, 3), with
    start, end and tokens (-1 if unknown). ``top_k`` is the number of kept hits; ``is_all`` says whether these are all
    queries of the report.
    """

    query_ids: Sequence[str]
    part: SettingPart
    per_query: QueryColumns
    ranked: Rankings
    names: Sequence[str]
    docs: Sequence[str]
    columns: Counts
    top_k: int
    is_all: bool

    @cached_property
    def sizes(self) -> ContextSizes:
        """The sizes of the first hits."""
        start, end, tokens = self.columns.T
        characters, known = (np.append(sizes, 0)[self.ranked.codes] for sizes in (end - start, tokens))
        return context_sizes(characters, known if (tokens >= 0).all() else None)

    def hits(self, texts: Mapping[str, Row], row: int) -> list[FoundText]:
        """The hits of the query at ``row``, with those of the ``texts`` by chunk that are known."""
        hits, scores = [], self.ranked.scores[row].tolist()
        for rank, (code, score) in enumerate(zip(self.ranked.codes[row].tolist(), scores, strict=True), 1):
            if code != PADDING:
                text, (start, end, _) = texts.get(self.names[code], {}), self.columns[code].tolist()
                known, title = None if math.isnan(score) else score, text.get("title", "")
                hits.append(FoundText(rank, self.docs[code], title, start, end, known, text.get("text")))
        return hits

    def scored(self, scorer: Scorer, library: Library, whole: Chunks | None, texts: Mapping[str, Row]) -> ScoredSetting:
        """The setting with its scores by other labels. ``whole`` are all of its chunks, if known.

        The loss of an index is unknown, since its exact rankings are not stored.
        """
        part, top_k = self.part, self.top_k
        skipped = np.array(self.per_query.skipped, dtype=np.bool_)
        rankings, spans = self._scored_rankings(library, whole, by_span=scorer.options.unit == "span")
        hits, is_whole = partial(self.hits, texts), whole is not None
        judged = scorer.judge(rankings, spans, self.sizes, skipped, top_k, hits, is_whole=is_whole)
        measured = {context.k: context for context in part.context} if self.is_all else {}
        audit = part.audit and part.audit.model_copy(update={"lost": dict.fromkeys(judged.evaluations)})
        return ScoredSetting(
            name=part.name,
            query_ids=tuple(self.query_ids),
            evaluations=judged.evaluations,
            known={name: getattr(part, name) for name in KNOWN},
            counts=part.counts if self.is_all else self._counts(skipped),
            short=self.per_query.short,
            skipped=skipped,
            collapsed=self.per_query.collapsed,
            top_scores=top_scores(self.ranked, skipped, are_comparable=part.comparable),
            judged=judged,
            audit=audit if self.is_all else None,
            context=[measured.get(one.k, one) for one in context_parts(judged.evaluations, self.sizes, top_k, skipped)],
        )

    def _scored_rankings(
        self, library: Library, whole: Chunks | None, *, by_span: bool
    ) -> tuple[Rankings, ChunkSpans | None]:
        """The rankings of documents, by position in ``library``; or of chunks, with their positions."""
        positions = np.array([library.positions.get(doc, PADDING) for doc in self.docs], dtype=np.int32)
        if not by_span:
            return self._recoded(positions), None
        if whole is None:
            return self.ranked, ChunkSpans(positions, self.columns[:, 0], self.columns[:, 1])
        code = {name: position for position, name in enumerate(whole.ids(range(len(whole))))}
        own = np.array([code[name] for name in self.names], dtype=np.int32)
        return self._recoded(own), ChunkSpans(whole.document, whole.start, whole.end)

    def _recoded(self, codes: Codes) -> Rankings:
        """The rankings with other codes: the chunk at each position gets the code at this position in ``codes``."""
        return Rankings(np.append(codes, np.int32(PADDING))[self.ranked.codes], self.ranked.scores)

    def _counts(self, skipped: Bools) -> dict[str, int | None]:
        """The counts of the setting over these queries; None for counts that are known for all queries only."""
        collapsed, kept = sum(self.per_query.collapsed), int(self.ranked.lengths.sum())
        own: dict[str, int | None] = {
            "queries_too_long": None,
            "chunks_read": kept + collapsed,
            "chunks_collapsed": collapsed,
            "documents_kept": kept,
            "chunks_kept": kept,
            "queries_short": int((self.ranked.lengths < self.top_k).sum()),
            "queries_without_hits": int(((self.ranked.lengths == 0) & ~skipped).sum()),
            "queries_skipped": int(skipped.sum()),
        }
        return {name: own.get(name, count) for name, count in self.part.counts.items()}

    def are_of(self, chunks: Chunks) -> bool:
        """True if ``chunks`` include all ranked chunks, and are as many as the report counts."""
        is_as_many = self.part.counts.get("chunks") in (None, len(chunks))
        return is_as_many and set(self.names) <= set(chunks.ids(range(len(chunks))))


def stored_setting(report: Report, setting: SettingPart, queries: Sequence[str], top_k: int) -> StoredSetting:
    """The rankings of a setting of ``report`` for ``queries``. Raises ReportError if they are missing."""
    index_of = {query.id: index for index, query in enumerate(report.queries)}
    chunks: dict[str, tuple[str, int, int, int]] = {}
    names, scores = list[list[str]](), list[list[float]]()
    try:
        for row in report.rankings(setting.name, queries):
            tokens = row.get("tokens", [-1] * len(row["docs"]))
            parts = zip(row["docs"], row["starts"], row["ends"], tokens, strict=True)
            for name, part in zip(row["chunks"], parts, strict=True):
                chunks.setdefault(name, part)
            names.append(row["chunks"])
            scores.append([math.nan if score is None else score for score in row["scores"]])
        code_of = {name: code for code, name in enumerate(chunks)}
        ranked = from_rows([[code_of[name] for name in row] for row in names], scores)
        columns = np.array([own for _, *own in chunks.values()], dtype=np.int64).reshape(-1, 3)
    except (LookupError, TypeError, ValueError, OverflowError) as error:
        message = f"is damaged: it lacks what report.json names ({error}); run the experiment again."
        raise ReportError(Fault(str(report.ranking_file(setting.name)), message=message)) from error
    per_query, docs = setting.per_query.at([index_of[query] for query in queries]), [doc for doc, *_ in chunks.values()]
    is_all = len(queries) == len(index_of)
    return StoredSetting(queries, setting, per_query, ranked, list(chunks), docs, columns, top_k, is_all)


# --- the documents of a report


class DocumentsNotFoundError(CorpusError):
    """The documents of a report are not available."""


def documents_of(report: Report, config_file: str | Path | None, progress: Progress) -> Corpus:
    """The documents of the config in ``config_file``, which must equal the documents of ``report``.

    Raises DocumentsNotFoundError without a config, or if its documents have changed.
    """
    if config_file is None:
        raise DocumentsNotFoundError(
            f"the documents of run {report.run_id} are needed, to find the passages that labels mean. Name the config "
            "that it was run with: --config CONFIG."
        )
    return Corpus(config_with_documents(report, config_file), progress)


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


def is_of_given_runs(report: Report) -> bool:
    """True if ``ragtrial score -o`` wrote the report."""
    return set(report.config) == {"score"}
