"""Measurements of a setting: an engine compared with exact search, the tokens of hits, and the latency of queries."""

from __future__ import annotations

import json
import platform
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ragtrial.cache.arrays import array_digest, read_array, write_array
from ragtrial.cache.atomic import write_text
from ragtrial.cache.fingerprints import fingerprint
from ragtrial.components.refiners.base import Refiner
from ragtrial.components.tokenizers import Tokenizer
from ragtrial.config.settings import Setting
from ragtrial.dataset.chunks import Chunks
from ragtrial.engines import CollectionOptions, Index, IndexUse, Store, open_collection
from ragtrial.evaluation.context_sizes import TokenCounts
from ragtrial.evaluation.evaluators import Evaluation
from ragtrial.pipeline.ranking_stage import OpenSetting, RankingStage, open_setting
from ragtrial.pipeline.retrieval import Depth, SettingRankings
from ragtrial.pipeline.stage import Amount, Inputs, KeptArtefacts, Runner, Stage
from ragtrial.rankings import PADDING, Codes, Counts
from ragtrial.records import Question, ReportWarning
from ragtrial.report.schema import AuditPart, LatencyPart

AUDITED_BELOW = 100_000
"""Indexes of fewer vectors are always compared with exact search; it takes a second or two per thousand queries."""

_MOVED = 0.005
"""A change of the primary metric's mean that matters, however large its standard error is."""

Shares = npt.NDArray[np.float64]
"""The share of each query's exact hits that was found, in [0, 1], shape (queries,); NaN if there are none."""

Key = int | tuple[int, int, int]
"""A document, or characters of one."""


@dataclass(frozen=True, eq=False)
class Audited:
    """An engine compared with exact search over the same vectors, with the same top_k.

    ``exact`` are the exact rankings.
    """

    exact: SettingRankings
    shares: Shares
    use: IndexUse


@dataclass(eq=False)
class IndexUseStage(Stage[IndexUse]):
    """The engine's own account of whether searches use the index of a setting."""

    kind = "use"

    ranking: RankingStage

    def __post_init__(self) -> None:
        self.needs = tuple(filter(None, [self.ranking.stages.index]))
        self.title = f"use of {self.ranking.setting.name}"

    def inputs(self) -> Inputs:
        return {"format": 1}

    @contextmanager
    def held_for_build(self, runner: Runner) -> Iterator[Sequence[Index]]:
        stages, unit = self.ranking.stages, self.ranking.unit
        with open_setting(self.resources, stages, runner, unit, with_parts=False) as setting:
            yield (setting.context.index(),)

    def build(self, folder: Path, index: Index, description: dict[str, Any]) -> None:
        _write_use(folder, index.use())

    def load(self, folder: Path) -> IndexUse:
        return _read_use(folder)


def _write_use(folder: Path, use: IndexUse) -> None:
    write_text(folder / "use.json", json.dumps(asdict(use)))


def _read_use(folder: Path) -> IndexUse:
    return IndexUse(**json.loads((folder / "use.json").read_text(encoding="utf-8")))


