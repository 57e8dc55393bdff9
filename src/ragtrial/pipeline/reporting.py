"""From scored settings to a report, and the warnings that are in it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from ragtrial.cache.fingerprints import fingerprint
from ragtrial.components.interfaces import QueryMatches
from ragtrial.components.vector_checks import health_warnings
from ragtrial.config import ExperimentConfig
from ragtrial.config.metric_choice import MetricChoice
from ragtrial.config.settings import Setting, too_long_warnings, uncovered_warnings
from ragtrial.dataset.library import Library
from ragtrial.errors import counted
from ragtrial.evaluation.context_sizes import ContextSizes
from ragtrial.evaluation.evaluators import Evaluation
from ragtrial.evaluation.grading import GradedRankings
from ragtrial.evaluation.span_labels import judged_whole
from ragtrial.pipeline.audit_stage import audit_warnings
from ragtrial.pipeline.latency_stage import latency_warnings
from ragtrial.pipeline.metric_descriptions import metric_parts
from ragtrial.pipeline.results import ComponentRanking, Diagnostics
from ragtrial.pipeline.scores import Scored, means
from ragtrial.pipeline.setting_parameters import packages_of, setting_parameters
from ragtrial.rankings import PADDING, Bools, collapse, distinct
from ragtrial.records import PromptQueries, ReportWarning, Unit, WarningCode
from ragtrial.report import schema
from ragtrial.report.environment import environment
from ragtrial.report.model import SCHEMA_VERSION, Report, part_file

_FEW_JUDGED = 0.5
_ROWS_AT_ONCE = 256
_TIED = 0.001
"""How far equal scores may move a mean before that is reported: less hardly shows among four digits."""


def build_report(
    config: ExperimentConfig,
    scored: Sequence[Scored],
    *,
    run_id: str,
    labels: PromptQueries,
    documents_fingerprint: str,
    metrics: MetricChoice,
    failures: Sequence[schema.FailurePart],
    warnings: Sequence[ReportWarning],
) -> Report:
    """The report of a run with at least one setting that was scored."""
    library, queries, options = scored[0].result.chunks.library, query_parts(labels), config.evaluators
    reported = [*warnings, *(one for each in scored for one in setting_warnings(each, str(metrics.primary)))]
    settings = [setting_part(one) for one in scored]
    reported += latency_warnings({one.name: one.latency for one in settings})
    reported += tie_warnings({one.result.setting.name: one.tied for one in scored}, str(metrics.primary), options.ties)
    reported += judged_warnings({one.result.setting.name: one.graded for one in scored}, metrics.primary.k)
    return Report(
        schema_version=SCHEMA_VERSION,
        experiment=config.experiment,
        run_id=run_id,
        config=config.as_written,
        dataset=schema.DatasetPart(
            documents=len(library),
            empty_documents=library.empty,
            queries=len(queries),
            documents_fingerprint=documents_fingerprint,
            labels_fingerprint=fingerprint([query.model_dump(mode="json") for query in queries]),
            judged_whole=judged_whole_parts(labels, library) if options.unit == "span" else {},
        ),
        unit=options.unit,
        span_coverage=options.span_coverage if options.unit == "span" else None,
        relevance_threshold=options.relevance_threshold,
        primary_metric=str(metrics.primary),
        metrics=metric_parts(metrics, options),
        prompt=labels.prompt,
        queries=queries,
        settings=settings,
        failures=list(failures),
        warnings=[schema.WarningPart(code=one.code, message=one.message) for one in dict.fromkeys(reported)],
        environment=environment(packages_of([one.result.setting for one in scored], library)),
    )


def judged_whole_parts(labels: PromptQueries, library: Library) -> dict[str, schema.SpanPart]:
    """The documents that ``labels`` judge as a whole, for a report under unit: span."""
    spans = judged_whole(labels.queries, library)
    return {name: schema.SpanPart(start=span.start, end=span.end) for name, span in spans.items()}


def judged_warnings(scored: Mapping[str, GradedRankings], k: int | None) -> Iterator[ReportWarning]:
    """That most of what some settings find under unit: span is not judged, and counts as wrong."""
    shares = {
        name: float(graded.judged_units(k).sum() / max(graded.retrieved(k).sum(), 1))
        for name, graded in scored.items()
        if graded.unit == "span"
    }
    few = [name for name, share in shares.items() if share < _FEW_JUDGED]
    if few:
        lowest = min(shares, key=lambda name: shares[name])
        yield ReportWarning(
            WarningCode.FEW_JUDGED,
            f"less than half of the first {k} hits are judged in {len(few)} of {len(shares)} settings ({lowest}: "
            f"{shares[lowest]:.0%}); the others count as wrong. Few passages per question leave most hits unjudged; "
            "`ragtrial pool` says which to judge first.",
        )


def tie_warnings(
    tied: Mapping[str, tuple[float, float] | None], primary: str, ties: Literal["first", "trec"]
) -> Iterator[ReportWarning]:
    """That the order of equal scores decides means of the primary metric: of which settings, and most of which."""
    ranges = {name: one for name, one in tied.items() if one is not None and one[1] - one[0] >= _TIED}
    if ranges:
        name = max(ranges, key=lambda one: ranges[one][1] - ranges[one][0])
        low, high = ranges[name]
        order = "the last by id counts first, as in trec_eval" if ties == "trec" else "the first by id counts first"
        advice = "" if ties == "trec" else "; trec_eval and leaderboards put the last first (evaluators.ties: trec)"
        yield ReportWarning(
            WarningCode.TIES,
            f"documents with equal scores: their order moves {primary} of {name} between {low:.4f} and {high:.4f}"
            f"{'' if len(ranges) == 1 else f', and {len(ranges) - 1} more settings move'}; {order}{advice}.",
        )


def setting_warnings(scored: Scored, primary: str) -> Iterator[ReportWarning]:
    """What should be known of one setting's vectors, index and rankings."""
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
            called = f"{part.setting.name}, by itself, as a part of {part.whole.name}"
            yield from _diagnostic_warnings(replace(part.setting, name=called), part.diagnostics, unit)
    yield from skipped_warnings(name, skipped)
    short = int(((graded.lengths < top_k) & ~skipped).sum())
    if graded.lengths.size and not graded.lengths.any() and not skipped.any():
        message = f"found nothing for any of the {len(graded):,} queries; look at what it searches."
        yield ReportWarning(WarningCode.NOTHING_FOUND, f"{name}: {message}")
    elif short:
        looked_at = setting.depth_of_parts
        advice = f" Only {looked_at} hits of each part are looked at: raise candidates to {top_k} or more."
        message = (
            f"fewer than {top_k} hits for {short} of {counted(len(graded), 'query', 'queries')}; missing ones count as "
            "not relevant."
        )
        yield ReportWarning(WarningCode.SHORT, f"{name}: {message}{advice if 0 < looked_at < top_k else ''}")
    yield from budget_warnings(name, scored.budget)
    if chunks.library.empty:
        message = f"documents without text: {chunks.library.empty:,}; they are kept, and cannot be found by it."
        yield ReportWarning(WarningCode.EMPTY_DOCUMENTS, message)


