"""What an approximate index loses: its rankings against exact search over the same vectors."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ragtrial.cache.arrays import read_array, write_array
from ragtrial.cache.atomic import write_text
from ragtrial.components.stores import Index, Store, Vectors
from ragtrial.components.stores.exact import ExactStore
from ragtrial.config.settings import Setting
from ragtrial.evaluation.evaluators import Evaluation
from ragtrial.pipeline.index_stage import BuiltIndex, IndexStage, open_indexes
from ragtrial.pipeline.ranking_stage import RankingStage
from ragtrial.pipeline.resources import Resources
from ragtrial.pipeline.retrieval import Depth, Ranked, Retrieved
from ragtrial.pipeline.stage import Amount, Artefacts, Inputs, Known, Stage
from ragtrial.progress import stage
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
    the padding; ``unreachable`` counts the vectors that the index cannot return at all.
    """

    exact: Retrieved
    scores: Floats
    unreachable: int


class ReachStage(Stage[int]):
    """How many vectors no search can return from the index of a setting."""

    kind = "reach"

    def __init__(self, resources: Resources, index: IndexStage) -> None:
        self.needs = (index,)
        self._resources = resources
        self._index = index

    def inputs(self) -> Inputs:
        return {}

    @property
    def title(self) -> str:
        return f"reach of {self._index.setting_name}"

    @contextmanager
    def opened(self, artefacts: Artefacts) -> Iterator[Sequence[Index]]:
        with open_indexes(artefacts, self._resources.workspace.lock, [self._index]) as indexes:
            yield (indexes[self._index],)

    def build(self, folder: Path, index: Index, built: BuiltIndex) -> None:
        count = built.description["vectors"]
        with (
            stage(self._resources.progress, f"reach ({self._index.setting_name})", count, "vectors"),
            self._resources.timed(audit_rate(self._index), count),
        ):
            unreachable = index.unreachable()
        write_text(folder / "unreachable.json", json.dumps(unreachable))

    def load(self, folder: Path) -> int:
        return int(json.loads((folder / "unreachable.json").read_text()))


class ExactScoreStage(Stage[Floats]):
    """The exact scores of the chunks that a setting found, shape (queries, top_k), NaN at the padding."""

    kind = "rescored"

    def __init__(self, resources: Resources, setting: Setting, ranking: RankingStage, index: IndexStage) -> None:
        self.needs = (ranking,)
        self._resources = resources
        self._questions = ranking.questions
        self._setting = setting
        self._index = index

    def inputs(self) -> Inputs:
        return {"top_k": self._setting.retriever.top_k}

    @property
    def title(self) -> str:
        return f"exact scores of {self._setting.name}"

    @contextmanager
    def opened(self, artefacts: Artefacts) -> Iterator[Sequence[Vectors]]:
        yield (self._index.vectors(artefacts),)

    def build(self, folder: Path, vectors: Vectors, ranked: Ranked) -> None:
        texts = [question.text for question in self._questions]
        queries = self._resources.embedder(self._setting.embedder).embed_queries(texts)
        units = ranked.cut(Depth(units=self._setting.retriever.top_k)).retrieved.units
        exact = ExactStore(space=self._setting.store.space).open(vectors, folder)
        write_array(folder / "scores.npy", exact.scores_of(queries, units))

    def load(self, folder: Path) -> Floats:
        return read_array(folder / "scores.npy")


class AuditStage(Stage[Audited]):
    """An approximate index compared with exact search: put together from stages that are kept."""

    kind = "audit"
    shown_as = "audit"
    why_first = "not compared with exact search yet"
    is_kept = False

    def __init__(
        self, resources: Resources, setting: Setting, index: IndexStage, ranking: RankingStage, exact: RankingStage
    ) -> None:
        scores = ExactScoreStage(resources, setting, ranking, index)
        own_index = () if exact.stages.index is None else (exact.stages.index,)  # whose damage is to be noticed, too
        self.needs = self.reads = (ReachStage(resources, index), scores, exact, *own_index)
        self._resources = resources
        self._index = index
        self._setting = setting

    def inputs(self) -> Inputs:
        return {}

    @property
    def title(self) -> str:
        return f"audit of {self._setting.name}"

    def load(self, folder: Path, unreachable: int, scores: Floats, exact: Ranked, *_index: BuiltIndex) -> Audited:
        return Audited(exact.cut(Depth(units=self._setting.retriever.top_k)).retrieved, scores, unreachable)

    def label(self) -> str:
        return self._setting.name

    def amount(self, known: Known) -> Amount:
        count = self._index.amount(known)
        seconds = self._resources.seconds(audit_rate(self._index), count.count)
        return Amount(count.count, "vectors", count.count, count.is_estimate, seconds)


def audit_rate(index: IndexStage) -> str:
    """The name of the work of auditing, which goes at one rate per vector."""
    return f"audit {index.store.kind}"


def audit(
    found: Retrieved,
    audited: Audited,
    evaluations: Mapping[str, Evaluation],
    exact_evaluations: Mapping[str, Evaluation],
) -> AuditPart:
    """The comparison of a setting's rankings with those of exact search, which ``exact_evaluations`` are of."""
    shares = overlap(found.rankings, audited.scores, audited.exact.rankings)
    known = shares[~np.isnan(shares)]
    means = {
        name: (evaluation.mean.mean, exact_evaluations[name].mean.mean) for name, evaluation in evaluations.items()
    }
    return AuditPart(
        overlap=float(known.mean()) if len(known) else None,
        lowest_overlap=float(known.min()) if len(known) else None,
        queries_that_differ=int((known < 1).sum()),
        unreachable=audited.unreachable,
        lost={name: None if now is None or exact is None else exact - now for name, (now, exact) in means.items()},
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
    name: str, store: Store, part: AuditPart, primary: str, evaluation: Evaluation
) -> Iterator[ReportWarning]:
    """Warnings of the index that ``store`` built for the setting ``name``; ``evaluation`` is of the primary metric."""
    lost = part.lost[primary]
    values = evaluation.values[evaluation.counted]
    error = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else np.inf
    if lost is not None and abs(lost) > min(error, _MOVED):
        more = f"its standard error, {error:.4f}" if error < _MOVED else f"{_MOVED}"
        yield ReportWarning(
            WarningCode.INDEX_LOSS,
            f"{name}: the index moves {primary} by {-lost:+.4f} against exact search over the same vectors, which is "
            f"more than {more}. {store.advice_for_low_recall}",
        )
    if part.unreachable:
        yield ReportWarning(
            WarningCode.UNREACHABLE,
            f"{name}: {part.unreachable:,} vectors cannot be reached in the index by any query. "
            f"{store.advice_for_unreachable}",
        )
