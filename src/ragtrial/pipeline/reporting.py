"""From scored settings to the parts of a report."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice, pairwise
from typing import Any

import numpy as np

from ragtrial.cache.fingerprints import fingerprint
from ragtrial.components.retrievers.base import REACHING, Facts
from ragtrial.components.vector_checks import health_warnings
from ragtrial.config import ExperimentConfig
from ragtrial.config.metric_choice import MetricChoice
from ragtrial.config.settings import Setting, too_long_warnings, uncovered_warnings
from ragtrial.evaluation.context_sizes import ContextSizes
from ragtrial.evaluation.evaluators import Evaluation
from ragtrial.evaluation.grading import GradedRankings
from ragtrial.options import Options
from ragtrial.pipeline.audit_stage import audit_warnings
from ragtrial.pipeline.component_rankings import part_file, part_rows
from ragtrial.pipeline.metric_descriptions import metric_parts
from ragtrial.pipeline.results import ComponentRanking, same_rankings
from ragtrial.pipeline.scores import Scored, WithinBudget
from ragtrial.rankings import PADDING, Bools
from ragtrial.records import PromptQueries, ReportWarning, Unit, WarningCode
from ragtrial.report.environment import environment
from ragtrial.report.model import HITS_SHOWN, SCHEMA_VERSION, Report
from ragtrial.report.schema import (
    BudgetPart,
    ContextPart,
    CostsPart,
    CoveredPart,
    DatasetPart,
    FailurePart,
    HealthPart,
    HitPart,
    JudgmentPart,
    LatencyPart,
    MeanPart,
    PassagePart,
    QueryPart,
    QueryScores,
    SettingPart,
    SpanPart,
    WarningPart,
)


@dataclass(frozen=True)
class FinishedRun:
    """What is said of a run as a whole: its id, its labels, what failed and what was noticed."""

    id: str
    labels: PromptQueries
    documents_fingerprint: str
    metrics: MetricChoice
    failures: Sequence[FailurePart]
    warnings: Sequence[ReportWarning]


def build_report(config: ExperimentConfig, run: FinishedRun, scored: Sequence[Scored]) -> Report:
    """The report of a run with at least one setting that was scored."""
    library = scored[0].rankings.chunks.library
    queries = query_parts(run.labels)
    primary, options = str(run.metrics.primary), config.evaluators
    warnings = [*run.warnings, *(warning for one in scored for warning in setting_warnings(one, primary))]
    warnings += same_rankings([one.rankings for one in scored])
    return Report(
        schema_version=SCHEMA_VERSION,
        experiment=config.experiment,
        run_id=run.id,
        config=config.as_written,
        dataset=DatasetPart(
            documents=len(library),
            empty_documents=library.empty,
            queries=len(queries),
            documents_fingerprint=run.documents_fingerprint,
            labels_fingerprint=fingerprint([query.model_dump(mode="json") for query in queries]),
        ),
        unit=options.unit,
        span_coverage=options.span_coverage if options.unit == "span" else None,
        primary_metric=primary,
        metrics=metric_parts(run.metrics, options),
        prompt=run.labels.prompt,
        queries=queries,
        settings=[_setting_part(one) for one in scored],
        failures=list(run.failures),
        warnings=[WarningPart(code=warning.code, message=warning.message) for warning in dict.fromkeys(warnings)],
        environment=environment(),
    )


def setting_warnings(scored: Scored, primary: str) -> Iterator[ReportWarning]:
    """What should be known of one setting's vectors, index and rankings."""
    setting = scored.rankings.setting
    if scored.audit:
        yield from audit_warnings(setting.name, setting.store, scored.audit, primary, scored.evaluations[primary])
    yield from too_long_warnings(setting, scored.rankings.too_long)
    if setting.has_chunks:
        yield from uncovered_warnings(setting, scored.rankings.chunks)
    if scored.rankings.health:
        yield from health_warnings(setting.name, scored.rankings.health, setting.embedder, setting.store)
    yield from setting.retriever.warnings(setting.name, scored.rankings.facts)
    yield from _fused_warnings(setting.name, scored.rankings.facts, scored.graded.unit)
    for part in scored.rankings.parts:
        yield from part_warnings(part, scored.graded.unit)
    yield from skipped_warnings(setting.name, scored.rankings.skipped)
    short = int(((scored.graded.lengths < scored.top_k) & ~scored.rankings.skipped).sum())
    chunks = scored.rankings.chunks
    unit, there = ("document", len(chunks.library)) if scored.graded.unit == "document" else ("chunk", len(chunks))
    if there < scored.top_k and setting.has_chunks:
        of = "" if unit == "document" else f"{setting.name}: "
        few = WarningCode.FEW_DOCUMENTS if unit == "document" else WarningCode.FEW_CHUNKS
        are = f"is only 1 {unit}" if there == 1 else f"are only {there} {unit}s"
        yield ReportWarning(few, f"{of}there {are}, fewer than the {scored.top_k} that are scored (top_k).")
    elif scored.graded.lengths.size and not scored.graded.lengths.any() and not scored.rankings.skipped.any():
        message = f"found nothing for any of the {len(scored.graded):,} queries; look at what it searches."
        yield ReportWarning(WarningCode.NOTHING_FOUND, f"{setting.name}: {message}")
    elif short:
        yield ReportWarning(
            WarningCode.SHORT,
            f"{setting.name}: {short} of {len(scored.graded):,} queries have fewer than {scored.top_k} "
            f"{unit}s; the places that are missing count as not relevant.{_more_candidates(setting, scored.top_k)}",
        )
    yield from budget_warnings(setting.name, scored.budget)
    empty = scored.rankings.chunks.library.empty
    if empty:
        said = "1 document has no text; it is kept" if empty == 1 else f"{empty} documents have no text; they are kept"
        yield ReportWarning(WarningCode.EMPTY_DOCUMENTS, f"{said}, and cannot be found by it.")


