"""The graph of a run: every stage of every setting, equal ones once, each ranking as deep as anything needs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType

from ragtrial.cache.fingerprints import fingerprint
from ragtrial.components.refiners import Refiner
from ragtrial.config.settings import Setting
from ragtrial.engines.exact import ExactStore
from ragtrial.pipeline.audit_stage import AuditStage, CollectionAuditStage, IndexAuditStage
from ragtrial.pipeline.corpus import Corpus
from ragtrial.pipeline.latency_stage import LatencyStage
from ragtrial.pipeline.open_setting import SettingStages
from ragtrial.pipeline.ranking_stage import RankingStage
from ragtrial.pipeline.retrieval import Depth
from ragtrial.records import Question, Unit

_NONE: Mapping[str, Exception] = MappingProxyType({})

Search = tuple[str, int | None]
"""The key of a ranking, and how widely is searched for it, where that changes what is found."""


@dataclass(frozen=True, eq=False)
class SettingRun:
    """The last stages of a setting: its rankings, and what is measured of it where that is asked for."""

    stages: SettingStages
    ranking: RankingStage
    latency: LatencyStage | None
    audit: AuditStage | None

    @property
    def fingerprint(self) -> str:
        """That of the setting, whatever is asked."""
        return fingerprint(["setting", self.ranking.query_free_fingerprint, self.stages.setting.retriever.top_k])


class Graph:
    """The stages of a run of ``settings``, which are asked ``questions``.

    ``unit`` is what rankings are of: documents, or, for passages in them, chunks. ``latency`` measures single queries,
    drawn with ``seed``. Rankings are as deep as the settings ``later``, which are not run, will need them, too.
    ``failures`` are of what writes wordings, by its key: no setting that needs it can run.
    """

    def __init__(
        self,
        corpus: Corpus,
        settings: Sequence[Setting],
        questions: Sequence[Question],
        unit: Unit = "document",
        *,
        latency: bool = False,
        seed: int = 0,
        later: Sequence[Setting] = (),
        failures: Mapping[str, Exception] = _NONE,
    ) -> None:
        self.corpus = corpus
        self.settings = settings
        self.questions = questions
        self.unit: Unit = unit
        self._latency = latency
        self._seed = seed
        self._later = later
        self._failures = failures
        self._runs: dict[Setting, SettingRun] = {}

    @cached_property
    def depths(self) -> dict[Search, Depth]:
        """How deep each search must go for the settings, all that they are made of, and their exact twins.

        One search serves all that look at it equally widely. An approximate index that is searched more widely finds
        other hits, and what a setting finds must not depend on which others there are.
        """
        found: dict[Search, Depth] = {}

        def want(setting: Setting, depth: Depth) -> None:
            search = search_of(setting, depth)
            found[search] = found.get(search, Depth()) | depth
            for part in setting.parts:
                want(part, Depth(candidates=setting.depth_of_parts))

        for setting in (*self.settings, *self._later):
            for one in filter(None, (setting, exact_twin(setting))):
                want(one, Depth(units=setting.retriever.top_k))
        return found

    def run_of(self, setting: Setting) -> SettingRun:
        """The last stages of one of the settings. Raises what failed before any question could be asked."""
        for one in setting.tree():
            writer = one.retriever.writer if isinstance(one.retriever, Refiner) else None
            if writer is not None and writer.key in self._failures:
                raise self._failures[writer.key]
        if setting not in self._runs:
            corpus, stages, depth = self.corpus, self.corpus.stages(setting), Depth(units=setting.retriever.top_k)
            ranking = self.ranking(setting, self.questions, depth)
            latency: LatencyStage | None = None
            audit: AuditStage | None = None
            if self._latency and all(one.setting.retriever.has_latency for one in stages.tree()):
                latency = self._latency_of(ranking, depth)
            twin = exact_twin(setting)
            if twin is not None:
                own = next((one for one in self.settings if one.ranking_key == twin.ranking_key), twin)
                exact = self.ranking(own, self.questions, depth)
                if stages.index is not None:
                    audit = corpus.once(IndexAuditStage(corpus.resources, setting, ranking, exact, stages.index))
                else:
                    audit = corpus.once(CollectionAuditStage(corpus.resources, setting, ranking, exact))
            self._runs[setting] = SettingRun(stages, ranking, latency, audit)
        return self._runs[setting]

    def _latency_of(self, ranking: RankingStage, depth: Depth) -> LatencyStage:
        corpus, setting, parts = self.corpus, ranking.setting, tuple[LatencyStage, ...]()
        if all(part.questions is ranking.questions for part in ranking.parts):
            looked_at = Depth(candidates=setting.depth_of_parts)
            parts = tuple(self._latency_of(part, looked_at) for part in ranking.parts)
        made = LatencyStage(corpus.resources, ranking.stages, ranking, parts, self.unit, depth, self._seed)
        return corpus.once(made)

    def ranking(self, setting: Setting, questions: Sequence[Question], depth: Depth) -> RankingStage:
        """The rankings of a setting, or of a part, that serve ``depth``."""
        search = search_of(setting, depth)
        asked, looked_at = setting.wordings(questions), Depth(candidates=setting.depth_of_parts)
        parts = tuple(self.ranking(part, asked, looked_at) for part in setting.parts)
        corpus, stages, deepest, width = self.corpus, self.corpus.stages(setting), self.depths[search], search[1]
        made = RankingStage(corpus.resources, stages, parts, questions, self.unit, deepest, width)
        return corpus.once(made)


def search_of(setting: Setting, depth: Depth) -> Search:
    """What must be searched for ``depth``: one search serves all depths with which it is the same."""
    return setting.ranking_key, setting.width(depth.hits)


def exact_twin(setting: Setting) -> Setting | None:
    """``setting`` with exact search over the same vectors; None if its index misses nothing that this finds."""
    exact = setting.retriever.by_exact_search()
    if exact is not None:
        return replace(setting, name=f"{setting.name}, exact", retriever=exact)
    if not setting.has_index or setting.store.is_exact:
        return None
    return replace(setting, name=f"{setting.name}, exact", store=ExactStore(space=setting.store.space))
