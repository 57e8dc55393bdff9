"""Runs the settings that a search asks for, on the stages and with the scores of every run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ragtrial.config.settings import Setting
from ragtrial.errors import RagtrialError
from ragtrial.evaluator import RetrievalEvaluator
from ragtrial.pipeline.embedding_stage import EmbeddingStage
from ragtrial.pipeline.reporting import setting_part
from ragtrial.pipeline.scores import Scored
from ragtrial.pipeline.stage import NotBuiltError, Stage, all_needs
from ragtrial.search.session import Measured

Score = Callable[[RetrievalEvaluator], Mapping[str, Scored]]
"""Runs the settings of an evaluator and scores them, by their names; those that fail are not among them."""


class PipelineEngine:
    """Runs one setting after the other; a model leaves the memory when a setting comes that does not use it."""

    def __init__(self, evaluator: RetrievalEvaluator, score: Score) -> None:
        self._evaluator = self._batch = evaluator
        self._score = score
        self._options = evaluator.config.search
        self._used: set[Any] = set()
        self.scored: dict[tuple[str, int], Scored] = {}
        """What was scored, by the key of its setting."""

    @property
    def measures_latency(self) -> bool:
        """Whether latency is measured: where it is limited, or the config says so."""
        limits = self._options.within if self._options else ()
        return bool(self._evaluator.config.latency) or any(name.startswith("latency.") for name in limits)

    def cheapest_first(self, settings: Sequence[Setting], later: Sequence[Setting]) -> Sequence[Setting]:
        """Those first that need no new embedding, then one new embedding after the other, with all that uses it."""
        self._batch = self._evaluator.over(settings, latency=self.measures_latency, later=later)
        if len(settings) < 2:
            return settings
        graph = self._batch.graph
        keys: dict[Setting, tuple[int, list[int], int]] = {}
        order: dict[str, int] = {}
        for setting in settings:
            try:
                needed = all_needs(graph.run_of(setting).ranking)
            except RagtrialError:  # it fails when it is run
                needed = []
            missing = [stage for stage in needed if self._is_missing(stage)]
            embeddings = [stage.spec for stage in missing if isinstance(stage, EmbeddingStage)]
            groups = sorted(order.setdefault(spec, len(order)) for spec in embeddings)
            keys[setting] = len(embeddings), groups, len(missing)
        return sorted(settings, key=lambda setting: keys[setting])

    def measured(self, setting: Setting) -> Measured | None:
        """The scores and costs of a setting; None if it failed."""
        used = {one.embedder for one in setting.tree()}
        for embedder in self._used - used:
            self._evaluator.corpus.resources.release(embedder)
        self._used = used
        found = self._score(self._batch.only(setting)).get(setting.name)
        if found is None:
            return None
        self.scored[setting.key] = found
        evaluation = found.evaluations[str(self._evaluator.metrics.primary)]
        values = zip(found.query_ids, evaluation.as_list(), strict=True)
        scores = {name: value for name, value in values if value is not None}
        limits = self._options.within if self._options else {}
        part = setting_part(found) if limits else None
        costs = {name: part.cost(name) for name in limits} if part else {}
        return Measured(scores, costs, len(self._evaluator.corpus.library))

    def _is_missing(self, stage: Stage[Any]) -> bool:
        try:
            return stage.is_kept and stage.kept_key(self._evaluator.corpus.resources.workspace) is None
        except NotBuiltError:
            return True