def skipped_warnings(name: str, skipped: Bools) -> Iterator[ReportWarning]:
    """That some queries could not be answered by the setting ``name``."""
    if skipped.any():
        yield ReportWarning(
            WarningCode.SKIPPED,
            f"{name}: {int(skipped.sum()):,} of {len(skipped):,} queries could not be answered and are in none of its "
            "means; they may be the harder ones. The same command asks them again.",
        )


def budget_warnings(name: str, budget: WithinBudget | None) -> Iterator[ReportWarning]:
    """That some rankings of the setting ``name`` are shorter than what fits."""
    if budget and budget.not_full.any():
        yield ReportWarning(
            WarningCode.BUDGET_NOT_FULL,
            f"{name}: {int(budget.not_full.sum())} of {len(budget.hits):,} queries have no more hits "
            f"before {budget.tokens:,} tokens are full; raise top_k for a fair comparison at equal context.",
        )


def _more_candidates(setting: Setting, top_k: int) -> str:
    """What to do where a refiner looks at fewer hits than are scored; empty elsewhere."""
    looked_at = setting.depth_of_parts
    if not 0 < looked_at < top_k:
        return ""
    return f" Of each part only {looked_at} are looked at: raise candidates to {top_k} or more."


def _fused_warnings(name: str, facts: Facts, unit: Unit) -> Iterator[ReportWarning]:
    if unit == "span" and facts.get("fused_by") == "document":
        yield ReportWarning(
            WarningCode.FUSED_BY_DOCUMENT,
            f"{name}: its parts do not rank the same chunks, so one hit of each document is left, and under unit: span "
            "other passages of it are not found. Give all parts the same chunker.",
        )


def part_warnings(part: ComponentRanking, unit: Unit) -> Iterator[ReportWarning]:
    """What should be known of a part that is told of nowhere else."""
    if part.diagnostics is None:
        return
    made, name = part.setting, f"{part.setting.name}, by itself, as a part of {part.whole.name}"
    yield from too_long_warnings(replace(made, name=name), part.diagnostics.too_long)
    if part.diagnostics.health:
        yield from health_warnings(name, part.diagnostics.health, made.embedder, made.store)
    yield from made.retriever.warnings(name, part.diagnostics.facts)
    yield from _fused_warnings(name, part.diagnostics.facts, unit)


