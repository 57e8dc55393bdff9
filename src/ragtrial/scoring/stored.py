"""The labels and the stored rankings from which a report is scored again."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from ragtrial.config import load_config
from ragtrial.dataset.chunks import Chunks
from ragtrial.dataset.datasets import load_dataset
from ragtrial.dataset.library import Library
from ragtrial.dataset.spans import ChunkSpans
from ragtrial.errors import Fault, LabelsError, ReportError, did_you_mean, listed
from ragtrial.evaluation.context_sizes import ContextSizes, context_sizes
from ragtrial.pipeline.scored_setting import KNOWN, ScoredSetting, Scorer, context_parts
from ragtrial.rankings import PADDING, Bools, Counts, Rankings, from_rows
from ragtrial.records import Judgment, PromptQueries, Query, ReportWarning, Span
from ragtrial.report.model import Report
from ragtrial.report.schema import QueryColumns, QueryPart, SettingPart
from ragtrial.runs.inputs import RunInput
from ragtrial.scoring.as_report import labels_of_qrels


@dataclass(frozen=True)
class ChosenLabels:
    """The labels by which rankings are scored, for queries with a ranking, in the order of the labels.

    ``file`` is their source. With ``are_places`` their documents are ids and their passages are located.
    """

    labels: PromptQueries
    file: str
    are_places: bool
    are_qrels: bool
    warnings: tuple[ReportWarning, ...]

    def need_texts(self, *, by_content: bool) -> bool:
        """True if the texts of the documents are needed to locate them."""
        if self.are_places:
            return False
        return (by_content and not self.are_qrels) or any(
            judgment.quote is not None or judgment.spans or judgment.text_hash is not None
            for query in self.labels.queries
            for judgment in query.relevant_docs
        )


def labels_of_report(report: Report) -> PromptQueries:
    """The labels of a report, with documents and positions as they were looked up."""
    return PromptQueries(tuple(map(_query, report.queries)), report.prompt)


def choose_labels(report: Report, file: str | Path | None) -> ChosenLabels:
    """The labels in ``file``, or in ``report`` itself, for the queries that the report ranks.

    ``file`` is a prompt_queries.json, qrels in any known form, or a config that names its labels. Queries that only
    one of the two has, or whose text has changed, are left out, with a warning. Raises LabelsError for labels that
    cannot be read, and if no query is left.
    """
    own = labels_of_report(report)
    if file is None:
        return ChosenLabels(own, str(report.folder / "report.json"), are_places=True, are_qrels=False, warnings=())
    known = {query.id: query for query in own.queries}
    given, are_qrels, notes = _given(file, known)
    same = {query.id for query in given.queries if query.id in known and known[query.id].text in ("", query.text)}
    if not same:
        names = [query.id for query in given.queries]
        message = (
            f"none of its {len(names):,} queries is one that run {report.run_id} has rankings of. It has "
            f"{listed(names, 3)}; the report has {listed(known, 3)}.{did_you_mean(names[0], known)}"
        )
        raise LabelsError(Fault(str(file), message=message))
    kept = tuple(query for query in given.queries if query.id in same)
    labels = PromptQueries(kept, own.prompt if are_qrels else given.prompt)
    warnings = (*notes, *_left_out(report.run_id, given.queries, known, same))
    return ChosenLabels(labels, str(file), are_places=False, are_qrels=are_qrels, warnings=warnings)


def _given(file: str | Path, known: dict[str, Query]) -> tuple[PromptQueries, bool, tuple[ReportWarning, ...]]:
    """The labels of ``file``, whether they are qrels, by document id, and warnings."""
    if Path(file).suffix in (".yaml", ".yml"):
        dataset = load_config(file).dataset
        loaded = load_dataset(dataset)
        return loaded.labels, dataset.beir is not None, loaded.notes
    qrels = RunInput(file, ()).judgments()
    return qrels.labels or labels_of_qrels(qrels, known), qrels.labels is None, ()


def _left_out(
    run_id: str, queries: Sequence[Query], known: dict[str, Query], same: Collection[str]
) -> Iterator[ReportWarning]:
    names = {query.id: query.id in known for query in queries}
    for code, left, why in (
        ("not-ranked", [name for name, is_known in names.items() if not is_known],
         f"have labels, but no ranking in run {run_id}; run the experiment again"),
        ("text-of-query", [name for name, is_known in names.items() if is_known and name not in same],
         f"have another text than in run {run_id}, so their rankings are of something else; run the experiment again"),
        ("no-labels-left", sorted(known.keys() - names.keys()),
         "are in the report and no more in the labels"),
    ):  # fmt: skip
        if left:
            yield ReportWarning(code, f"{len(left):,} queries {why}: {listed(left, 5)}. They were left out.")


def _query(part: QueryPart) -> Query:
    judgments = tuple(
        Judgment(one.doc, one.relevance, None, tuple(Span(span.start, span.end) for span in one.spans))
        for one in part.relevant_docs
    )
    return Query(part.id, part.text, judgments, tuple(part.tags), part.ordered)


_NO_TOKENS = -1


@dataclass(frozen=True)
class StoredChunk:
    """A ranked chunk: its document, its first character and the one behind its last, and its tokens if known."""

    doc: str
    start: int
    end: int
    tokens: int


@dataclass(frozen=True, eq=False)
class StoredSetting:
    """The stored hits of a setting for some queries, in their order.

    The codes in ``ranked`` number the entries of ``chunks``, by name. ``top_k`` is the number of kept hits; ``is_all``
    says whether these are all queries of the report.
    """

    query_ids: Sequence[str]
    part: SettingPart
    per_query: QueryColumns
    ranked: Rankings
    chunks: dict[str, StoredChunk]
    top_k: int
    is_all: bool

    @cached_property
    def skipped(self) -> Bools:
        """Which queries could not be answered, shape (queries,)."""
        return np.array(self.per_query.skipped, dtype=np.bool_)

    @property
    def docs(self) -> dict[str, None]:
        """The documents of its hits, each once."""
        return dict.fromkeys(chunk.doc for chunk in self.chunks.values())

    def scored(self, scorer: Scorer, library: Library, whole: Chunks | None) -> ScoredSetting:
        """The setting with its scores by other labels. ``whole`` are all of its chunks, if known.

        The loss of an index is unknown, since its exact rankings are not stored.
        """
        part, top_k, sizes, skipped = self.part, self.top_k, self.sizes(), self.skipped
        rankings, spans = self._scored_rankings(library, whole, by_span=scorer.options.unit == "span")
        judged = scorer.judge(rankings, spans, sizes, skipped, top_k, is_whole=whole is not None)
        measured = {context.k: context for context in part.context} if self.is_all else {}
        context = context_parts(judged.evaluations, sizes, top_k, skipped)
        audit = part.audit and part.audit.model_copy(update={"lost": dict.fromkeys(judged.evaluations)})
        return ScoredSetting(
            name=part.name,
            query_ids=tuple(self.query_ids),
            evaluations=judged.evaluations,
            known={name: getattr(part, name) for name in KNOWN},
            counts=part.counts if self.is_all else self.counts(),
            short=self.per_query.short,
            skipped=skipped,
            collapsed=self.per_query.collapsed,
            judged=judged,
            audit=audit if self.is_all else None,
            context=[measured.get(one.k, one) for one in context],
        )

    def _scored_rankings(
        self, library: Library, whole: Chunks | None, *, by_span: bool
    ) -> tuple[Rankings, ChunkSpans | None]:
        """The rankings of documents, by position in ``library``; or of chunks, with their positions."""
        if not by_span:
            return self._recoded([library.positions[chunk.doc] for chunk in self.chunks.values()]), None
        if whole is not None:
            code = {name: position for position, name in enumerate(whole.ids(range(len(whole))))}
            ranked = self._recoded([code[name] for name in self.chunks])
            return ranked, ChunkSpans(whole.document, whole.start, whole.end)
        extents = [(library.positions.get(one.doc, PADDING), one.start, one.end) for one in self.chunks.values()]
        columns = np.array(extents, dtype=np.int64).reshape(-1, 3)
        return self.ranked, ChunkSpans(columns[:, 0].astype(np.int32), columns[:, 1], columns[:, 2])

    def _recoded(self, codes: Sequence[int]) -> Rankings:
        """The rankings with other codes: the chunk at each position gets the code at this position in ``codes``."""
        return Rankings(np.array([*codes, PADDING], dtype=np.int32)[self.ranked.codes], self.ranked.scores)

    def counts(self) -> dict[str, int | None]:
        """The counts of the setting over these queries; None for counts that are known for all queries only."""
        collapsed, kept = sum(self.per_query.collapsed), int(self.ranked.lengths.sum())
        own: dict[str, int | None] = {
            "queries_too_long": None,
            "chunks_read": kept + collapsed,
            "chunks_collapsed": collapsed,
            "documents_kept": kept,
            "chunks_kept": kept,
            "queries_short": int((self.ranked.lengths < self.top_k).sum()),
            "queries_without_hits": int(((self.ranked.lengths == 0) & ~self.skipped).sum()),
            "queries_skipped": int(self.skipped.sum()),
        }
        return {name: own.get(name, count) for name, count in self.part.counts.items()}

    def are_of(self, chunks: Chunks) -> bool:
        """True if ``chunks`` include all ranked chunks, and are as many as the report counts."""
        if self.part.counts.get("chunks") not in (None, len(chunks)):
            return False
        return self.chunks.keys() <= set(chunks.ids(range(len(chunks))))

    def sizes(self) -> ContextSizes:
        """The sizes of the first hits."""
        chunks = self.chunks.values()
        characters = self._by_hit([chunk.end - chunk.start for chunk in chunks])
        has_tokens = all(chunk.tokens != _NO_TOKENS for chunk in chunks)
        return context_sizes(characters, self._by_hit([chunk.tokens for chunk in chunks]) if has_tokens else None)

    def _by_hit(self, values: Sequence[int]) -> Counts:
        return np.array([*values, 0], dtype=np.int64)[self.ranked.codes]


def stored_setting(report: Report, setting: SettingPart, queries: Sequence[str], top_k: int) -> StoredSetting:
    """The rankings of a setting of ``report`` for ``queries``. Raises ReportError if they are missing."""
    index_of = {query.id: index for index, query in enumerate(report.queries)}
    chunks: dict[str, StoredChunk] = {}
    code_of: dict[str, int] = {}
    codes, scores = [], []
    try:
        for row in report.rankings(setting.name, queries):
            tokens = row.get("tokens", [_NO_TOKENS] * len(row["docs"]))
            for name, *chunk in zip(row["chunks"], row["docs"], row["starts"], row["ends"], tokens, strict=True):
                if name not in chunks:
                    code_of[name], chunks[name] = len(chunks), StoredChunk(*chunk)
            codes.append([code_of[name] for name in row["chunks"]])
            scores.append([math.nan if score is None else score for score in row["scores"]])
        ranked = from_rows(codes, scores)
    except (LookupError, TypeError, ValueError, OverflowError) as error:
        message = f"is damaged: it lacks what report.json names ({error}); run the experiment again."
        raise ReportError(Fault(str(report.ranking_file(setting.name)), message=message)) from error
    per_query = setting.per_query.at([index_of[query] for query in queries])
    return StoredSetting(queries, setting, per_query, ranked, chunks, top_k, is_all=len(queries) == len(index_of))
