"""The separation of unanswerable questions by each setting of a report, and a warning if they are too easy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ragtrial.config.models import EvaluatorOptions
from ragtrial.errors import counted
from ragtrial.evaluation.clusters import Places, clusters_of
from ragtrial.evaluation.separation import FEWEST, FEWEST_CLUSTERS, FEWEST_FOR_INTERVAL, TopScores
from ragtrial.pipeline.scored_setting import ScoredSetting
from ragtrial.rankings import Bools
from ragtrial.records import DRAFTED, UNANSWERABLE, ReportWarning
from ragtrial.report.schema import QueryPart, SeparationPart

_EASY = 0.95


@dataclass(frozen=True, eq=False)
class UnanswerableQuestions:
    """Which of ``queries`` are unanswerable, and which are answerable and labelled: bool (queries,) each.

    ``share`` is that of unanswerable questions in use. ``clusters``, shape (queries,), has the number of each query's
    cluster.
    """

    queries: Sequence[QueryPart]
    is_unanswerable: Bools
    is_answerable: Bools
    share: float
    clusters: Places

    @classmethod
    def of(cls, queries: Sequence[QueryPart], options: EvaluatorOptions) -> UnanswerableQuestions:
        """Those of ``queries``; see ``EvaluatorOptions.unanswerable_share``."""
        is_tagged = np.array([UNANSWERABLE in query.tags for query in queries], dtype=np.bool_)
        best = [max((label.relevance for label in query.relevant_docs), default=-np.inf) for query in queries]
        is_answerable = (np.array(best) >= options.relevance_threshold) & ~is_tagged
        share = options.unanswerable_share or is_tagged.sum() / max((is_tagged | is_answerable).sum(), 1)
        by_document, threshold = options.clusters == "document", options.relevance_threshold
        clusters = clusters_of(queries, by_document=by_document, threshold=threshold)
        clusters = np.arange(len(queries)) if clusters is None else clusters
        return cls(queries, is_tagged, is_answerable, float(share), clusters)

    def separations(self, scored: Sequence[ScoredSetting], primary: str) -> dict[str, SeparationPart]:
        """The separation by each setting for which it is defined.

        Differences are measured against the setting with the best mean of ``primary`` among these.
        """
        defined = [setting for setting in scored if self.scores(setting).fewest >= FEWEST]
        if not defined:
            return {}
        sign = -1 if defined[0].evaluations[primary].metric.definition.better == "lower" else 1
        top = max(defined, key=lambda setting: sign * (setting.evaluations[primary].mean.mean or 0.0))
        return {setting.name: self._separation(setting, top) for setting in defined}

    def _separation(self, setting: ScoredSetting, top: ScoredSetting) -> SeparationPart:
        scores, paired, difference = self.scores(setting), self.scores(setting, top), None
        has_interval = paired.fewest >= FEWEST_FOR_INTERVAL and paired.fewest_clusters >= FEWEST_CLUSTERS
        if setting is not top and has_interval:
            difference = paired.less(self.scores(top, setting))
        return SeparationPart(
            area=scores.area,
            answerable=len(scores.answerable),
            unanswerable=len(scores.unanswerable),
            clusters=scores.fewest_clusters if len(np.unique(scores.clusters)) < len(scores.values) else None,
            against=None if setting is top else top.name,
            difference=difference and difference[0],
            ci=difference and difference[1:],
            share=self.share,
            **scores.abstention(self.share)._asdict(),
        )

    def scores(self, setting: ScoredSetting, *others: ScoredSetting) -> TopScores:
        """The scores of a setting, of the questions of both kinds that have one in it and in ``others``."""
        is_known = ~np.isnan([one.top_scores for one in (setting, *others)]).any(axis=0)
        names = np.array([query.id for query in self.queries])
        every = TopScores(setting.top_scores, self.is_answerable, names, self.clusters)
        return every.of(is_known & (self.is_answerable | self.is_unanswerable))

    def warnings(self, scored: Sequence[ScoredSetting]) -> Iterator[ReportWarning]:
        """A warning if words alone separate drafted unanswerable questions almost perfectly: real ones are harder."""
        is_drafted = np.array([DRAFTED in query.tags for query in self.queries], dtype=np.bool_)
        drafted = replace(self, is_unanswerable=self.is_unanswerable & is_drafted)
        for setting in scored:
            scores = drafted.scores(setting)
            is_easy = scores.fewest >= FEWEST and scores.area >= _EASY
            if is_easy and setting.known["parameters"]["retriever"]["kind"] == "bm25":
                message = (
                    f"{setting.name} separates {counted(len(scores.unanswerable), 'drafted unanswerable question')} by "
                    f"their words (separation {scores.area:.3f}): too easy to choose a threshold by. Add questions "
                    "that people asked in vain."
                )
                yield ReportWarning("easy-unanswerable", message)
                return