def _diagnostic_warnings(setting: Setting, found: Diagnostics, unit: Unit) -> Iterator[ReportWarning]:
    yield from too_long_warnings(setting, found.too_long)
    if found.health:
        yield from health_warnings(setting.name, found.health, setting.embedder, setting.store)
        for message in setting.embedder.unused_prompts():
            yield ReportWarning(WarningCode.PROMPTS_NOT_USED, message)
    yield from setting.retriever.warnings(setting.name, found.facts)
    if unit == "span" and found.facts.get("fused_by") == "document":
        yield ReportWarning(
            WarningCode.FUSED_BY_DOCUMENT,
            f"{setting.name}: its parts do not rank the same chunks, so one hit of each document is left, and under "
            "unit: span other passages of it are not found. Give all parts the same chunker.",
        )


def skipped_warnings(name: str, skipped: Bools) -> Iterator[ReportWarning]:
    """That some queries could not be answered by the setting ``name``."""
    if skipped.any():
        yield ReportWarning(
            WarningCode.SKIPPED,
            f"{name}: {int(skipped.sum()):,} of {len(skipped):,} queries could not be answered and are left out of its "
            "means; they may be the harder ones. The same command asks them again.",
        )


def budget_warnings(name: str, budget: schema.BudgetPart | None) -> Iterator[ReportWarning]:
    """That rankings of the setting ``name`` end before the budget does, though there are more hits."""
    if budget and budget.queries_not_full:
        queries = counted(budget.queries_not_full, "query", "queries")
        enough = f"to about {budget.top_k_needed:,}" if budget.top_k_needed else ""
        yield ReportWarning(
            WarningCode.BUDGET_NOT_FULL,
            f"{name}: the hits for {queries} do not fill {budget.tokens:,} tokens. To compare at equal context, raise "
            f"its top_k {enough}".rstrip()
            + ".",
        )


