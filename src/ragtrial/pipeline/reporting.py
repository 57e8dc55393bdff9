"""The report of scored settings: its parts, its warnings, and the rows of its other files."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ragtrial.cache.fingerprints import fingerprint
from ragtrial.components.user_functions import FunctionReference
from ragtrial.components.vector_checks import health_warnings
from ragtrial.config import ExperimentConfig
from ragtrial.config.metric_choice import MetricChoice
from ragtrial.config.models import EvaluatorOptions
from ragtrial.config.settings import Setting, length_warnings, uncovered_warnings
from ragtrial.dataset.chunks import Chunks
from ragtrial.dataset.library import Library
from ragtrial.errors import counted
from ragtrial.evaluation.evaluators import code_of
from ragtrial.evaluation.grading import GradedRankings
from ragtrial.evaluation.metrics import Metric
from ragtrial.evaluation.metrics.base import DEFINED_FOR
from ragtrial.evaluation.spans import judged_whole
from ragtrial.pipeline.measurement_stages import audit_warnings
from ragtrial.pipeline.results import ComponentRanking, Diagnostics, packages_of, setting_parameters
from ragtrial.pipeline.run import Run, RunOutcome
from ragtrial.pipeline.scored_setting import ScoredSetting
from ragtrial.pipeline.unanswerable import UnanswerableQuestions
from ragtrial.rankings import PADDING, Codes, collapse, distinct
from ragtrial.records import PromptQueries, Query, ReportWarning, Span, Unit
from ragtrial.report import schema
from ragtrial.report.model import (
    LABEL_TEXT,
    SCHEMA_VERSION,
    Report,
    environment,
    label_text,
    new_run_id,
    part_file,
    write_report,
)

_MANY_CHUNKS = 0.1  # a few passages are a chunk by chance
_ROWS_AT_ONCE = 256
_TIED = 0.001
"""The smallest range of a mean over orders of equal scores that is reported: less hardly shows among four digits."""


def report_of(run: Run, outcome: RunOutcome, config: ExperimentConfig | None = None) -> Report:
    """The report of ``run``, not yet written. ``config`` is the config to show, by default that of the run."""
    config, scored, library = config or run.config, list(outcome.scored.values()), run.corpus.library
    counts = {"documents": len(library), "empty_documents": library.empty}
    return build_report(
        scored,
        run.resolved.labels,
        run.metrics,
        config.evaluators,
        library,
        run.warnings,
        documents={**counts, "documents_fingerprint": run.corpus.fingerprint},
        packages=packages_of([setting.found.setting for setting in scored], library),
        experiment=config.experiment,
        config=config.as_written,
        failures=list(outcome.failures.values()),
    )


def write_outcome(run: Run, outcome: RunOutcome, report: Report, files: Mapping[str, str]) -> Report:
    """Write ``report`` with the rankings of ``outcome``, and ``files`` beside them; it ends the run."""
    config, options, scored = run.config, run.options, list(outcome.scored.values())
    is_complete = options.limit is None and options.settings is None and not report.failures
    run.corpus.resources.workspace.finish(complete=is_complete)
    rankings = {setting.name: ranking_rows(setting) for setting in scored} | part_rankings(scored)
    text = config.text or json.dumps(config.as_written, indent=1)
    texts = text_rows(scored, run.resolved.labels.queries)
    return write_report(report, Path(config.output.directory), rankings, texts, text, files)


def build_report(
    scored: Sequence[ScoredSetting],
    labels: PromptQueries,
    metrics: MetricChoice,
    options: EvaluatorOptions,
    library: Library | None,
    warnings: Sequence[ReportWarning],
    *,
    documents: Mapping[str, Any],
    packages: Iterable[str] = (),
    **fields: Any,
) -> Report:
    """The report of settings scored by ``labels``, not yet written.

    ``library`` is needed under unit: span alone. ``documents`` are the fields that describe the documents, ``packages``
    are shown with their versions, and ``fields`` are the fields of the report that do not depend on scores.
    """
    queries = [schema.QueryPart.model_validate(query, from_attributes=True) for query in labels.queries]
    by_span, primary = options.unit == "span", str(metrics.primary)
    whole = judged_whole(labels.queries, library) if by_span and library is not None else {}
    tied = {setting.name: setting.judged.tied for setting in scored if setting.judged}
    unanswerable = UnanswerableQuestions.of(queries, options)
    separations = unanswerable.separations(scored, primary)
    reported = [*warnings, *(warning for setting in scored for warning in setting_warnings(setting, primary))]
    reported += [*tie_warnings(tied, primary, options.ties), *unanswerable.warnings(scored)]
    reported += chunk_label_warnings({setting.name: setting.graded for setting in scored if setting.judged})
    return Report(
        schema_version=SCHEMA_VERSION,
        run_id=new_run_id(datetime.now(UTC)),
        dataset=schema.DatasetPart(
            **documents,
            queries=len(queries),
            labels_fingerprint=fingerprint([query.model_dump(mode="json") for query in queries]),
            judged_whole={name: schema.SpanPart(start=span.start, end=span.end) for name, span in whole.items()},
        ),
        unit=options.unit,
        span_coverage=options.span_coverage if by_span else None,
        relevance_threshold=options.relevance_threshold,
        clusters=options.clusters,
        primary_metric=primary,
        metrics={str(metric): metric_part(metric, options, metrics.functions) for metric in metrics.metrics},
        prompt=labels.prompt,
        queries=queries,
        settings=[setting.to_part(separations.get(setting.name)) for setting in scored],
        warnings=[schema.WarningPart(**asdict(warning)) for warning in dict.fromkeys(reported)],
        environment=environment(packages),
        **fields,
    )


def metric_part(
    metric: Metric, options: EvaluatorOptions, functions: Mapping[str, FunctionReference]
) -> schema.MetricPart:
    """The meaning of a metric, and the queries in its mean; of a function also a hash of its code."""
    definition, unit, threshold = metric.definition, options.unit, options.relevance_threshold
    needs = DEFINED_FOR[definition.needs].replace("document", "document" if unit == "document" else "passage")
    if options.no_relevant == "zero" and definition.needs != "order":
        needs = "all queries"
    known = f" (relevant: grade {threshold} and above)" if definition.needs in ("relevant", "order") else ""
    code = f" (code {code_of(functions[metric.name])})" if metric.is_function else ""
    formula = (definition.spans if unit == "span" else definition.formula) + code
    family, source, better = definition.family, definition.source, definition.better
    return schema.MetricPart(formula=formula, family=family, counted=needs + known, source=source, better=better)


# --- warnings


def chunk_label_warnings(scored: Mapping[str, GradedRankings]) -> Iterator[ReportWarning]:
    """A warning if relevant passages are chunks of some settings and not of others; all their chunks must be known."""
    known = {name: graded.overlaps for name, graded in scored.items() if graded.overlaps and graded.overlaps.is_whole}
    are_chunks = np.array([overlaps.are_chunks for overlaps in known.values()], dtype=np.bool_)
    are_chunks &= ~are_chunks.all(axis=0)
    count = int(are_chunks.any(axis=0).sum())
    if count > _MANY_CHUNKS * are_chunks.shape[-1]:
        favoured = list(known)[int(are_chunks.sum(axis=1).argmax())]
        passages = f"{count:,} of {counted(are_chunks.shape[1], 'labelled passage')} {'is' if count == 1 else 'are'}"
        yield ReportWarning.of_verdict(
            "chunk-labels",
            f"{passages} exactly a chunk of some settings ({favoured}), not of all, which favours these. If they are "
            "whole hits of a search, name the passage in each that answers.",
        )


def tie_warnings(
    tied: Mapping[str, tuple[float, float] | None], primary: str, ties: Literal["first", "trec"]
) -> Iterator[ReportWarning]:
    """A warning if tied scores can change the primary metric, naming the most affected setting."""
    ranges = {name: bounds for name, bounds in tied.items() if bounds is not None and bounds[1] - bounds[0] >= _TIED}
    if ranges:
        name = max(ranges, key=lambda setting: ranges[setting][1] - ranges[setting][0])
        low, high = ranges[name]
        order = "the last by id counts first, as in trec_eval" if ties == "trec" else "the first by id counts first"
        advice = "" if ties == "trec" else "; trec_eval and leaderboards put the last first (evaluators.ties: trec)"
        others = f", and that of {counted(len(ranges) - 1, 'other setting')}" if len(ranges) > 1 else ""
        yield ReportWarning.of_verdict(
            "ties",
            f"documents with equal scores: their order moves {primary} of {name} between {low:.4f} and {high:.4f}"
            f"{others}; {order}{advice}.",
        )


def setting_warnings(scored: ScoredSetting, primary: str) -> Iterator[ReportWarning]:
    """Warnings about the vectors, the index and the rankings of one setting; what was not run here has fewer."""
    if scored.result is None:
        yield from scoring_warnings(scored)
        return
    result, graded = scored.result, scored.graded
    setting, chunks, skipped = result.setting, result.chunks, result.ranked.candidates.skipped
    name, top_k, unit = setting.name, setting.retriever.top_k, graded.unit
    if scored.audit:
        searched = setting.retriever.searched_collection or setting.store
        yield from audit_warnings(name, searched, scored.audit, primary, scored.evaluations[primary])
    if setting.has_chunks:
        yield from uncovered_warnings(setting, chunks)
    yield from _diagnostic_warnings(setting, result.diagnostics, unit)
    for part in result.parts:
        if part.diagnostics is not None:
            name_of_part = f"{part.setting.name}, by itself, as a part of {part.composite.name}"
            yield from _diagnostic_warnings(replace(part.setting, name=name_of_part), part.diagnostics, unit)
    short = int(((graded.lengths < top_k) & ~skipped).sum())
    if graded.lengths.size and not graded.lengths.any() and not skipped.any():
        message = f"found nothing for any query ({counted(len(graded), 'query', 'queries')}); look at what it searches."
        yield ReportWarning.of_verdict("nothing-found", f"{name}: {message}")
    elif short and len(chunks if unit == "span" and result.are_all else chunks.library) >= top_k:
        looked_at = setting.depth_of_parts
        advice = f" Only {looked_at} hits of each part are looked at: raise candidates to {top_k} or more."
        queries = f"{short} of {counted(len(graded), 'query', 'queries')}"
        message = f"fewer than {top_k} hits for {queries}; missing ones count as not relevant."
        yield ReportWarning("short", f"{name}: {message}{advice if 0 < looked_at < top_k else ''}")
    yield from scoring_warnings(scored)
    if chunks.library.empty:
        message = f"documents without text: {chunks.library.empty:,}; they are kept, and cannot be found by it."
        yield ReportWarning("empty-documents", message)


def _diagnostic_warnings(setting: Setting, diagnostics: Diagnostics, unit: Unit) -> Iterator[ReportWarning]:
    yield from length_warnings(setting, diagnostics.too_long)
    if diagnostics.health:
        yield from health_warnings(setting.name, diagnostics.health, setting.embedder, setting.store)
        for message in setting.embedder.unused_prompts():
            yield ReportWarning("prompts-not-used", message)
    yield from setting.retriever.warnings(setting.name, diagnostics.facts)
    if unit == "span" and diagnostics.facts.get("fused_by") == "document":
        yield ReportWarning(
            "fused-by-document",
            f"{setting.name}: its parts do not rank the same chunks, so one hit of each document is left, and under "
            "unit: span other passages of it are not found. Give all parts the same chunker.",
        )


def scoring_warnings(scored: ScoredSetting) -> Iterator[ReportWarning]:
    """Warnings about queries without an answer, and about rankings that end before the budget does."""
    name, skipped, budget = scored.name, scored.skipped, scored.judged.budget if scored.judged else None
    if skipped.any():
        yield ReportWarning(
            "skipped",
            f"{name}: {int(skipped.sum()):,} of {len(skipped):,} queries could not be answered and are left out of its "
            "means; they may be the harder ones. The same command asks them again.",
        )
    if budget and budget.queries_not_full:
        queries = counted(budget.queries_not_full, "query", "queries")
        enough = f" to about {budget.top_k_needed:,}" if budget.top_k_needed else ""
        yield ReportWarning(
            "budget-not-full",
            f"{name}: the hits for {queries} do not fill {budget.tokens:,} tokens. To compare at equal context, raise "
            f"its top_k{enough}.",
        )


# --- rows of the other files


def ranking_rows(scored: ScoredSetting) -> Iterator[dict[str, Any]]:
    """One row per query with all its hits, best first, as columns.

    ``grades`` come from the labels, None for a hit that is not judged; a chunk has the highest grade of the passages
    that it overlaps. ``tokens`` count the chunks' texts, and are left out without a tokenizer.
    """
    found, graded = scored.found, scored.graded
    for first in range(0, len(found.ranked.units), _ROWS_AT_ONCE):
        units = found.ranked.units[first : first + _ROWS_AT_ONCE]
        is_hit = units != PADDING
        scores = found.ranked.rankings.scores[first : first + _ROWS_AT_ONCE, : units.shape[1]][is_hit].tolist()
        columns = _columns(found.chunks, units[is_hit])
        columns["scores"] = [None if math.isnan(score) else score for score in scores]
        ends = np.cumsum(is_hit.sum(axis=1)).tolist()
        for index, (start, end) in enumerate(pairwise([0, *ends]), first):
            tokens, wordings = found.sizes.of_hits(index), found.wordings[index]
            row: dict[str, Any] = {"query": scored.query_ids[index]}
            row |= {name: column[start:end] for name, column in columns.items()}
            row["grades"] = grades_row(graded, index, end - start)
            if tokens is not None:
                row["tokens"] = tokens[: end - start]
            yield row | ({"wordings": list(wordings)} if wordings else {})


def _columns(chunks: Chunks, units: Codes) -> dict[str, list[Any]]:
    """The place of each chunk, in columns."""
    docs = [chunks.library.ids[document] for document in chunks.document[units].tolist()]
    starts, ends = chunks.start[units].tolist(), chunks.end[units].tolist()
    return {"docs": docs, "chunks": chunks.ids(units.tolist()), "starts": starts, "ends": ends}


def grades_row(graded: GradedRankings, query: int, length: int) -> list[int | None]:
    """The grade of each of the first ``length`` hits of a query; None for a hit that is not judged."""
    grades = graded.grades_by_rank(query)
    return [grades.get(rank) for rank in range(1, length + 1)]


def part_rankings(scored: Sequence[ScoredSetting]) -> dict[str, Iterator[dict[str, Any]]]:
    """The rows of component rankings that are not settings themselves, by the name of the file."""
    rows = {}
    for setting in scored:
        for part in setting.found.parts:
            if part.found is not None:
                name = part_file(setting_parameters(part.composite), part.setting.entry)
                rows[name] = _part_rows(setting.query_ids, part, setting.graded.unit)
    return rows


def _part_rows(queries: Sequence[str], part: ComponentRanking, unit: Unit) -> Iterator[dict[str, Any]]:
    """One row per query: its documents, or chunks, best first, each once, with the scores (None: unknown).

    Scores have enough digits to distinguish any two float32 numbers.
    """
    if part.found is not None:
        chunks = part.found.units
        owner = chunks.document if unit == "document" else np.arange(len(chunks), dtype=np.int32)
        collapsed = collapse(part.found.rankings, owner)
        kept = ("docs", "starts", "ends") if unit == "span" else ("docs",)
        for row, query in enumerate(queries):
            codes = collapsed.units[row][collapsed.units[row] != PADDING]
            known = collapsed.rankings.scores[row, : len(codes)].tolist()
            scores = [None if math.isnan(score) else float(f"{score:.9g}") for score in known]
            columns = _columns(chunks, codes)
            yield {"query": query, **{name: columns[name] for name in kept}, "scores": scores}


def text_rows(scored: Sequence[ScoredSetting], queries: Sequence[Query] = ()) -> Iterator[dict[str, Any]]:
    """One row for each chunk that any setting returned, in the order of the documents; with pages and headings, if any.

    Then one for each relevant label of ``queries`` that is in no such chunk: its passage, or how its document begins.
    """
    seen: set[str] = set()
    places: dict[str, list[tuple[int, int]]] = {}
    for setting in scored:
        chunks = setting.found.chunks
        units = distinct(setting.found.ranked.units).tolist()
        for unit, name in zip(units, chunks.ids(units), strict=True):
            if name not in seen:
                seen.add(name)
                headings = chunks.library.headings(int(chunks.document[unit]), chunks.span(unit))
                row, about = chunks.row(unit), {"pages": chunks.pages(unit), "headings": headings}
                places.setdefault(row["doc"], []).append((row["start"], row["end"]))
                yield row | {key: value for key, value in about.items() if value}
    library = scored[0].found.chunks.library if scored else None
    for label in (label for query in queries for label in query.relevant_docs if label.relevance > 0):
        span = label.spans[0] if label.spans else Span(0, 0)
        name = label_text(label.doc, span.start)
        is_found = any(start <= span.start and span.end <= end for start, end in places.get(label.doc, ()))
        if library is None or is_found or name in seen or label.doc not in library.positions:
            continue
        seen.add(name)
        document = library.positions[label.doc]
        end = min(span.end, span.start + LABEL_TEXT) if label.spans else LABEL_TEXT
        text = library.text(document)[span.start : end]
        shown = Span(span.start, span.start + len(text))
        yield {"chunk": name, "doc": label.doc, "title": library.titles[document], "start": shown.start,
               "end": shown.end, "text": text, "headings": library.headings(document, shown)}  # fmt: skip
