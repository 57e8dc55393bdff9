"""From scored settings to the parts of a report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ragtrial.audit import audit_cautions
from ragtrial.config import ExperimentConfig
from ragtrial.config.metric_choice import MetricChoice
from ragtrial.environment import environment
from ragtrial.evaluators import Evaluation, NoRelevant
from ragtrial.grading import GradedRankings
from ragtrial.health import health_cautions
from ragtrial.metrics import Metric
from ragtrial.options import Options
from ragtrial.outcomes import SettingRankings
from ragtrial.rankings import PADDING
from ragtrial.records import Caution, PromptQueries
from ragtrial.report import (
    HITS_SHOWN,
    SCHEMA_VERSION,
    AuditPart,
    DatasetPart,
    FailurePart,
    HealthPart,
    HitPart,
    JudgmentPart,
    LatencyPart,
    MeanPart,
    MetricPart,
    QueryPart,
    QueryScores,
    Report,
    SettingPart,
    SpanPart,
    WarningPart,
)
from ragtrial.retrievers.base import REACHING
from ragtrial.setting import Setting, too_long_cautions
from ragtrial.storage.fingerprints import fingerprint

_COUNTED = {
    "relevant": "queries with at least one relevant document",
    "gain": "queries with at least one document of a grade above 0",
    "nothing": "all queries",
    "order": "queries whose labels are an order, with at least one relevant document",
}


@dataclass(frozen=True, eq=False)
class Scored:
    """The rankings of a setting, graded, and what the evaluators say of them."""

    query_ids: tuple[str, ...]
    rankings: SettingRankings
    graded: GradedRankings
    evaluations: dict[str, Evaluation]
    audit: AuditPart | None

    @property
    def top_k(self) -> int:
        return self.rankings.setting.retriever.top_k


@dataclass(frozen=True)
class Run:
    """What is said of a run as a whole: its id, its labels, what failed and what was noticed."""

    id: str
    labels: PromptQueries
    documents_fingerprint: str
    metrics: MetricChoice
    failures: Sequence[FailurePart]
    cautions: Sequence[Caution]


def build_report(config: ExperimentConfig, run: Run, scored: Sequence[Scored]) -> Report:
    """The report of a run with at least one setting that was scored."""
    library = scored[0].rankings.chunks.library
    queries = _query_parts(run.labels)
    primary = str(run.metrics.primary)
    cautions = [*run.cautions, *(caution for one in scored for caution in setting_cautions(one, primary))]
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
        primary_metric=primary,
        metrics={
            str(metric): metric_part(metric, config.evaluators.relevance_threshold, config.evaluators.no_relevant)
            for metric in run.metrics.metrics
        },
        prompt=run.labels.prompt,
        queries=queries,
        settings=[_setting_part(config, one) for one in scored],
        failures=list(run.failures),
        warnings=[WarningPart(code=caution.code, message=caution.message) for caution in dict.fromkeys(cautions)],
        environment=environment(),
    )


def setting_cautions(scored: Scored, primary: str) -> Iterator[Caution]:
    """What should be known of one setting's vectors, index and rankings."""
    setting = scored.rankings.setting
    if scored.audit:
        yield from audit_cautions(setting.name, scored.audit, primary, scored.evaluations[primary])
    yield from too_long_cautions(setting, scored.rankings.too_long)
    yield from health_cautions(setting.name, scored.rankings.health, setting.embedder, setting.store)
    short = int((scored.graded.lengths < scored.top_k).sum())
    documents = len(scored.rankings.chunks.library)
    if documents < scored.top_k:
        message = f"there are only {documents} documents, fewer than the {scored.top_k} that are scored (top_k)."
        yield Caution("few-documents", message)
    elif short:
        yield Caution(
            "short",
            f"{setting.name}: {short} of {len(scored.graded):,} queries have fewer than {scored.top_k} "
            "documents; the places that are missing count as not relevant.",
        )
    empty = scored.rankings.chunks.library.empty
    if empty:
        yield Caution("empty-documents", f"{empty} documents have no text; they are kept, and cannot be found by it.")


def setting_parameters(config: ExperimentConfig, setting: Setting) -> dict[str, Any]:
    """Everything that makes a setting, defaults too; texts (names, paths, variables) stand as they were written."""
    written = config.as_written
    own = (written.get("retrievers") or {}).get(setting.name) or {}
    return {
        "retriever": _as_written(_dumped(setting.retriever, REACHING), own),
        "chunker": _as_written(_dumped(setting.chunker), own.get("chunker") or written.get("chunker")),
        "context": _as_written(_dumped(setting.context), own.get("context") or written.get("context")),
        "embedder": _as_written(_dumped(setting.embedder), own.get("embedder") or written.get("embedder")),
        "store": _as_written(_dumped(setting.store), own.get("store") or written.get("store")),
    }