def ranking_rows(scored: Scored) -> Iterator[dict[str, Any]]:
    """One row per query with all its hits, best first, as columns.

    ``grades`` are those of the labels, None where a hit is not judged: of a chunk the highest of the passages that it
    overlaps. ``tokens`` are those of the chunks' texts, and lack where there is no tokenizer.
    """
    found, hits = scored.result, _hits(scored)
    for index, name in enumerate(scored.query_ids):
        columns, tokens = next(hits), found.sizes.of_hits(index)
        length = len(columns["docs"])
        yield {
            "query": name,
            **columns,
            "grades": grades_row(scored.graded, index, length),
            **({} if tokens is None else {"tokens": tokens[:length]}),
            **_matches_row(found.matches, index),
            **({"wordings": list(asked)} if (asked := found.wordings[index]) else {}),
        }


def _hits(scored: Scored) -> Iterator[dict[str, list[Any]]]:
    """The hits of each query as columns, which are looked up for many queries at once."""
    chunks, ranked = scored.result.chunks, scored.result.ranked
    for first in range(0, len(ranked.units), _ROWS_AT_ONCE):
        block = slice(first, first + _ROWS_AT_ONCE)
        units = ranked.units[block]
        is_hit = units != PADDING
        held, scores = units[is_hit], ranked.rankings.scores[block, : units.shape[1]][is_hit].tolist()
        columns: dict[str, list[Any]] = {
            "docs": [chunks.library.ids[document] for document in chunks.document[held].tolist()],
            "chunks": chunks.ids(held.tolist()),
            "starts": chunks.start[held].tolist(),
            "ends": chunks.end[held].tolist(),
            "scores": [None if math.isnan(score) else score for score in scores],
        }
        ends = np.cumsum(is_hit.sum(axis=1)).tolist()
        for start, end in pairwise([0, *ends]):
            yield {name: column[start:end] for name, column in columns.items()}


def grades_row(graded: GradedRankings, query: int, length: int) -> list[int | None]:
    """The grade of each of the first ``length`` hits of a query; None where a hit is not judged."""
    grades = graded.grades_by_rank(query)
    return [grades.get(rank) for rank in range(1, length + 1)]


def _matches_row(matches: Sequence[QueryMatches] | None, index: int) -> dict[str, Any]:
    """Why the first hits of a query have their scores, in columns; nothing where the retriever does not say."""
    if matches is None:
        return {}
    found = matches[index]
    return {
        "query_terms": found.terms,
        "matches": [hit.matches for hit in found.hits],
        "terms": [hit.terms for hit in found.hits],
    }


def part_rankings(scored: Sequence[Scored]) -> dict[str, Iterator[dict[str, Any]]]:
    """By the name of the file its rows: what settings looked at of their parts, where no row of the table has it."""
    return {
        part_file(setting_parameters(part.whole), part.setting.entry): _part_rows(one.query_ids, part, one.graded.unit)
        for one in scored
        for part in one.result.parts
        if part.found is not None
    }


def _part_rows(queries: Sequence[str], part: ComponentRanking, unit: Unit) -> Iterator[dict[str, Any]]:
    """One row per query: its documents, or chunks, best first, each once, with the scores (None: not known).

    Scores have as many digits as tell one float32 from the next.
    """
    if part.found is not None:
        chunks = part.found.units
        owner = chunks.document if unit == "document" else np.arange(len(chunks), dtype=np.int32)
        found = collapse(part.found.rankings, owner)
        for row, query in enumerate(queries):
            codes = [code for code in found.units[row].tolist() if code != PADDING]
            scores = found.rankings.scores[row, : len(codes)].tolist()
            places = {"starts": chunks.start[codes].tolist(), "ends": chunks.end[codes].tolist()}
            yield {
                "query": query,
                "docs": [chunks.library.ids[document] for document in chunks.document[codes].tolist()],
                **(places if unit == "span" else {}),
                "scores": [None if math.isnan(score) else float(f"{score:.9g}") for score in scores],
            }