def setting_parameters(setting: Setting) -> dict[str, Any]:
    """Everything that makes a setting, defaults too; texts (names, paths, variables) stand as they were written.

    Its own options, what reaches it, under ``parts`` the same of all that it is made of, and the sweep's ``values``,
    with the ``entry`` of the config that they are of.
    """
    written = setting.config.as_written
    own = (written.get("retrievers") or {}).get(setting.entry) or {}
    made = {"retriever": _as_written(setting.retriever.model_dump(mode="json", exclude={*REACHING, "score"}), own)}
    for what in REACHING:
        if what in setting.reached_by:
            options: Options = getattr(setting, what)
            made[what] = _as_written(options.model_dump(mode="json"), own.get(what) or written.get(what))
    if setting.parts:
        made["parts"] = {part.entry: setting_parameters(part) for part in setting.parts}
    if setting.values:
        made["values"] = dict(setting.values)
    if setting.name != setting.entry:
        made["entry"] = setting.entry
    return made


def ranking_rows(scored: Scored) -> Iterator[dict[str, Any]]:
    """One row per query with all its hits, best first, as columns."""
    chunks, collapsed = scored.rankings.chunks, scored.rankings.retrieved.collapsed
    for index, name in enumerate(scored.query_ids):
        units = [unit for unit in collapsed.units[index].tolist() if unit != PADDING]
        yield {
            "query": name,
            "docs": [chunks.library.ids[document] for document in chunks.document[units].tolist()],
            "chunks": chunks.ids(units),
            "starts": chunks.start[units].tolist(),
            "ends": chunks.end[units].tolist(),
            "scores": [_known(score) for score in collapsed.rankings.scores[index, : len(units)].tolist()],
        }


def part_rankings(scored: Sequence[Scored]) -> dict[str, Iterator[dict[str, Any]]]:
    """By the name of the file its rows: what settings looked at of their parts, where no row of the table has it."""
    kept: dict[str, Iterator[dict[str, Any]]] = {}
    for one in scored:
        for part in one.rankings.parts:
            if part.found is not None:
                name = part_file(setting_parameters(part.whole), part.setting.entry)
                kept[name] = part_rows(one.query_ids, part.found.units, part.found.rankings, one.graded.unit)
    return kept


def text_rows(scored: Sequence[Scored]) -> Iterator[dict[str, Any]]:
    """One row for each chunk that any setting returned, in the order of the documents; pages where there are some."""
    seen: set[str] = set()
    for one in scored:
        chunks = one.rankings.chunks
        found = one.rankings.retrieved.collapsed.units
        units = np.unique(found[found != PADDING]).tolist()
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


def _setting_part(scored: Scored) -> SettingPart:
    rankings, kept = scored.rankings, f"{'document' if scored.graded.unit == 'document' else 'chunk'}s_kept"
    retrieved, budget = rankings.retrieved, scored.budget
    latency = rankings.latency
    return SettingPart(
        name=rankings.setting.name,
        fingerprint=rankings.fingerprint,
        parameters=setting_parameters(rankings.setting),
        scores=means(scored.evaluations),
        counts={
            **({"chunks": len(rankings.chunks)} if rankings.setting.has_chunks else {}),
            **{f"{what}_too_long": count for what, count in rankings.too_long.items()},
            "chunks_read": int(retrieved.read.sum()),
            "chunks_collapsed": int(retrieved.collapsed.dropped.sum()),
            kept: int(scored.graded.lengths.sum()),
            "queries_short": int((scored.graded.lengths < scored.top_k).sum()),
            "queries_without_hits": int(((scored.graded.lengths == 0) & ~rankings.skipped).sum()),
            "queries_skipped": int(rankings.skipped.sum()),
        },
        facts=dict(rankings.facts),
        index=dict(rankings.index),
        health=HealthPart(**asdict(rankings.health)) if rankings.health else None,
        audit=scored.audit,
        timings=dict(rankings.timings),
        costs=CostsPart(**asdict(rankings.costs)),
        latency=LatencyPart(**latency) if latency else None,
        context=list(context_parts(scored.evaluations, rankings.sizes, scored.top_k, rankings.skipped)),
        budget=budget_part(budget) if budget else None,
        queries=list(_query_scores(scored)),
    )


def means(evaluations: Mapping[str, Evaluation]) -> dict[str, MeanPart]:
    return {name: MeanPart(mean=one.mean.mean, n=one.mean.n) for name, one in evaluations.items()}