def ranking_rows(scored: Scored) -> Iterator[dict[str, Any]]:
    """One row per query with all its hits, best first, as columns."""
    chunks, collapsed = scored.rankings.chunks, scored.rankings.retrieved.collapsed
    for index, name in enumerate(scored.query_ids):
        units = [unit for unit in collapsed.units[index].tolist() if unit != PADDING]
        yield {
            "query": name,
            "docs": [chunks.document_id(unit) for unit in units],
            "chunks": [chunks.id(unit) for unit in units],
            "starts": [int(chunks.start[unit]) for unit in units],
            "ends": [int(chunks.end[unit]) for unit in units],
            "scores": collapsed.rankings.scores[index, : len(units)].tolist(),
        }


def text_rows(scored: Sequence[Scored]) -> Iterator[dict[str, Any]]:
    """One row for each chunk that any setting returned, in the order of the documents; pages where there are some."""
    seen: set[str] = set()
    for one in scored:
        chunks = one.rankings.chunks
        found = one.rankings.retrieved.collapsed.units
        for unit in sorted({int(unit) for unit in found[found != PADDING]}):
            name = chunks.id(unit)
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


def _setting_part(config: ExperimentConfig, scored: Scored) -> SettingPart:
    rankings = scored.rankings
    retrieved = rankings.retrieved
    latency = rankings.latency
    return SettingPart(
        name=rankings.setting.name,
        fingerprint=rankings.fingerprint,
        parameters=setting_parameters(config, rankings.setting),
        scores={name: MeanPart(mean=one.mean.mean, n=one.mean.n) for name, one in scored.evaluations.items()},
        counts={
            "chunks": len(rankings.chunks),
            "chunks_too_long": rankings.too_long["chunks"],
            "queries_too_long": rankings.too_long["queries"],
            "chunks_read": int(retrieved.read.sum()),
            "chunks_collapsed": int(retrieved.collapsed.dropped.sum()),
            "documents_kept": int(scored.graded.lengths.sum()),
            "queries_short": int((scored.graded.lengths < scored.top_k).sum()),
            "queries_without_hits": int((scored.graded.lengths == 0).sum()),
        },
        index=rankings.index,
        health=HealthPart(**asdict(rankings.health)),
        audit=scored.audit,
        timings=rankings.timings,
        latency=LatencyPart(**latency) if latency else None,
        queries=list(_query_scores(scored)),
    )


def _query_scores(scored: Scored) -> Iterator[QueryScores]:
    chunks, collapsed = scored.rankings.chunks, scored.rankings.retrieved.collapsed
    for index, name in enumerate(scored.query_ids):
        hits, grades = [], scored.graded.grades_by_rank(index)
        for rank, unit in enumerate(collapsed.units[index, :HITS_SHOWN].tolist(), 1):
            if unit == PADDING:
                break
            hits.append(
                HitPart(
                    doc=chunks.document_id(unit),
                    chunk=chunks.id(unit),
                    start=int(chunks.start[unit]),
                    end=int(chunks.end[unit]),
                    rank=rank,
                    score=float(collapsed.rankings.scores[index, rank - 1]),
                    grade=grades.get(rank),
                )
            )
        yield QueryScores(
            id=name,
            evaluations={metric: one.of(index) for metric, one in scored.evaluations.items()},
            hits=hits,
            short=bool(scored.graded.lengths[index] < scored.top_k),
            collapsed=int(collapsed.dropped[index]),
        )


def _query_parts(labels: PromptQueries) -> list[QueryPart]:
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


def metric_part(metric: Metric, threshold: int, no_relevant: NoRelevant) -> MetricPart:
    """What a metric means and over which queries its mean is, where grades count as relevant from ``threshold`` on."""
    definition = metric.definition
    needs = _COUNTED[definition.needs]
    if no_relevant == "zero" and definition.needs != "order":
        needs = "all queries"
    known = f" (relevant: grade {threshold} and above)" if definition.needs in ("relevant", "order") else ""
    return MetricPart(
        formula=definition.formula, family=definition.family, counted=needs + known, source=definition.source
    )


def _dumped(options: Options, without: set[str] | None = None) -> dict[str, Any]:
    return options.model_dump(mode="json", exclude=without)


def _as_written(value: Any, written: Any) -> Any:
    if isinstance(value, dict) and isinstance(written, dict):
        return {key: _as_written(one, written.get(key)) for key, one in value.items()}
    return str(written) if isinstance(written, str) else value