def text_rows(scored: Sequence[Scored]) -> Iterator[dict[str, Any]]:
    """One row for each chunk that any setting returned, in the order of the documents; pages where there are some."""
    seen: set[str] = set()
    for one in scored:
        chunks, found = one.result.chunks, one.result.ranked.units
        units = distinct(found).tolist()
        for unit, name in zip(units, chunks.ids(units), strict=True):
            if name not in seen:
                seen.add(name)
                document, pages = int(chunks.document[unit]), chunks.pages(unit)
                yield {
                    "chunk": name,
                    "doc": chunks.library.ids[document],
                    "title": chunks.library.titles[document],
                    "start": int(chunks.start[unit]),
                    "end": int(chunks.end[unit]),
                    "text": chunks.text(unit),
                    **({"pages": list(pages)} if pages else {}),
                }


def setting_part(scored: Scored) -> schema.SettingPart:
    """What the report has of a setting."""
    result, lengths = scored.result, scored.graded.lengths
    ranked, setting, health = result.ranked, result.setting, result.diagnostics.health
    skipped, top_k = ranked.candidates.skipped, setting.retriever.top_k
    return schema.SettingPart(
        name=setting.name,
        fingerprint=result.fingerprint,
        parameters=setting_parameters(setting),
        scores=means(scored.evaluations),
        counts={
            **({"chunks": len(result.chunks)} if setting.has_chunks else {}),
            **{f"{what}_too_long": count for what, count in result.diagnostics.too_long.items()},
            "chunks_read": int(ranked.read.sum()),
            "chunks_collapsed": int(ranked.dropped.sum()),
            "documents_kept" if scored.graded.unit == "document" else "chunks_kept": int(lengths.sum()),
            "queries_short": int((lengths < top_k).sum()),
            "queries_without_hits": int(((lengths == 0) & ~skipped).sum()),
            "queries_skipped": int(skipped.sum()),
        },
        facts=dict(result.diagnostics.facts),
        index=dict(result.index),
        health=schema.HealthPart(**asdict(health)) if health else None,
        audit=scored.audit,
        timings=dict(result.timings),
        costs=result.costs,
        latency=schema.LatencyPart(**result.latency.summary) if result.latency else None,
        context=list(context_parts(scored.evaluations, result.sizes, top_k, skipped)),
        budget=scored.budget,
        per_query=_query_columns(scored),
    )


def context_parts(
    evaluations: Mapping[str, Evaluation], sizes: ContextSizes, top_k: int, skipped: Bools
) -> Iterator[schema.ContextPart]:
    """How much text there is at each cutoff of a metric, and at ``top_k``: of the queries that are not ``skipped``."""
    cutoffs = {one.metric.k for one in evaluations.values()} | {top_k}
    for k in sorted(k for k in cutoffs if k is not None):
        characters, tokens = sizes.at(k, ~skipped)
        yield schema.ContextPart(k=k, characters=characters, tokens=tokens)


def _query_columns(scored: Scored) -> schema.QueryColumns:
    ranked = scored.result.ranked
    return schema.QueryColumns(
        evaluations={metric: one.as_list() for metric, one in scored.evaluations.items()},
        short=(scored.graded.lengths < scored.result.setting.retriever.top_k).tolist(),
        skipped=ranked.candidates.skipped.tolist(),
        collapsed=ranked.dropped.tolist(),
        passages=passage_parts(scored.graded),
    )


def passage_parts(graded: GradedRankings) -> list[list[schema.PassagePart]] | None:
    """For each query what becomes of the passage of each of its labels, in the rankings of chunks."""
    if graded.overlaps is None:
        return None
    overlaps, starts = graded.overlaps, graded.judgments.starts.tolist()
    covered: list[list[schema.CoveredPart]] = [[] for _ in graded.judgments.grades]
    met = overlaps.meetings
    counted = (met.gained > 0) & overlaps.places(overlaps.codes.shape[1])[met.passages]
    shares = met.covered / overlaps.passages.lengths[met.passages]
    judgments = overlaps.passages.judgments[met.passages]
    for judgment, rank, share in zip(judgments[counted].tolist(), met.ranks[counted].tolist(),
                                     shares[counted].tolist(), strict=True):  # fmt: skip
        covered[judgment].append(schema.CoveredPart(rank=rank, share=share))
    parts = [
        schema.PassagePart(found=rank or None, covered=steps)
        for rank, steps in zip(overlaps.found_judgments.tolist(), covered, strict=True)
    ]
    return [parts[start:end] for start, end in pairwise(starts)]


def query_parts(labels: PromptQueries) -> list[schema.QueryPart]:
    return [schema.QueryPart.model_validate(query, from_attributes=True) for query in labels.queries]