@dataclass(eq=False)
class AuditStage(Stage[Audited]):
    """The share of each query's exact hits that the engine found, in an index that was built here or a collection.

    Deeper exact rankings show the hits that are as near as the last one: of equal hits the engine may return any. Hits
    are compared as documents or passages. ``ranking`` may be deeper than the setting needs.
    """

    kind = "shares"
    shown_as = "audit"

    setting: Setting
    ranking: RankingStage
    exact: RankingStage

    def __post_init__(self) -> None:
        self.index = self.ranking.stages.index
        self._depth = Depth(units=self.setting.retriever.top_k)
        self.title, self.label = f"audit of {self.setting.name}", self.setting.name
        own_index = self.exact.stages.index  # whose damage is to be noticed, too
        use = () if self.index is None else (IndexUseStage(self.resources, self.ranking),)
        self._rate = "audit collection" if self.index is None else "audit shares"
        self.reads = (self.exact, *use, *((own_index,) if own_index else ()))
        self.needs = (self.ranking, *self.reads)

    @cached_property
    def collection_size(self) -> int | None:
        """The number of vectors in the searched collection; None for an index that was built here."""
        collection = self.setting.retriever.searched_collection
        return None if collection is None else open_collection(collection).count

    def inputs(self) -> Inputs:
        return {"top_k": self._depth.units, "format": 4}

    @contextmanager
    def held_for_build(self, runner: Runner) -> Iterator[Sequence[OpenSetting]]:
        with open_setting(self.resources, self.exact.stages, runner, self.ranking.unit) as exact:
            yield (exact,)

    def build(
        self, folder: Path, search: OpenSetting, ranked: SettingRankings, exact: SettingRankings, *_read: object
    ) -> None:
        found, exact = [set(row) for row in _keys(ranked.cut(self._depth))], exact.cut(self._depth)
        count, unit = self.collection_size or len(found), "vectors" if self.collection_size else "queries"
        with self.resources.working(f"audit ({self.setting.name})", count, unit, self._rate) as progress:
            wanted = self._as_near(search, found, exact)
            progress.advance(count)
        rows = zip(found, wanted, exact.rankings.lengths.tolist(), strict=True)
        shares = [min(len(own & near), length) / length if length else np.nan for own, near, length in rows]
        write_array(folder / "shares.npy", np.array(shares, dtype=np.float64))
        if (collection := self.setting.retriever.searched_collection) is not None:
            _write_use(folder, open_collection(collection).use())

    def _as_near(self, search: OpenSetting, found: Sequence[set[Key]], exact: SettingRankings) -> list[set[Key]]:
        """For each query the exact hits, and all hits in ``found`` that are as near as the last of them."""
        wanted, lengths = [set(row) for row in _keys(exact)], exact.rankings.lengths
        last = [float(exact.rankings.scores[row, length - 1]) if length else 0 for row, length in enumerate(lengths)]
        pending = [row for row in range(len(wanted)) if wanted[row] and found[row] - wanted[row]]
        depth = self._depth.units
        while pending:
            depth *= 2
            deeper = search.ranked([self.ranking.questions[row] for row in pending], Depth(units=depth))
            left = []
            for row, keys, scores in zip(pending, _keys(deeper), deeper.rankings.scores, strict=True):
                wanted[row] |= {key for key, score in zip(keys, scores, strict=False) if score >= last[row]}
                if len(keys) == depth and scores[depth - 1] >= last[row]:
                    left.append(row)
            pending = left
        return wanted

    def load(self, folder: Path, exact: SettingRankings, *reads: Any) -> Audited:
        shares: Shares = read_array(folder / "shares.npy")
        if shares.shape != exact.hit_counts.shape:
            raise ValueError(f"it has shares of the shape {shares.shape} for {len(exact.hit_counts):,} questions")
        use = _read_use(folder) if self.index is None else reads[0]
        return Audited(exact.cut(self._depth), shares, use)

    def amount(self, kept: KeptArtefacts) -> Amount:
        count = self.index.amount(kept).count if self.index else self.collection_size or 0
        is_estimate = self.index is not None and self.index.amount(kept).is_estimate
        measured = count if self.index is None else len(self.ranking.questions)
        return Amount(count, "vectors", count, is_estimate, self.resources.rates.seconds(self._rate, measured))


def _keys(ranked: SettingRankings) -> list[list[Key]]:
    """The hits of each query, as documents or passages."""
    units, rows = ranked.candidates.units, list[list[Key]]()
    for row in ranked.rankings.codes:
        codes = row[row != PADDING].tolist()
        if ranked.unit == "document":
            rows.append(codes)
        else:
            rows.append([(int(units.document[code]), int(units.start[code]), int(units.end[code])) for code in codes])
    return rows


def audit(
    setting: Setting,
    found: SettingRankings,
    audited: Audited,
    evaluations: Mapping[str, Evaluation],
    exact: Mapping[str, Evaluation],
) -> AuditPart:
    """The comparison of a setting's rankings with exact search, whose evaluations are ``exact``."""
    lengths, known = audited.exact.rankings.lengths, audited.shares[~np.isnan(audited.shares)]
    means = {name: (values.mean.mean, exact[name].mean.mean) for name, values in evaluations.items()}
    return AuditPart(
        overlap=float(known.mean()) if len(known) else None,
        lowest_overlap=float(known.min()) if len(known) else None,
        queries=len(known),
        queries_that_differ=int((known < 1).sum()),
        repeats=None if setting.retriever.searched_collection is not None else setting.store.is_repeatable,
        short_queries=int((found.rankings.lengths < lengths).sum()),
        used=audited.use.is_used,
        use=audited.use.evidence,
        lost={name: None if now is None or best is None else best - now for name, (now, best) in means.items()},
    )


def audit_warnings(
    name: str, searched: Store | CollectionOptions, part: AuditPart, primary: str, evaluation: Evaluation
) -> Iterator[ReportWarning]:
    """Warnings about the index that is ``searched`` for the setting ``name``; ``evaluation`` has the primary metric."""
    lost = part.lost[primary]
    values = evaluation.values[evaluation.counted]
    error = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else np.inf
    if lost is not None and abs(lost) > min(error, _MOVED):
        more = f"its standard error, {error:.4f}" if error < _MOVED else f"{_MOVED}"
        moved = f"the index moves {primary} by {-lost:+.4f} against exact search over the same vectors"
        message = f"{name}: {moved}, which is more than {more}. {searched.advice_for_low_recall}"
        yield ReportWarning.of_verdict("index-loss", message)
    if part.used is False:
        message = f"searches do not use the index, so they are exact: {part.use}"
        yield ReportWarning.of_verdict("index-not-used", f"{name}: {message} {searched.advice_for_unused}")
    if part.short_queries:
        short = f"queries with fewer hits than were asked for, although exact search finds more: {part.short_queries:,}"
        advice = searched.advice_for_few_hits or searched.advice_for_low_recall
        yield ReportWarning("fewer-hits", f"{name}: {short}. {advice}")


