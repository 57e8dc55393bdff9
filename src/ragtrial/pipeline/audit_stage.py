"""What an approximate index loses: its rankings against exact search over the same vectors."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ragtrial.cache.arrays import read_array, write_array
from ragtrial.cache.atomic import write_text
from ragtrial.cache.fingerprints import fingerprint
from ragtrial.config.settings import Setting
from ragtrial.engines import CollectionOptions, Index, IndexUse, Store, Vectors
from ragtrial.engines.exact import ExactIndex
from ragtrial.evaluation.evaluators import Evaluation
from ragtrial.pipeline.index_stage import IndexStage, open_indexes
from ragtrial.pipeline.ranking_stage import RankingStage
from ragtrial.pipeline.resources import Resources
from ragtrial.pipeline.retrieval import Depth, Ranked
from ragtrial.pipeline.stage import Amount, Artefacts, Inputs, Known, Stage
from ragtrial.rankings import PADDING, Floats, Rankings
from ragtrial.records import ReportWarning, WarningCode
from ragtrial.report.schema import AuditPart

AUDITED_BELOW = 100_000
"""Indexes of fewer vectors are always compared with exact search; it takes a second or two per thousand queries."""

_MOVED = 0.005
"""A change of the primary metric's mean that matters, however large its standard error is."""


@dataclass(frozen=True, eq=False)
class Audited:
    """What exact search says of an index: over the same vectors, with the same top_k.

    ``exact`` is what it finds; ``scores`` are the exact scores of what the index found, shape (queries, depth), NaN at
    the padding; ``unreachable`` counts the vectors that the index cannot return at all, None if that is not known;
    ``use`` says whether the engine answers from its index.
    """

    exact: Ranked
    scores: Floats
    unreachable: int | None
    use: IndexUse = field(default=IndexUse(is_used=None, evidence=""), kw_only=True)

    def shares(self, found: Ranked) -> npt.NDArray[np.float64]:
        """The share of each query's exact hits that the index found, see ``overlap``."""
        return overlap(found.rankings, self.scores, self.exact.rankings)


@dataclass(frozen=True)
class Reach:
    """What the engine itself shows of its index."""

    unreachable: int
    use: IndexUse


@dataclass(eq=False)
class ReachStage(Stage[Reach]):
    """How many vectors no search can return from the index of a setting, and whether searches use it at all."""

    kind = "reach"

    resources: Resources
    index: IndexStage

    def __post_init__(self) -> None:
        self.needs = (self.index,)
        self.rate = f"audit {self.index.store.kind}"
        self.title = f"reach of {self.index.setting_name}"

    def inputs(self) -> Inputs:
        return {"format": 2}

    @contextmanager
    def opened(self, artefacts: Artefacts) -> Iterator[Sequence[Index]]:
        with open_indexes(artefacts, self.resources.workspace, [self.index]) as indexes:
            yield (indexes[self.index],)

    def build(self, folder: Path, index: Index, built: dict[str, Any]) -> None:
        name, count = f"reach ({self.index.setting_name})", built["vectors"]
        with self.resources.working(name, count, "vectors", self.rate):
            found = Reach(index.unreachable(), index.use())
        write_text(folder / "reach.json", json.dumps(asdict(found)))

    def load(self, folder: Path) -> Reach:
        found = json.loads((folder / "reach.json").read_text(encoding="utf-8"))
        return Reach(int(found["unreachable"]), IndexUse(**found["use"]))


@dataclass(eq=False)
class AuditStage(Stage[Audited]):
    """An approximate index compared with exact search.

    Kept are the exact scores of the chunks that the setting found, shape (queries, top_k), NaN at the padding; what
    exact search finds, and how many vectors cannot be reached, are kept by stages of their own.
    """

    kind = "rescored"
    shown_as = "audit"

    resources: Resources
    setting: Setting
    index: IndexStage
    ranking: RankingStage
    """Which may be deeper, and of another setting, too."""
    exact: RankingStage

    def __post_init__(self) -> None:
        self._depth = Depth(units=self.setting.retriever.top_k)
        self._reach = ReachStage(self.resources, self.index)
        own_index = self.exact.stages.index  # whose damage is to be noticed, too
        self.reads = (self._reach, self.exact, *((own_index,) if own_index else ()))
        self.needs = (self.ranking, *self.reads)
        self.title, self.label = f"exact scores of {self.setting.name}", self.setting.name

    def inputs(self) -> Inputs:
        return {"top_k": self._depth.units}

    def key(self) -> str:
        return fingerprint([self.own, self.ranking.identity()])  # what is kept depends on nothing else

    @contextmanager
    def opened(self, artefacts: Artefacts) -> Iterator[Sequence[Vectors]]:
        yield (self.index.vectors(artefacts),)

    def build(self, folder: Path, vectors: Vectors, ranked: Ranked, *_read: object) -> None:
        embedder = self.resources.embedder(self.setting.embedder)
        queries = embedder.embed_queries([question.text for question in self.ranking.questions])
        exact = ExactIndex(vectors, self.setting.store.space)
        write_array(folder / "scores.npy", exact.scores_of(queries, ranked.cut(self._depth).units))

    def load(self, folder: Path, reach: Reach, exact: Ranked, *_index: object) -> Audited:
        scores = read_array(folder / "scores.npy")
        if scores.shape != (len(exact.seen), self._depth.units):
            raise ValueError(f"it has scores of the shape {scores.shape} for {len(exact.seen):,} questions")
        return Audited(exact.cut(self._depth), scores, reach.unreachable, use=reach.use)

    def amount(self, known: Known) -> Amount:
        vectors = self.index.amount(known)
        return replace(vectors, seconds=self.resources.rates.seconds(self._reach.rate, vectors.count))