def budget_part(budget: WithinBudget) -> BudgetPart:
    return BudgetPart(
        tokens=budget.tokens,
        hits=float(budget.hits.mean()) if len(budget.hits) else 0.0,
        queries_not_full=int(budget.not_full.sum()),
        scores=means(budget.evaluations),
    )


def context_parts(
    evaluations: Mapping[str, Evaluation], sizes: ContextSizes, top_k: int, skipped: Bools
) -> Iterator[ContextPart]:
    """How much text there is at each cutoff of a metric, and at ``top_k``: of the queries that are not ``skipped``."""
    cutoffs = {one.metric.k for one in evaluations.values()} | {top_k}
    for k in sorted(k for k in cutoffs if k is not None):
        characters, tokens = sizes.at(k, ~skipped)
        yield ContextPart(k=k, characters=characters, tokens=tokens)


def _query_scores(scored: Scored) -> Iterator[QueryScores]:
    passages = passage_parts(scored.graded)
    dropped = scored.rankings.retrieved.collapsed.dropped.tolist()
    values = {metric: one.as_list() for metric, one in scored.evaluations.items()}
    rows = zip(scored.query_ids, ranking_rows(scored), strict=True)
    for index, (name, found) in enumerate(rows):
        yield QueryScores(
            id=name,
            evaluations={metric: column[index] for metric, column in values.items()},
            hits=list(_hit_parts(scored, index, found)),
            short=bool(scored.graded.lengths[index] < scored.top_k),
            skipped=bool(scored.rankings.skipped[index]),
            collapsed=dropped[index],
            passages=passages[index] if passages else None,
        )


def _hit_parts(scored: Scored, index: int, found: Mapping[str, Any]) -> Iterator[HitPart]:
    """The first hits of a query, from its row of ``ranking_rows``."""
    grades, tokens = scored.graded.grades_by_rank(index), scored.rankings.sizes.of_hits(index)
    columns = zip(*(found[name] for name in ("docs", "chunks", "starts", "ends", "scores")), strict=True)
    for rank, (doc, chunk, start, end, score) in enumerate(islice(columns, HITS_SHOWN), 1):
        yield HitPart(
            doc=doc,
            chunk=chunk,
            start=start,
            end=end,
            rank=rank,
            score=score,
            grade=grades.get(rank),
            tokens=None if tokens is None else tokens[rank - 1],
        )


def _known(score: float) -> float | None:
    """A score, None where only the order is known."""
    return None if math.isnan(score) else score


def passage_parts(graded: GradedRankings) -> list[list[PassagePart]] | None:
    """For each query what becomes of the passage of each of its labels, in the rankings of chunks."""
    if graded.overlaps is None:
        return None
    overlaps, starts = graded.overlaps, graded.judgments.starts.tolist()
    covered: list[list[CoveredPart]] = [[] for _ in graded.judgments.grades]
    met = overlaps.meetings
    counted = (met.gained > 0) & overlaps.places(overlaps.codes.shape[1])[met.passages]
    shares = met.covered / overlaps.passages.lengths[met.passages]
    judgments = overlaps.passages.judgments[met.passages]
    for judgment, rank, share in zip(judgments[counted].tolist(), met.ranks[counted].tolist(),
                                     shares[counted].tolist(), strict=True):  # fmt: skip
        covered[judgment].append(CoveredPart(rank=rank, share=share))
    parts = [
        PassagePart(found=rank or None, covered=steps)
        for rank, steps in zip(overlaps.found_judgments.tolist(), covered, strict=True)
    ]
    return [parts[start:end] for start, end in pairwise(starts)]


def query_parts(labels: PromptQueries) -> list[QueryPart]:
    return [
        QueryPart(
            id=query.id,
            text=query.text,
            tags=list(query.tags),
            ordered=query.ordered,
            relevant_docs=[
                JudgmentPart(
                    doc=judgment.doc,
                    relevance=judgment.relevance,
                    spans=[SpanPart(start=span.start, end=span.end) for span in judgment.spans],
                )
                for judgment in query.relevant_docs
            ],
        )
        for query in labels.queries
    ]


def _as_written(value: Any, written: Any) -> Any:
    if isinstance(value, dict) and isinstance(written, dict):
        return {key: _as_written(one, written.get(key)) for key, one in value.items()}
    return str(written) if isinstance(written, str) else value