@dataclass(eq=False)
class SizeStage(Stage[Counts]):
    """The tokens of each hit of ``ranking``: the first ``chunks`` of its rankings, numbered by ``units``.

    The key has the hits themselves, since rankings of one name can differ after skipped questions were retried.
    """

    kind = "sizes"
    is_counted = False
    is_large = True

    ranking: RankingStage
    chunks: Chunks
    units: Codes
    tokenizer: Tokenizer

    def __post_init__(self) -> None:
        self.title = f"sizes of what {self.ranking.setting.name} finds"
        key = self.chunks.name, self.tokenizer.fingerprint
        self._known = self.resources.counted.setdefault(key, TokenCounts(self.chunks, self.tokenizer))

    def inputs(self) -> Inputs:
        hits = [list(self.units.shape), array_digest(self.units), self.chunks.name]
        return {"hits": fingerprint(hits), "tokenizer": self.tokenizer.fingerprint}

    def build(self, folder: Path) -> None:
        count, name = len(self._known.missing(self.units)), f"tokens ({self.ranking.setting.name})"
        with self.resources.working(name, count, "chunks", "tokens") as progress:
            write_array(folder / "tokens.npy", self._known.of(self.units, progress.advance))

    def load(self, folder: Path) -> Counts:
        counts = read_array(folder / "tokens.npy")
        self._known.keep(self.units, counts)
        return counts


SAMPLE = 50
_WARM_UP = 3
_PERCENTILES = (50, 95, 99)
_NONE = "null"
"""The content of a measurement without queries."""


@dataclass(eq=False)
class LatencyStage(Stage[LatencyPart | None]):
    """The latency of single queries of a setting with its parts, their indexes open and warm; None without queries."""

    kind = "latency"
    shown_as = "latency"

    setting: Setting
    ranking: RankingStage
    seed: int

    def __post_init__(self) -> None:
        self.needs = (self.ranking,)
        self._questions, self._tree = self.ranking.questions, list(self.setting.tree())
        self._count = min(len(self._questions), SAMPLE)
        self._rate = " ".join(["latency", *(part.retriever.kind for part in self._tree)])
        self.label = self.setting.name
        self.title = f"latency of {self.label}"

    def inputs(self) -> Inputs:
        models = [options for part in self._tree for options in (part.embedder, part.retriever)]
        devices = [options.model_dump().get("device") for options in models]
        # A retriever gets one question at a time, so its batches do not matter; a refiner gets many hits.
        refiners = [part.retriever.model_dump() for part in self._tree if isinstance(part.retriever, Refiner)]
        batches = [options["batch_size"] for options in refiners if "batch_size" in options]
        top_k = self.setting.retriever.top_k
        return {"top_k": top_k, "seed": self.seed, "devices": devices, "batches": batches, "format": 3}

    @contextmanager
    def held_for_build(self, runner: Runner) -> Iterator[Sequence[OpenSetting]]:
        with open_setting(self.resources, self.ranking.stages, runner, self.ranking.unit, is_fresh=True) as setting:
            yield (setting,)

    def build(self, folder: Path, setting: OpenSetting, _ranked: SettingRankings) -> None:
        depth = Depth(units=self.setting.retriever.top_k)
        with self.resources.working(f"latency ({self.label})", self._count, "queries", self._rate):
            latency = measure_latency(lambda question: setting.ranked([question], depth), self._questions, self.seed)
        write_text(folder / "latency.json", latency.model_dump_json() if latency else _NONE)

    def load(self, folder: Path) -> LatencyPart | None:
        text = (folder / "latency.json").read_text(encoding="utf-8")
        return None if text == _NONE else LatencyPart.model_validate_json(text)

    def amount(self, kept: KeptArtefacts) -> Amount:
        count = self._count
        seconds = self.resources.rates.seconds(self._rate, count)
        asked = count + min(count, _WARM_UP) if count else 0  # caches are passed over, so all of it is paid for again
        costs = [stage.expected_cost(kept, asked) for stage in self.ranking.tree()]
        paid = [cost for cost in costs if cost is not None]
        return Amount(count, "questions", count, seconds=seconds, cost=sum(paid) if paid else None)


def measure_latency(
    search: Callable[[Question], object], questions: Sequence[Question], seed: int
) -> LatencyPart | None:
    """Seconds per query of ``search``, of at most 50 questions drawn with ``seed``; None without questions.

    One query at a time, after three that are not counted. Percentiles are nearest-rank. Carries the machine and the
    date, because the numbers mean nothing without them.
    """
    if not questions:
        return None
    sample = random.Random(seed).sample(list(questions), min(SAMPLE, len(questions)))  # noqa: S311 - not a secret
    for question in sample[:_WARM_UP]:
        search(question)
    seconds = list[float]()
    for question in sample:
        start = time.perf_counter()
        search(question)
        seconds.append(time.perf_counter() - start)
    percentiles = np.percentile(seconds, _PERCENTILES, method="inverted_cdf").tolist()
    return LatencyPart(
        **{f"p{percent}": value for percent, value in zip(_PERCENTILES, percentiles, strict=True)},
        n=len(seconds),
        machine=f"{platform.system()} {platform.machine()}, {platform.processor() or 'processor not named'}",
        date=datetime.now(UTC).isoformat(timespec="seconds"),
    )