def audit(
    setting: Setting,
    found: Ranked,
    audited: Audited,
    evaluations: Mapping[str, Evaluation],
    exact: Mapping[str, Evaluation],
) -> AuditPart:
    """Compare a setting's rankings with exact search, whose evaluations are ``exact``."""
    shares, lengths = audited.shares(found), audited.exact.rankings.lengths
    known = shares[~np.isnan(shares)]
    means = {name: (one.mean.mean, exact[name].mean.mean) for name, one in evaluations.items()}
    return AuditPart(
        overlap=float(known.mean()) if len(known) else None,
        lowest_overlap=float(known.min()) if len(known) else None,
        queries=len(known),
        queries_that_differ=int((known < 1).sum()),
        repeats=None if setting.retriever.searched_collection is not None else setting.store.is_repeatable,
        short_queries=int((found.rankings.lengths < lengths).sum()),
        unreachable=audited.unreachable,
        used=audited.use.is_used,
        use=audited.use.evidence,
        lost={name: None if now is None or best is None else best - now for name, (now, best) in means.items()},
    )


def overlap(found: Rankings, scores: Floats, exact: Rankings) -> npt.NDArray[np.float64]:
    """The share of each query's exact hits that was found, in [0, 1], shape (queries,); NaN where there are none.

    ``found`` is compared as a set with ``exact``, which was asked for as many hits. A hit that is not among the exact
    ones counts if its exact score, in ``scores``, is as high as the last of them: of equal ones any may be returned.
    """
    shares = np.full(len(exact), np.nan)
    for row, length in enumerate(exact.lengths.tolist()):
        if length:
            wanted, last = exact.codes[row, :length], float(exact.scores[row, length - 1])
            matches = (found.codes[row] != PADDING) & (np.isin(found.codes[row], wanted) | (scores[row] >= last))
            shares[row] = min(int(matches.sum()), length) / length
    return shares


def audit_warnings(
    name: str, searched: Store | CollectionOptions, part: AuditPart, primary: str, evaluation: Evaluation
) -> Iterator[ReportWarning]:
    """Warnings of the index that is ``searched`` for the setting ``name``; ``evaluation`` is of the primary metric."""
    lost = part.lost[primary]
    values = evaluation.values[evaluation.counted]
    error = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else np.inf
    if lost is not None and abs(lost) > min(error, _MOVED):
        more = f"its standard error, {error:.4f}" if error < _MOVED else f"{_MOVED}"
        moved = f"the index moves {primary} by {-lost:+.4f} against exact search over the same vectors"
        message = f"{name}: {moved}, which is more than {more}. {searched.advice_for_low_recall}"
        yield ReportWarning(WarningCode.INDEX_LOSS, message)
    if part.used is False:
        message = f"searches do not use the index, so they are exact: {part.use}"
        yield ReportWarning(WarningCode.INDEX_NOT_USED, f"{name}: {message} {searched.advice_for_unused}")
    if part.short_queries:
        asked = f"{part.short_queries:,} queries got fewer hits than were asked for, although exact search finds more"
        yield ReportWarning(
            WarningCode.FEWER_HITS, f"{name}: {asked}. {searched.advice_for_few_hits or searched.advice_for_low_recall}"
        )
    if part.unreachable and isinstance(searched, Store):
        message = f"{part.unreachable:,} vectors cannot be reached in the index by any query"
        yield ReportWarning(WarningCode.UNREACHABLE, f"{name}: {message}. {searched.advice_for_unreachable}")
