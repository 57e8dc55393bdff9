"""Unanswerable questions: how well the score of the first hit separates them, and a threshold for abstaining."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ragtrial.cache.fingerprints import fingerprint
from ragtrial.evaluation.clusters import Places
from ragtrial.evaluation.grading import Scores
from ragtrial.rankings import Bools, Rankings

FEWEST = 10
"""The fewest questions of each kind for any value; with fewer, one question moves it by up to 0.1."""

FEWEST_FOR_INTERVAL = 30
"""The fewest questions of each kind for an interval, down to which `benchmarks/simulations.py` checks its coverage."""

FEWEST_CLUSTERS = 10
"""The fewest clusters of questions of each kind for an interval, checked in the same way."""

_FOLDS = 5
_CONFIDENCE = 0.95
_PSEUDO_DIFFERENCE = 0.25
_PSEUDO_CORRELATION = 0.3
"""The difference of questions of a cluster that is added to each kind, and their correlation.

Without it, intervals are too short near an area of 1.
"""


def top_scores(rankings: Rankings, skipped: Bools, *, are_comparable: bool) -> Scores:
    """The score of the first hit of each question, shape (questions,); -inf if nothing is found, NaN if ``skipped``.

    NaN for all questions if scores cannot be compared between questions, or a hit has none.
    """
    is_found = (rankings.lengths > 0) & ~skipped
    first = np.where(is_found, rankings.scores[:, 0] if rankings.depth else np.nan, -np.inf)
    is_undefined = not are_comparable or bool(np.isnan(first).any())
    return np.where(skipped | is_undefined, np.nan, first)


class Abstention(NamedTuple):
    """A threshold, fitted on all questions: a question is answered if its first hit scores at least as high.

    The shares are cross-fitted: each question is decided by the threshold of the folds without it. ``coverage`` is the
    share of questions that are answered in use.
    """

    threshold: float
    false_answers: float
    false_refusals: float
    coverage: float


@dataclass(frozen=True, eq=False)
class TopScores:
    """The scores of the first hits of questions, -inf if nothing is found; whether each is answerable; and its name.

    Questions with the same number in ``clusters``, shape (questions,), belong together.
    """

    values: Scores
    is_answerable: Bools
    names: npt.NDArray[np.str_]
    clusters: Places

    def of(self, chosen: Bools) -> TopScores:
        """Those of the questions ``chosen``."""
        return TopScores(self.values[chosen], self.is_answerable[chosen], self.names[chosen], self.clusters[chosen])

    @property
    def answerable(self) -> Scores:
        return self.values[self.is_answerable]

    @property
    def unanswerable(self) -> Scores:
        return self.values[~self.is_answerable]

    @property
    def fewest(self) -> int:
        """The number of questions of the rarer kind."""
        return min(len(self.answerable), len(self.unanswerable))

    @property
    def fewest_clusters(self) -> int:
        """The number of clusters with questions of a kind, of the kind that has fewer."""
        return min(len(np.unique(self.clusters[kind])) for kind in self._kinds)

    @property
    def _kinds(self) -> tuple[Bools, Bools]:
        return self.is_answerable, ~self.is_answerable

    @property
    def area(self) -> float:
        """The area under the ROC curve, in [0, 1]: how often an answerable question has the higher score of a pair.

        Equal scores count half. 0.5 is chance. Equal to ``roc_auc_score`` of scikit-learn.
        """
        return float(self._placements()[0].mean())

    def _placements(self) -> list[Scores]:
        """For each question of both kinds the share of the other kind that it is on the right side of; ties half."""
        return [_share_below(self.answerable, self.unanswerable), 1 - _share_below(self.unanswerable, self.answerable)]

    def less(self, other: TopScores) -> tuple[float, float, float]:
        """The area less that of ``other``, for the same questions, and its interval at 95% confidence.

        The variance is that of DeLong, DeLong & Clarke-Pearson 1988 with whole clusters as its units (Obuchowski
        1997), with one more cluster of each kind, whose placements differ by a quarter. What both kinds of question
        have in common in a cluster makes it at most four times smaller. The quantile is Student's t, with
        Satterthwaite's degrees of freedom, and fewer than clusters.
        """
        from scipy.special import stdtrit

        mean, count = self.area - other.area, len(np.unique(self.clusters))
        parts, counts, sums = np.zeros(2), np.zeros(2), list[Scores]()
        placements = zip(self._kinds, self._placements(), other._placements(), strict=True)
        for row, (kind, own, others) in enumerate(placements):
            clusters = self.clusters[kind]
            by_cluster = np.bincount(clusters, own - others - mean, self.clusters.max() + 1) / len(own)
            n = len(np.unique(clusters))
            sums.append(by_cluster)
            together = 1 + _PSEUDO_CORRELATION * (len(own) / n - 1)
            added = _PSEUDO_DIFFERENCE**2 * together / n / len(own)
            parts[row] = (float(by_cluster @ by_cluster) + added) * n / (n - 1)
            counts[row] = n
        shared = 2 * float(sums[0] @ sums[1]) * count / (count - 1)
        variance = max(float(parts.sum()) + shared, float(parts.sum()) / 4)
        freedom = min(float(parts.sum() ** 2 / (parts**2 / (counts - 1)).sum()), count - 1)
        half = float(stdtrit(freedom, (1 + _CONFIDENCE) / 2)) * variance**0.5
        return mean, max(mean - half, -1.0), min(mean + half, 1.0)

    def abstention(self, prevalence: float) -> Abstention:
        """The best threshold if the share ``prevalence`` of the questions in use is unanswerable, and what it costs."""
        folds, answered = self._folds(), np.empty(len(self.values), dtype=np.bool_)
        for fold in range(_FOLDS):
            inside = folds == fold
            answered[inside] = self.values[inside] >= self.of(~inside).best_threshold(prevalence)
        false_answers = float(answered[~self.is_answerable].mean())
        false_refusals = 1 - float(answered[self.is_answerable].mean())
        coverage = (1 - prevalence) * (1 - false_refusals) + prevalence * false_answers
        return Abstention(self.best_threshold(prevalence), false_answers, false_refusals, coverage)

    def _folds(self) -> Places:
        """The fold of each question: clusters are dealt out by the kinds of their questions, then by their names.

        So a fold has about the same share of unanswerable questions as others, and none has all questions of a kind.
        Questions are dealt out one by one if all of a kind are in one cluster.
        """
        units = np.unique(self.clusters, return_inverse=True)[1]
        if self.fewest_clusters < 2:
            units = np.arange(len(units))
        digests = np.array([fingerprint(["fold", name]) for name in self.names.tolist()])
        by_unit = np.lexsort((digests, units))
        first = digests[by_unit[np.unique(units[by_unit], return_index=True)[1]]]
        share = np.bincount(units, self.is_answerable) / np.bincount(units)
        folds = np.empty(len(first), dtype=np.int64)
        folds[np.lexsort((first, np.ceil(share) + np.floor(share)))] = np.arange(len(first)) % _FOLDS
        return folds[units]

    def best_threshold(self, prevalence: float) -> float:
        """The threshold that maximises (1 - pi) P(answered | answerable) + pi P(refused | unanswerable).

        Pi is ``prevalence``. It is halfway between two scores, or the lowest (every question with a hit is answered),
        or just above the highest (none is). Ties: the lowest threshold. 0 if nothing is found for any question.
        """
        found = np.unique(self.values[np.isfinite(self.values)])
        if not len(found):
            return 0.0
        cuts = np.concatenate([found[:1], (found[:-1] + found[1:]) / 2, [np.nextafter(found[-1], np.inf)]])
        answered = 1 - np.searchsorted(np.sort(self.answerable), cuts) / len(self.answerable)
        refused = np.searchsorted(np.sort(self.unanswerable), cuts) / len(self.unanswerable)
        return float(cuts[int(np.argmax((1 - prevalence) * answered + prevalence * refused))])


def _share_below(scores: Scores, others: Scores) -> Scores:
    """For each of ``scores`` the share of ``others`` that is lower, equal ones by half."""
    ascending = np.sort(others)
    lower, not_higher = np.searchsorted(ascending, scores, "left"), np.searchsorted(ascending, scores, "right")
    return np.asarray((lower + not_higher) / (2 * len(others)))
